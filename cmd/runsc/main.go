// Command runsc is gVisor's OCI runtime at the version that go.mod names. Sandgate starts this
// program for every sandbox; see README.md.
//
// Build it with deploy/runsc/build instead of go build. A plain build works, but it compiles its
// seccomp program in every sandbox, which costs each boot and each restore 15 ms.
package main

import (
	"gvisor.dev/gvisor/runsc/cli/maincli"
	"gvisor.dev/gvisor/runsc/version"
)

// This use of version.Version keeps the string that the linker sets with -X
// gvisor.dev/gvisor/runsc/version.version.
var _ = version.Version()

func main() {
	maincli.Main()
}
