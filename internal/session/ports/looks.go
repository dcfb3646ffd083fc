package ports

import (
	"context"

	"github.com/sandgate/sandgate/internal/agent/wire"
)

// maxLooks is how many sandboxes of a node are asked for their ports at a time. If all of them were
// asked at once, each second the output of every session would wait for that.
const maxLooks = 2

// List asks a session's agent for the ports that listen.
type List func(context.Context) ([]wire.Port, error)

// Looks has one element for each sandbox that is asked.
type Looks chan struct{}

// NewLooks returns the Looks of a node.
func NewLooks() Looks { return make(Looks, maxLooks) }

// Bound returns a list that waits until fewer sandboxes are asked.
func (l Looks) Bound(list List) List {
	return func(ctx context.Context) ([]wire.Port, error) {
		select {
		case l <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		defer func() { <-l }()
		return list(ctx)
	}
}
