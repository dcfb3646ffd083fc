package session

import (
	"sync"

	"github.com/sandgate/sandgate/kernel/queue"
)

// cellOutput counts what the newest cell of a channel has printed.
type cellOutput struct {
	mu    sync.Mutex // guards all below
	cell  uint32
	bytes int64
}

func (o *cellOutput) add(cell uint32, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cell > o.cell {
		o.cell, o.bytes = cell, 0
	}
	if cell == o.cell {
		o.bytes += int64(n)
	}
}

// of returns how many bytes the cell has printed, 0 if a newer one has printed.
func (o *cellOutput) of(cell uint32) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cell != o.cell {
		return 0
	}
	return o.bytes
}

// countOutput counts output of the channel.
func (c *Channel) countOutput(cell uint32, n int) {
	c.session.meter.Out.Add(int64(n))
	if c.queue != nil {
		c.output.add(cell, n)
	}
}

// cellEnded records the end of one of the channel's cells.
func (c *Channel) cellEnded(e queue.Result) {
	c.session.meter.Cells.Add(1)
	c.session.m.stats.CellEnded(c.language, e.Status, e.Took)
	c.auditCell(e, c.output.of(e.Cell), c.traces.end(e))
}
