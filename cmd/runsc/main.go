// Command runsc is gVisor's OCI runtime at the version that go.mod names. It
// is the process that Sandgate starts for every sandbox; see README.md.
//
// Build it with deploy/runsc/build, not with go build: a plain build works,
// but it compiles its seccomp program anew in every sandbox, which costs each
// boot and each restore 15 ms.
package main

import (
	"gvisor.dev/gvisor/runsc/cli/maincli"
	"gvisor.dev/gvisor/runsc/version"
)

// version.Version keeps the string alive that the linker sets with
// -X gvisor.dev/gvisor/runsc/version.version.
var _ = version.Version()

func main() {
	maincli.Main()
}
