package channel

import (
	"sync"

	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
)

// cellOutput counts the output of a kernel's newest cell.
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

// bytesOf returns how many bytes a cell has printed, and 0 if a newer cell has printed.
func (o *cellOutput) bytesOf(cell uint32) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if cell != o.cell {
		return 0
	}
	return o.bytes
}

// countOutput counts output of the channel.
func (c *Channel) countOutput(cell uint32, n int) {
	c.set.cfg.Meter.Out.Add(int64(n))
	if c.queue != nil {
		c.output.add(cell, n)
	}
}

// cellEnded counts a cell that has ended, and records it in the audit log.
func (c *Channel) cellEnded(e queue.Result) {
	cfg := &c.set.cfg
	cfg.Meter.Cells.Add(1)
	cfg.Stats.CellEnded(c.language, e.Status, e.Took)
	cfg.Audit(protocol.AuditEntry{
		Event: "cell.end", Tenant: cfg.Tenant, Subject: cfg.Subject, Session: cfg.ID, Channel: c.id,
		Language: c.language, Trace: c.traces.end(e), Cell: e.Cell, Outcome: e.Status,
		Millis: float64(e.Took.Microseconds()) / 1000,
		Bytes:  c.output.bytesOf(e.Cell),
	})
}
