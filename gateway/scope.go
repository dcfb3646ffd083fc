package gateway

import "github.com/sandgate/sandgate/gateway/auth"

// Scope is auth.Scope. The routes name scopes often.
type Scope = auth.Scope

// The scopes of the route table.
const (
	ScopeRead    = auth.ScopeRead
	ScopeWrite   = auth.ScopeWrite
	ScopeManage  = auth.ScopeManage
	ScopeRun     = auth.ScopeRun
	ScopeKeys    = auth.ScopeKeys
	ScopeMetrics = auth.ScopeMetrics
	ScopeAdmin   = auth.ScopeAdmin

	Anyone = auth.Anyone
	Open   = auth.Open
)
