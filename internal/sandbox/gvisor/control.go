package gvisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Start loads and starts the first process of a created sandbox.
func (s *Sandbox) Start(ctx context.Context) error {
	return s.do(ctx, "sandbox.start", startLimit, Created, Running, func() error {
		err := s.container.Start(s.conf)
		if err == nil {
			s.setLoaded()
		}
		return err
	})
}

// Pause freezes the sandbox: no process in it makes progress, and it uses no
// CPU. Its memory stays. It takes under a millisecond.
func (s *Sandbox) Pause(ctx context.Context) error {
	return s.do(ctx, "sandbox.pause", pauseLimit, Running, Paused,
		func() error { return s.container.Pause() })
}

// SetPaused pauses or resumes the sandbox.
func (s *Sandbox) SetPaused(ctx context.Context, paused bool) error {
	if paused {
		return s.Pause(ctx)
	}
	return s.Resume(ctx)
}

// EndBurst limits the sandbox to the CPUs of its Spec.
func (s *Sandbox) EndBurst(ctx context.Context) error { return s.SetCPU(ctx, s.spec.Limits.CPUs) }

// Resume continues a paused sandbox. It takes under a millisecond.
func (s *Sandbox) Resume(ctx context.Context) error {
	return s.do(ctx, "sandbox.resume", pauseLimit, Paused, Running,
		func() error { return s.container.Resume() })
}

// SetCPU limits the sandbox to a number of CPUs, which may be a fraction. A sandbox starts with
// Limits.BurstCPUs, and the guest always sees that number of CPUs.
func (s *Sandbox) SetCPU(ctx context.Context, cpus float64) error {
	const op = "sandbox.set_cpu"
	if !(cpus >= 0.05 && cpus <= 1024) {
		return fault.Invalid(op, "cpus", "%v is not between 0.05 and 1024", cpus)
	}
	// The cgroup exists until the last operation holds turn.
	release, err := s.acquire(ctx, op)
	if err != nil {
		return err
	}
	defer release()
	return fault.Wrap(fault.Host, op,
		s.group.Update(&specs.LinuxResources{CPU: cpuResources(cpus)}))
}

// Assign gives the sandbox to a tenant. From now on it has a part of the tenant's share of the
// processors.
func (s *Sandbox) Assign(tenant string) {
	s.mu.Lock()
	s.tenant = tenant
	s.mu.Unlock()
	s.runtime.shares.Assign(tenant, s.group)
}

// acquireSave waits for the turn of the sandbox's tenant to write a snapshot.
func (s *Sandbox) acquireSave(ctx context.Context, op string) (release func(), err error) {
	s.mu.Lock()
	tenant := s.tenant
	s.mu.Unlock()
	return s.runtime.saves.Acquire(ctx, op, tenant)
}

// Usage reads the cgroup's counters. It does not call the sentry, so it also works for a paused or
// stuck sandbox.
func (s *Sandbox) Usage(ctx context.Context) (Usage, error) {
	const op = "sandbox.usage"
	if err := ctx.Err(); err != nil {
		return Usage{}, fault.Wrap(fault.KindOf(err), op, err)
	}
	select {
	case <-s.done:
		return Usage{}, s.lost(op)
	default:
	}
	return s.use(), nil
}

// FinalUsage returns the counters at the end of the sandbox. It is valid once
// Done is closed.
func (s *Sandbox) FinalUsage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.final
}

func (s *Sandbox) use() Usage {
	c := s.group.read()
	return Usage{Memory: s.group.held(), MemoryPeak: c.peak, CPU: c.cpu, Tasks: c.pids}
}

// acquire takes turn.
func (s *Sandbox) acquire(ctx context.Context, op string) (release func(), err error) {
	select {
	case s.turn <- struct{}{}:
	case <-s.done:
		return nil, s.lost(op)
	case <-ctx.Done():
		return nil, fault.Wrap(fault.KindOf(context.Cause(ctx)), op, context.Cause(ctx))
	}
	select {
	case <-s.done:
		<-s.turn
		return nil, s.lost(op)
	default:
		return func() { <-s.turn }, nil
	}
}

// do calls gVisor while it holds turn, to bring the sandbox from one state to another. gVisor's
// calls take no context, so there are two limits: ctx bounds how long the caller waits, and limit
// how long the call may take. When the caller leaves earlier, the call continues and State has its
// result. When a call exceeds limit, the sentry is stuck. Then the sandbox is killed, which makes
// the call return.
func (s *Sandbox) do(ctx context.Context, op string, limit time.Duration, from, to State,
	call func() error,
) error {
	if ctx.Err() != nil {
		return fault.Wrap(fault.KindOf(context.Cause(ctx)), op, context.Cause(ctx))
	}
	release, err := s.acquire(ctx, op)
	if err != nil {
		return err
	}
	s.mu.Lock()
	state := s.state
	s.mu.Unlock()
	if state != from {
		release()
		return fault.New(fault.Conflict, op, "the sandbox is %v, not %v", state, from)
	}
	result := make(chan error, 1)
	overrun := time.AfterFunc(limit, func() {
		s.end(Killed, fmt.Sprintf("%s took longer than %v", op, limit))
	})
	go func() {
		defer release()
		err := call()
		overrun.Stop()
		if err == nil {
			s.mu.Lock()
			if s.state == from {
				s.state = to
			}
			s.mu.Unlock()
		}
		result <- err
	}()
	select {
	case err := <-result:
		return s.explain(op, err)
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(context.Cause(ctx)), op, context.Cause(ctx))
	}
}

// explain converts the error of a call to gVisor into one that shows whether the sandbox still
// runs. A call can fail a moment before this process sees the end of the sentry.
func (s *Sandbox) explain(op string, err error) error {
	if err == nil {
		return nil
	}
	moment := time.NewTimer(250 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-s.done:
		return errors.Join(s.lost(op), err)
	case <-moment.C:
	}
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return fault.Wrap(fault.Internal, op, err)
}

// lost returns the error of an operation on a sandbox that has ended.
func (s *Sandbox) lost(op string) error {
	return &fault.Error{
		Kind: fault.SandboxLost, Op: op, Message: "the sandbox has ended",
		Err: errors.New(s.Exit().String()),
	}
}
