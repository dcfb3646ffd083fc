package session

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/langs/golang/kernel/front"
	"github.com/sandgate/sandgate/langs/golang/kernel/host"
	"github.com/sandgate/sandgate/langs/golang/kernel/tools"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

// patience is how long a stopped cell may take to reach a check. After that it is blocked, or in a
// long call, and is left behind.
const patience = 150 * time.Millisecond

// run is one execution. Its goroutines know its id. Their output carries its cell, also long after
// its end.
type run struct {
	id      uint32
	cell    uint32
	noInput bool
	silent  bool

	stop      chan struct{} // closed when it has to stop
	stopped   atomic.Bool
	abandoned atomic.Bool
	insist    atomic.Bool // it was stopped more than once
	overflow  atomic.Bool // a stack was too deep and is being unwound
	cancel    atomic.Pointer[context.CancelFunc]
	exitCode  atomic.Int32 // -1 means none

	mu     sync.Mutex // guards reason and group
	reason *failure
	group  int // process group of a program, 0 means none

	// The goroutine that executes uses these.
	unit   *front.Unit
	object *tools.Object
	body   func()
	fail   *failure
}

// runs has all executions of the session. Each uses some hundred bytes.
type runs struct {
	mu      sync.Mutex // guards all fields below
	byID    map[uint32]*run
	last    uint32
	current *run
	waiting int                 // executes that were requested and have not begun
	pending bool                // an interrupt came for the first of them
	now     atomic.Pointer[run] // current, without the lock
	stopped atomic.Pointer[[]*run]
}

// waits records that n more executes wait.
func (x *runs) waits(n int) {
	x.mu.Lock()
	x.waiting += n
	x.mu.Unlock()
}

func (x *runs) begin(q wire.Request) *run {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiting--
	x.last++
	r := &run{
		id: x.last, cell: q.Cell, noInput: q.NoInput, silent: q.Silent,
		stop: make(chan struct{}),
	}
	r.exitCode.Store(-1)
	x.byID[r.id], x.current = r, r
	x.now.Store(r)
	if x.pending {
		x.pending = false
		r.halt(nil)
	}
	return r
}

// settle ends a run. The alarm stays on while goroutines of stopped cells exist: blocked ones may
// wake much later.
func (s *Session) settle(r *run) {
	x := &s.runs
	x.mu.Lock()
	x.current = nil
	x.now.Store(nil)
	if !r.abandoned.Load() {
		r.unit, r.object, r.body = nil, nil, nil
	}
	if r.stopped.Load() {
		list := append([]*run{r}, x.stoppedRuns()...)
		x.stopped.Store(&list)
		if len(list) == 1 {
			go s.sweep()
		}
	}
	x.mu.Unlock()
	if len(x.stoppedRuns()) == 0 {
		atomic.StoreUint32(s.alarm, 0)
	}
}

// stoppedRuns returns the runs that were stopped and may have goroutines.
func (x *runs) stoppedRuns() []*run {
	if p := x.stopped.Load(); p != nil {
		return *p
	}
	return nil
}

// sweep forgets stopped runs whose goroutines have all ended.
func (s *Session) sweep() {
	x := &s.runs
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		time.Sleep(wait)
		x.mu.Lock()
		list := slices.DeleteFunc(slices.Clone(x.stoppedRuns()),
			func(r *run) bool { return host.Live(r.id) == 0 })
		x.stopped.Store(&list)
		idle := x.current == nil
		x.mu.Unlock()
		if len(list) == 0 {
			if idle {
				atomic.StoreUint32(s.alarm, 0)
			}
			return
		}
	}
}

// find returns the run with an id. For a goroutine that belongs to no run it returns the running one,
// or the last.
func (x *runs) find(id uint32) *run {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r := x.byID[id]; r != nil {
		return r
	}
	if x.current != nil {
		return x.current
	}
	return x.byID[x.last]
}

// byNumber returns the run with an id, or nil.
func (x *runs) byNumber(id uint32) *run {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.byID[id]
}

// halt makes a run stop. Only the first reason is used.
func (r *run) halt(reason *failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stopped.Swap(true) {
		r.reason = reason
		close(r.stop)
	}
	if c := r.cancel.Load(); c != nil {
		(*c)()
	}
}

// failing reports whether the run was stopped because of its own failure.
func (r *run) failing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason != nil
}

// interrupt stops the running cell, or the first waiting one. Without any it has no effect.
func (s *Session) interrupt() {
	x := &s.runs
	x.mu.Lock()
	r := x.current
	if r == nil && x.waiting > 0 {
		x.pending = true
	}
	x.mu.Unlock()
	if r != nil {
		s.stop(r, nil)
	}
}

func (s *Session) stop(r *run, reason *failure) {
	if r.stopped.Load() {
		r.insist.Store(true) // deferred calls had enough time
	}
	r.halt(reason)
	atomic.StoreUint32(s.alarm, 1)
	r.signal()
}

// stackOverflow is the panic value of a check when the stack is too deep.
type stackOverflow struct{}

func (stackOverflow) Error() string {
	return "stack overflow: the goroutine's stack is larger than 64 MiB"
}

// RuntimeError implements runtime.Error.
func (stackOverflow) RuntimeError() {}

// check is called by the checks in a cell's code while the alarm is set. It stops the goroutines of
// stopped cells, and no others.
func (s *Session) check() {
	id := host.Now()
	if depth := host.Stack(); depth > maxStack {
		s.deep(id, depth)
	}
	r := s.runs.now.Load()
	if r == nil || r.id != id {
		r = nil
		for _, x := range s.runs.stoppedRuns() {
			if x.id == id {
				r = x
			}
		}
	}
	if r == nil || !r.stopped.Load() || host.Ending() && !r.insist.Load() {
		return
	}
	runtime.Goexit() // recover does not catch it; deferred calls run
}

// deep panics once for each overflow: the deferred calls then have as much room again.
func (s *Session) deep(id uint32, depth uintptr) {
	r := s.runs.find(id)
	if r == nil || depth > 2*maxStack || !r.overflow.Swap(true) {
		panic(stackOverflow{})
	}
}
