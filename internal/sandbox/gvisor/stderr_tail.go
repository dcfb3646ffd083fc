package gvisor

import (
	"io"
	"sync"
)

// tailBytes is how much of the agent's standard error is kept: the last 16 KiB.
// The output of programs goes through the agent's protocol.
const tailBytes = 16 * kiB

// stderrTail reads a stream to its end and keeps its last bytes. The writer never
// blocks, and cannot fill the memory.
type stderrTail struct {
	done chan struct{}

	mu  sync.Mutex
	buf []byte
}

// newStderrTail starts reading r, which it closes at the end.
func newStderrTail(r io.ReadCloser) *stderrTail {
	t := &stderrTail{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		defer r.Close()
		_, _ = io.Copy(t, struct{ io.Reader }{r}) // it ends with the sandbox
	}()
	return t
}

func (t *stderrTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-tailBytes):]...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns what has been kept so far.
func (t *stderrTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// wait returns the kept bytes after the end of the stream. The writers must have
// ended.
func (t *stderrTail) wait() string {
	<-t.done
	return t.String()
}
