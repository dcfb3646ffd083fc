package gateway

import (
	"context"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
)

// Node is the gateway's interface to a node.
type Node interface {
	// Open opens a link for the principal who.
	Open(ctx context.Context, who noderpc.Principal) (Link, error)
	// Call makes one request on its own link.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Link is one conversation with a node.
type Link = nodecall.Link

// Remote returns a Node that is reached by the node protocol.
func Remote(c *noderpc.Client) Node { return remote{c} }

type remote struct{ c *noderpc.Client }

func (r remote) Open(ctx context.Context, who noderpc.Principal) (Link, error) {
	l, err := r.c.Open(ctx, who)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (r remote) Call(ctx context.Context, who noderpc.Principal, op string,
	params, result any,
) error {
	return r.c.Call(ctx, who, op, params, result)
}
