package snapshot

import (
	"maps"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// Branch has the properties of a session that continues from a copy, where they differ from the
// properties of the original.
type Branch struct {
	Tenant, Subject string
	Origin          string // id of the copied session or snapshot
	Name            string
	Labels          map[string]string
	Env             map[string]string // added to the original's environment
	Lifetime        time.Duration     // 0 means that the session need not end
	Most            time.Duration     // the longest lifetime; 0 for no bound
	Durable         bool
	Policy          Policy
	Network         *protocol.Network // nil means the network of the original
}

// Record returns the record with which the new session begins. The copy is not changed.
func (b Branch) Record(id string, c *Manifest, now time.Time) Record {
	v := c.Record
	v.Channels = append([]Channel{}, v.Channels...)
	v.ID, v.Tenant, v.Subject, v.Name = id, b.Tenant, b.Subject, b.Name
	v.Labels = b.Labels
	v.Created, v.Active = now, now
	v.Policy, v.Suspended = b.Policy, false
	v.Policy.Lifetime = b.Lifetime
	v.Expires, v.Due = v.Policy.Ends(now, now, b.Lifetime, b.Most)
	if v.Moved = 0; b.Network != nil {
		v.Network = b.Network
	}
	v.Origin, v.Durable, v.Recovered, v.Stale = b.Origin, b.Durable, time.Time{}, false
	v.Env = maps.Clone(v.Env)
	if v.Env == nil {
		v.Env = map[string]string{}
	}
	maps.Copy(v.Env, b.Env)
	v.Detach(now.Sub(c.At))
	for i := range v.Channels {
		v.Channels[i].Writers = nil // clients of the original do not write to the new session
	}
	return v
}
