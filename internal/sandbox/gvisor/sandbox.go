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

	"github.com/sandgate/sandgate/fault"
)

// State is what a sandbox is doing.
type State int

// The states. Transitions run downwards in this list, except between Running
// and Paused.
const (
	Created State = iota // a blank: no program is loaded
	Running
	Paused // frozen in memory: no CPU, no progress
	Ended  // Exit says how
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
	conf    *config.Config
	group   group

	stdin, stdout *os.File
	stderr        *stderrTail // the agent's standard error
	process       *process
	// oom becomes readable when the cgroup is out of memory; nil on v2.
	oom *os.File

	// turn is a lock that can be waited for with a context. It is held by
	// sending to it, and guards container, which is not safe for
	// concurrent use. The lock order is turn, then mu.
	turn      chan struct{}
	container *container.Container

	// done is closed when the sentry has ended, after exit is set; loaded
	// when a restored sandbox has all its pages in memory; gone when
	// Destroy has removed everything.
	done, loaded, gone chan struct{}
	loadedOnce         sync.Once

	mu sync.Mutex
	// state is that of a sandbox that lives.
	state State
	// intent is why this process ended the sandbox, if it did.
	intent     Exit
	final      Usage // once it has ended
	exit       Exit
	destroying bool
	// goneErr is what Destroy could not remove.
	goneErr error
}

// ID returns the sandbox's id.
func (s *Sandbox) ID() ID { return s.id }

// Spec returns what the sandbox was created with, defaults filled in.
func (s *Sandbox) Spec() Spec { return s.spec }

// Stdin is the standard input of the first process. Writes block when the
// pipe is full and take deadlines; when the sandbox has ended they fail with
// EPIPE.
func (s *Sandbox) Stdin() *os.File { return s.stdin }

// Stdout is its standard output. Reads take deadlines; when the sandbox has
// ended, they return the remaining output and then io.EOF.
func (s *Sandbox) Stdout() *os.File { return s.stdout }

// Wire returns Stdout and Stdin.
func (s *Sandbox) Wire() (io.Reader, io.Writer) { return s.stdout, s.stdin }

// Stderr returns the last 16 KiB of what the first process wrote to its
// standard error.
func (s *Sandbox) Stderr() string { return s.stderr.String() }

// State returns what the sandbox is doing.
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

// Exit says how the sandbox ended. It is the zero Exit until Done is closed.
func (s *Sandbox) Exit() Exit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exit
}

// Loaded is closed when a restored sandbox has read all it needs from its
// snapshot, or has ended: from then on the snapshot's disk space can be had
// back. (Its files may be removed earlier; the space then follows.)
func (s *Sandbox) Loaded() <-chan struct{} { return s.loaded }

// Kill ends the sandbox at once. Unlike Destroy it removes nothing, and Exit
// will say Killed with the given detail.
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
	s.runtime.cfg.Log.Debug("sandbox ended", "sandbox", s.id, "reason", e.Reason, "status", e.Status, "detail", e.Detail)
	close(s.done)
	s.setLoaded()
}

// watchMemory ends a sandbox that runs out of memory.
func (s *Sandbox) watchMemory() {
	var count [8]byte
	if _, err := s.oom.Read(count[:]); err != nil {
		return // closed by remove
	}
	s.end(Memory, memoryDetail(s.group.read().peak))
}

func (s *Sandbox) setLoaded() { s.loadedOnce.Do(func() { close(s.loaded) }) }

// Destroy ends the sandbox if it lives, and removes everything it had. It is
// idempotent: later calls wait for the first. When ctx ends first, the
// destruction continues without the caller.
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
		s.runtime.cfg.Log.Error("sandbox not wholly removed", "sandbox", s.id, "error", err)
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
		return fmt.Errorf("the sentry, process %d, does not die", s.process.pid)
	}
	// What still runs in gVisor's packages fails now that the sentry is dead.
	select {
	case s.turn <- struct{}{}: // for ever: nothing may touch container again
	case <-timer.C:
		return errors.New("a call to gVisor does not return")
	}
	// The sentry has been reaped, its id may be another process's by now.
	s.container.Sandbox.Pid.Store(0)
	gofer := s.container.GoferPid.Load()
	err := s.container.Destroy()
	if gofer != 0 {
		// It is an orphan that this process has adopted, too.
		_, _ = unix.Wait4(gofer, nil, unix.WNOHANG, nil)
	}
	closeAll(s.stdin, s.stdout, s.oom)
	<-s.stderr.done
	s.process.close()
	return errors.Join(err, s.runtime.removeSandbox(s.id))
}
