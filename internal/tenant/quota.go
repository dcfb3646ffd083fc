package tenant

import (
	"math"

	"github.com/sandgate/sandgate/fault"
)

// Quota bounds what a tenant or a key holds at once. A field that is zero
// bounds nothing.
type Quota struct {
	// Sessions are those that exist, hibernated ones among them.
	Sessions int `json:"sessions,omitempty"`
	// Running are those with a sandbox, running or paused.
	Running int `json:"running,omitempty"`
	// CPUs and MemoryBytes are the limits of those with a sandbox, added up.
	CPUs        float64 `json:"cpus,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	// DiskBytes is what snapshots, templates and hibernated sessions take.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	// Snapshots are those that users have taken.
	Snapshots int `json:"snapshots,omitempty"`
	// RequestsPerSecond is a rate of HTTP requests and of requests over
	// WebSockets; twice as many may come at once.
	RequestsPerSecond float64 `json:"requests_per_second,omitempty"`
}

// Names of the quotas, as errors and counters have them.
const (
	QuotaSessions  = "sessions"
	QuotaRunning   = "running"
	QuotaCPUs      = "cpus"
	QuotaMemory    = "memory_bytes"
	QuotaDisk      = "disk_bytes"
	QuotaSnapshots = "snapshots"
	QuotaRequests  = "requests_per_second"
)

// QuotaNames returns all of them.
func QuotaNames() []string {
	return []string{QuotaSessions, QuotaRunning, QuotaCPUs, QuotaMemory, QuotaDisk, QuotaSnapshots, QuotaRequests}
}

// Exceeded is the error of who is over a quota: it names the quota in its
// field. whose is "tenant" or "key".
func Exceeded(op, whose, quota string, retryAfter int) error {
	return &fault.Error{
		Kind: fault.Exhausted, Op: op, Field: "quota." + quota, RetryAfter: max(1, retryAfter),
		Message: "the " + whose + " is at its quota of " + quota,
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
		{QuotaRequests, q.RequestsPerSecond},
	} {
		if f.value < 0 || f.value > 1<<50 || math.IsNaN(f.value) {
			return fault.Invalid(op, "quota."+f.name, "a quota is above 0, or 0 for none")
		}
	}
	return nil
}

// Use is what somebody holds of what a quota bounds.
type Use struct {
	Sessions    int     `json:"sessions"`
	Running     int     `json:"running"`
	CPUs        float64 `json:"cpus"`
	MemoryBytes int64   `json:"memory_bytes"`
	DiskBytes   int64   `json:"disk_bytes"`
	Snapshots   int     `json:"snapshots"`
}

// Add adds v to u.
func (u *Use) Add(v Use) {
	u.Sessions += v.Sessions
	u.Running += v.Running
	u.CPUs += v.CPUs
	u.MemoryBytes += v.MemoryBytes
	u.DiskBytes += v.DiskBytes
	u.Snapshots += v.Snapshots
}

// Breach names the quota that u with more would be over, or is "". What more
// does not ask for is not looked at. Disk is known only when it has been
// written, so that it is over when nothing of it is left.
func (q Quota) Breach(u, more Use) string {
	const rounding = 1e-9 // tenths of a processor have no exact sum
	switch {
	case q.Sessions > 0 && more.Sessions > 0 && u.Sessions+more.Sessions > q.Sessions:
		return QuotaSessions
	case q.Snapshots > 0 && more.Snapshots > 0 && u.Snapshots+more.Snapshots > q.Snapshots:
		return QuotaSnapshots
	case q.Running > 0 && more.Running > 0 && u.Running+more.Running > q.Running:
		return QuotaRunning
	case q.CPUs > 0 && more.CPUs > 0 && u.CPUs+more.CPUs > q.CPUs+rounding:
		return QuotaCPUs
	case q.MemoryBytes > 0 && more.MemoryBytes > 0 && u.MemoryBytes+more.MemoryBytes > q.MemoryBytes:
		return QuotaMemory
	case q.DiskBytes > 0 && more.DiskBytes > 0 && u.DiskBytes >= q.DiskBytes:
		return QuotaDisk
	}
	return ""
}
