package gvisor

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/testenv"
)

// TestSeccompIsPrecompiled boots a sandbox with the shipped runsc and one with a plain build, and
// reads in gVisor's debug log where each took its system call filter from. Compiling the filter
// takes 15 ms of every boot and restore.
func TestSeccompIsPrecompiled(t *testing.T) {
	const (
		loaded   = "Loaded precompiled seccomp instructions"
		compiled = "No precompiled program found"
	)
	stock := filepath.Join(testDir, "runsc-stock")
	build := exec.Command(testenv.Path("deploy", "runsc", "build"), "--stock", "--out", stock)
	var said bytes.Buffer
	build.Stderr = &said
	if err := build.Run(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	for _, test := range []struct{ name, runsc, want, not string }{
		{"shipped", testRunsc, loaded, compiled},
		{"stock", stock, compiled, loaded},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig(t)
			cfg.Runsc, cfg.DebugDir = test.runsc, t.TempDir()
			r, err := NewRuntime(cfg)
			fatal(t, err)
			g := boot(t, r, testSpec())
			fatal(t, r.Close(t.Context()))
			if e := g.Exit(); e.Reason != Destroyed {
				t.Error(e)
			}
			var log strings.Builder
			for _, name := range globs(filepath.Join(cfg.DebugDir, "*boot*")) {
				log.WriteString(readFile(t, name))
			}
			if !strings.Contains(log.String(), test.want) ||
				strings.Contains(log.String(), test.not) {
				t.Errorf("the log of %d bytes should say %q and not %q", log.Len(), test.want,
					test.not)
			}
		})
	}
	if err := os.Remove(stock); err != nil {
		t.Error(err)
	}
}
