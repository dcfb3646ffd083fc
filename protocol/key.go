package protocol

// The operations on keys and quotas. Clients use them over HTTP.
const (
	OpKeyCreate   = "key.create"
	OpKeyList     = "key.list"
	OpKeyRotate   = "key.rotate"
	OpKeyRevoke   = "key.revoke"
	OpTenantList  = "tenant.list"
	OpTenantQuota = "tenant.quota"
	OpKeyWatch    = "key.watch"
)

// EventKeys sends the key table to a gateway. Params is a tenant.Table.
const EventKeys = "keys"

// Quota bounds what a tenant or a key holds at one time. A field that is 0 sets no bound.
type Quota struct {
	// Sessions is the number of sessions, including hibernated ones.
	Sessions int `json:"sessions,omitempty"`
	// Running is the number of sessions with a sandbox, running or paused.
	Running int `json:"running,omitempty"`
	// CPUs and MemoryBytes are sums of the limits of all sessions with a sandbox.
	CPUs        float64 `json:"cpus,omitempty"`
	MemoryBytes int64   `json:"memory_bytes,omitempty"`
	// DiskBytes is the disk space of snapshots, templates, hibernated sessions, volumes, and the
	// output of channels.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	// Snapshots is the number of snapshots that users have taken.
	Snapshots int `json:"snapshots,omitempty"`
	// KeepAlive is the number of sessions that are kept alive.
	KeepAlive int `json:"keep_alive,omitempty"`
	// RequestsPerSecond is a rate of HTTP requests and of requests on WebSockets. A burst may have
	// twice as many.
	RequestsPerSecond float64 `json:"requests_per_second,omitempty"`
}

// Use is how much a tenant holds of each thing that its quota bounds.
type Use struct {
	Sessions    int     `json:"sessions"`
	Running     int     `json:"running"`
	CPUs        float64 `json:"cpus"`
	MemoryBytes int64   `json:"memory_bytes"`
	DiskBytes   int64   `json:"disk_bytes"`
	Snapshots   int     `json:"snapshots"`
	KeepAlive   int     `json:"keep_alive"`
}

// KeyCreate asks for a key.
type KeyCreate struct {
	// Name is for people, at most 64 bytes.
	Name string `json:"name,omitempty"`
	// Tenant is the tenant of the key; empty means the caller's. Another tenant needs the scope
	// admin.
	Tenant string `json:"tenant,omitempty"`
	// Role is admin, owner, driver, viewer, run or metrics. It can have no scope that the caller
	// lacks.
	Role string `json:"role"`
	// ExpiresSeconds is the time until the key expires; 0 means never.
	ExpiresSeconds int64 `json:"expires_seconds,omitempty"`
	// Quota bounds what is held with this key, in addition to the tenant's quota.
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

// NewKey is a key with its secret. No other reply has the secret.
type NewKey struct {
	Key    Key    `json:"key"`
	Secret string `json:"secret"`
	// Version is the version of the key table that contains the key.
	Version uint64 `json:"version"`
}

// KeyState is the version of the table after a change.
type KeyState struct {
	Version uint64 `json:"version"`
}

// KeyQuery selects the tenant whose keys are listed: the caller's, or, for a caller with the scope
// admin, another tenant or all.
type KeyQuery struct {
	Tenant string `json:"tenant,omitempty"`
	All    bool   `json:"all,omitempty"`
}

// KeyList is a list of keys, the oldest first.
type KeyList struct {
	Keys []Key `json:"keys"`
}

// KeyRef names a key.
type KeyRef struct {
	ID string `json:"id"`
}

// KeyRotate gives a key a new secret.
type KeyRotate struct {
	ID string `json:"id"`
	// KeepSeconds is how long the present secret stays valid, at most 30 days.
	KeepSeconds int64 `json:"keep_seconds,omitempty"`
}

// Tenant is a tenant and what it holds.
type Tenant struct {
	// Name is the tenant's name. The name "*" stands for the quota of all tenants without a quota
	// of their own.
	Name  string `json:"name"`
	Quota Quota  `json:"quota"`
	// Own is true when the quota is the tenant's own.
	Own  bool `json:"own"`
	Use  Use  `json:"use"`
	Keys int  `json:"keys"`
}

// TenantList lists the tenants that hold something, have keys or have a quota of their own.
type TenantList struct {
	Tenants []Tenant `json:"tenants"`
	Missing []string `json:"missing,omitempty"`
}

// TenantQuota sets a tenant's own quota. A nil quota removes it.
type TenantQuota struct {
	Tenant string `json:"tenant"`
	Quota  *Quota `json:"quota,omitempty"`
}
