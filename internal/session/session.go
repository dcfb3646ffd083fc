package session

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/egress/proxy"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/durable"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/usage"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
)

// wireGrace is how long after the end of its agent's wire a machine may take
// to end by itself and say why.
const wireGrace = 2 * time.Second

// Session is a claimed sandbox and the channels in it.
type Session struct {
	m *Manager
	// spec is what the session was made with; it does not change. status is
	// what changes and is stored; mu guards it.
	spec   snapshot.Spec
	status snapshot.Status
	// sandbox is what its sandboxes are restored with.
	sandbox sandbox.Spec
	// machine is nil in a session of an earlier process that has not resumed.
	machine sandbox.Machine
	agent   *client.Client
	router  *frameRouter
	meter   usage.Meter
	// life ends when the session is lost; settled is closed once all that
	// hangs on it has been told.
	life    context.Context
	end     context.CancelFunc
	settled chan struct{}
	// lifecycle is a lock with a context. It is held while the session is paused,
	// hibernated or resumed, and by Acquire.
	lifecycle ctxlock.Lock
	// stopWatch stops watchMachine. Guarded by lifecycle.
	stopWatch func()
	copies    *durable.Copies  // of a durable session
	uploads   *migrate.Uploads // of the copies
	// opening is held by the one who opens a channel with a key.
	opening ctxlock.Lock
	ports   ports
	egress  *proxy.Proxy // nil without a network
	volumes *volume.Hold
	// moving is set while it is parked; sealed, with lifecycle held, once there is
	// no way back from that.
	moving atomic.Bool
	sealed bool

	mu       lockorder.Mutex[sessionRank] // guards all below, status and machine
	state    State                        // transition alone assigns it
	listed   bool                         // in Manager.sessions
	counted  share                        // what it adds to Manager.totals
	reason   string
	message  string
	lostAt   time.Time
	until    time.Time     // it counts as at work till then
	stored   int64         // bytes on disk while it is hibernated
	ops      int           // requests under way that mean work
	idle     chan struct{} // closed when ops becomes 0; nil when nobody waits
	channels map[string]*Channel
	order    []*Channel
	keys     map[string]*Channel
	viewers  map[*Viewer]struct{}
	presence presence
}

// newSession makes a session that is in no list and has no machine yet.
func newSession(m *Manager, spec snapshot.Spec, status snapshot.Status, state State, h *volume.Hold, r *frameRouter, a *client.Client) *Session {
	spec.Volumes = h.Mounts()
	s := &Session{
		m: m, spec: spec, status: status, state: state, volumes: h, router: r, agent: a,
		sandbox: spec.Layout.Spec(h.Sources()), copies: m.durable.Copies(spec.ID, spec.Durable, m.log), uploads: migrate.NewUploads(),
		settled: make(chan struct{}), lifecycle: ctxlock.New(), opening: ctxlock.New(),
		channels: map[string]*Channel{}, keys: map[string]*Channel{}, viewers: map[*Viewer]struct{}{},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.limitOutput()
	return s
}

// claimed makes a session of a sandbox that was claimed for it.
func (m *Manager) claimed(id string, p noderpc.Principal, mb *warm.Instance, w wanted, r protocol.SessionCreate, h *volume.Hold) *Session {
	now := time.Now()
	spec := snapshot.Spec{
		ID: id, Tenant: p.Tenant, Subject: p.Subject, Template: r.Template, Layout: mb.Layout, Limits: w.limits,
		Language: w.language, Env: r.Env, Created: now, Info: mb.Info, Durable: m.wantsDurable(r),
	}
	status := snapshot.Status{Name: r.Name, Policy: w.policy, Expires: now.Add(w.lifetime), Active: now}
	s := newSession(m, spec, status, running, h, mb.Sink.(*frameRouter), mb.Agent)
	s.machine = mb.Machine
	return s
}

// limitOutput makes the router hold the session's output to its limit.
func (s *Session) limitOutput() {
	if rate := s.spec.Limits.OutputBytesPerSecond; rate > 0 {
		s.router.limiter = newOutputLimiter(rate, s.agent)
	}
}

// addWarmKernel makes the instance's warm kernel the session's first channel, k1.
func (s *Session) addWarmKernel(i *warm.Instance) error {
	if i.Language == "" {
		return nil
	}
	c, err := s.newChannel("kernel", s.spec.Language, nil)
	if err != nil {
		return err
	}
	d := &driver{session: s, channel: c, wire: warm.KernelChannel}
	c.queue = queue.New(queue.Options{Log: c.log, Start: s.starter(c, nil, ""), Driver: d, Info: i.Info, Changed: s.Touch, Ended: c.cellEnded, Limit: s.cellLimit()})
	close(c.opened)
	s.router.set(warm.KernelChannel, target{channel: c, driver: d})
	return nil
}

// starter returns what starts a kernel of c, each time on a new number.
func (s *Session) starter(c *Channel, env map[string]string, cwd string) queue.Starter {
	return func(ctx context.Context) (queue.Driver, kernel.Info, error) {
		select {
		case <-c.opened: // c.queue is set: output may come
		case <-ctx.Done():
			return nil, kernel.Info{}, ctx.Err()
		}
		ctx, cancel := context.WithTimeout(ctx, s.m.cfg.BootLimit)
		defer cancel()
		end, err := s.Acquire(ctx)
		if err != nil {
			return nil, kernel.Info{}, err
		}
		defer end()
		d := &driver{session: s, channel: c, wire: s.router.Number()}
		s.router.set(d.wire, target{channel: c, driver: d})
		info, err := s.agent.Kernels.Start(ctx, d.wire, wire.StartKernel{Language: c.language, Env: env, Cwd: cwd})
		if err != nil {
			s.router.remove(d.wire)
			return nil, kernel.Info{}, err
		}
		s.m.stats.KernelsStarted.Add(1)
		return d, info, nil
	}
}

// Touch notes that the session is active.
func (s *Session) Touch() {
	s.mu.Lock()
	s.status.Active = time.Now()
	s.mu.Unlock()
}

// asleep reports whether work would wake the session.
func (s *Session) asleep() bool { return !s.is(running) && !s.is(lost) }

func (s *Session) is(state State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == state
}

// IsLost reports whether the session has ended.
func (s *Session) IsLost() bool { return s.life.Err() != nil }

// lostReason returns why the session is lost.
func (s *Session) lostReason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

func (s *Session) lostBefore(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == lost && s.lostAt.Before(t)
}

// LostError returns the error of a session that is lost, SandboxLost.
func (s *Session) LostError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &fault.Error{Kind: fault.SandboxLost, Op: "session.use", Message: "the session's sandbox has ended (" + s.reason + "): " + s.message}
}

