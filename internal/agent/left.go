package agent

import (
	"fmt"
	"time"

	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/frame"
)

// endLeftovers ends the processes that a cell has left running, if they are more than a cell may
// leave. Otherwise a fork bomb would slow down all later cells. It appends a notice to the cell's
// output. The kernel's own processes are older than the cell.
func (l *loop) endLeftovers(cell uint32, sent time.Time) {
	if process.Few(wire.MaxLeft) {
		return
	}
	n := process.KillYounger(l.c.group, time.Since(sent), l.c.pid, wire.MaxLeft)
	if n == 0 {
		return
	}
	l.notice(cell, fmt.Sprintf("%d processes that the cell had left running were ended: "+
		"a cell may leave %d.\n", n, wire.MaxLeft))
}

// notice adds a text of the agent to the standard error of a cell.
func (l *loop) notice(cell uint32, text string) {
	l.c.win.sentBytes(len(text))
	l.out = frame.Append(l.out, frame.Frame{
		Type: frame.Stderr, Channel: l.c.id, Cell: cell, Body: []byte(text),
	})
}
