package server

import (
	"context"
	"log/slog"

	"github.com/sandgate/sandgate/internal/cluster/redis"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol/fault"
)

// InspectRedis returns the properties of the cluster's Redis server.
func InspectRedis(ctx context.Context, cfg *config.Config) (redis.Safety, error) {
	password, err := redisPassword(cfg)
	if err != nil {
		return redis.Safety{}, err
	}
	c, err := openRedis(cfg, password, nil)
	if err != nil {
		return redis.Safety{}, err
	}
	defer func() { _ = c.Close() }()
	return c.Inspect(ctx)
}

// checkRedis returns an error for a server that is not safe as a directory. A server that does not
// answer is not checked: the node starts without it.
func checkRedis(c *redis.Client, log *slog.Logger) error {
	is, err := c.Inspect(context.Background())
	if fault.Is(err, fault.Unavailable) {
		log.Warn("the Redis server does not answer and was not checked", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	if risk := is.Warning(); risk != "" {
		log.Warn("the Redis server may lose writes at a failover", "reason", risk)
	}
	return is.Err()
}
