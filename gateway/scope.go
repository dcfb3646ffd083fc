package gateway

import (
	"slices"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
)

// Scope is a right that credentials carry; package tenant says what each
// allows. None includes another.
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

	// Anyone is any valid credentials, Open is everybody. Neither can be
	// granted.
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

func knownScope(s Scope) bool { return slices.Contains(tenant.Scopes(), string(s)) }

// permit is the one place that holds a right against what it is asked for: a
// route, an operation or a frame of input.
func permit(op string, who noderpc.Principal, s Scope) error {
	if s == Open || s == Anyone || allows(who, s) {
		return nil
	}
	return fault.New(fault.PermissionDenied, op, "these credentials lack the scope %s", s)
}

func allows(who noderpc.Principal, s Scope) bool { return slices.Contains(who.Scopes, string(s)) }
