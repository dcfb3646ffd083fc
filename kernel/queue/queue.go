// Package queue runs the executions of one language kernel, one at a time and in order, and writes
// the messages that enclose them to a log.
package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// Limits of a queue.
const (
	// MaxCodeBytes bounds the code that waits in one queue, in addition to the number of
	// executions, protocol.MaxQueue.
	MaxCodeBytes = 16 << 20
	// MaxKeys is how many idempotency keys a queue remembers. The oldest is dropped first.
	MaxKeys = 10_000

	// TimeoutGrace is how long a cell may run after the interrupt at its
	// timeout, before the kernel is killed. After four fifths of it the cell is
	// interrupted once more.
	TimeoutGrace = 5 * time.Second

	askLimit       = 10 * time.Second // complete, inspect, is_complete, variables
	interruptLimit = 5 * time.Second
	killLimit      = 10 * time.Second
	// deathLimit is how long the queue waits for the kernel's end after a failed
	// request, and for the last reply after a kernel's end.
	deathLimit = 2 * time.Second
)

// Driver is the connection to the driver process of a running kernel.
type Driver interface {
	// Request sends a request and waits for the reply. All output of an execute
	// has been delivered when its reply is returned. It returns soon after ctx
	// or the kernel ends.
	Request(ctx context.Context, r kernel.Request) (message.Reply, error)
	// Notify sends a request that has no reply, such as input.
	Notify(r kernel.Request) error
	// Interrupt stops the running cell and keeps the kernel's state.
	Interrupt(ctx context.Context) error
	// Kill ends the kernel. Queue.Died is called when it has ended.
	Kill(ctx context.Context) error
}

// Starter starts a kernel and returns once it is ready.
type Starter func(ctx context.Context) (Driver, message.Info, error)

// Log stores the messages that a queue writes.
type Log interface {
	Append(kind frame.Kind, cell uint32, payload []byte) (int64, error)
}

// LostReason is the Death of a kernel whose sandbox ended: the running cell fails with SandboxLost
// and not with KernelDied.
const LostReason = "lost"

// Death describes how a kernel or its queue ended.
type Death struct {
	// Reason is one word: exited, signaled, killed, memory, restart, …
	Reason string `json:"reason"`
	// Message is a sentence for people.
	Message string `json:"message"`
}

// Options configure a queue.
type Options struct {
	Log   Log
	Start Starter
	// Driver and Info describe a kernel that already runs. Without a driver the queue starts its
	// own kernel at once.
	Driver Driver
	Info   message.Info
	// Saved restores a queue that Save ended. Driver is then the connection to its kernel, and
	// Rejoin waits for the reply to the cell that runs in it.
	Saved  *Saved
	Rejoin func(context.Context) (message.Reply, error)
	// Changed is called, without locks held, after every change of State. It
	// may be nil.
	Changed func()
	// Ended is called, without locks held, for each execution, right before its
	// execute_reply is written, so that its reader finds the cell counted. It
	// may be nil.
	Ended func(Result)
	// Grace replaces TimeoutGrace unless it is 0.
	Grace time.Duration
	// Limit is the longest time that a cell may run, whatever its timeout; 0 means no limit. A cell
	// that reaches it times out, and an event names the limit.
	Limit time.Duration
}

// Result describes how an execution ended.
type Result struct {
	Cell uint32
	// Status is ok, error, aborted, or died if the kernel died.
	Status string
	// EName is the error's name.
	EName string
	// Took is how long it ran.
	Took   time.Duration
	Silent bool
}

// State is the state of a queue.
type State struct {
	// Name is starting, idle, busy or dead. The next execute starts a new kernel
	// in place of a dead one.
	Name   string
	Queued int
	Info   message.Info
	// Work is true while something runs, starts or waits.
	Work bool
}

// Queue runs the executions of one kernel, one at a time and in order, and writes the messages that
// enclose them to the log:
//
//	execute_input   the cell begins; all records with its number follow
//	status busy
//	…               the cell's output, written by the owner of the log
//	execute_reply   the cell has ended; only these records of its number follow:
//	status idle
//	…               and the output of processes and threads that it left running
//
// A cell that never ran has only an execute_reply with status aborted. A cell whose kernel died has
// an error message and an execute_reply with status error. So each acknowledged execute has exactly
// one execute_reply.
//
// Cell numbers increase from 1 and are never used again, even after a restart of the kernel. The
// queue outlives its kernels.
type Queue struct {
	out     messages
	start   Starter
	changed func()
	ended   func(Result)
	grace   time.Duration
	limit   time.Duration
	ctx     context.Context // ends when Close is called
	cancel  context.CancelFunc
	wake    chan struct{} // holds one token: a field below has changed
	// restartAsked holds one token for the running cell: Restart was called.
	restartAsked chan struct{}
	done         chan struct{} // closed when the queue has ended
	freeze       chan struct{} // closed by Save
	freezing     sync.Once
	rejoin       func(context.Context) (message.Reply, error)
	// aborted and lost are cells of a saved queue whose end is not written yet, and died is the end
	// of its kernel. Only the queue's goroutine uses them.
	aborted, lost []*execution
	died          *Death

	mu      sync.Mutex // guards all fields below; never held during a call to another package
	state   string
	info    message.Info
	count   int // the last execution_count
	cells   uint32
	waiting []*execution
	bytes   int // size of the code in waiting
	running *execution
	keys    idempotencyKeys
	answers []Answer // the last ones, at most maxAnswers
	history history
	kernel  *instance // nil when none runs
	// starting is closed when the present start has ended; nil if there is none.
	starting chan struct{}
	// interrupting counts interrupts that have been sent but have not arrived. No cell starts
	// before they have arrived, because they would stop the wrong one.
	interrupting int
	restarts     []chan error // one for each caller of Restart
	restartCause string       // why the next start happens; "" for the first
	closed       *Death
	blocked      bool // the goroutine waits, for a request, a reply or a start
}

