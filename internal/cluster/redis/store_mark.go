package redis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"
)

// AgreeOnStore returns the mark of the cluster's blob store. If there is none, it is the proposed one.
// The key has no time to live.
func (c *Client) AgreeOnStore(ctx context.Context, proposed string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	mark, err := c.client.SetArgs(ctx, c.prefix+"blobs", proposed,
		goredis.SetArgs{Mode: "NX", Get: true}).Result()
	if errors.Is(err, goredis.Nil) {
		return proposed, nil
	}
	return mark, unavailable("redis.store_mark", err)
}
