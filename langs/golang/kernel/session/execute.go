package session

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sandgate/sandgate/langs/golang/kernel/front"
	"github.com/sandgate/sandgate/langs/golang/kernel/host"
	"github.com/sandgate/sandgate/langs/golang/kernel/rich"
	"github.com/sandgate/sandgate/langs/golang/kernel/tools"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

var background = context.Background()

// failure is the reason why a cell has failed.
type failure struct {
	name, value string
	traceback   []string
}

const (
	maxValue     = 64 << 10 // bytes of an error's value
	maxTraceback = 1 << 20  // bytes of a traceback
)

// execute runs one cell to its end.
func (s *Session) execute(q wire.Request) wire.Reply {
	r := s.runs.begin(q)
	defer s.settle(r)
	reply := wire.Reply{Op: "reply", ID: q.ID, Status: "ok"}
	s.seq++
	seq, file := s.seq, "silent.go"
	if !q.Silent {
		s.count++
		file = fmt.Sprintf("cell%d.go", s.count)
	}
	reply.Count = s.count
	var fail *failure
	switch {
	case strings.TrimSpace(q.Code) == "":
	case front.IsProgram(q.Code):
		fail = s.program(r, seq, file, q.Code)
	default:
		fail = s.cell(r, seq, file, q.Code)
	}
	if code := r.exitCode.Load(); code >= 0 {
		n := int(code)
		reply.ExitCode = &n
		if n != 0 && fail == nil { // not an error of the code: it is not shown as one
			reply.Status, reply.EName, reply.EValue = "error", "Exit", fmt.Sprintf("exit status %d",
				n)
		}
	}
	if fail != nil {
		reply.Status, reply.EName, reply.EValue = "error", fail.name, clip(fail.value, maxValue)
		s.message(r.cell, "error", map[string]any{
			"ename": fail.name, "evalue": reply.EValue,
			"traceback": clipLines(fail.traceback, maxTraceback),
		})
	}
	return reply
}

// cell builds a cell and runs it.
func (s *Session) cell(r *run, seq int, file, code string) *failure {
	u, o, err := s.build(r, seq, file, code)
	if err != nil {
		if r.stopped.Load() {
			return s.stopReason(r)
		}
		return buildFailure(err)
	}
	s.chain.Ready()
	r.unit, r.object = u, o
	return s.drive(r, func() {
		if err := s.admit(r); err != nil {
			r.fail = &failure{"KernelError", err.Error(), nil}
			return
		}
		r.body()
	})
}

// buildFailure converts an error of the build.
func buildFailure(err error) *failure {
	var e *front.Errors
	if errors.As(err, &e) {
		return &failure{e.Name, e.Error(), e.Traceback()}
	}
	return &failure{"KernelError", err.Error(), nil}
}

// guard converts a panic of the kernel to an error: a cell that makes the front end panic must not
// end the session.
func guard(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("the kernel could not make the cell: %v", v)
	}
}

// build translates, compiles and links. An interrupt stops it.
func (s *Session) build(r *run, seq int,
	file, code string,
) (u *front.Unit, o *tools.Object, err error) {
	defer guard(&err)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	r.cancel.Store(&cancel)
	if r.stopped.Load() {
		return nil, nil, context.Canceled
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.modules.Begin(ctx)
	if u, err = s.front.Translate(seq, file, code); err != nil {
		return nil, nil, err
	}
	also := s.modules.Needed(u.Imports, s.chain.Holds)
	o, err = s.chain.Build(ctx, u.Path, file, u.Source, also)
	var c *tools.CompileError
	if errors.As(err, &c) {
		return nil, nil, front.CompilerErrors(c.Output, code)
	}
	return u, o, err
}

// admit loads the object and adds the cell to the session. It runs in the cell's goroutine, because
// it runs init functions. These may block, so no lock is held. A cell that was left behind in them
// is not added.
func (s *Session) admit(r *run) error {
	o, u := r.object, r.unit
	if err := host.Open(o.File); err != nil {
		s.chain.Drop(o)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.abandoned.Load() {
		runtime.Goexit()
	}
	if err := s.chain.Keep(o); err != nil {
		return err
	}
	s.sources.Store(u.File, u.Code)
	s.front.Accept(u)
	var err error
	r.body, err = host.Func[func()](u.Path + ".Cell__")
	return err
}

// drive runs f in a goroutine of the cell and waits for its end, or until it has to be left behind.
func (s *Session) drive(r *run, f func()) *failure {
	done := make(chan struct{})
	go func() {
		defer close(done)
		host.Enter(r.id)
		debug.SetPanicOnFault(true) // its goroutines have the setting too
		defer func() {
			// A Goexit of the cell, or a stop, gets here without a panic.
			if v := recover(); v != nil {
				r.fail = s.panicked(v, callers())
			}
			host.Enter(0)
		}()
		f()
	}()
	watch := time.NewTicker(memoryInterval)
	defer watch.Stop()
	for {
		select {
		case <-done:
			if r.stopped.Load() {
				return s.stopReason(r)
			}
			return r.fail
		case <-watch.C:
			if s.memory.exceeded() {
				s.stop(r, &failure{"OutOfMemory", s.memory.message(), nil})
			}
		case <-r.stop:
			select {
			case <-done:
			case <-time.After(patience):
				r.abandoned.Store(true)
				return s.stopReason(r)
			}
		}
	}
}

// stopReason returns the failure of a stopped cell.
func (s *Session) stopReason(r *run) *failure {
	if r.exitCode.Load() >= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reason != nil {
		return r.reason
	}
	f := &failure{name: "Interrupted", value: "the cell was interrupted"}
	if r.abandoned.Load() {
		f.value = "the cell was interrupted while it was blocked: its goroutine is left behind and ends when it wakes"
	}
	return f
}

// panicked describes a panic with its trace.
func (s *Session) panicked(v any, pcs []uintptr) *failure {
	if e, ok := v.(stackOverflow); ok {
		return &failure{"StackOverflow", e.Error(), s.trace("stack overflow", pcs)}
	}
	value := panicText(v)
	return &failure{"panic", value, s.trace("panic: "+value, pcs)}
}

// panicText returns a panic's value as Go prints it.
func panicText(v any) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("(%T) a value whose method panics", v)
		}
	}()
	switch v := v.(type) {
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	case string:
		return v
	}
	return rich.Syntax(v)
}

// callers returns the frames of the calling goroutine, at most 10000.
func callers() []uintptr {
	pcs := make([]uintptr, 10000)
	return pcs[:runtime.Callers(2, pcs)]
}

// uncaught handles a panic of a goroutine that a cell has started.
func (s *Session) uncaught(v any) {
	r := s.runs.find(host.Now())
	if r == nil {
		return
	}
	host.Enter(0) // the following code is the kernel's
	f := s.panicked(v, callers())
	f.value = "in a goroutine: " + f.value
	if s.runs.now.Load() == r && !r.stopped.Load() {
		// It would end a program. Here it ends the cell, which may be waiting for this goroutine.
		s.stop(r, f)
		return
	}
	if r.failing() {
		return // the cell has already ended because of another panic
	}
	s.message(r.cell, "error", map[string]any{
		"ename": f.name, "evalue": clip(f.value, maxValue),
		"traceback": clipLines(f.traceback, maxTraceback),
	})
}

func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func clipLines(lines []string, n int) []string {
	out := []string{}
	for _, l := range lines {
		l = clip(l, n)
		if n -= len(l); n < 0 {
			break
		}
		out = append(out, l)
	}
	return out
}
