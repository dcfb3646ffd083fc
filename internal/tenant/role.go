package tenant

import (
	"slices"

	"github.com/sandgate/sandgate/protocol"
)

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
		return names(protocol.Scopes()...)
	case Owner:
		return names(protocol.ScopeRead, protocol.ScopeWrite, protocol.ScopeManage,
			protocol.ScopeRun, protocol.ScopeKeys)
	case Driver:
		return names(protocol.ScopeRead, protocol.ScopeWrite, protocol.ScopeRun)
	case Viewer:
		return names(protocol.ScopeRead)
	case Run:
		return names(protocol.ScopeRun)
	case Metrics:
		return names(protocol.ScopeMetrics)
	}
	return nil
}

func names(scopes ...protocol.Scope) []string {
	all := make([]string, len(scopes))
	for i, s := range scopes {
		all[i] = string(s)
	}
	return all
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
