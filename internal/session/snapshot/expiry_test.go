package snapshot

import (
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol"
)

// TestExpiry checks when a session ends, and that the first of its two ends counts.
func TestExpiry(t *testing.T) {
	created := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	quiet := created.Add(time.Hour)
	const byLifetime, byIdleness = protocol.ExpiresByLifetime, protocol.ExpiresByIdleness
	for name, c := range map[string]struct {
		lifetime, idle time.Duration
		kept           bool
		at             time.Time
		reason         string
	}{
		"never":              {},
		"a lifetime":         {2 * time.Hour, 0, false, created.Add(2 * time.Hour), byLifetime},
		"idle":               {0, time.Hour, false, quiet.Add(time.Hour), byIdleness},
		"kept alive":         {0, time.Hour, true, time.Time{}, ""},
		"idle first":         {9 * time.Hour, time.Hour, false, quiet.Add(time.Hour), byIdleness},
		"the lifetime first": {time.Minute, time.Hour, false, created.Add(time.Minute), byLifetime},
	} {
		s := Status{
			Expires: ExpiresAfter(created, c.lifetime),
			Policy:  Policy{Delete: c.idle, KeepAlive: c.kept},
		}
		if at, reason := s.Expiry(quiet); !at.Equal(c.at) || reason != c.reason {
			t.Errorf("%s: %v %q, want %v %q", name, at, reason, c.at, c.reason)
		}
	}
	if !(Status{Expires: ExpiresAfter(created, 0)}).Expires.Equal(cluster.NoEnd()) {
		t.Error("a session without a lifetime has an end")
	}
}

// TestReconsider checks that the end of the lifetime stays when what happens then changes.
func TestReconsider(t *testing.T) {
	created := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	now, due := created.Add(time.Minute), created.Add(10*time.Minute)
	ends := Status{Expires: due, Policy: Policy{Lifetime: 10 * time.Minute}}
	keeps := Status{Expires: cluster.NoEnd(), Due: due, Policy: ends.Policy}
	keeps.Policy.OnExpiry = protocol.OnExpiryHibernate
	over, endless, old := keeps, keeps, ends
	over.Due = time.Time{}
	endless.Due, endless.Policy.Lifetime = time.Time{}, 0
	old.Policy.Lifetime = 0
	for name, c := range map[string]struct {
		s            Status
		on           string
		most         time.Duration
		expires, due time.Time
	}{
		"hibernated instead":   {ends, "hibernate", 0, cluster.NoEnd(), due},
		"of an older server":   {old, "hibernate", 0, cluster.NoEnd(), due},
		"within a bound":       {ends, "suspend", time.Hour, created.Add(time.Hour), due},
		"suspended instead":    {keeps, "suspend", 0, cluster.NoEnd(), due},
		"deleted instead":      {keeps, "", 0, due, time.Time{}},
		"deleted after it":     {over, "", 0, now.Add(10 * time.Minute), time.Time{}},
		"deleted without one":  {endless, "", 0, cluster.NoEnd(), time.Time{}},
		"suspended without it": {endless, "suspend", 0, cluster.NoEnd(), time.Time{}},
	} {
		next := c.s
		next.Policy.OnExpiry = c.on
		next = next.Reconsider(c.s.Policy, now, created, c.most)
		if !next.Expires.Equal(c.expires) || !next.Due.Equal(c.due) ||
			next.Policy.Lifetime == 0 && !c.due.IsZero() {
			t.Errorf("%s: %+v, want %s and %s", name, next, c.expires, c.due)
		}
	}
}
