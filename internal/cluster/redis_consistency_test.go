package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestRedisConsistencyCheck damages the records of a server one by one, and expects the
// check to report each damage.
func TestRedisConsistencyCheck(t *testing.T) {
	s := startRedis(t)
	c := s.client()
	defer func() { _ = c.Close() }()
	const far = "9007199254740000"
	for name, damage := range map[string]func(ctx context.Context, prefix string) error{
		"above the last one": func(ctx context.Context, p string) error {
			return c.HSet(ctx, p+"session:s_1", "token", far).Err()
		},
		"have one token": func(ctx context.Context, p string) error {
			token := c.HGet(ctx, p+"session:s_2", "token").Val()
			return c.HSet(ctx, p+"session:s_1", "token", token).Err()
		},
		"and the incarnation \"\"": func(ctx context.Context, p string) error {
			return c.HSet(ctx, p+"session:s_1", "incarnation", "").Err()
		},
		"lacks a field": func(ctx context.Context, p string) error {
			return c.HDel(ctx, p+"node:a", "info").Err()
		},
		"has no end": func(ctx context.Context, p string) error {
			return c.Persist(ctx, p+"session:s_1").Err()
		},
		"has no lease": func(ctx context.Context, p string) error {
			return c.Del(ctx, p+"node:a").Err()
		},
		"is not in the list": func(ctx context.Context, p string) error {
			return c.ZRem(ctx, p+"nodes", "a").Err()
		},
		"is of no incarnation": func(ctx context.Context, p string) error {
			key := c.Keys(ctx, p+"held:*").Val()[0]
			return c.HSet(ctx, key, "n:a", far+" 1.000").Err()
		},
		"the sum of a": func(ctx context.Context, p string) error {
			return c.HDel(ctx, c.Keys(ctx, p+"left:*").Val()[0], "s:n_1").Err()
		},
		"tokens are valid": func(ctx context.Context, p string) error {
			return c.Del(ctx, c.Keys(ctx, p+"run:origin:*").Val()[0]).Err()
		},
		"tokens are for frames": func(ctx context.Context, p string) error {
			return c.Del(ctx, p+"run:frames").Err()
		},
		"does not exist": func(ctx context.Context, p string) error {
			return c.Del(ctx, p+"run:ticket:one").Err()
		},
	} {
		ctx := within(t)
		if err := c.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		r := s.join(t, "c")
		a := register(t, r, heartbeatOf("a"))
		mustClaim(t, r, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
		mustClaim(t, r, claimOf("a", a, "s_2", cluster.ClaimNew, 0))
		report(t, r, "a", a, cluster.NodeUsage{Holder: "h", Used: cluster.Amounts{1}})
		stored := cluster.ReleasedSession{
			Session: "n_1", Until: until(), Used: cluster.Amounts{1, 7}, Stored: true,
		}
		report(t, r, "a", a, cluster.NodeUsage{
			Holder: "h", Used: cluster.Amounts{1}, Released: &stored,
		})
		token := cluster.RunToken{
			ID: "one", Data: []byte("data"), Origin: "https://a.test", Embed: true,
			Life: time.Hour, Uses: 1, Concurrent: 1, PerMinute: 1,
		}
		if err := r.RunTokenStore().Add(ctx, token, 10); err != nil {
			t.Fatal(err)
		}
		check := func() string {
			var found []string
			for _, err := range []error{
				r.ConsistencyCheck(ctx),
				r.RunTokenStore().ConsistencyCheck(ctx),
			} {
				if err != nil {
					wantKind(t, err, fault.Internal)
					found = append(found, err.Error())
				}
			}
			return strings.Join(found, "; ")
		}
		if found := check(); found != "" {
			t.Fatalf("before the damage: %s", found)
		}
		if err := damage(ctx, "sandgate:{c}:"); err != nil {
			t.Fatal(err)
		}
		if found := check(); !strings.Contains(found, name) {
			t.Errorf("%s: the check reports %q", name, found)
		}
	}
}