// execution is one cell.
type execution struct {
	protocol.Execute
	cell uint32
	// graces receives times after which the kernel is killed, input requests for an end of file.
	graces chan time.Duration
	input  chan struct{}
	// sent is closed once the request was sent to the kernel, or will never be.
	sent     chan struct{}
	sentOnce sync.Once
	// The queue's mu guards the fields below.
	count       int
	began       time.Time
	asking      bool   // an input_request is open
	asked       uint32 // the number of the last one
	interrupted bool
	cleared     bool // an interrupt of the kernel has aborted the cells after it
}

// New returns a queue that runs until Close.
func New(o Options) *Queue {
	q := &Queue{
		out: messages{o.Log}, start: o.Start, changed: o.Changed, ended: o.Ended, grace: o.Grace,
		limit: o.Limit,
		wake:  make(chan struct{}, 1), restartAsked: make(chan struct{}, 1),
		done: make(chan struct{}), state: "starting",
		freeze: make(chan struct{}), rejoin: o.Rejoin,
	}
	if q.grace <= 0 {
		q.grace = TimeoutGrace
	}
	if q.changed == nil {
		q.changed = func() {}
	}
	if q.ended == nil {
		q.ended = func(Result) {}
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	if o.Driver != nil {
		q.kernel = &instance{driver: o.Driver, dead: make(chan struct{})}
	}
	switch {
	case o.Saved != nil:
		q.restore(*o.Saved)
	case o.Driver != nil:
		q.info, q.state = o.Info, "idle"
	default:
		q.restarts = []chan error{nil}
		q.starting = make(chan struct{})
	}
	go q.run()
	return q
}

// State returns the queue's state.
func (q *Queue) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	work := q.running != nil || len(q.waiting) > 0 || len(q.restarts) > 0 || q.state == "starting"
	return State{Name: q.state, Queued: len(q.waiting), Info: q.info, Work: work && q.closed == nil}
}

// Submit queues an execution. For a key that it remembers it returns the cell of the first
// execution with that key, and queues nothing. It rejects more than protocol.MaxQueue executions,
// or MaxCodeBytes of code, with Exhausted.
func (q *Queue) Submit(e protocol.Execute) (protocol.Queued, error) {
	const op = "kernel.execute"
	q.mu.Lock()
	if q.closed != nil {
		defer q.mu.Unlock()
		return protocol.Queued{}, fault.New(fault.Conflict, op, "the channel has ended: %s",
			q.closed.Message).For(fault.CauseEnded)
	}
	if cell, ok := q.keys.cell(e.Key); ok {
		q.mu.Unlock()
		return protocol.Queued{Cell: cell, Repeated: true}, nil
	}
	if len(q.waiting) >= protocol.MaxQueue || q.bytes+len(e.Code) > MaxCodeBytes {
		n, bytes := len(q.waiting), q.bytes
		q.mu.Unlock()
		return protocol.Queued{}, &fault.Error{
			Kind: fault.Exhausted, Op: op, RetryAfter: 1,
			Message: fmt.Sprintf(
				"%d executions with %d bytes of code already wait; the limits are %d and %d", n,
				bytes, protocol.MaxQueue, MaxCodeBytes),
		}
	}
	q.cells++
	x := newExecution(e, q.cells)
	q.waiting = append(q.waiting, x)
	q.bytes += len(e.Code)
	q.keys.add(e.Key, x.cell)
	q.mu.Unlock()
	q.wakeUp()
	q.changed()
	return protocol.Queued{Cell: x.cell}, nil
}

