package tenant

import (
	"cmp"
	"math"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Operator is the tenant of the server's own token. No credential of a provider can name it.
const Operator = "local"

// Quota limits the resources that a tenant or a key uses at once. A zero field sets no limit.
type Quota struct {
	// Sessions is the number of sessions, including hibernated ones.
	Sessions int `json:"sessions,omitempty"`
	// Running is the number of sessions with a sandbox, running or paused.
	Running int `json:"running,omitempty"`
	// CPUs and MemoryBytes limit the sum of the limits of all sessions with a sandbox.
	CPUs        float64 `json:"cpus,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	// DiskBytes is the size of snapshots, templates, hibernated sessions, volumes and logs.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	// Snapshots is the number of snapshots that users have taken.
	Snapshots int `json:"snapshots,omitempty"`
	// KeepAlive is the number of sessions that are kept alive.
	KeepAlive int `json:"keep_alive,omitempty"`
	// RequestsPerSecond is the rate of HTTP requests and of requests over WebSockets. Twice as many
	// may arrive at once.
	RequestsPerSecond float64 `json:"requests_per_second,omitempty"`
}

// The names of the quotas in errors and counters.
const (
	QuotaSessions  = "sessions"
	QuotaRunning   = "running"
	QuotaCPUs      = "cpus"
	QuotaMemory    = "memory_bytes"
	QuotaDisk      = "disk_bytes"
	QuotaSnapshots = "snapshots"
	QuotaKeepAlive = "keep_alive"
	QuotaRequests  = "requests_per_second"
)

// QuotaNames returns the names of all quotas.
func QuotaNames() []string {
	return []string{
		QuotaSessions, QuotaRunning, QuotaCPUs, QuotaMemory, QuotaDisk, QuotaSnapshots,
		QuotaKeepAlive, QuotaRequests,
	}
}

// Exceeded returns the error for a caller that exceeds a quota. Its field names the quota. whose is
// "tenant" or "key".
func Exceeded(op, whose, quota string, retryAfter int) error {
	return &fault.Error{
		Kind: fault.Exhausted, Op: op, Field: "quota." + quota, RetryAfter: max(1, retryAfter),
		Cause:   fault.CauseQuota,
		Message: "the " + whose + " has reached its quota of " + quota,
	}
}

func (q Quota) check(op string) error {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{QuotaSessions, float64(q.Sessions)},
		{QuotaRunning, float64(q.Running)},
		{QuotaCPUs, q.CPUs},
		{QuotaMemory, float64(q.MemoryBytes)},
		{QuotaDisk, float64(q.DiskBytes)},
		{QuotaSnapshots, float64(q.Snapshots)},
		{QuotaKeepAlive, float64(q.KeepAlive)},
		{QuotaRequests, q.RequestsPerSecond},
	} {
		if f.value < 0 || f.value > 1<<50 || math.IsNaN(f.value) {
			return fault.Invalid(op, "quota."+f.name, "a quota is above 0, or 0 for none")
		}
	}
	return nil
}

// Use is the usage of resources that a quota limits.
type Use struct {
	Sessions    int     `json:"sessions"`
	Running     int     `json:"running"`
	CPUs        float64 `json:"cpus"`
	MemoryBytes int64   `json:"memory_bytes"`
	DiskBytes   int64   `json:"disk_bytes"`
	Snapshots   int     `json:"snapshots"`
	KeepAlive   int     `json:"keep_alive"`
}

// Add adds v to u.
func (u *Use) Add(v Use) {
	u.Sessions += v.Sessions
	u.Running += v.Running
	u.CPUs += v.CPUs
	u.MemoryBytes += v.MemoryBytes
	u.DiskBytes += v.DiskBytes
	u.Snapshots += v.Snapshots
	u.KeepAlive += v.KeepAlive
}

// WithShares returns the quota with the shares of a tenant that has no quota of snapshots, or of
// sessions that are kept alive.
func (q Quota) WithShares(shares Quota) Quota {
	q.Snapshots = cmp.Or(q.Snapshots, shares.Snapshots)
	q.KeepAlive = cmp.Or(q.KeepAlive, shares.KeepAlive)
	return q
}

// Breach returns the name of the quota that u and more together would exceed, or "". It does not
// check resources of which more has none. Disk usage is known only after writing, so the disk quota
// is exceeded when it is used up.
func (q Quota) Breach(u, more Use) string {
	const rounding = 1e-9 // tenths of a processor have no exact sum
	switch {
	case q.Sessions > 0 && more.Sessions > 0 && u.Sessions+more.Sessions > q.Sessions:
		return QuotaSessions
	case q.Snapshots > 0 && more.Snapshots > 0 && u.Snapshots+more.Snapshots > q.Snapshots:
		return QuotaSnapshots
	case q.KeepAlive > 0 && more.KeepAlive > 0 && u.KeepAlive+more.KeepAlive > q.KeepAlive:
		return QuotaKeepAlive
	case q.Running > 0 && more.Running > 0 && u.Running+more.Running > q.Running:
		return QuotaRunning
	case q.CPUs > 0 && more.CPUs > 0 && u.CPUs+more.CPUs > q.CPUs+rounding:
		return QuotaCPUs
	case q.MemoryBytes > 0 && more.MemoryBytes > 0 && u.MemoryBytes+
		more.MemoryBytes > q.MemoryBytes:
		return QuotaMemory
	case q.DiskBytes > 0 && more.DiskBytes > 0 && u.DiskBytes >= q.DiskBytes:
		return QuotaDisk
	}
	return ""
}
