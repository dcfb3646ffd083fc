package main

import (
	"os"
	"strings"
	"sync"
)

// maxWords is how much of a kernel's standard error is kept, in bytes.
const maxWords = 8 << 10

// words receives the standard error of a kernel in Python. ipykernel publishes what is written to
// descriptors 1 and 2, and repeats it there. So the driver passes it on only until the kernel is
// ready, and keeps its end for the report of a crash. The kernel's standard output is dropped.
type words struct {
	mu    sync.Mutex
	quiet bool
	last  []byte
}

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.quiet {
		return os.Stderr.Write(b)
	}
	w.last = append(w.last, b...)
	w.last = w.last[max(0, len(w.last)-maxWords):]
	return len(b), nil
}

func (w *words) ready() {
	if w != nil {
		w.mu.Lock()
		w.quiet = true
		w.mu.Unlock()
	}
}

// fatal returns the interpreter's report of its crash, if there is one.
func (w *words) fatal() string {
	if w == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := strings.LastIndex(string(w.last), "Fatal Python error"); at >= 0 {
		return string(w.last[at:])
	}
	return ""
}
