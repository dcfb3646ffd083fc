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
	const op = "redis.snapshot_name"
	key := c.prefix + "snapshot:" + url.QueryEscape(tenant) + ":" + name // a tenant's part has no colon
	out, err := c.run(ctx, op, c.scripts.snapshotName, []string{c.directoryKey(), key}, id,
		life.Milliseconds())
	if err == nil && out[0] == "taken" {
		err = &fault.Error{
			Kind: fault.Conflict, Op: op, Field: "name", Cause: fault.CauseNameTaken,
			Message: "you have a snapshot of this name",
		}
	}
	return err
}
