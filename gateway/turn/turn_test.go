package turn

import (
	"os/exec"
	"testing"
	"time"
)

// TestHold keeps the lock while bytes come, and gives it up without them.
func TestHold(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", hold(2))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	begun := time.Now()
	for time.Since(begun) < 3*time.Second {
		if _, err := in.Write([]byte("+")); err != nil {
			t.Fatalf("the process ended after %s: %v", time.Since(begun), err)
		}
		select {
		case <-ended:
			t.Fatalf("the process ended after %s", time.Since(begun))
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
