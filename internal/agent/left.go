package agent

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/frame"
)

// looks are the pauses between the looks for processes that a cell has left running. A fork bomb
// has few processes when its cell ends. While they become more, the last pause is repeated: on a busy
// machine, a fork bomb grows slowly.
var looks = [...]time.Duration{
	50 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond,
	1200 * time.Millisecond, 2400 * time.Millisecond, 5 * time.Second,
}

// keptStarts is how many cells may have begun since the processes that are ended.
const keptStarts = 4

// remains ends the processes that cells have left running, if they are more than cells may leave.
// Otherwise a fork bomb would slow down all later cells.
type remains struct {
	sweep sync.Mutex  // held while processes are ended: no execute is passed on meanwhile
	due   atomic.Bool // the next look is due

	// All below are used by the channel's loop alone.
	cell    uint32 // the last cell that ended
	starts  []time.Time
	looked  int
	members int         // processes of the channel at the last look, if there was need to know
	timer   *time.Timer // for the next look
}

// cellEnded looks for leftovers of a cell, now and for some seconds after it.
func (l *loop) cellEnded(e execution) {
	left := &l.c.left
	left.cell, left.looked, left.members = e.cell, 0, 0
	left.starts = append([]time.Time{e.sent}, left.starts[:min(len(left.starts), keptStarts-1)]...)
	l.look()
}

// look ends leftovers and plans the next look.
func (l *loop) look() {
	left := &l.c.left
	l.endLeftovers()
	before, last := left.members, left.looked == len(looks)
	if left.looked >= len(looks)-1 {
		left.members = len(process.Members(l.c.group))
	}
	if l.finished || last && left.members <= before {
		return
	}
	pause := looks[len(looks)-1]
	if !last {
		pause = looks[left.looked]
		left.looked++
	}
	if left.timer != nil {
		left.timer.Reset(pause) // instead of the look that an earlier cell has planned
		return
	}
	left.timer = time.AfterFunc(pause, func() {
		left.due.Store(true)
		l.c.wake()
	})
}

// endLeftovers ends processes that are younger than a cell, and adds a notice to its output. The
// kernel's own processes are older.
func (l *loop) endLeftovers() {
	if process.Few(wire.MaxLeft) {
		return
	}
	left := &l.c.left
	left.sweep.Lock()
	defer left.sweep.Unlock()
	if l.c.executing() {
		return
	}
	n := process.KillYounger(l.c.group, left.starts, l.c.pid, wire.MaxLeft)
	if n > 0 {
		l.notice(left.cell, fmt.Sprintf("%d processes that the cell had left running were ended: "+
			"a cell may leave %d.\n", n, wire.MaxLeft))
	}
}

// notice adds a text of the agent to the standard error of a cell.
func (l *loop) notice(cell uint32, text string) {
	l.c.win.sentBytes(len(text))
	l.out = frame.Append(l.out, frame.Frame{
		Type: frame.Stderr, Channel: l.c.id, Cell: cell, Body: []byte(text),
	})
}
