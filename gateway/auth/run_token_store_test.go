package auth

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sandgate/sandgate/fault"
	shared "github.com/sandgate/sandgate/internal/cluster/redis"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/testenv"
)

const chat = "https://chat.example"

// until waits for a condition that no event reports.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// joined is one more connection to a Redis server.
func joined(t *testing.T, address string) *shared.Client {
	t.Helper()
	r, err := shared.Open(shared.Options{URL: "redis://" + address + "/0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// TestRunTokenStores runs the same tests on both stores. On Redis every other
// step uses the connection of another gateway.
func TestRunTokenStores(t *testing.T) {
	t.Run("alone", func(t *testing.T) {
		b := NewLocalRunTokenStore(nil)
		conformRunTokenStore(t, b, b)
	})
	t.Run("cluster", func(t *testing.T) {
		address := testenv.Redis(t)
		conformRunTokenStore(t, joined(t, address).RunTokenStore(), joined(t, address).RunTokenStore())
		// Nothing stays for ever.
		c := redis.NewClient(&redis.Options{Addr: address})
		defer func() { _ = c.Close() }()
		keys, err := c.Keys(t.Context(), "*").Result()
		if err != nil || len(keys) == 0 {
			t.Fatalf("keys %v %v", keys, err)
		}
		for _, k := range keys {
			if c.PTTL(t.Context(), k).Val() <= 0 {
				t.Errorf("%s has no end", k)
			}
		}
	})
}

func conformRunTokenStore(t *testing.T, a, b SharedRunTokenStore) {
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := func(on RunTokenStore, id, place string, life time.Duration, want tenant.Verdict) {
		t.Helper()
		got, wait, err := on.Begin(ctx, id, chat, place, life)
		ok(err)
		if got != want || (wait > 0) != (want == tenant.Busy || want == tenant.Fast) || wait > time.Minute+time.Second {
			t.Errorf("place %s of %s: %s after %s, want %s", place, id, got, wait, want)
		}
	}
	named := func(on RunTokenOrigins, want bool) {
		t.Helper()
		got, err := on.Names(ctx, chat)
		ok(err)
		if got != want {
			t.Errorf("the origin is named: %t", got)
		}
	}
	found := func(on RunTokenStore, id, want string) {
		t.Helper()
		got, err := on.Find(ctx, id)
		ok(err)
		if string(got) != want {
			t.Errorf("ticket %s is %q, want %q", id, got, want)
		}
	}
	grant := tenant.Grant{ID: "one", Thing: []byte("thing"), Origin: chat, Life: time.Minute, Uses: 3, AtOnce: 2, PerMinute: 50}
	named(a, false)
	found(a, "one", "")
	begin(a, "one", "p", time.Minute, tenant.Unknown)
	ok(a.Add(ctx, grant, 3))
	found(b, "one", "thing")
	named(b, true)
	if all, err := b.Framing(ctx); err != nil || len(all) != 0 {
		t.Errorf("framing: %v %v", all, err)
	}

	// Two at once, three in all, over both.
	begin(a, "one", "p1", time.Minute, tenant.Begun)
	begin(b, "one", "p2", time.Minute, tenant.Begun)
	begin(a, "one", "p3", time.Minute, tenant.Busy)
	ok(b.Leave(ctx, "one", chat, "p1"))
	ok(b.Leave(ctx, "one", chat, "p1"))
	begin(b, "one", "p3", time.Minute, tenant.Begun)
	ok(a.Leave(ctx, "one", chat, "p3"))
	begin(a, "one", "p4", time.Minute, tenant.Used)
	found(b, "one", "thing")

	// The rate.
	grant.ID, grant.Uses, grant.PerMinute, grant.Embed = "two", 9, 2, true
	ok(b.Add(ctx, grant, 3))
	if all, err := a.Framing(ctx); err != nil || len(all) != 1 || all[0] != chat {
		t.Errorf("framing: %v %v", all, err)
	}
	begin(a, "two", "p1", time.Minute, tenant.Begun)
	ok(a.Leave(ctx, "two", chat, "p1"))
	begin(b, "two", "p2", time.Minute, tenant.Begun)
	ok(b.Leave(ctx, "two", chat, "p2"))
	begin(a, "two", "p3", time.Minute, tenant.Fast)

	// Many at once: each use is given out once.
	grant.ID, grant.Uses, grant.PerMinute, grant.AtOnce = "three", 5, 600, 16
	ok(a.Add(ctx, grant, 3))
	if err := b.Add(ctx, tenant.Grant{ID: "more", Origin: chat, Life: time.Minute}, 3); !fault.Is(err, fault.Exhausted) {
		t.Errorf("a fourth of three: %v", err)
	}
	var begun atomic.Int32
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			got, _, err := []RunTokenStore{a, b}[n%2].Begin(ctx, "three", chat, fmt.Sprint("p", n), time.Minute)
			if err != nil {
				t.Error(err)
			}
			if got == tenant.Begun {
				begun.Add(1)
			}
		})
	}
	if all.Wait(); begun.Load() != 5 {
		t.Errorf("of five uses %d were given out", begun.Load())
	}

	// What is ended is that everywhere.
	for _, id := range []string{"one", "two", "three"} {
		if there, err := b.End(ctx, id, chat); err != nil || !there {
			t.Errorf("the end of %s: %t %v", id, there, err)
		}
		found(a, id, "")
		begin(a, id, "p", time.Minute, tenant.Unknown)
		ok(a.Leave(ctx, id, chat, "p"))
	}
	if there, err := a.End(ctx, "one", chat); err != nil || there {
		t.Errorf("it ended twice: %v", err)
	}
	named(a, false)

	// One that has expired is known while a run goes on, and begins no other.
	grant.ID, grant.Life, grant.Uses = "four", 3*time.Second, 9
	ok(a.Add(ctx, grant, 3))
	begin(a, "four", "p1", time.Minute, tenant.Begun)
	until(t, "its end", func() bool {
		v, _, err := b.Begin(ctx, "four", chat, "late", time.Minute)
		ok(err)
		ok(b.Leave(ctx, "four", chat, "late"))
		return v == tenant.Over
	})
	begin(b, "four", "p2", time.Minute, tenant.Over)
	found(b, "four", "thing")
	named(b, true)
	ok(a.Leave(ctx, "four", chat, "p1"))
	found(b, "four", "")
	named(b, false)
	if all, err := a.Framing(ctx); err != nil || len(all) != 0 {
		t.Errorf("framing: %v %v", all, err)
	}
	grant.ID = "five"
	ok(a.Add(ctx, grant, 1)) // the others' places are free
}

// TestRunTokenPlacesEnd: the places of a killed gateway become free.
func TestRunTokenPlacesEnd(t *testing.T) {
	b := joined(t, testenv.Redis(t)).RunTokenStore()
	ctx := t.Context()
	if err := b.Add(ctx, tenant.Grant{ID: "one", Thing: []byte("x"), Origin: chat, Life: time.Minute, Uses: 1000, AtOnce: 1, PerMinute: 600}, 1); err != nil {
		t.Fatal(err)
	}
	if v, _, err := b.Begin(ctx, "one", chat, "dead", 100*time.Millisecond); err != nil || v != tenant.Begun {
		t.Fatal(v, err)
	}
	until(t, "its place", func() bool {
		v, _, err := b.Begin(ctx, "one", chat, "next", time.Minute)
		return err == nil && v == tenant.Begun
	})
}
