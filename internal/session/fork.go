package session

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/request"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/undo"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// branch is a session that continues from a copy.
type branch struct {
	snapshot.Branch
	dir   string // the folder of the copy
	event string // in the logs: forked or started
}

// reservePlaces reserves places for n sessions until release is called. Idle sessions are evicted
// for them. keepAlive says that they will be kept alive. The caller is counted in work meanwhile.
func (m *Manager) reservePlaces(ctx context.Context, op string, n int, p noderpc.Principal,
	l protocol.Limits, keepAlive bool,
) (release func(), err error) {
	release, err = m.admission.ReserveAll(ctx, op,
		"this node has not the room for so many more sessions; delete some or try again later", n,
		m.cfg.SessionRequest(p, l, keepAlive), func() error {
			if err := m.totals.CheckKeepAlive(op, keepAlive, m.cfg.MaxKeepAlive); err != nil {
				return err
			}
			m.work.Add(1)
			return nil
		}, func(n int) { m.work.Add(-n) })
	if err != nil {
		m.stats.SessionsRefused.Add(1)
		return nil, err
	}
	return sync.OnceFunc(release), nil
}

// Fork makes copies of a session, all or none. It resumes the session for that.
// Errors: InvalidArgument, Exhausted without places for all.
func (m *Manager) Fork(ctx context.Context, p noderpc.Principal, s *Session,
	r protocol.SessionFork,
) (protocol.Forks, error) {
	const op = "session.fork"
	var none protocol.Forks
	n := max(r.Count, 1)
	w, err := m.requests.Create(p,
		protocol.SessionCreate{Name: r.Name, LifetimeSeconds: r.LifetimeSeconds})
	if err != nil {
		return none, err
	}
	status := s.currentStatus()
	labels, err := request.CopyLabels(op, p, status.Labels, r.Labels)
	if err != nil {
		return none, err
	}
	if r.Count < 0 || n > protocol.MaxForks {
		return none, fault.Invalid(op, "count", "a session is forked 1 to %d times at once",
			protocol.MaxForks)
	}
	ids, held, err := m.names.HoldCopies(ctx, p.Tenant, r.Name, n)
	if err != nil {
		return none, err
	}
	made := make([]*Session, n)
	defer func() {
		if slices.Contains(made, nil) {
			m.names.Free(ids...)
		}
	}()
	release, err := m.reservePlaces(ctx, op, n, p, s.spec.Limits, false)
	if err != nil {
		return none, err
	}
	defer release()
	dir := m.dirs.NewTemporary()
	defer func() { _ = os.RemoveAll(dir) }() // the next start removes what remains
	st, err := (copying{s, dir, true}).runIdle(ctx)
	if err != nil {
		return none, err
	}
	// A copy is kept alive only if a request for it asks for that.
	st.Record.Policy.KeepAlive = false
	b := branch{dir: dir, event: "forked", Branch: snapshot.Branch{
		Tenant: p.Tenant, Subject: p.Subject, Origin: s.spec.ID, Name: r.Name,
		Lifetime: w.Lifetime, Most: m.cfg.MaxLifetime,
		Labels: labels, Durable: s.spec.Durable, Policy: st.Record.Policy,
	}}
	if err := b.startAll(ctx, m, st, ids, held, made); err != nil {
		return none, err
	}
	out := protocol.Forks{PauseMS: float64(st.Pause.Microseconds()) / 1000}
	for _, s := range made {
		out.Sessions = append(out.Sessions, s.View())
	}
	m.stats.Forks.Add(int64(n))
	m.emit(s.aboutNow().Forked(out.Sessions))
	m.log.Info("session forked", "session", s.spec.ID, "count", n, "pause", st.Pause)
	return out, nil
}

// startAll makes a session for each id, with its name. The sessions are made also when the connection
// is lost meanwhile, and then removed. After an error there are none.
func (b branch) startAll(ctx context.Context, m *Manager, st *snapshot.Capture, ids, held []string,
	made []*Session,
) error {
	errs := make([]error, len(ids))
	turns := make(chan struct{}, max(m.cfg.PoolParallel, 2))
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if errs[i] = ctx.Err(); errs[i] == nil {
				one := b
				one.Name = held[i]
				made[i], errs[i] = one.start(ctx, m,
					&snapshot.Manifest{Record: st.Record, At: st.At}, ids[i])
			}
		})
	}
	wg.Wait()
	if errors.Join(errs...) == nil {
		return nil
	}
	for _, s := range made {
		if s != nil {
			m.Remove(s)
		}
	}
	return errs[slices.IndexFunc(errs, func(err error) bool { return err != nil })]
}

// start makes a session that continues from a copy, with a sandbox of its own.
// Preconditions: a place is reserved for it, and it holds its name.
func (b branch) start(ctx context.Context, m *Manager, c *snapshot.Manifest, id string) (
	*Session, error,
) {
	const op = "session.start"
	ctx, cancel := context.WithTimeout(ctx, resumeLimit)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	now := time.Now()
	v := b.Record(id, c, now)
	if err := m.owner.Claim(ctx, v.ID, v.Created); err != nil {
		return nil, err
	}
	var back undo.Stack
	defer back.Run()
	back.Add(func() { m.owner.Forget(v.ID) })
	if err := m.names.Register(ctx, id); err != nil {
		return nil, err
	}
	s, err := loader{m}.clone(b.dir, v)
	if err != nil {
		return nil, err
	}
	back.Add(func() { loader{m}.discard(s) })
	// No request begins before the session has its own machine.
	if err := s.lifecycle.Lock(ctx); err != nil {
		return nil, fault.Wrap(fault.KindOf(err), op, err)
	}
	defer s.lifecycle.Unlock()
	machine, err := m.cfg.Backend.Restore(ctx, filepath.Join(b.dir, "snapshot"), s.sandbox,
		sandbox.RestoreOptions{Urgent: true})
	if err != nil {
		m.logRestoreFailed("a copy could not be started", err, "session", v.ID, "origin", b.Origin)
		return nil, snapshot.StartFailed(err)
	}
	back.Commit() // from now on lose undoes all steps
	s.mu.Lock()
	s.machine = machine
	s.transition(resuming)
	s.mu.Unlock()
	for i, ch := range s.channels.All() {
		// The log before this event is that of the original, at the same offsets.
		l := c.Channels[i].Log
		ch.Note(map[string]any{
			"event": b.event, "from": b.Origin, "epoch": l.Epoch,
			"offset": l.End, "as_of_ms": c.At.UnixMilli(),
		})
	}
	s.channels.Connect(v)
	s.agent.Reconnect(machine.Wire())
	if err := s.finalizeRestore(ctx, true); err != nil {
		m.logRestoreFailed("a copy did not answer after it was started", err, "session", v.ID,
			"origin", b.Origin)
		s.lose("crashed", "it did not answer after it was started")
		s.channels.Retire()
		return nil, snapshot.Unavailable(op,
			"the copy did not answer after it was started; what it is a copy of is as it was", err)
	}
	s.watchMachine()
	s.enter(running)
	if err := m.publish(op, s, nil); err != nil {
		return nil, err
	}
	m.log.Info("session started from a copy", "session", s.spec.ID, "origin", b.Origin, "took",
		time.Since(now))
	return s, nil
}
