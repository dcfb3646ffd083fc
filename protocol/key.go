package protocol

// The operations on keys and quotas, which clients use over HTTP.
const (
	OpKeyCreate   = "key.create"
	OpKeyList     = "key.list"
	OpKeyRotate   = "key.rotate"
	OpKeyRevoke   = "key.revoke"
	OpTenantList  = "tenant.list"
	OpTenantQuota = "tenant.quota"
	OpKeyWatch    = "key.watch"
)

// EventKeys brings a gateway the table of keys; Params is a tenant.Table.
const EventKeys = "keys"

// Quota bounds what a tenant or a key holds at once; 0 bounds nothing.
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

// Use is what a tenant holds of what its quota bounds.
type Use struct {
	Sessions    int     `json:"sessions"`
	Running     int     `json:"running"`
	CPUs        float64 `json:"cpus"`
	MemoryBytes int64   `json:"memory_bytes"`
	DiskBytes   int64   `json:"disk_bytes"`
	Snapshots   int     `json:"snapshots"`
}

// KeyCreate asks for a key.
type KeyCreate struct {
	// Name is for people, at most 64 bytes.
	Name string `json:"name,omitempty"`
	// Tenant is whose it is; empty means the caller's. Another takes the scope
	// admin.
	Tenant string `json:"tenant,omitempty"`
	// Role is admin, owner, driver, viewer, run or metrics, and has no scope
	// that the caller lacks.
	Role string `json:"role"`
	// ExpiresSeconds ends it after that time; 0 means never.
	ExpiresSeconds int64 `json:"expires_seconds,omitempty"`
	// Quota bounds what is held with this key, beside the tenant's.
	Quota Quota `json:"quota,omitzero"`
}

// Key is a key as clients see it.
type Key struct {
	ID         string `json:"id"`
	Name       string `json:"name,omitempty"`
	Tenant     string `json:"tenant"`
	Role       string `json:"role"`
	CreatedMS  int64  `json:"created_ms"`
	CreatedBy  string `json:"created_by,omitempty"`
	ExpiresMS  int64  `json:"expires_ms,omitempty"`
	RotatedMS  int64  `json:"rotated_ms,omitempty"`
	PreviousMS int64  `json:"previous_until_ms,omitempty"`
	Expired    bool   `json:"expired,omitempty"`
	Quota      Quota  `json:"quota,omitzero"`
}

// NewKey is a key with its secret, which is told this once.
type NewKey struct {
	Key    Key    `json:"key"`
	Secret string `json:"secret"`
	// Version is that of the table which has it.
	Version uint64 `json:"version"`
}

// KeyState is the version of the table after a change.
type KeyState struct {
	Version uint64 `json:"version"`
}

// KeyQuery says whose keys are asked for: the caller's tenant's, or, for who
// has the scope admin, another's or all.
type KeyQuery struct {
	Tenant string `json:"tenant,omitempty"`
	All    bool   `json:"all,omitempty"`
}

// KeyList are keys, the oldest first.
type KeyList struct {
	Keys []Key `json:"keys"`
}

// KeyRef names a key.
type KeyRef struct {
	ID string `json:"id"`
}

// KeyRotate gives a key another secret.
type KeyRotate struct {
	ID string `json:"id"`
	// KeepSeconds is how long the present secret stays good, at most 30 days.
	KeepSeconds int64 `json:"keep_seconds,omitempty"`
}

// Tenant is a tenant with what it holds.
type Tenant struct {
	// Name is "*" for the quota of all that have none of their own.
	Name  string `json:"name"`
	Quota Quota  `json:"quota"`
	// Own says that the quota is the tenant's own.
	Own  bool `json:"own"`
	Use  Use  `json:"use"`
	Keys int  `json:"keys"`
}

// TenantList are the tenants that hold something, have keys or a quota of
// their own.
type TenantList struct {
	Tenants []Tenant `json:"tenants"`
}

// TenantQuota gives a tenant a quota of its own, or with nil takes it away.
type TenantQuota struct {
	Tenant string `json:"tenant"`
	Quota  *Quota `json:"quota,omitempty"`
}
