package tenant

import "slices"

// The scopes are rights of credentials. No scope includes another.
const (
	// ScopeRead allows a principal to see its tenant's sessions, their output and files.
	ScopeRead = "sessions:read"
	// ScopeWrite allows it to run code in them, send input, interrupt, and write files.
	ScopeWrite = "sessions:write"
	// ScopeManage allows it to create, copy, change and delete sessions, snapshots and templates.
	ScopeManage = "sessions:manage"
	// ScopeRun allows it to use POST /v1/run without a session.
	ScopeRun = "run"
	// ScopeKeys allows it to create, list and revoke its tenant's keys.
	ScopeKeys = "keys"
	// ScopeMetrics allows it to read the metrics of the server.
	ScopeMetrics = "metrics"
	// ScopeAdmin allows it to see the state of the server, and to manage all tenants.
	ScopeAdmin = "admin"
)

// Scopes returns all scopes.
func Scopes() []string {
	return []string{ScopeRead, ScopeWrite, ScopeManage, ScopeRun, ScopeKeys, ScopeMetrics, ScopeAdmin}
}

// Role is a named set of scopes.
type Role string

// The roles.
const (
	// Admin may do everything, in its tenant, and manage all tenants.
	Admin Role = "admin"
	// Owner may do everything in its tenant.
	Owner Role = "owner"
	// Driver runs code in the tenant's sessions, sends input and writes files. It cannot create or
	// delete sessions.
	Driver Role = "driver"
	// Viewer only reads.
	Viewer Role = "viewer"
	// Run may only use POST /v1/run.
	Run Role = "run"
	// Metrics may only use GET /metrics. It is for Prometheus.
	Metrics Role = "metrics"
)

// Roles returns all roles, the most powerful first.
func Roles() []Role { return []Role{Admin, Owner, Driver, Viewer, Run, Metrics} }

// Scopes returns the scopes of the role; none for an unknown role.
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

// Known reports whether the role exists.
func (r Role) Known() bool { return slices.Contains(Roles(), r) }

// Within reports whether a principal with the given scopes may give the role to a key.
func (r Role) Within(scopes []string) bool {
	for _, s := range r.Scopes() {
		if !slices.Contains(scopes, s) {
			return false
		}
	}
	return r.Known()
}
