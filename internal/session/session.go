package session

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/egress/proxy"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/activity"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/durable"
	"github.com/sandgate/sandgate/internal/session/machine"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/ports"
	"github.com/sandgate/sandgate/internal/session/service"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/session/totals"
	"github.com/sandgate/sandgate/internal/usage"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/protocol"
)

// Session is a claimed sandbox and the channels in it.
type Session struct {
	m *Manager
	// spec has the properties that do not change. status has those that change and
	// are stored; mu guards it.
	spec   snapshot.Spec
	status snapshot.Status
	// sandbox is the specification with which its sandboxes are restored.
	sandbox sandbox.Spec
	// machine is nil in a session of an earlier process that has not resumed.
	machine sandbox.Machine
	// savedEdition is the edition of the snapshot that the session was loaded with; empty without one.
	savedEdition string
	agent        *client.Client
	meter        usage.Meter
	// channels are its kernels, processes and terminals, with their viewers.
	channels *channel.Set
	// settled is closed once the channels and viewers of a lost session have been notified.
	settled  chan struct{}
	activity *activity.Activity
	// stopWatch stops watchMachine. Guarded by lifecycle.
	stopWatch func()
	copies    *durable.Copies  // for a durable session
	uploads   *migrate.Uploads // those of the copies
	ports     *ports.Ports
	services  *service.Supervisor
	egress    *proxy.Proxy // nil without a network
	volumes   *volume.Hold
	lapsing   atomic.Bool // it is being hibernated at the end of its lifetime
	// moving is set while the session is parked. sealed is set, with lifecycle held,
	// when the session can no longer continue here.
	moving atomic.Bool
	sealed bool

	// lifeState has the state. Its mu guards all below, status and machine.
	lifeState
	listed bool // in Manager.sessions
	// published is set once the session was listed. thawing is set while a paused session is
	// unfrozen in order to hibernate it, which has no event.
	published, thawing bool
	// shownPaused is set while a paused session is being hibernated. Clients see it as paused.
	shownPaused bool
	counted     totals.Share // the part of Manager.totals that it adds
	stored      int64        // bytes on disk while it is hibernated
}

// newSession makes a session that is in no list and has no machine yet.
func newSession(m *Manager, spec snapshot.Spec, status snapshot.Status, state State, h *volume.Hold,
	r *channel.Router, a *client.Client,
) *Session {
	spec.Volumes = h.Mounts()
	s := &Session{
		m: m, spec: spec, status: status, lifeState: newLifeState(state), volumes: h, agent: a,
		sandbox: spec.Layout.Spec(spec.Tenant, h.Sources()),
		copies:  m.durable.Copies(spec.ID, spec.Durable, m.log), uploads: migrate.NewUploads(),
		settled: make(chan struct{}), activity: activity.New(status.Active),
	}
	followState(s)
	s.channels = channel.NewSet(channel.Config{
		Session: s, ID: spec.ID, Tenant: spec.Tenant, Subject: spec.Subject, Life: s.life,
		Check: func(r protocol.ChannelOpen) (string, []string, error) {
			return m.requests.Open(s.spec, r)
		},
		Acknowledged: s.copies.Acknowledge, Audit: m.audit,
		BootLimit: m.cfg.BootLimit, CellLimit: time.Duration(spec.Limits.CellSeconds) * time.Second,
		OutputRate: spec.Limits.OutputBytesPerSecond,
		Agent:      a, Router: r, Logs: m.logs, Stats: m.stats, Meter: &s.meter,
	}, status.Numbers)
	s.ports = ports.New(spec.ID, m.looks.Bound(a.Ports.List), func(c protocol.PortChange) {
		s.channels.Viewers().Notify(protocol.EventPort, c)
		m.emit(s.aboutNow().Port(c))
	})
	s.services = service.New(service.Config{
		Host: service.Sandbox{Channels: s.channels, Agent: a, Enter: s.visit},
		Tail: channel.ServicesOf(s.channels).Tail, Life: s.life, Starts: m.stats.ServicesStarted,
		Restarts: m.stats.ServicesRestarted, Failures: m.stats.ServicesFailed,
	}, status.Services)
	return s
}

