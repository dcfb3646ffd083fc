package request

import (
	"cmp"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
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

// longest is the longest lifetime and time without work that a request may name.
const longest = 100 * 365 * 24 * time.Hour

// lifetime returns the lifetime for a number of seconds in a request; 0 if the session need not end.
func (c *Checker) lifetime(op string, seconds int64) (time.Duration, error) {
	return bounded(op, "lifetime_seconds", seconds, cmp.Or(c.cfg.Lifetime, c.cfg.MaxLifetime),
		c.cfg.MaxLifetime)
}

// idleDelete returns the time without work after which a session is deleted; 0 means never.
func (c *Checker) idleDelete(op string, seconds int64) (time.Duration, error) {
	return bounded(op, "idle_delete_seconds", seconds, c.cfg.DeleteAfter, c.cfg.DeleteAfter)
}

// bounded returns the time for a number of seconds in a request: def for 0, and 0 for
// protocol.Never. With a bound most above 0, a longer time and protocol.Never are refused.
func bounded(op, field string, seconds int64, def, most time.Duration) (time.Duration, error) {
	switch {
	case seconds == 0:
		return def, nil
	case seconds == protocol.Never && most == 0:
		return 0, nil
	case seconds == protocol.Never:
		return 0, fault.Invalid(op, field,
			"-1 (never) is not allowed on this server; the most is %d seconds",
			int64(most/time.Second))
	case seconds < 0, seconds > int64(cmp.Or(most, longest)/time.Second):
		return 0, fault.Invalid(op, field, "it has between 1 and %d seconds",
			int64(cmp.Or(most, longest)/time.Second))
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
	if p.Delete, err = c.idleDelete(opCreate, r.IdleDeleteSeconds); err != nil {
		return p, err
	}
	p.KeepAlive = r.KeepAlive
	p.OnExpiry, err = c.onExpiry(opCreate, r.OnExpiry)
	return p, err
}

// onExpiry returns what happens at the end of a lifetime, as in snapshot.Policy. Errors:
// InvalidArgument, Unsupported.
func (c *Checker) onExpiry(op, asked string) (string, error) {
	switch asked {
	case "", protocol.OnExpiryDelete:
		return "", nil
	case protocol.OnExpiryHibernate, protocol.OnExpirySuspend:
		if !c.cfg.Hibernates {
			return "", &fault.Error{
				Kind: fault.Unsupported, Op: op, Field: "on_expiry",
				Message: "this server cannot hibernate sessions",
			}
		}
		return asked, nil
	}
	return "", fault.Invalid(op, "on_expiry", "%.40q is not delete, hibernate or suspend", asked)
}

// Update returns the status that a session has after a change of its name, labels, policy and
// lifetime, from its present status. Errors: InvalidArgument.
func (c *Checker) Update(p noderpc.Principal, now snapshot.Status, created time.Time,
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
	if r.Labels != nil {
		if next.Labels, err = Labels(op, p, now.Labels, *r.Labels); err != nil {
			return now, err
		}
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
	if r.IdleDeleteSeconds != nil {
		if next.Policy.Delete, err = c.idleDelete(op, *r.IdleDeleteSeconds); err != nil {
			return now, err
		}
	}
	if r.KeepAlive != nil {
		next.Policy.KeepAlive = *r.KeepAlive
	}
	if r.OnExpiry != nil {
		if next.Policy.OnExpiry, err = c.onExpiry(op, *r.OnExpiry); err != nil {
			return now, err
		}
		next = next.Reconsider(now.Policy, time.Now(), created, c.cfg.MaxLifetime)
	}
	if r.LifetimeSeconds != nil {
		life, err := c.extended(created, *r.LifetimeSeconds)
		if err != nil {
			return now, err
		}
		next.Policy.Lifetime = life
		next.Expires, next.Due = next.Policy.Ends(time.Now(), created, life, c.cfg.MaxLifetime)
	}
	return next, nil
}

// extended returns the lifetime of some seconds that begins now; 0 for none. A bound of the server
// counts from the session's creation.
func (c *Checker) extended(created time.Time, seconds int64) (time.Duration, error) {
	const op, field = protocol.OpSessionUpdate, "lifetime_seconds"
	if seconds == 0 {
		return 0, fault.Invalid(op, field, "a lifetime from now has at least 1 second; -1 is never")
	}
	most := c.cfg.MaxLifetime
	if most > 0 {
		if most -= time.Since(created); most < time.Second {
			return 0, fault.Invalid(op, field, "this session cannot live longer")
		}
	}
	return bounded(op, field, seconds, 0, most)
}
