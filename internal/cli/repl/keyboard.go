package repl

import (
	"io"
	"os"
	"sync"
	"sync/atomic"
)

const ctrlC = 3

// keyboard reads a terminal continuously, so that Ctrl-C works while a cell runs. Other keys wait
// for the next prompt.
type keyboard struct {
	in        io.Reader
	interrupt func()
	// cleared is set when Ctrl-C ended the line.
	cleared atomic.Bool

	mu      sync.Mutex // guards all below
	cond    *sync.Cond
	buf     []byte
	editing bool
	ended   bool
}

func newKeyboard(in io.Reader) *keyboard {
	k := &keyboard{in: in}
	k.cond = sync.NewCond(&k.mu)
	return k
}

// pump ends with the terminal or with the process, because a read cannot be cancelled.
func (k *keyboard) pump() {
	buf := make([]byte, 1024)
	for {
		n, err := k.in.Read(buf)
		for _, b := range buf[:n] {
			k.key(b)
		}
		if err != nil {
			k.close()
			return
		}
	}
}

func (k *keyboard) key(b byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case b == ctrlC && k.editing:
		// These keys make the editor go to the end, delete to the start, and enter.
		k.cleared.Store(true)
		k.buf = append(k.buf[:0], 5, 21, '\r')
	case b == ctrlC:
		k.buf = k.buf[:0]
		k.interrupt()
	case len(k.buf) >= typeAhead:
		_, _ = os.Stderr.Write([]byte{7})
	default:
		k.buf = append(k.buf, b)
	}
	k.cond.Broadcast()
}

func (k *keyboard) edit(on bool) {
	k.mu.Lock()
	k.editing = on
	k.mu.Unlock()
}

func (k *keyboard) close() {
	k.mu.Lock()
	k.ended = true
	k.cond.Broadcast()
	k.mu.Unlock()
}

// Read gives the editor one key at a time up to the end of a line, so that Ctrl-C can still discard
// the keys after it.
func (k *keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.buf) == 0 && !k.ended {
		k.cond.Wait()
	}
	if len(k.buf) == 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && n < len(k.buf) {
		p[n] = k.buf[n]
		n++
		if p[n-1] == '\r' || p[n-1] == '\n' {
			break
		}
	}
	k.buf = k.buf[n:]
	return n, nil
}
