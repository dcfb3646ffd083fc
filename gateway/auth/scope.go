package auth

import (
	"slices"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
)

// Scope is a right that credentials carry. Package tenant defines what each
// scope allows. No scope includes another.
type Scope string

// The scopes.
const (
	ScopeRead    Scope = tenant.ScopeRead
	ScopeWrite   Scope = tenant.ScopeWrite
	ScopeManage  Scope = tenant.ScopeManage
	ScopeRun     Scope = tenant.ScopeRun
	ScopeKeys    Scope = tenant.ScopeKeys
	ScopeMetrics Scope = tenant.ScopeMetrics
	ScopeAdmin   Scope = tenant.ScopeAdmin

	// Anyone stands for any valid credentials, Open for no credentials at all.
	// Neither can be granted.
	Anyone Scope = "any"
	Open   Scope = "open"
)

// Scopes returns all scopes that can be granted.
func Scopes() []Scope {
	var all []Scope
	for _, s := range tenant.Scopes() {
		all = append(all, Scope(s))
	}
	return all
}

// Known reports whether s is a scope that can be granted.
func Known(s Scope) bool { return slices.Contains(tenant.Scopes(), string(s)) }

// Permit returns an error unless a principal has the scope that a route, an
// operation or a frame requires. All such checks use it.
func Permit(op string, who noderpc.Principal, s Scope) error {
	if s == Open || s == Anyone || Allows(who, s) {
		return nil
	}
	return fault.New(fault.PermissionDenied, op, "these credentials lack the scope %s", s)
}

// Allows reports whether a principal has a scope.
func Allows(who noderpc.Principal, s Scope) bool { return slices.Contains(who.Scopes, string(s)) }
