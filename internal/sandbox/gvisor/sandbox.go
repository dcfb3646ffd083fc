package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"

	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/protocol/fault"
)

// State is the state of a sandbox.
type State int

// The states. Transitions run downwards in this list, except between Running
// and Paused.
const (
	Created State = iota // no program is loaded
	Running
	Paused // frozen in memory: no program runs
	Ended  // Exit reports how it ended
)

// String returns the state's name, in lower case.
func (s State) String() string {
	return [...]string{"created", "running", "paused", "ended"}[s]
}

// Sandbox is one gVisor container. Its methods may be called from several
// goroutines; those that change its state take turns. Destroy does not wait
// for a turn.
type Sandbox struct {
	id      ID
	runtime *Runtime
	spec    Spec
	edition edition.ID
	conf    *config.Config
	group   *group

	stdin, stdout *os.File
	stderr        *stderrTail // the agent's standard error
	process       *process
	// oom becomes readable when the cgroup is out of memory. It is nil on v2.
	oom *os.File

	// turn is a lock whose waiters have a context. Sending to it takes the lock. It guards
	// container, which is not safe for concurrent use. The lock order is turn, then mu.
	turn      chan struct{}
	container *container.Container
	// base has the memory that the sandbox shares, or is nil. turn guards it, too.
	base *baseFile

	// done is closed when the sentry has ended, after exit is set. loaded is closed when a restored
	// sandbox has all its pages in memory, gone when Destroy has removed everything.
	done, loaded, gone chan struct{}
	loadedOnce         sync.Once

	mu sync.Mutex
	// state is the state of a sandbox that has not ended.
	state State
	// tenant is the tenant that has it; "" means none.
	tenant string
	// intent is the reason why this process ended the sandbox, if it did.
	intent     Exit
	final      Usage // set once it has ended
	exit       Exit
	destroying bool
	// goneErr lists the things that Destroy could not remove.
	goneErr error
}

// ID returns the sandbox's id.
func (s *Sandbox) ID() ID { return s.id }

// Edition returns the text of the edition.ID of its runtime and its image.
func (s *Sandbox) Edition() string { return s.edition.String() }

// Spec returns the Spec of the sandbox, with defaults filled in.
func (s *Sandbox) Spec() Spec { return s.spec }

// Stdin is the standard input of the first process. Writes block when the pipe is full, and support
// deadlines. They fail with EPIPE when the sandbox has ended.
func (s *Sandbox) Stdin() *os.File { return s.stdin }

// Stdout is the standard output of the first process. Reads support deadlines. When the sandbox has
// ended, they return the remaining output and then io.EOF.
func (s *Sandbox) Stdout() *os.File { return s.stdout }

// Wire returns Stdout and Stdin.
func (s *Sandbox) Wire() (io.Reader, io.Writer) { return s.stdout, s.stdin }

// Stderr returns the last 16 KiB of the first process's standard error.
func (s *Sandbox) Stderr() string { return s.stderr.String() }

// State returns the sandbox's state.
func (s *Sandbox) State() State {
	select {
	case <-s.done:
		return Ended
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Done is closed when the sandbox has ended, for whatever reason.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Exit reports how the sandbox ended. It is the zero Exit until Done is closed.
func (s *Sandbox) Exit() Exit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exit
}

// Loaded is closed when a restored sandbox has read everything that it needs from its snapshot, or
// has ended. After that the snapshot's disk space can be reclaimed. (Its files may be removed
// earlier; the space is then freed later.)
func (s *Sandbox) Loaded() <-chan struct{} { return s.loaded }

// Kill ends the sandbox at once. Unlike Destroy it removes nothing, and Exit reports Killed with
// the given detail.
func (s *Sandbox) Kill(detail string) {
	s.end(Killed, detail)
}

// end kills the sandbox and records the reason. The first reason counts.
func (s *Sandbox) end(why Reason, detail string) {
	s.mu.Lock()
	if s.intent.Reason == "" {
		s.intent = Exit{Reason: why, Detail: detail}
	}
	s.mu.Unlock()
	s.process.kill()
}

// watch waits for the end of the sentry and records how it ended.
func (s *Sandbox) watch() {
	status, err := s.process.wait()
	e := s.classify(status, err)
	s.mu.Lock()
	s.exit = e
	s.state = Ended
	s.mu.Unlock()
	s.runtime.cfg.Log.Debug("sandbox ended", "sandbox", s.id, "reason", e.Reason, "status",
		e.Status, "detail", e.Detail)
	close(s.done)
	s.setLoaded()
}

// watchMemory ends a sandbox that runs out of memory.
func (s *Sandbox) watchMemory() {
	var count [8]byte
	if _, err := s.oom.Read(count[:]); err != nil {
		return // remove closed the file
	}
	s.end(Memory, memoryDetail(s.group.read().peak))
}

func (s *Sandbox) setLoaded() { s.loadedOnce.Do(func() { close(s.loaded) }) }

// Destroy ends the sandbox if it runs, and removes all its resources. It is idempotent: later calls
// wait for the first. When ctx ends first, the destruction continues without the caller.
func (s *Sandbox) Destroy(ctx context.Context) error {
	s.mu.Lock()
	first := !s.destroying
	s.destroying = true
	s.mu.Unlock()
	if first {
		s.end(Destroyed, "")
		go s.destroy()
	}
	select {
	case <-s.gone:
		return s.goneErr
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(context.Cause(ctx)), "sandbox.destroy", context.Cause(ctx))
	}
}

func (s *Sandbox) destroy() {
	err := s.remove()
	if err != nil {
		s.runtime.cfg.Log.Error("a sandbox was not completely removed", "sandbox", s.id, "error",
			err)
		err = fault.Wrap(fault.Host, "sandbox.destroy", err)
	}
	s.runtime.mu.Lock()
	delete(s.runtime.live, s.id)
	s.runtime.mu.Unlock()
	s.goneErr = err
	close(s.gone)
}

func (s *Sandbox) remove() error {
	timer := time.NewTimer(destroyLimit)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		return fmt.Errorf("the sentry, process %d, does not end", s.process.pid)
	}
	s.runtime.shares.Remove(s.group)
	// Calls in gVisor's packages that still run fail now, because the sentry has ended.
	select {
	case s.turn <- struct{}{}: // never released, because container must not be used again
	case <-timer.C:
		return errors.New("a call to gVisor does not return")
	}
	// The sentry has been reaped, so another process may have its id by now.
	s.container.Sandbox.Pid.Store(0)
	gofer := s.container.GoferPid.Load()
	err := s.container.Destroy()
	if gofer != 0 {
		// It is also an orphan that this process has adopted.
		_, _ = unix.Wait4(gofer, nil, unix.WNOHANG, nil)
	}
	closeAll(s.stdin, s.stdout, s.oom)
	s.base.close()
	<-s.stderr.done
	s.process.close()
	return errors.Join(err, s.runtime.removeSandbox(s.id))
}
