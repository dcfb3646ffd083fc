package queue

import "github.com/sandgate/sandgate/protocol"

// Limits of a queue's history. The oldest entries are dropped first.
const (
	MaxHistory      = 1000
	MaxHistoryBytes = 1 << 20 // bytes of code
)

// history has the executions of a queue. It always keeps the newest entry, because
// the code of one execute is never larger than the limit.
type history struct {
	entries []protocol.HistoryEntry // oldest first
	bytes   int
}

// set adds an execution, or records how it ended.
func (h *history) set(e protocol.HistoryEntry) {
	for i := len(h.entries) - 1; i >= 0; i-- {
		if h.entries[i].Cell == e.Cell {
			h.entries[i].Count, h.entries[i].Status = e.Count, e.Status
			return
		}
	}
	if e.Status != "running" {
		return // it has been dropped, or never started
	}
	h.entries = append(h.entries, e)
	h.bytes += len(e.Code)
	for len(h.entries) > MaxHistory || h.bytes > MaxHistoryBytes && len(h.entries) > 1 {
		h.bytes -= len(h.entries[0].Code)
		h.entries[0] = protocol.HistoryEntry{} // releases the memory of its code
		h.entries = h.entries[1:]
	}
}

// record adds an execution to the history, unless it is silent or wants none.
func (q *Queue) record(x *execution, count int, status string) {
	if x.Silent || x.NoHistory {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.history.set(protocol.HistoryEntry{Cell: x.cell, Count: count, Code: x.Code, Status: status})
}

// History returns the last MaxHistory executions with at most MaxHistoryBytes of
// code, oldest first, over all kernels of the queue. It leaves out silent and
// aborted ones.
func (q *Queue) History() []protocol.HistoryEntry {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]protocol.HistoryEntry{}, q.history.entries...)
}