// currentStatus returns the part of the session that is stored and changes, without its activity.
func (s *Session) currentStatus() snapshot.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Touch records that the session is active.
func (s *Session) Touch() { s.activity.Touch() }

// Acquire begins a request that needs the sandbox, and resumes a paused or
// hibernated one. The sandbox runs until release is called. Errors: SandboxLost,
// Exhausted without a place to resume, Unavailable while the node does not know
// whether it owns the session, Conflict for a suspended session.
func (s *Session) Acquire(ctx context.Context) (release func(), err error) {
	return s.acquire(ctx, false)
}

// acquire is Acquire. If it is explicit, it also resumes a suspended session.
func (s *Session) acquire(ctx context.Context, explicit bool) (release func(), err error) {
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
	if !explicit {
		if err := (rest{s}).check(); err != nil {
			return nil, err
		}
	}
	if err := s.ensureRunning(ctx); err != nil {
		return nil, err
	}
	rest{s}.resumed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == lost {
		return nil, s.lostErrorLocked()
	}
	s.transition(running)
	return s.activity.Work(), nil
}

// AcquireOwned is Acquire for input, which clients do not repeat. It waits while
// the node does not know whether it owns the session.
func (s *Session) AcquireOwned(ctx context.Context) (release func(), err error) {
	for {
		release, err = s.Acquire(ctx)
		if err == nil || s.m.owner.Owns(s.spec.ID) {
			return release, err
		}
		if err := s.m.owner.Wait(ctx, s.spec.ID, s.life.Done()); err != nil {
			return nil, err
		}
	}
}

// watchMachine waits for the end of the machine in the background, and then ends
// the session. Preconditions: lifecycle is held, or the session is not in the lists yet.
func (s *Session) watchMachine() {
	current := s.currentMachine()
	stop, done := make(chan struct{}), make(chan struct{})
	s.stopWatch = func() {
		close(stop)
		<-done
	}
	s.m.work.Go(func() {
		end, ended := machine.Await(s.life, current, s.agent.Done(), stop)
		close(done)
		if ended {
			s.m.log.Info("sandbox ended", "session", s.spec.ID, "reason", end.Reason, "detail",
				end.Detail)
			s.lose(end.Reason, end.Message)
		}
	})
}

// lose ends the session: it ends queues and logs with the reason, notifies the viewers, and
// destroys the sandbox. The first reason counts; later calls wait for the first call.
func (s *Session) lose(reason, message string) {
	s.mu.Lock()
	if s.state == lost {
		s.mu.Unlock()
		<-s.settled
		return
	}
	asleep := s.state == hibernated || s.state == resuming
	s.conclude(reason, message)
	if s.published {
		s.m.emit(s.about().Ended(reason, message))
	}
	s.egress.Close()
	named, known := s.status.Name != "", s.published
	s.mu.Unlock()
	ended := reason != "restarting" && reason != "moved"
	if ended {
		s.m.names.Free(s.spec.ID)
	}
	if ended && known {
		remember(s, reason)
	}
	s.m.stats.SessionLost(reason)
	s.measure(asleep, reason)
	s.m.audit(protocol.AuditEntry{
		Event: "session.end", Tenant: s.spec.Tenant, Subject: s.spec.Subject,
		Session: s.spec.ID, Reason: reason,
	})
	// In the background, so that no step below waits for a sandbox that hangs.
	var destroyed sync.WaitGroup
	destroyed.Go(func() {
		s.channels.EndLimits()
		s.m.provider.Discard(s.instance())
		s.volumes.Release()
		if err := os.RemoveAll(s.m.dirs.Session(s.spec.ID)); err != nil {
			s.m.log.Warn("a snapshot was not removed", "session", s.spec.ID, "error", err)
		}
		s.copies.Close(reason != "restarting")
		s.m.endPortLinks(s, reason)
		if ended && named {
			s.m.names.End(s.spec.Tenant, s.spec.ID)
		}
		if !s.spec.Durable || reason == "restarting" || reason == "moved" ||
			s.m.migration.Dispose(movable{s}) {
			s.m.owner.End(s.spec.ID, reason, s.m.cfg.LostRetention)
		}
	})
	s.channels.Lose(reason, message)
	s.channels.Viewers().NotifyLost(s.Lost())
	close(s.settled)
	destroyed.Wait()
	s.m.admission.Freed()
}

