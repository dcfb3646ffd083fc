package gateway

import (
	"slices"

	"github.com/sandgate/sandgate/node"
)

// Scope is a right that credentials carry.
type Scope string

// The scopes. None includes another.
const (
	// ScopeRead lets a principal see its sessions, their output and files.
	ScopeRead Scope = "sessions:read"
	// ScopeWrite lets it make, change, feed and delete them.
	ScopeWrite Scope = "sessions:write"
	// ScopeRun lets it use POST /v1/run without a session.
	ScopeRun Scope = "run"
	// ScopeAdmin lets it see the state of the server.
	ScopeAdmin Scope = "admin"

	// Anyone is any valid credentials, Open is everybody. Neither can be
	// granted.
	Anyone Scope = "any"
	Open   Scope = "open"
)

// Scopes returns all scopes that can be granted.
func Scopes() []Scope { return []Scope{ScopeRead, ScopeWrite, ScopeRun, ScopeAdmin} }

func knownScope(s Scope) bool { return slices.Contains(Scopes(), s) }

func allows(who node.Principal, s Scope) bool { return slices.Contains(who.Scopes, string(s)) }
