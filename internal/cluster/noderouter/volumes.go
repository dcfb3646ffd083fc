package noderouter

import (
	"context"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// VolumeNames has the names of the volumes of all nodes.
type VolumeNames interface {
	// VolumeNameHeld reports whether a volume has a name, also while its node is away.
	VolumeNameHeld(ctx context.Context, tenant, name string) (bool, error)
}

// volumeAway returns an error if a volume exists that no node with a lease has.
func volumeAway(ctx context.Context, r *Router, who noderpc.Principal, name string) error {
	if r.volumeNames == nil {
		return nil
	}
	held, err := r.volumeNames.VolumeNameHeld(ctx, who.Tenant, name)
	if err != nil || !held {
		return err
	}
	return &fault.Error{
		Kind: fault.Unavailable, Op: "noderouter.volume", Field: "name", RetryAfter: 5,
		Message: "the node that has the volume is away",
	}
}