// Lost returns the event that reports the end of the session.
func (s *Session) Lost() protocol.Lost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return protocol.Lost{
		Session: s.spec.ID, Reason: s.reason, Message: s.message, Reached: s.lostBy(),
	}
}

// View returns the session as clients see it, without its use of resources.
func (s *Session) View() protocol.Session {
	s.mu.Lock()
	v := protocol.Session{
		ID: s.spec.ID, Name: s.status.Name, Language: s.spec.Language, State: s.state.String(),
		Reason: s.reason, Suspended: s.status.Suspended,
		CreatedMS: s.spec.Created.UnixMilli(),
		ActiveMS:  s.activity.LastActive().UnixMilli(),
		Template:  s.spec.Template, Origin: s.spec.Origin, Durable: s.spec.Durable,
		Volumes: s.volumes.Mounts(), Network: s.egress.Network(), Labels: s.status.Labels,
	}
	s.status.Policy.SetView(&v)
	v.Edition = s.savedEdition
	if s.machine != nil {
		v.Edition = s.machine.Edition()
	}
	if s.spec.Limits != (protocol.Limits{}) {
		l := s.spec.Limits
		v.Limits = &l
	}
	switch {
	case s.shownPaused && s.state == running:
		v.State = paused.String()
	case s.state == lost && s.moving.Load(): // until it is in the store, or here again
		v.State, v.Reason = hibernated.String(), ""
	}
	if at, reason := s.status.Expiry(s.activity.Quiet()); !at.IsZero() {
		v.ExpiresMS, v.ExpiresReason = at.UnixMilli(), reason
	}
	v.OnExpiry = s.status.Policy.OnExpiry
	if v.State == lost.String() {
		v.OnExpiry, v.Reached = "", s.lostBy()
	}
	if !s.status.Recovered.IsZero() {
		v.RecoveredMS = s.status.Recovered.UnixMilli()
	}
	s.mu.Unlock()
	if at := s.copies.Saved(); !at.IsZero() {
		v.KeptMS = at.UnixMilli()
	}
	v.Channels = s.channels.Views(false)
	return v
}

// Usage returns the resources that the session's sandbox uses now; nil without a sandbox.
func (s *Session) Usage(ctx context.Context) *protocol.Usage {
	s.mu.Lock()
	state, machine := s.state, s.machine
	s.mu.Unlock()
	if state != running && state != paused {
		return nil
	}
	u, err := machine.Usage(ctx)
	if err != nil {
		return nil // the sandbox has ended, or the backend has no counters
	}
	return &protocol.Usage{
		MemoryBytes: u.Memory, MemoryPeakBytes: u.MemoryPeak,
		MemoryMaxBytes: s.m.cfg.SandboxUse(s.spec.Limits).MemoryBytes,
		CPUMS:          u.CPU.Milliseconds(), Tasks: u.Tasks,
	}
}

// Ports returns the session's ports.
func (s *Session) Ports() *ports.Ports { return s.ports }

// Services returns the session's services.
func (s *Session) Services() *service.Supervisor { return s.services }

// Channels returns the session's channels.
func (s *Session) Channels() *channel.Set { return s.channels }

// ID returns the session's id.
func (s *Session) ID() string { return s.spec.ID }

// Agent returns the client of the agent in the session's sandbox, the same one over hibernations.
// Calls without Acquire wait until another request resumes the session.
func (s *Session) Agent() *client.Client { return s.agent }

// ActivityOf returns the requests and transfers of a session that are under way.
func ActivityOf(s *Session) *activity.Activity { return s.activity }

// CountTransfer adds bytes of files to the session's usage.
func (s *Session) CountTransfer(in, out int64) {
	s.meter.In.Add(in)
	s.meter.Out.Add(out)
}