// Acquire announces work, and resumes a paused or hibernated sandbox. The
// sandbox runs until release is called. Errors: SandboxLost, Exhausted without
// room to resume, Unavailable when the node does not know whether the session is
// its own.
func (s *Session) Acquire(ctx context.Context) (release func(), err error) {
	if err := s.lockLifecycle(ctx, "session.begin"); err != nil {
		return nil, err
	}
	defer s.lifecycle.Unlock()
	if s.IsLost() {
		return nil, s.LostError()
	}
	if err := s.m.owner.Check(s.spec.ID); err != nil {
		return nil, err
	}
	s.mu.Lock()
	state, machine := s.state, s.machine
	s.mu.Unlock()
	switch state {
	case hibernated:
		if err := s.wake(ctx); err != nil {
			return nil, err
		}
	case paused:
		if err := machine.SetPaused(ctx, false); err != nil {
			if s.IsLost() {
				return nil, s.LostError()
			}
			return nil, err
		}
		s.m.stats.Resumes.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == lost {
		return nil, &fault.Error{Kind: fault.SandboxLost, Op: "session.use", Message: "the session's sandbox has ended (" + s.reason + "): " + s.message}
	}
	s.transition(running)
	s.ops++
	s.status.Active = time.Now()
	return func() {
		s.mu.Lock()
		if s.ops--; s.ops == 0 && s.idle != nil {
			close(s.idle)
			s.idle = nil
		}
		s.status.Active = time.Now()
		s.mu.Unlock()
	}, nil
}

// lockLifecycle takes the lifecycle lock. Errors: SandboxLost, and that of ctx.
func (s *Session) lockLifecycle(ctx context.Context, op string) error {
	ended, err := s.lifecycle.LockUntil(ctx, s.life.Done())
	switch {
	case ended:
		return s.LostError()
	case err != nil:
		return fault.Wrap(fault.KindOf(err), op, err)
	}
	return nil
}

// acquireOwned is Acquire for input, which clients do not repeat: while the node
// does not know whether the session is its own, it waits.
func (s *Session) acquireOwned(ctx context.Context) (end func(), err error) {
	for {
		end, err = s.Acquire(ctx)
		if err == nil || s.m.owner.Owns(s.spec.ID) {
			return end, err
		}
		if err := s.m.owner.Wait(ctx, s.spec.ID, s.life.Done()); err != nil {
			return nil, err
		}
	}
}

// pauseIdle freezes the sandbox when nothing has happened since the given
// time and nothing is under way.
func (s *Session) pauseIdle(ctx context.Context, since time.Time) {
	if !s.lifecycle.TryLock() {
		return // a request begins
	}
	defer s.lifecycle.Unlock()
	s.mu.Lock()
	idle := s.state == running && s.idleSince(since)
	all, machine := s.order, s.machine
	s.mu.Unlock()
	if !idle {
		return
	}
	for _, c := range all {
		if c.working(ctx, since) {
			if c.terminal != nil {
				s.Touch() // ask again after the same time
			}
			return
		}
	}
	if err := machine.SetPaused(ctx, true); err != nil {
		if !s.IsLost() {
			s.m.log.Warn("a session could not be paused", "session", s.spec.ID, "error", err)
			s.Touch() // try again after the same time
		}
		return
	}
	s.m.stats.Pauses.Add(1)
	s.egress.Cut()
	s.mu.Lock()
	if s.state == running {
		s.transition(paused)
	}
	s.mu.Unlock()
}

// watchMachine waits for the end of the machine in the background, and then ends
// the session.
// Preconditions: lifecycle is held, or the session is not in the lists yet.
func (s *Session) watchMachine() {
	s.mu.Lock()
	machine := s.machine
	s.mu.Unlock()
	stop, done := make(chan struct{}), make(chan struct{})
	s.stopWatch = func() {
		close(stop)
		<-done
	}
	s.m.work.Go(func() {
		reason, message, ended := s.awaitMachine(machine, stop)
		close(done)
		if ended {
			s.lose(reason, message)
		}
	})
}

// awaitMachine waits for the end of the machine, and returns its reason. It is
// false when stop or the session's end came first.
func (s *Session) awaitMachine(machine sandbox.Machine, stop <-chan struct{}) (reason, message string, ended bool) {
	select {
	case <-machine.Done():
	case <-s.life.Done():
		return "", "", false
	case <-stop:
		return "", "", false
	case <-s.agent.Done():
		timer := time.NewTimer(wireGrace)
		defer timer.Stop()
		select {
		case <-machine.Done():
		case <-s.life.Done():
			return "", "", false
		case <-timer.C:
			return "crashed", "the agent in the sandbox does not answer any more", true
		}
	}
	exit := machine.Exit()
	reason, detail := lostReason(exit), exit.String()
	s.m.log.Info("sandbox ended", "session", s.spec.ID, "reason", reason, "detail", detail)
	return reason, sentence(reason), true
}

// sentence says a reason in words. The machine's own are for the log.
func sentence(reason string) string {
	switch reason {
	case "memory":
		return "it used more memory than it may"
	case "killed":
		return "it was killed"
	case "crashed":
		return "it crashed"
	case "exited":
		return "its first process exited"
	case "host":
		return "the machine ran out of memory"
	}
	return "it has ended"
}

// lose ends the session: the queues and logs say why, viewers are told, and
// the sandbox is destroyed. The first reason counts; later calls wait for the
// first.
func (s *Session) lose(reason, message string) {
	s.mu.Lock()
	if s.state == lost {
		s.mu.Unlock()
		<-s.settled
		return
	}
	asleep := s.state == hibernated || s.state == resuming
	s.conclude(reason, message)
	s.egress.Close()
	all := s.order
	watchers := make([]*Viewer, 0, len(s.viewers))
	for a := range s.viewers {
		watchers = append(watchers, a)
	}
	s.mu.Unlock()
	s.m.stats.SessionLost(reason)
	s.measure(asleep, reason)
	s.m.audit(protocol.AuditEntry{Event: "session.end", Tenant: s.spec.Tenant, Subject: s.spec.Subject, Session: s.spec.ID, Reason: reason})
	// At once, so that nothing below waits for a sandbox that hangs.
	var destroyed sync.WaitGroup
	destroyed.Go(func() {
		if s.router.limiter != nil {
			s.router.limiter.close()
		}
		s.m.provider.Discard(s.instance())
		s.volumes.Release()
		if err := os.RemoveAll(s.m.sessionDir(s.spec.ID)); err != nil {
			s.m.log.Warn("a snapshot was not removed", "session", s.spec.ID, "error", err)
		}
		s.copies.Close(reason != "restarting")
		if !s.spec.Durable || reason == "restarting" || reason == "moved" || s.m.migration.Dispose(movable{s}) {
			s.m.owner.Forget(s.spec.ID)
		}
	})
	for _, c := range all {
		s.endChannel(c, reason, message)
	}
	for _, a := range watchers {
		a.client.NotifyLost(s.lostEvent())
	}
	close(s.settled)
	destroyed.Wait()
	s.m.admission.Freed()
}

func (s *Session) lostEvent() protocol.Lost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return protocol.Lost{Session: s.spec.ID, Reason: s.reason, Message: s.message, Reached: s.lostBy()}
}

