package redis

import (
	"context"
	"net/url"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// HoldSnapshotName gives a name to the snapshot with an id for a time, and frees it for a time of 0.
// Errors: Conflict if another snapshot has it.
func (c *Client) HoldSnapshotName(
	ctx context.Context, tenant, name, id string, life time.Duration,
) error {
	return c.holdName(ctx, "snapshot", tenant, name, id, life)
}

// HoldVolumeName gives a name to the volume with an id for a time, and frees it for a time of 0.
// Errors: Conflict if another volume has it.
func (c *Client) HoldVolumeName(
	ctx context.Context, tenant, name, id string, life time.Duration,
) error {
	return c.holdName(ctx, "volume", tenant, name, id, life)
}

// VolumeNameHeld reports whether a volume has a name, also while its node is away.
func (c *Client) VolumeNameHeld(ctx context.Context, tenant, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	n, err := c.client.Exists(ctx, c.reserved("volume", tenant, name)).Result()
	return n > 0, unavailable("redis.volume_name", err)
}

func (c *Client) holdName(
	ctx context.Context, kind, tenant, name, id string, life time.Duration,
) error {
	op := "redis." + kind + "_name"
	out, err := c.run(ctx, op, c.scripts.reserveName, []string{
		c.directoryKey(), c.reserved(kind, tenant, name),
	}, id, life.Milliseconds())
	if err == nil && out[0] == "taken" {
		err = &fault.Error{
			Kind: fault.Conflict, Op: op, Field: "name", Cause: fault.CauseNameTaken,
			Message: "you have a " + kind + " of this name",
		}
	}
	return err
}

// reserved returns the key of a name. The part of a tenant has no colon.
func (c *Client) reserved(kind, tenant, name string) string {
	return c.prefix + kind + ":" + url.QueryEscape(tenant) + ":" + name
}
