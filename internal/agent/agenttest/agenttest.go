// Package agenttest has helpers for the tests of both ends of the wire.
package agenttest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Eventually polls for a condition that has no event.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("timeout while waiting for: %s", what)
		}
	}
}

func WantKind(t testing.TB, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got %v (%s), want %s", err, fault.KindOf(err), kind)
	}
	e, _ := err.(*fault.Error)
	return e
}

// Recorder is a sink that keeps everything.
type Recorder struct {
	Mu      sync.Mutex
	Changed chan struct{} // closed and renewed at each change
	Frames  map[uint32][]frame.Frame
	Bytes   map[uint32]int
	Exits   map[uint32]wire.Exit
	Late    int // frames that came after their channel's exit
	Keep    bool
}

func NewRecorder() *Recorder {
	return &Recorder{
		Changed: make(chan struct{}), Frames: map[uint32][]frame.Frame{},
		Bytes: map[uint32]int{}, Exits: map[uint32]wire.Exit{}, Keep: true,
	}
}

func (r *Recorder) notify() {
	close(r.Changed)
	r.Changed = make(chan struct{})
}

func (r *Recorder) Output(ch uint32, f frame.Frame) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if _, ended := r.Exits[ch]; ended {
		r.Late++
	}
	r.Bytes[ch] += len(f.Body)
	if r.Keep {
		f.Body = bytes.Clone(f.Body)
		r.Frames[ch] = append(r.Frames[ch], f)
	}
	r.notify()
}

func (r *Recorder) Exit(ch uint32, e wire.Exit) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Exits[ch] = e
	r.notify()
}

// Until waits for a condition, which it checks with Mu held.
func (r *Recorder) Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.After(2 * time.Minute)
	for {
		r.Mu.Lock()
		done, changed := ok(), r.Changed
		r.Mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("timeout while waiting for: %s", what)
		}
	}
}

func (r *Recorder) WaitExit(t testing.TB, ch uint32) wire.Exit {
	t.Helper()
	r.Until(t, "the exit of a channel", func() bool { _, ok := r.Exits[ch]; return ok })
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Exits[ch]
}

// Text returns the text output of a cell.
func (r *Recorder) Text(ch, cell uint32) string {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	var b strings.Builder
	for _, f := range r.Frames[ch] {
		if f.Cell == cell && (f.Type == frame.Stdout || f.Type == frame.Stderr) {
			b.Write(f.Body)
		}
	}
	return b.String()
}

func (r *Recorder) Size(ch uint32) int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.Bytes[ch]
}
