package files

import "sync/atomic"

// maxIdle is the most threads with the user's rights that wait for work. A new thread takes longer
// than a short operation.
const maxIdle = 2

// task is work for a thread with the user's rights. The error says that it has no such rights.
type task func(err error)

// threads runs tasks in goroutines whose threads have the user's rights.
type threads struct {
	become func() error
	idle   chan task // unbuffered
	quit   chan struct{}
	free   atomic.Int32
}

// run runs f in a thread that waits, or in a new one. It does not wait for f.
func (t *threads) run(f task) {
	select {
	case t.idle <- f:
	default:
		go t.serve(f)
	}
}

func (t *threads) serve(f task) {
	err := t.become()
	for f(err); err == nil; f(nil) {
		if t.free.Add(1) > maxIdle {
			t.free.Add(-1)
			return
		}
		select {
		case f = <-t.idle:
			t.free.Add(-1)
		case <-t.quit:
			return
		}
	}
}
