package cluster_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/redis"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestRedisLosesAll: the server restarts without its data. Nodes keep their sessions
// with larger tokens, and no session is taken over before they could claim it again.
func TestRedisLosesAll(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	ctx := within(t)
	a, b := heartbeatOf("a"), heartbeatOf("b")
	ia, ib := register(t, r, a), register(t, r, b)
	before, err := r.Heartbeat(ctx, cluster.Heartbeat{
		Node: "a", Instance: a.Instance, Incarnation: ia, Lease: long,
	})
	if err != nil {
		t.Fatal(err)
	}
	token := mustClaim(t, r, claimOf("a", ia, "s_1", cluster.ClaimNew, 0))
	s.restart(t)
	for {
		_, err = r.Heartbeat(ctx, cluster.Heartbeat{
			Node: "a", Instance: a.Instance, Incarnation: ia, Lease: long,
		})
		if !fault.Is(err, fault.Unavailable) { // the connection is older than the restart
			break
		}
	}
	wantKind(t, err, fault.Restarting)
	_, err = r.Claim(ctx, claimOf("b", ib, "s_1", cluster.ClaimTakeOver, 0))
	wantKind(t, err, fault.Restarting)
	ib = register(t, r, b)
	take := claimOf("b", ib, "s_1", cluster.ClaimTakeOver, 0)
	take.Lease = long
	_, err = r.Claim(ctx, take)
	wantKind(t, err, fault.Unavailable)
	a.Floor = token
	after, err := r.Heartbeat(ctx, a)
	if err != nil || after.Epoch == before.Epoch || after.Incarnation <= token {
		t.Fatalf("%+v %v after %+v and token %d", after, err, before, token)
	}
	if kept := mustClaim(
		t, r, claimOf("a", after.Incarnation, "s_1", cluster.ClaimRenew, token),
	); kept <= token {
		t.Errorf("kept with token %d, before it was %d", kept, token)
	}
	_, err = r.Claim(ctx, take)
	wantKind(t, err, fault.Conflict)
}

