package queue

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

func TestQueueHistory(t *testing.T) {
	b := newBench(t)
	b.submit(t, "ok")
	b.submit(t, "quiet", func(e *protocol.Execute) { e.Silent = true })
	b.submit(t, "fail")
	b.log.await(t, "3 idle")
	b.submit(t, "die")
	b.log.await(t, "4 idle")
	b.submit(t, "hang")
	b.submit(t, "never")
	b.log.await(t, "5 busy")
	if h := b.History(); h[len(h)-1].Code != "hang" || h[len(h)-1].Status != "running" {
		t.Errorf("while a cell runs the history ends with %+v", h[len(h)-1])
	}
	if err := b.Interrupt(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	b.log.await(t, "5 idle")
	got := fmt.Sprint(b.History())
	if want := "[{1 1 ok ok} {3 2 fail error} {4 3 die error} {5 1 hang error}]"; got != want {
		t.Errorf("the history is\n\t%s\nwant\n\t%s", got, want)
	}
}

// TestNoHistory: code that wants no place in the history has none, and the driver gets the request.
func TestNoHistory(t *testing.T) {
	b := newBench(t)
	b.submit(t, "ok")
	b.submit(t, "quiet", func(e *protocol.Execute) { e.NoHistory = true })
	b.log.await(t, "2 idle")
	if h := b.History(); len(h) != 1 || h[0].Cell != 1 {
		t.Errorf("the history is %+v", h)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var h history
	for i := range uint32(MaxHistory + 3) {
		h.set(protocol.HistoryEntry{Cell: i, Code: "x", Status: "running"})
	}
	if len(h.entries) != MaxHistory || h.entries[0].Cell != 3 {
		t.Errorf("%d entries, the first is %d", len(h.entries), h.entries[0].Cell)
	}
	h.set(protocol.HistoryEntry{Cell: 2, Code: "x", Status: "ok"}) // already dropped
	h.set(protocol.HistoryEntry{
		Cell: 5000, Code: strings.Repeat("y", MaxHistoryBytes-10),
		Status: "running",
	})
	if len(h.entries) != 11 || h.bytes != MaxHistoryBytes {
		t.Errorf("%d entries with %d bytes", len(h.entries), h.bytes)
	}
	h.set(protocol.HistoryEntry{
		Cell: 5001, Code: strings.Repeat("z", MaxHistoryBytes+1),
		Status: "running",
	})
	if len(h.entries) != 1 || h.entries[0].Cell != 5001 || h.bytes != MaxHistoryBytes+1 {
		t.Errorf("%d entries with %d bytes", len(h.entries), h.bytes)
	}
}