// Interrupt aborts the waiting cells and interrupts the running one. With a cell, it affects only
// that one: it is aborted if it waits, and nothing happens if it has ended.
//
// With a grace above 0 the queue restarts the kernel if the running cell has not ended by then.
// After four fifths of that time the cell is interrupted once more. Interrupt returns once the
// interrupt has been delivered.
func (q *Queue) Interrupt(ctx context.Context, cell uint32, grace time.Duration) error {
	q.mu.Lock()
	if q.closed != nil {
		defer q.mu.Unlock()
		return fault.New(fault.Conflict, "kernel.interrupt", "the channel has ended: %s",
			q.closed.Message).For(fault.CauseEnded)
	}
	x, k := q.running, q.kernel
	var aborted []*execution
	switch {
	case cell == 0:
		aborted = q.drainLocked()
		if x != nil {
			x.cleared = true
		}
	case x == nil || x.cell != cell:
		x = nil
		if i := indexOf(q.waiting, cell); i >= 0 {
			aborted = q.waiting[i : i+1 : i+1]
			q.bytes -= len(aborted[0].Code)
			q.waiting = slices.Concat(q.waiting[:i], q.waiting[i+1:])
		}
	}
	if x != nil {
		x.interrupted = true
	}
	if x == nil || k == nil {
		// No cell runs, or its kernel is still starting and the cell will not run.
		q.mu.Unlock()
		q.abort(aborted)
		return nil
	}
	q.interrupting++
	q.mu.Unlock()
	q.abort(aborted)
	ctx, cancel := context.WithTimeout(ctx, interruptLimit)
	var err error
	select {
	case <-x.sent: // an interrupt that arrives before its cell would be lost
		err = k.driver.Interrupt(ctx)
	case <-ctx.Done():
		err = fault.Wrap(fault.KindOf(ctx.Err()), "kernel.interrupt", ctx.Err())
	}
	cancel()
	if grace > 0 {
		select {
		case x.graces <- grace:
		default: // only the first of several is used
		}
	}
	q.mu.Lock()
	q.interrupting--
	q.mu.Unlock()
	q.wakeUp()
	return err
}

// Restart kills the kernel and starts a new one. The running cell fails, and the waiting cells are
// aborted. Restart returns once the new kernel is ready.
func (q *Queue) Restart(ctx context.Context) error {
	const op = "kernel.restart"
	q.mu.Lock()
	if q.closed != nil {
		defer q.mu.Unlock()
		return fault.New(fault.Conflict, op, "the channel has ended: %s", q.closed.Message).
			For(fault.CauseEnded)
	}
	if len(q.restarts) >= protocol.MaxQueue {
		q.mu.Unlock()
		return &fault.Error{
			Kind: fault.Exhausted, Op: op,
			Message: "too many restarts already wait", RetryAfter: 1,
		}
	}
	aborted := q.drainLocked()
	ready := make(chan error, 1)
	q.restarts = append(q.restarts, ready)
	if q.restartCause == "" {
		q.restartCause = "restart"
	}
	q.mu.Unlock()
	q.abort(aborted)
	select {
	case q.restartAsked <- struct{}{}:
	default:
	}
	q.wakeUp()
	q.changed()
	select {
	case err := <-ready:
		return err
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

// Ask sends complete, inspect and similar requests to the kernel without queueing. It waits for a
// kernel that is starting, and then at most 10 s for the reply.
func (q *Queue) Ask(ctx context.Context, r kernel.Request) (message.Reply, error) {
	const op = "kernel.ask"
	q.mu.Lock()
	k, starting := q.kernel, q.starting
	q.mu.Unlock()
	if k == nil && starting != nil {
		select {
		case <-starting:
		case <-q.done:
		case <-ctx.Done():
			return message.Reply{}, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
		q.mu.Lock()
		k = q.kernel
		q.mu.Unlock()
	}
	if k == nil {
		return message.Reply{}, fault.New(fault.Conflict, op,
			"the kernel is not running; the next execute starts it").For(fault.CauseNotRunning)
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	reply, err := k.driver.Request(ctx, r)
	if err != nil {
		return message.Reply{}, err
	}
	return reply, nil
}

// Died must be called once when a driver's process has ended, after its last
// output was written.
func (q *Queue) Died(d Driver, how Death) {
	q.mu.Lock()
	k := q.kernel
	if k == nil || k.driver != d || k.ended {
		q.mu.Unlock()
		return
	}
	k.ended, k.death = true, how
	close(k.dead)
	q.mu.Unlock()
	q.wakeUp()
}

// Close ends the queue: the running cell fails with how, the waiting cells are aborted, and the
// queue writes nothing afterwards. The caller must end the kernel.
func (q *Queue) Close(how Death) {
	q.mu.Lock()
	if q.closed == nil {
		q.closed = &how
	}
	q.mu.Unlock()
	q.cancel()
	q.wakeUp()
	<-q.done
	q.changed()
}

func (q *Queue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// drainLocked empties the queue. Preconditions: mu is held.
func (q *Queue) drainLocked() []*execution {
	all := q.waiting
	q.waiting, q.bytes = nil, 0
	return all
}

// indexOf returns the position of a cell; -1 for none.
func indexOf(all []*execution, cell uint32) int {
	return slices.IndexFunc(all, func(x *execution) bool { return x.cell == cell })
}

// abort writes the replies of executions that will not run. Preconditions: no list contains them
// any longer, and mu is not held.
func (q *Queue) abort(all []*execution) {
	for _, x := range all {
		q.ended(Result{Cell: x.cell, Status: "aborted", Silent: x.Silent})
		q.out.message(x.cell, message.ExecuteReplyType,
			message.ExecuteReply{Key: x.Key, Status: "aborted"})
	}
	if len(all) > 0 {
		q.changed()
	}
}
