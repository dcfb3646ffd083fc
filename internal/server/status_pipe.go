package server

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/coreos/go-systemd/v22/daemon"
)

// statusWarm is the line with which the node reports that its pool is full, or that filling it
// failed.
const statusWarm = "warm"

// statusReady is the line with which a child reports that it works.
const statusReady = "ready"

// statusReloaded begins the line with which a child reports that it has applied new settings, or,
// after a space, the reason why not.
const statusReloaded = "reloaded"

// statusPipe is a child's end of the status pipe. It is safe for concurrent use
// and silent when there is none.
type statusPipe struct {
	// last is the line after which systemd learns that a part which runs alone is ready; empty for a
	// part of serve.
	last string

	mu sync.Mutex // guards w
	w  io.Writer
}

func (t *statusPipe) report(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.w != nil {
		fmt.Fprintf(t.w, format+"\n", args...)
	}
	if format == t.last && t.last != "" {
		// This sends nothing if systemd has not started the part.
		_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	}
}

// inherited opens the descriptors of the supervisor. Programs that this one starts do not inherit
// them.
func inherited() (input *os.File, status *statusPipe) {
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	return os.NewFile(3, "settings"), &statusPipe{w: os.NewFile(4, "status")}
}