// TestRedisFull: when its memory is full, the server renews and ends leases, and
// refuses new sessions.
func TestRedisFull(t *testing.T) {
	s := startRedis(t)
	s.age(t, "c")
	r := s.join(t, "c")
	ctx := within(t)
	a := register(t, r, heartbeatOf("a"))
	token := mustClaim(t, r, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	c := s.client()
	defer func() { _ = c.Close() }()
	for _, set := range [][2]string{{"maxmemory-policy", "noeviction"}, {"maxmemory", "1"}} {
		if err := c.ConfigSet(ctx, set[0], set[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.Claim(ctx, claimOf("a", a, "s_2", cluster.ClaimNew, 0))
	wantKind(t, err, fault.Unavailable)
	if !strings.Contains(err.Error(), "full") {
		t.Errorf("it does not say why: %v", err)
	}
	b := heartbeatOf("a")
	b.Incarnation = a
	if _, err := r.Heartbeat(ctx, b); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	if _, err := r.Find(ctx, "s_1"); err != nil {
		t.Errorf("a look-up: %v", err)
	}
	if err := r.Forget(ctx, "s_1", token); err != nil {
		t.Errorf("an end: %v", err)
	}
	if _, err := r.Find(ctx, "s_2"); !fault.Is(err, fault.NotFound) {
		t.Errorf("what was refused left something: %v", err)
	}
}

// TestRedisEmptied: after the server has lost all data, no session is reported as unknown for the
// time of a lease, because its owner may not have claimed it again.
func TestRedisEmptied(t *testing.T) {
	s := startRedis(t)
	s.age(t, "c")
	r := s.join(t, "c")
	ctx := within(t)
	const lease = 2 * time.Second
	b := withLease(heartbeatOf("a"), lease)
	a := register(t, r, b)
	token := mustClaim(t, r, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	_, err := r.Find(ctx, "s_none")
	wantKind(t, err, fault.NotFound)
	c := s.client()
	defer func() { _ = c.Close() }()
	if err := c.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	emptied := time.Now()
	_, err = r.Find(ctx, "s_1")
	wantKind(t, err, fault.Unavailable)
	again := register(t, r, b)
	_, err = r.Find(ctx, "s_1")
	if time.Since(emptied) < lease {
		wantKind(t, err, fault.Unavailable)
	}
	mustClaim(t, r, claimOf("a", again, "s_1", cluster.ClaimRenew, token))
	if o, err := r.Find(ctx, "s_1"); err != nil || o.Node != "a" {
		t.Errorf("claimed again: %+v %v", o, err)
	}
	testenv.Eventually(t, "an unknown session is reported as unknown", func() bool {
		_, err := r.Find(ctx, "s_none")
		if !fault.Is(err, fault.Unavailable) {
			wantKind(t, err, fault.NotFound)
		}
		return fault.Is(err, fault.NotFound)
	})
	if passed := time.Since(emptied); passed < lease {
		t.Errorf("it was reported as unknown after %s", passed)
	}
}

// TestRedisPaused: while the server is stopped, each step ends in time with an error
// that asks for a retry. After that everything is as before.
func TestRedisPaused(t *testing.T) {
	s := startRedis(t)
	r, joinImpatiently := s.join(t, "c"), s.joinImpatiently(t, "c")
	ctx := within(t)
	a := register(t, r, heartbeatOf("a"))
	mustClaim(t, r, claimOf("a", a, "s_1", cluster.ClaimNew, 0))
	steps := func(how string) (errs [2]error) {
		begin := time.Now()
		_, errs[0] = joinImpatiently.Claim(
			ctx, claimOf("a", a, cluster.SessionID("s_"+how), cluster.ClaimNew, 0),
		)
		_, errs[1] = joinImpatiently.Find(ctx, "s_1")
		if took := time.Since(begin); took > 2*time.Minute {
			t.Errorf("%s: two steps took %s", how, took)
		}
		return errs
	}
	refused := func(errs [2]error) {
		t.Helper()
		for _, err := range errs {
			wantKind(t, err, fault.Unavailable)
		}
	}
	again := func() {
		t.Helper()
		for ctx.Err() == nil {
			if o, err := r.Find(ctx, "s_1"); err == nil {
				if o.Node != "a" || !o.Live {
					t.Errorf("afterwards: %+v", o)
				}
				return
			}
		}
		t.Fatal("it never answered again")
	}
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	refused(steps("stopped"))
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	again()
	c := s.client()
	defer func() { _ = c.Close() }()
	// A pause ends by the server's clock. A pause during which a busy machine did not run the test
	// proves nothing.
	const pause = 3 * time.Second
	for n := 0; ; n++ {
		begin := time.Now()
		if err := c.Do(ctx, "client", "pause", pause.Milliseconds(), "all").Err(); err != nil {
			t.Fatal(err)
		}
		errs := steps(fmt.Sprint("paused", n))
		told := time.Since(begin) < pause
		again()
		if told {
			refused(errs)
			return
		}
	}
}

// TestRedisKeysEnd: every key has a time to live, except for the two that are named
// here.
func TestRedisKeysEnd(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	ctx := within(t)
	a := register(t, r, heartbeatOf("a"))
	for n := range 5 {
		id := cluster.SessionID(fmt.Sprint("s_", n))
		token := mustClaim(t, r, claimOf("a", a, id, cluster.ClaimNew, 0))
		if n == 1 {
			if err := r.Release(ctx, id, token, cluster.ReleaseInfo{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c := s.client()
	defer func() { _ = c.Close() }()
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil || len(keys) != 8 {
		t.Fatalf("keys %v %v", keys, err)
	}
	for _, k := range keys {
		ttl, err := c.PTTL(ctx, k).Result()
		if err != nil {
			t.Fatal(err)
		}
		if endless := strings.HasSuffix(k, ":directory") ||
			strings.HasSuffix(k, ":nodes"); (ttl <= 0) != endless {
			t.Errorf("%s has %s to live", k, ttl)
		}
	}
}

// TestRedisSettings: an invalid address is refused, and the error names the field.
func TestRedisSettings(t *testing.T) {
	for _, o := range []redis.Options{
		{URL: "http://x"},
		{URL: ""},
		{URL: "redis://:secret@127.0.0.1:1/0"},
		{URL: "redis://127.0.0.1:1/0", Cluster: "a:b"},
	} {
		r, err := redis.Open(o)
		if err == nil {
			_ = r.Close()
		}
		wantKind(t, err, fault.InvalidArgument)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
}
