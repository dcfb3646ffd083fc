// Package control is the control plane of E2B's interface: it creates, lists and ends sandboxes.
package control

import (
	"context"
	"log/slog"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
)

// Node is the part of a node that the control plane needs.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Config configures a Plane. Every field except Domain is required.
type Config struct {
	Node Node
	Log  *slog.Logger
	// Call is how long a request to the node may take.
	Call time.Duration
	// Domain is the domain of host names of sandboxes; empty without one.
	Domain string
	// Tokens returns the token of a session for a purpose of package auth.
	Tokens func(purpose, session string) (string, error)
}

// Plane is the control plane.
type Plane struct{ cfg Config }

// New returns a Plane.
func New(cfg Config) *Plane { return &Plane{cfg: cfg} }

// Routes returns the routes of the control plane.
func (p *Plane) Routes() []surface.Route { return nil }
