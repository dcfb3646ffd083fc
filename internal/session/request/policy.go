package request

import (
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
)

// idle returns the idle time for a number of seconds in a request. 0 means def,
// and protocol.Never means -1.
func (c *Checker) idle(op, field string, seconds int64, def time.Duration) (time.Duration, error) {
	most := int64(c.cfg.MaxIdle / time.Second)
	switch {
	case seconds == 0:
		return def, nil
	case seconds == protocol.Never && (c.cfg.MaxIdle < 0 || def < 0):
		return -1, nil
	case seconds < 0, c.cfg.MaxIdle >= 0 && seconds > most:
		return 0, fault.Invalid(op, field,
			"an idle time has between 1 and %d seconds; a session that must never rest is kept alive", most)
	}
	return time.Duration(seconds) * time.Second, nil
}

// Keepalive returns how long a session counts as active, for the number of seconds
// that a request asks for. Errors: InvalidArgument.
func (c *Checker) Keepalive(seconds int64) (time.Duration, error) {
	return c.idle(protocol.OpSessionKeepalive, "seconds", seconds, 0)
}

// policy returns the policy of a new session.
func (c *Checker) policy(r protocol.SessionCreate) (p snapshot.Policy, err error) {
	if p.Pause, err = c.idle(opCreate, "idle_pause_seconds", r.IdlePauseSeconds,
		c.cfg.PauseAfter); err != nil {
		return p, err
	}
	if p.Hibernate, err = c.idle(opCreate, "idle_hibernate_seconds", r.IdleHibernateSeconds,
		c.cfg.HibernateAfter); err != nil {
		return p, err
	}
	p.KeepAlive = r.KeepAlive
	return p, nil
}

// Update returns the status that a session has after a change of its name, policy
// and lifetime, from its present status. Errors: InvalidArgument.
func (c *Checker) Update(now snapshot.Status, created time.Time,
	r protocol.SessionUpdate,
) (next snapshot.Status, err error) {
	const op = protocol.OpSessionUpdate
	next = now
	if r.Name != nil {
		if err := checkName(op, *r.Name); err != nil {
			return now, err
		}
		next.Name = *r.Name
	}
	if r.IdlePauseSeconds != nil {
		if next.Policy.Pause, err = c.idle(op, "idle_pause_seconds", *r.IdlePauseSeconds,
			c.cfg.PauseAfter); err != nil {
			return now, err
		}
	}
	if r.IdleHibernateSeconds != nil {
		if next.Policy.Hibernate, err = c.idle(op, "idle_hibernate_seconds",
			*r.IdleHibernateSeconds, c.cfg.HibernateAfter); err != nil {
			return now, err
		}
	}
	if r.KeepAlive != nil {
		next.Policy.KeepAlive = *r.KeepAlive
	}
	if n := r.LifetimeSeconds; n != nil {
		most := created.Add(c.cfg.MaxLifetime)
		next.Expires = time.Now().Add(time.Duration(*n) * time.Second)
		if *n < 1 || *n > int64(c.cfg.MaxLifetime/time.Second) || next.Expires.After(most) {
			return now, fault.Invalid(op, "lifetime_seconds",
				"this session can live at most %d seconds from now",
				max(0, int64(time.Until(most)/time.Second)))
		}
	}
	return next, nil
}
