package auth

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
)

// RunTokenStore stores run tokens and counts their uses. The gateways of a cluster share one store.
type RunTokenStore interface {
	// Add stores a token. It fails with Exhausted if the store has limit tokens.
	Add(ctx context.Context, g cluster.RunToken, limit int) error
	// Find returns the value of a token that is valid or has a running run. nil means that there is
	// none.
	Find(ctx context.Context, id string) ([]byte, error)
	// End removes a token, and reports whether there was one.
	End(ctx context.Context, id, origin string) (bool, error)
	// Begin uses a token once and reserves a place among its runs. Leave gives the place back.
	// Without Leave the place is free again after life.
	Begin(ctx context.Context, id, origin, place string,
		life time.Duration) (cluster.RunTokenVerdict, time.Duration, error)
	Leave(ctx context.Context, id, origin, place string) error
}

// RunTokenOrigins lists the origins of the tokens in a store.
type RunTokenOrigins interface {
	// Names reports whether Find would find a token for the origin.
	Names(ctx context.Context, origin string) (bool, error)
	// Framing returns the origins whose pages may frame /embed/run.
	Framing(ctx context.Context) ([]string, error)
}

// SharedRunTokenStore combines both interfaces, for a server that the gateways of a cluster share.
type SharedRunTokenStore interface {
	RunTokenStore
	RunTokenOrigins
}
