package tenant

import "slices"

// The scopes: rights that credentials carry. None includes another.
const (
	// ScopeRead lets a principal see its tenant's sessions, their output and
	// files.
	ScopeRead = "sessions:read"
	// ScopeWrite lets it run, feed and interrupt what is in them, and write
	// files.
	ScopeWrite = "sessions:write"
	// ScopeManage lets it make, copy, change and delete them, snapshots and
	// templates.
	ScopeManage = "sessions:manage"
	// ScopeRun lets it use POST /v1/run without a session.
	ScopeRun = "run"
	// ScopeKeys lets it make, list and revoke its tenant's keys.
	ScopeKeys = "keys"
	// ScopeMetrics lets it read the metrics of the server.
	ScopeMetrics = "metrics"
	// ScopeAdmin lets it see the state of the server, and manage all tenants.
	ScopeAdmin = "admin"
)

// Scopes returns all scopes.
func Scopes() []string {
	return []string{ScopeRead, ScopeWrite, ScopeManage, ScopeRun, ScopeKeys, ScopeMetrics, ScopeAdmin}
}

// Role is what a key may do: a set of scopes with a name.
type Role string

// The roles.
const (
	// Admin may do everything, in its tenant, and manage all tenants.
	Admin Role = "admin"
	// Owner may do everything in its tenant.
	Owner Role = "owner"
	// Driver runs code in the tenant's sessions, feeds them and writes files;
	// it neither makes nor ends sessions.
	Driver Role = "driver"
	// Viewer reads.
	Viewer Role = "viewer"
	// Run is for POST /v1/run alone.
	Run Role = "run"
	// Metrics is for GET /metrics alone: Prometheus' key.
	Metrics Role = "metrics"
)

// Roles returns all roles, the most powerful first.
func Roles() []Role { return []Role{Admin, Owner, Driver, Viewer, Run, Metrics} }

// Scopes returns what the role may do; nothing for an unknown one.
func (r Role) Scopes() []string {
	switch r {
	case Admin:
		return Scopes()
	case Owner:
		return []string{ScopeRead, ScopeWrite, ScopeManage, ScopeRun, ScopeKeys}
	case Driver:
		return []string{ScopeRead, ScopeWrite, ScopeRun}
	case Viewer:
		return []string{ScopeRead}
	case Run:
		return []string{ScopeRun}
	case Metrics:
		return []string{ScopeMetrics}
	}
	return nil
}

// Known reports whether there is such a role.
func (r Role) Known() bool { return slices.Contains(Roles(), r) }

// Within reports whether somebody with the given scopes may hand the role on.
func (r Role) Within(scopes []string) bool {
	for _, s := range r.Scopes() {
		if !slices.Contains(scopes, s) {
			return false
		}
	}
	return r.Known()
}
