package gvisor

import (
	"syscall"
	"testing"
)

// TestAbuse43_GoferDies: without the process that serves its volumes a sandbox does not hang. Files
// of volumes fail, and the node can still end the sandbox.
func TestAbuse43_GoferDies(t *testing.T) {
	g := boot(t, newRuntime(t), volumeSpec())
	fatal(t, g.Mount(t.Context(), Volume{Name: "v", Dir: t.TempDir()}))
	expect(t, g, "<nil>", "write /volumes/v/x hello")
	gofer := g.container.GoferPid.Load()
	if gofer <= 1 {
		t.Fatalf("the gofer is process %d", gofer)
	}
	fatal(t, syscall.Kill(gofer, syscall.SIGKILL))
	if got := g.ask("write /volumes/v/y hello"); got == "<nil>" {
		t.Error("a file was written without the gofer")
	}
	g.Kill("the test is over")
	if e := g.awaitEnd(); e.Reason != Killed || e.Detail != "the test is over" {
		t.Errorf("it ended as %v: %q", e, e.Detail)
	}
}
