package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Safety is what decides whether a server is safe as a directory.
type Safety struct {
	Version string
	// Policy is the eviction policy of the server.
	Policy string
	// Role is master or slave, in Redis' words.
	Role string
	// Replicas is the number of replicas. Waits reports that the server refuses writes when too few
	// of them follow it.
	Replicas int
	Waits    bool
	// AOF reports that the server writes each change to a file.
	AOF bool
}

// Inspect reads the properties of the server.
func (c *Client) Inspect(ctx context.Context) (Safety, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var s Safety
	for _, section := range []string{"server", "memory", "persistence", "replication"} {
		text, err := c.client.Info(ctx, section).Result()
		if err != nil {
			return s, unavailable("redis.inspect", err)
		}
		s.read(text)
	}
	return s, nil
}

// read takes the properties from a section of INFO.
func (s *Safety) read(text string) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "redis_version":
			s.Version = value
		case "maxmemory_policy":
			s.Policy = value
		case "role":
			s.Role = value
		case "connected_slaves":
			s.Replicas, _ = strconv.Atoi(value)
		case "min_slaves_good_slaves": // only there if the server waits for replicas
			s.Waits = true
		case "aof_enabled":
			s.AOF = value == "1"
		}
	}
}

// Err returns an error for a server that loses sessions or gives one to two nodes.
func (s Safety) Err() error {
	const op = "redis.inspect"
	major, _, _ := strings.Cut(s.Version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < 7 {
		return fault.New(fault.Host, op,
			"the Redis server has version %s, and the directory needs version 7", s.Version)
	}
	if s.Policy != "" && s.Policy != "noeviction" {
		return fault.New(fault.Host, op, "the Redis server has the eviction policy %s and would "+
			"remove records of sessions: set maxmemory-policy to noeviction", s.Policy)
	}
	if s.Role != "" && s.Role != "master" {
		return fault.New(fault.Host, op,
			"the Redis server is a replica: cluster.redis must be the address of the primary")
	}
	return nil
}

// Warning returns a risk of the server; empty for none.
func (s Safety) Warning() string {
	if s.Replicas > 0 && !s.Waits {
		return fmt.Sprintf("it has %d replicas and accepts writes when it is cut off from them, also "+
			"after one of them has become the primary", s.Replicas)
	}
	return ""
}

// String describes the server in one line.
func (s Safety) String() string {
	text := fmt.Sprintf("version %s, %s", s.Version, s.Policy)
	if s.AOF {
		text += ", append-only file"
	}
	if s.Replicas > 0 {
		text += fmt.Sprintf(", %d replicas", s.Replicas)
	}
	return text
}
