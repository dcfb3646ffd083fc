package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
)

// TestAbuse29_OtherTypes: values of other types and contents in Redis end in an error or in nothing,
// and never in an owner, a node or a one-time value.
func TestAbuse29_OtherTypes(t *testing.T) {
	server := startRedis(t)
	r := server.join(t, "c")
	c := server.client()
	defer func() { _ = c.Close() }()
	ctx := within(t)
	node := register(t, r, heartbeatOf("a"))
	mustClaim(t, r, claimOf("a", node, "s_1", cluster.ClaimNew, 0))
	if err := r.OneTimeStore().Put(ctx, "x", []byte("value"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := r.KeyTableStore().Restore(ctx, 1, []byte("table")); err != nil {
		t.Fatal(err)
	}
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil || len(keys) < 4 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	large := strings.Repeat("9", 1<<20)
	for _, key := range keys {
		for name, write := range map[string]func() error{
			"text":  func() error { return c.Set(ctx, key, "\xff\x00{}", 0).Err() },
			"large": func() error { return c.Set(ctx, key, large, 0).Err() },
			"list":  func() error { return c.RPush(ctx, key, "x").Err() },
			"set":   func() error { return c.SAdd(ctx, key, "x").Err() },
			"hash": func() error {
				return c.HSet(ctx, key, "node", "{*}\n", "token", "-1", "incarnation", large, "n", "x").Err()
			},
		} {
			if c.Del(ctx, key).Err() != nil || write() != nil {
				t.Fatalf("%s: not written", key)
			}
			if owner, err := r.Find(ctx, "s_1"); err == nil && strings.Contains(key, "session:") &&
				owner.Node == "{*}\n" {
				t.Errorf("%s as %s: the owner is %+v", key, name, owner)
			}
			if nodes, err := r.Nodes(ctx); err == nil && len(nodes) > 1 {
				t.Errorf("%s as %s: the nodes are %+v", key, name, nodes)
			}
			if v, err := r.OneTimeStore().Take(ctx, "x"); err == nil && name != "text" &&
				name != "large" && len(v) > 0 && strings.Contains(key, "once:") {
				t.Errorf("%s as %s: the value is %q", key, name, v)
			}
			_, _ = r.RunTokenStore().Find(ctx, "x")
			_, _ = r.RunTokenStore().Framing(ctx)
			_, _, _ = r.KeyTableStore().Load(ctx, 0)
			_, _ = r.FindName(ctx, "t", "x")
			_, _ = r.WebhookStore().List(ctx)
			_, _ = r.Heartbeat(ctx, heartbeatOf("a"))
		}
		if err := c.Del(ctx, key).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if ctx.Err() == context.DeadlineExceeded {
		t.Error("a step hung")
	}
	testAfterAbuse(t, r)
}

// testAfterAbuse checks that the directory works again when the values are gone.
func testAfterAbuse(t *testing.T, r redisCluster) {
	t.Helper()
	node := register(t, r, heartbeatOf("b"))
	if got := mustClaim(t, r, claimOf("b", node, "s_2", cluster.ClaimNew, 0)); got == 0 {
		t.Error("a claim has no token")
	}
}
