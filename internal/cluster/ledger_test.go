package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// reckon lays one holder down, and returns what others hold of it.
func reckon(t *testing.T, d Registry, node NodeID, incarnation Token, h Held) Sum {
	t.Helper()
	sums, err := d.Reckon(within(t), node, incarnation, time.Minute, []Held{h})
	if err != nil {
		t.Fatal(err)
	}
	return sums[0]
}

func holds(t *testing.T, s Sum, want ...float64) {
	t.Helper()
	if !slices.Equal(s.Has, Amounts(want)) {
		t.Errorf("others hold %v, want %v", s.Has, want)
	}
}

// conformReckon: what nodes hold is added up, what a node that is gone held is
// not, and what was parked counts until somebody has it.
func conformReckon(t *testing.T, d directory) {
	ctx := within(t)
	a, b := register(t, d, beatOf("a")), register(t, d, beatOf("b"))
	c := register(t, d, beatOf("c"))
	const who = "acme\x00 key:{*}\n"
	holds(t, reckon(t, d, "a", a, Held{Holder: who, Has: Amounts{1, 0.5}}))
	holds(t, reckon(t, d, "b", b, Held{Holder: who, Has: Amounts{2, 1 << 40}}), 1, 0.5)
	holds(t, reckon(t, d, "c", c, Held{Holder: who, Has: Amounts{4}}), 3, 1<<40+0.5)
	holds(t, reckon(t, d, "a", a, Held{Holder: "another", Has: Amounts{9}}))
	expire(t, d, "c", c)
	for { // see conformTakeover
		s := reckon(t, d, "a", a, Held{Holder: who, Has: Amounts{3}})
		if len(s.Has) > 0 && s.Has[0] == 2 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("a node that is gone holds still: %v", s)
		}
		time.Sleep(time.Millisecond)
	}
	_, err := d.Reckon(ctx, "c", c, short, []Held{{Holder: who, Has: Amounts{4}}})
	wantKind(t, err, fault.Restarting)

	// What one wants back is told to the others.
	if s := reckon(t, d, "b", b, Held{Holder: who, Wants: true}); s.Wanted {
		t.Error("it is told what it wants itself")
	}
	if s := reckon(t, d, "a", a, Held{Holder: who}); !s.Wanted || len(s.Has) != 0 {
		t.Errorf("the other is told %+v", s)
	}

	token := mustClaim(t, d, claimOf("a", a, "s_1", New, 0))
	if err := d.Park(ctx, "s_1", token, false); err != nil {
		t.Fatal(err)
	}
	reckon(t, d, "a", a, Held{Holder: who, Parked: &Parked{Session: "s_1", Until: time.Now().Add(time.Hour), Holds: Amounts{1, 7}}})
	holds(t, reckon(t, d, "b", b, Held{Holder: who}), 1, 7)
	holds(t, reckon(t, d, "a", a, Held{Holder: who}), 1, 7)
	for {
		_, err := d.Claim(ctx, claimOf("b", b, "s_1", Take, token))
		if err == nil {
			break
		}
		wantKind(t, err, fault.Unavailable) // it has just begun
		time.Sleep(20 * time.Millisecond)
	}
	holds(t, reckon(t, d, "a", a, Held{Holder: who}))
}

// conformReckonRace: of many nodes that take what is left at once no more are
// left with it than there was.
func conformReckonRace(t *testing.T, d directory) {
	const nodes, quota = 4, 10
	var have [nodes]float64
	var inc [nodes]Token
	id := func(i int) NodeID { return NodeID(fmt.Sprint("n", i)) }
	for i := range nodes {
		inc[i] = register(t, d, beatOf(id(i)))
	}
	ctx := within(t)
	var got atomic.Int32
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() {
			for range quota {
				sums, err := d.Reckon(ctx, id(i), inc[i], time.Minute, []Held{{Holder: "h", Has: Amounts{have[i] + 1}}})
				if err != nil {
					t.Error(err)
					return
				}
				others := 0.0
				if len(sums[0].Has) > 0 {
					others = sums[0].Has[0]
				}
				if others+have[i]+1 <= quota {
					have[i]++
					got.Add(1)
				} else if _, err := d.Reckon(ctx, id(i), inc[i], time.Minute, []Held{{Holder: "h", Has: Amounts{have[i]}}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := got.Load(); n > quota || n < 1 {
		t.Errorf("of %d there were %d", quota, n)
	}
}

// TestReckonEnds: what nodes have laid down ends by itself, and is there again
// after a server that lost its data as soon as they tell it.
func TestReckonEnds(t *testing.T) {
	s := startRedis(t)
	r := s.join(t, "c")
	k, _ := keep(t, r, KeeperOptions{Node: "a", Lease: time.Second})
	other, _ := keep(t, r, KeeperOptions{Node: "b", Lease: time.Second})
	told := func() bool {
		_, err := k.Reckon(within(t), []Held{{Holder: "h", Has: Amounts{3}}})
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		if err != nil {
			return false
		}
		sums, err := other.Reckon(within(t), []Held{{Holder: "h"}})
		return err == nil && slices.Equal(sums[0].Has, Amounts{3})
	}
	eventually(t, "the sum", told)
	s.restart(t)
	eventually(t, "the sum again", told)
	c := s.client()
	defer func() { _ = c.Close() }()
	eventually(t, "the sum with an end", func() bool {
		keys := c.Keys(context.Background(), "*held:*").Val()
		if len(keys) == 0 { // it has come already
			told()
			return false
		}
		ttl := c.PTTL(context.Background(), keys[0]).Val()
		if len(keys) > 1 || ttl == -1 {
			t.Fatalf("%v has no end", keys)
		}
		return ttl > 0
	})
}