// endChannel closes a channel's queue and log because its sandbox is gone.
func (s *Session) endChannel(c *Channel, reason, message string) {
	<-c.opened
	if c.queue != nil {
		c.queue.Close(queue.Death{Reason: queue.LostReason, Message: "the sandbox ended (" + reason + "): " + message})
	}
	c.end(protocol.Exit{Code: -1, Reason: reason})
}

// retire lets the logs go, once nobody reads them, and forgets the channels.
func (s *Session) retire() {
	s.mu.Lock()
	all := s.order
	s.order, s.channels, s.keys = nil, map[string]*Channel{}, map[string]*Channel{}
	s.mu.Unlock()
	for _, c := range all {
		c.retire()
	}
	s.m.logs.RemoveDir(s.spec.ID)
}

// View returns the session as clients see it, without its usage.
func (s *Session) View() protocol.Session {
	s.mu.Lock()
	v := protocol.Session{
		ID: s.spec.ID, Name: s.status.Name, Language: s.spec.Language, State: s.state.String(), Reason: s.reason,
		CreatedMS: s.spec.Created.UnixMilli(), ExpiresMS: s.status.Expires.UnixMilli(), ActiveMS: s.status.Active.UnixMilli(),
		Template: s.spec.Template, IdlePauseSeconds: seconds(s.status.Policy.Pause), IdleHibernateSeconds: seconds(s.status.Policy.Hibernate), KeepAlive: s.status.Policy.KeepAlive,
		Origin: s.spec.Origin, Durable: s.spec.Durable, Volumes: s.volumes.Mounts(), Network: s.egress.Network(),
	}
	if s.spec.Limits != (protocol.Limits{}) {
		l := s.spec.Limits
		v.Limits = &l
	}
	if s.state == lost {
		v.Reached = s.lostBy()
	}
	if !s.status.Recovered.IsZero() {
		v.RecoveredMS = s.status.Recovered.UnixMilli()
	}
	all := s.order
	s.mu.Unlock()
	if at := s.copies.Saved(); !at.IsZero() {
		v.KeptMS = at.UnixMilli()
	}
	v.Channels = views(all)
	return v
}

