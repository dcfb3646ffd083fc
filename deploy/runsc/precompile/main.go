// Command precompile compiles the seccomp programs that Sandgate's sandboxes install and writes
// them, as Go source, into a copy of the gVisor module.
//
// gVisor's own release binaries contain such programs. Its Go module has an empty table instead
// (runsc/boot/filter/filter_precompiled.go), so a binary built from the module compiles its program
// at every boot and every restore, which takes 15 ms each time. deploy/runsc/build runs this
// command.
//
//	precompile -gvisor DIR
//
// DIR is a writable copy of the module at the version that go.mod names.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"log"
	"os"
	"path/filepath"
	"strings"

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/runsc/boot/filter/config"
)

// unused are the option values that no sandbox of Sandgate has. A program whose key contains one of
// them is left out. 8 of 576 programs remain on amd64 (systrap, ptrace, and two variants of kvm,
// each with and without directfs): 110 kB of source instead of 17 MB.
var unused = []string{
	"HostNetwork=true",
	"HostNetworkRawSockets=true",
	"NVProxy=true",
	"TPUProxy=true",
	"RDMAProxy=true",
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("precompile: ")
	dir := flag.String("gvisor", "", "`directory` of a writable copy of the gVisor module")
	flag.Parse()
	if *dir == "" || flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*dir); err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	name := filepath.Join(dir, "runsc", "boot", "filter", "filter_precompiled.go")
	stub, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	all, err := config.PrecompiledPrograms()
	if err != nil {
		return fmt.Errorf("compiling: %w", err)
	}
	programs := inUse(all)
	if len(programs) == 0 {
		return fmt.Errorf("none of %d programs is for options in use", len(all))
	}
	src, err := fill(stub, programs)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.WriteFile(name, src, 0o644); err != nil {
		return err
	}
	log.Printf("%d of %d programs, %d kB of source", len(programs), len(all), len(src)/1000)
	return nil
}

// inUse returns the programs for the options that Sandgate's sandboxes have.
func inUse(all []precompiledseccomp.Program) []precompiledseccomp.Program {
	var keep []precompiledseccomp.Program
next:
	for _, p := range all {
		for _, word := range unused {
			if strings.Contains(p.Name, word) {
				continue next
			}
		}
		keep = append(keep, p)
	}
	return keep
}

// fill returns the source of gVisor's stub with programs registered in it. It fails if the stub is
// not the expected one.
func fill(stub []byte, programs []precompiledseccomp.Program) ([]byte, error) {
	const (
		anchor   = "\tprecompiledPrograms = programs\n"
		disabled = "const PrecompilationDisabledAtBuildTime = true\n"
	)
	if bytes.Count(stub, []byte(anchor)) != 1 || bytes.Count(stub, []byte(disabled)) != 1 {
		return nil, errors.New(
			"not the stub that this generator was written for; compare it with gVisor's and adapt fill")
	}
	var table strings.Builder
	for _, p := range programs {
		table.WriteString(p.Registration("\t", "precompiledseccomp", "programs"))
	}
	src := strings.Replace(string(stub), anchor, table.String()+anchor, 1)
	src = strings.Replace(src, disabled, strings.Replace(disabled, "true", "false", 1), 1)
	return format.Source([]byte(src))
}
