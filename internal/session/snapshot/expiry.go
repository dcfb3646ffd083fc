package snapshot

import (
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol"
)

// ExpiresAfter returns the end of a session that was created at created. Without a lifetime it is
// cluster.NoEnd, which earlier versions of the server read as a late date.
func ExpiresAfter(created time.Time, lifetime time.Duration) time.Time {
	if lifetime <= 0 {
		return cluster.NoEnd()
	}
	return created.Add(lifetime)
}

// Ends returns when a session that was created at created is deleted, and when it is due, if its
// lifetime begins now. A lifetime of 0 means that it has none, and most bounds the time of a
// session since its creation, unless it is 0.
func (p Policy) Ends(now, created time.Time, lifetime, most time.Duration) (
	expires, due time.Time,
) {
	if p.OnExpiry == "" {
		return ExpiresAfter(now, lifetime), time.Time{}
	}
	if lifetime > 0 {
		due = now.Add(lifetime)
	}
	return ExpiresAfter(created, most), due
}

// Expiry returns when a session ends or is hibernated, and whether the reason is its lifetime or
// its idleness. Quiet is the time since which it has no work. The zero time means never.
func (s Status) Expiry(quiet time.Time) (at time.Time, reason string) {
	at, reason = s.End(quiet)
	if !s.Due.IsZero() && (at.IsZero() || s.Due.Before(at)) {
		return s.Due, protocol.ExpiresByLifetime
	}
	return at, reason
}

// End returns when a session ends, as Expiry does for a session that ends with its lifetime.
func (s Status) End(quiet time.Time) (at time.Time, reason string) {
	if s.Expires.Before(cluster.NoEnd()) {
		at, reason = s.Expires, protocol.ExpiresByLifetime
	}
	if s.Policy.Delete <= 0 || s.Policy.KeepAlive {
		return at, reason
	}
	if idle := quiet.Add(s.Policy.Delete); at.IsZero() || idle.Before(at) {
		return idle, protocol.ExpiresByIdleness
	}
	return at, reason
}

// Ended returns the limit that has ended an expired session.
func (s Status) Ended(created, now time.Time) *protocol.Reached {
	r := protocol.Reached{Lost: "the sandbox with its variables, files and processes"}
	if now.Before(s.Expires) {
		r.Limit, r.Max = "idle_delete_seconds", int64(s.Policy.Delete/time.Second)
	} else {
		r.Limit, r.Max = "lifetime_seconds", int64(s.Expires.Sub(created)/time.Second)
	}
	return &r
}

// Lapsed reports whether the lifetime is over of a session that does not end with it.
func (s Status) Lapsed(now time.Time) bool { return !s.Due.IsZero() && !now.Before(s.Due) }

// Reconsider returns the ends of a session that was created at created after OnExpiry of its policy
// changed. The end of its lifetime stays. A session that is due no more has its lifetime again.
func (s Status) Reconsider(before Policy, now, created time.Time, most time.Duration) Status {
	latest := ExpiresAfter(created, most)
	switch keeps := s.Policy.OnExpiry != ""; {
	case keeps == (before.OnExpiry != ""):
	case keeps:
		if s.Expires.Before(cluster.NoEnd()) {
			s.Due = s.Expires
		}
		if s.Policy.Lifetime == 0 && !s.Due.IsZero() { // an earlier version of the server set it
			s.Policy.Lifetime = s.Due.Sub(created)
		}
		s.Expires = latest
	default:
		if s.Due.IsZero() && s.Policy.Lifetime > 0 {
			s.Due = now.Add(s.Policy.Lifetime)
		}
		if !s.Due.IsZero() && s.Due.Before(s.Expires) {
			s.Expires = s.Due
		}
		s.Due = time.Time{}
	}
	return s
}