// seconds is a policy's time as clients see it.
func seconds(d time.Duration) int64 {
	if d <= 0 {
		return protocol.Never
	}
	return max(1, int64(d/time.Second))
}

// Usage returns what the session's sandbox uses now; nil without a sandbox.
func (s *Session) Usage(ctx context.Context) *protocol.Usage {
	s.mu.Lock()
	state, machine := s.state, s.machine
	s.mu.Unlock()
	if state != running && state != paused {
		return nil
	}
	u, err := machine.Usage(ctx)
	if err != nil {
		return nil // it has ended meanwhile, or the backend has no counters
	}
	return &protocol.Usage{MemoryBytes: u.Memory, MemoryPeakBytes: u.MemoryPeak, CPUMS: u.CPU.Milliseconds(), Tasks: u.Tasks}
}

// expiresAt returns the end of the session's lifetime.
func (s *Session) expiresAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status.Expires
}

func views(all []*Channel) []protocol.Channel {
	out := make([]protocol.Channel, len(all))
	for i, c := range all {
		out[i] = c.View()
	}
	return out
}

// Channels returns the channels, oldest first. The caller does not change the
// slice.
func (s *Session) Channels() []*Channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order
}

// Channel finds a channel by its id. Errors: NotFound.
func (s *Session) Channel(id string) (*Channel, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[id]
	if c == nil {
		return nil, &fault.Error{Kind: fault.NotFound, Op: "session.channel", Field: "channel", Message: "there is no such channel in the session"}
	}
	return c, nil
}

// addViewer registers a viewer. It is false when the session is lost already:
// the caller then notifies the viewer.
func (s *Session) addViewer(a *Viewer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == lost {
		return false
	}
	a.joinedAt = time.Now()
	s.viewers[a] = struct{}{}
	s.schedulePresence()
	return true
}

func (s *Session) removeViewer(a *Viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.viewers, a)
	s.schedulePresence()
}
