package agent

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/stream"
)

// eventually waits for something that has no event.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

func wantKind(t testing.TB, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got %v (%s), want %s", err, fault.KindOf(err), kind)
	}
	e, _ := err.(*fault.Error)
	return e
}

// recorder is a sink that keeps everything.
type recorder struct {
	mu      sync.Mutex
	changed chan struct{} // closed and renewed at each change
	frames  map[uint32][]stream.Frame
	bytes   map[uint32]int
	exits   map[uint32]Exit
	after   int // frames that came after their channel's exit
	keep    bool
}

func newRecorder() *recorder {
	return &recorder{changed: make(chan struct{}), frames: map[uint32][]stream.Frame{}, bytes: map[uint32]int{}, exits: map[uint32]Exit{}, keep: true}
}

func (r *recorder) news() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *recorder) Output(ch uint32, f stream.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ended := r.exits[ch]; ended {
		r.after++
	}
	r.bytes[ch] += len(f.Body)
	if r.keep {
		f.Body = bytes.Clone(f.Body)
		r.frames[ch] = append(r.frames[ch], f)
	}
	r.news()
}

func (r *recorder) Exit(ch uint32, e Exit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exits[ch] = e
	r.news()
}

// until waits for a condition that is looked at under the lock.
func (r *recorder) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.After(40 * time.Second)
	for {
		r.mu.Lock()
		done, changed := ok(), r.changed
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

func (r *recorder) waitExit(t testing.TB, ch uint32) Exit {
	t.Helper()
	r.until(t, "the exit of a channel", func() bool { _, ok := r.exits[ch]; return ok })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exits[ch]
}

// text is the plain output of a cell.
func (r *recorder) text(ch, cell uint32) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, f := range r.frames[ch] {
		if f.Cell == cell && (f.Type == stream.Stdout || f.Type == stream.Stderr) {
			b.Write(f.Body)
		}
	}
	return b.String()
}

func (r *recorder) size(ch uint32) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes[ch]
}
