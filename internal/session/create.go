package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/internal/session/names"
	"github.com/sandgate/sandgate/internal/session/request"
	"github.com/sandgate/sandgate/internal/session/service"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/undo"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Create makes a session for a tenant, from a template or a snapshot. If ctx ends
// before it returns, the session is removed again.
//
// Errors: InvalidArgument, NotFound, Conflict for a name that another session has, Exhausted at a
// limit, and others of the sandbox.
func (m *Manager) Create(ctx context.Context, p noderpc.Principal,
	r protocol.SessionCreate,
) (s *Session, err error) {
	id := names.IDs(ctx, 1)[0]
	if err := m.names.Hold(p.Tenant, r.Name, id); err != nil {
		return nil, err
	}
	if r.Snapshot != "" {
		s, err = m.createFromSnapshot(ctx, p, r, id)
	} else {
		s, err = m.createNew(ctx, p, r, id)
	}
	if err != nil {
		m.names.Free(id)
		return nil, err
	}
	if r.WaitReady {
		if err := s.WaitServices(ctx); err != nil {
			m.Remove(s)
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil { // the caller has left
		m.Remove(s)
		return nil, fault.Wrap(fault.KindOf(err), protocol.OpSessionCreate, err)
	}
	return s, nil
}

// creation is a session that is being made from a template or a language. Its
// steps, in this order: reserve, claim, assemble. back undoes them.
type creation struct {
	m     *Manager
	owner noderpc.Principal
	asked protocol.SessionCreate
	want  request.Session

	back     undo.Stack
	place    *admission.Reservation
	volumes  *volume.Hold
	id       string
	instance *warm.Instance
}

// createNew makes a session from a template or a language.
func (m *Manager) createNew(ctx context.Context, p noderpc.Principal,
	r protocol.SessionCreate, id string,
) (*Session, error) {
	if err := m.templates.Ensure(ctx, p.Tenant, r.Template); err != nil {
		return nil, err
	}
	w, err := m.requests.Create(p, r)
	if err != nil {
		return nil, err
	}
	c := &creation{m: m, owner: p, asked: r, want: w, id: id}
	if err := c.reserve(ctx); err != nil {
		m.stats.SessionsRefused.Add(1)
		return nil, err
	}
	defer m.work.Done()
	defer c.back.Run()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	if err := m.admission.Confirm(ctx, protocol.OpSessionCreate, c.place.Request); err != nil {
		m.stats.SessionsRefused.Add(1)
		return nil, err
	}
	if err := c.claim(ctx); err != nil {
		return nil, err
	}
	s, err := c.assemble()
	if err != nil {
		return nil, err
	}
	c.back.Commit() // from now on lose undoes all steps
	if err := m.publish(protocol.OpSessionCreate, s, c.place); err != nil {
		return nil, err
	}
	m.log.Info("session created", "session", s.spec.ID, "tenant", p.Tenant, "subject", p.Subject,
		"template", w.Template.Key())
	return s, nil
}

// reserve reserves a place. The caller is then counted in work.
func (c *creation) reserve(ctx context.Context) (err error) {
	const op = protocol.OpSessionCreate
	m, keep := c.m, c.asked.KeepAlive
	c.place, err = m.admission.Reserve(ctx, op,
		"this node has all the sessions it can; delete one or try again later",
		m.cfg.SessionRequest(c.owner, c.want.Limits, keep), func() error {
			if err := m.totals.CheckKeepAlive(op, keep, m.cfg.MaxKeepAlive); err != nil {
				return err
			}
			m.work.Add(1)
			return nil
		})
	if err == nil {
		c.back.Add(c.place.Release)
	}
	return err
}

// claim claims the volumes, the ownership of the session, and a sandbox, which
// then has the session's environment, network and volumes.
func (c *creation) claim(ctx context.Context) (err error) {
	m, w := c.m, c.want
	if c.volumes, err = m.volumes.Hold(c.owner.Tenant, w.Volumes,
		len(c.asked.Volumes)); err != nil {
		return err
	}
	c.back.Add(c.volumes.Release)
	// The ownership comes before the sandbox: without a directory nothing is begun.
	if err := m.owner.Claim(ctx, c.id, time.Now()); err != nil {
		return err
	}
	c.back.Add(func() { m.owner.Forget(c.id) })
	if err := m.names.Register(ctx, c.id); err != nil {
		return err
	}
	i, err := m.provider.Claim(ctx, w.Template,
		warm.Sizing{Tenant: c.owner.Tenant, Limits: w.Limits, Volumes: len(w.Volumes) > 0})
	if err != nil {
		if fault.Is(err, fault.Exhausted) {
			m.stats.SessionsRefused.Add(1)
		}
		return err
	}
	c.instance = i
	c.back.Add(func() { m.provider.Discard(i) })
	if len(c.asked.Env) > 0 || w.Network != nil {
		if err := m.reseedFor(ctx, i, w.Network, c.asked.Env); err != nil {
			return err
		}
	}
	return c.volumes.Mount(ctx, i.Machine, i.Agent.Files, m.cfg.Backend.Capabilities().LiveMounts)
}

// assemble makes the session of the sandbox.
func (c *creation) assemble() (*Session, error) {
	now, i, w := time.Now(), c.instance, c.want
	spec := snapshot.Spec{
		ID: c.id, Tenant: c.owner.Tenant, Subject: c.owner.Subject, Template: c.asked.Template,
		Layout: i.Layout, Limits: w.Limits,
		Language: w.Language, Env: c.asked.Env, Created: now, Info: i.Info,
		Durable: c.m.cfg.IsDurable(c.asked),
	}
	status := snapshot.Status{
		Name: c.asked.Name, Labels: w.Labels, Policy: w.Policy,
		Active: now, Services: service.Declared(w.Services),
	}
	status.Expires, status.Due = w.Policy.Ends(now, now, w.Lifetime, c.m.cfg.MaxLifetime)
	s := newSession(c.m, spec, status, running, c.volumes, i.Sink.(*channel.Router), i.Agent)
	s.machine = i.Machine
	s.meter.Begin(i.Machine)
	if err := s.enableEgress(w.Network, 0); err != nil {
		return nil, err
	}
	if i.Language != "" {
		if err := s.channels.AddWarmKernel(i.Language, warm.KernelChannel, i.Info); err != nil {
			return nil, err
		}
	}
	s.watchMachine()
	return s, nil
}

// publish adds a new session, whose sandbox runs, to the list. If the manager is
// closed the session is lost instead. With a place, the session takes it in one
// step with its entry in the list.
func (m *Manager) publish(op string, s *Session, place *admission.Reservation) error {
	(autosaver{s}).recordNew()
	m.mu.Lock()
	closed := m.closed
	add := func() {
		if !closed {
			m.list(s)
			m.emit(s.aboutNow().Created(s.spec.Origin, s.spec.Template, s.spec.Language))
		}
	}
	if place != nil {
		place.Use(add)
	} else {
		add()
	}
	m.mu.Unlock()
	if closed {
		s.lose("restarting", "the node is stopping")
		return fault.New(fault.Restarting, op, "the node is stopping")
	}
	s.volumes.NotifyRunning()
	s.services.SetAwake(true)
	m.stats.SessionsCreated.Add(1)
	return nil
}
