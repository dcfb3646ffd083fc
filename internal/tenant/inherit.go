package tenant

import (
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// MaxUserKeyLife is the longest life of a key that a signed-in user creates. A user who has left the
// provider keeps no longer access.
const MaxUserKeyLife = 30 * 24 * time.Hour

// Inherit limits a new key to the rights of its creator. A key without an expiry or without a quota
// gets the one of its creator. A creator without a key is a signed-in user, or has a token of the
// server; unbounded reports whether such a creator may create keys without end.
func (x *Index) Inherit(op string, k Key, unbounded bool, now time.Time) (Key, error) {
	id, ok := KeyOf(k.By)
	if !ok {
		if unbounded {
			return k, nil
		}
		return k.within(op, now.Add(MaxUserKeyLife).Truncate(time.Second))
	}
	i, err := x.at(op, "", id)
	if err != nil {
		return k, fault.New(fault.Unauthenticated, op, "the creator's key was revoked")
	}
	maker := x.Keys[i]
	if k.Quota, err = maker.Quota.bound(op, k.Quota); err != nil || maker.Expires.IsZero() {
		return k, err
	}
	return k.within(op, maker.Expires)
}

// within limits the key's life.
func (k Key) within(op string, end time.Time) (Key, error) {
	if k.Expires.IsZero() {
		k.Expires = end
	}
	if k.Expires.After(end) {
		return k, fault.Invalid(op, "expires_seconds",
			"the key would outlive its creator, which ends at %s", end.UTC().Format(time.RFC3339))
	}
	return k, nil
}

// bound returns the quota of a key whose creator has the quota q.
func (q Quota) bound(op string, child Quota) (Quota, error) {
	fail := func(name string) (Quota, error) {
		return child, fault.Invalid(op, "quota."+name, "it is above the quota of its creator")
	}
	switch {
	case exceeds(q.Sessions, &child.Sessions):
		return fail(QuotaSessions)
	case exceeds(q.Running, &child.Running):
		return fail(QuotaRunning)
	case exceeds(q.CPUs, &child.CPUs):
		return fail(QuotaCPUs)
	case exceeds(q.MemoryBytes, &child.MemoryBytes):
		return fail(QuotaMemory)
	case exceeds(q.DiskBytes, &child.DiskBytes):
		return fail(QuotaDisk)
	case exceeds(q.Snapshots, &child.Snapshots):
		return fail(QuotaSnapshots)
	case exceeds(q.KeepAlive, &child.KeepAlive):
		return fail(QuotaKeepAlive)
	case exceeds(q.RequestsPerSecond, &child.RequestsPerSecond):
		return fail(QuotaRequests)
	}
	return child, nil
}

// exceeds gives a field that is 0 the creator's limit, and reports whether the field is above it. 0
// means no limit.
func exceeds[T int | int64 | float64](limit T, field *T) bool {
	if limit == 0 {
		return false
	}
	if *field == 0 {
		*field = limit
	}
	return *field > limit
}
