package nodeapi

import (
	"context"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/session/listing"
	"github.com/sandgate/sandgate/internal/session/names"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

func sessionCreate(ctx context.Context, c *call,
	p protocol.SessionCreate,
) (protocol.Session, error) {
	return viewOf(c.server.cfg.Sessions.Create(ctx, c.principal, p))
}

// viewOf returns a session as clients see it.
func viewOf(s *session.Session, err error) (protocol.Session, error) {
	if err != nil {
		return protocol.Session{}, err
	}
	return s.View(), nil
}

func sessionGet(ctx context.Context, c *call, p protocol.SessionRef) (protocol.Session, error) {
	s, err := c.session(p.Session)
	if err != nil {
		return protocol.Session{}, err
	}
	v := s.View()
	v.Usage = s.Usage(ctx)
	return v, nil
}

func sessionEnsure(ctx context.Context, c *call, p protocol.SessionCreate) (protocol.Ensured,
	error,
) {
	find := func(id string) (*session.Session, bool, error) {
		s, err := c.session(id)
		return s, err == nil && !s.IsLost(), err
	}
	s, created, err := names.Ensure(ctx, c.server.cfg.Names, c.principal.Tenant, p.Name, find,
		func() (*session.Session, error) {
			return c.server.cfg.Sessions.Create(ctx, c.principal, p)
		})
	if err == nil && !created && p.WaitReady {
		err = s.WaitServices(ctx)
	}
	if err != nil {
		return protocol.Ensured{}, err
	}
	return protocol.Ensured{Session: s.View(), Created: created}, nil
}

func sessionFind(ctx context.Context, c *call, p protocol.SessionName) (protocol.Session, error) {
	id, _ := c.server.cfg.Names.Find(c.principal.Tenant, p.Name)
	s, err := c.session(id)
	if err != nil {
		return protocol.Session{}, err
	}
	v := s.View()
	v.Usage = s.Usage(ctx)
	return v, nil
}

func sessionList(_ context.Context, c *call, p protocol.SessionQuery) (listing.Answer, error) {
	return c.server.cfg.Sessions.List(c.principal, p)
}

func sessionDelete(_ context.Context, c *call, p protocol.SessionRef) (none, error) {
	s, err := c.session(p.Session)
	if err != nil {
		return none{}, err
	}
	c.server.cfg.Sessions.Delete(s)
	c.server.cfg.Notebooks.DropSession(c.principal.Tenant, s.ID())
	return none{}, nil
}

// changed finds a session, changes it, and returns its state after the change.
func changed(c *call, id string, change func(s *session.Session) error) (protocol.Session, error) {
	s, err := c.session(id)
	if err == nil {
		err = change(s)
	}
	return viewOf(s, err)
}

func sessionUpdate(ctx context.Context, c *call, p protocol.SessionUpdate) (protocol.Session,
	error,
) {
	return changed(c, p.Session, func(s *session.Session) error {
		return c.server.cfg.Sessions.Update(ctx, c.principal, s, p)
	})
}

func sessionPause(ctx context.Context, c *call, p protocol.SessionRef) (protocol.Session, error) {
	return changed(c, p.Session, func(s *session.Session) error { return s.Pause(ctx) })
}

func sessionKeepalive(_ context.Context, c *call,
	p protocol.SessionKeepalive,
) (protocol.Session, error) {
	return changed(c, p.Session,
		func(s *session.Session) error { return c.server.cfg.Lifecycle.Keepalive(s, p.Seconds) })
}

func sessionHibernate(ctx context.Context, c *call,
	p protocol.SessionHibernate,
) (protocol.Session, error) {
	return changed(c, p.Session,
		func(s *session.Session) error { return s.Hibernate(ctx, p.Suspend) })
}

func sessionResume(ctx context.Context, c *call, p protocol.SessionRef) (protocol.Session, error) {
	return changed(c, p.Session, func(s *session.Session) error { return session.Resume(ctx, s) })
}

func sessionFork(ctx context.Context, c *call, p protocol.SessionFork) (protocol.Forks, error) {
	s, err := c.session(p.Session)
	if err != nil {
		return protocol.Forks{}, err
	}
	return c.server.cfg.Lifecycle.Fork(ctx, c.principal, s, p)
}

func sessionSnapshot(ctx context.Context, c *call,
	p protocol.SnapshotCreate,
) (protocol.Snapshot, error) {
	s, err := c.session(p.Session)
	if err != nil {
		return protocol.Snapshot{}, err
	}
	return c.server.cfg.Snapshots.Create(ctx, c.principal, s, p)
}

// sessionAdopt takes a parked session over.
func sessionAdopt(ctx context.Context, c *call, p protocol.SessionRef) (protocol.Session, error) {
	return c.server.cfg.Migration.Adopt(ctx, c.principal, p.Session)
}

func sessionParked(ctx context.Context, c *call, p protocol.SessionQuery) (protocol.SessionList,
	error,
) {
	return c.server.cfg.Migration.Parked(ctx, c.principal, p)
}

// sessionOwner reports the owner of a session of any tenant. Only the gateway's own principal may
// request it.
func sessionOwner(_ context.Context, c *call, p protocol.SessionRef) (nodes.SessionOwner,
	error,
) {
	if c.principal.Tenant != noderpc.GatewayTenant {
		return nodes.SessionOwner{}, fault.New(fault.PermissionDenied, c.op(),
			"only a gateway asks for the owners of sessions")
	}
	return c.server.cfg.Owners.Owner(p.Session)
}

// nodeDrain moves all sessions away. Only the gateway's own principal may request it.
func nodeDrain(ctx context.Context, c *call, _ none) (nodes.Moved, error) {
	if c.principal.Tenant != noderpc.GatewayTenant {
		return nodes.Moved{}, fault.New(fault.PermissionDenied, "node.drain",
			"only the operator drains a node").For(fault.CauseOperator)
	}
	return c.server.cfg.Migration.Drain(ctx)
}
