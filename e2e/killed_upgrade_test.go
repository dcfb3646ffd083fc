//go:build chaos

package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// killing is an upgrade in which nodes are killed.
type killing struct {
	*traffic
	random *rand.Rand
	now    release
	killed map[string]int // by the moment
}

// kill kills a node. Its sessions that are not durable are lost.
func (k *killing) kill(t *testing.T, n *part, when string) {
	t.Helper()
	check(t, n.stop(syscall.SIGKILL))
	for _, w := range k.a.usersOf(k.crowd, n) {
		k.h.ledger.doom(w.id, "killed")
	}
	k.killed[when]++
	t.Logf("%s was killed %s", n.name, when)
}

// back starts a node.
func (k *killing) back(t *testing.T, n *part) {
	t.Helper()
	check(t, n.start())
	check(t, n.warm())
}

// upgrade upgrades a node, and kills it at a moment.
func (k *killing) upgrade(t *testing.T, n *part, when string) {
	t.Helper()
	pause := func(most time.Duration) { time.Sleep(time.Duration(k.random.Int64N(int64(most)))) }
	switch when {
	case "while it works":
		pause(time.Second)
		k.kill(t, n, when)
		n.install(t, k.now)
		k.back(t, n)
	case "while it stops":
		n.signal(syscall.SIGTERM)
		pause(2 * time.Second)
		k.kill(t, n, when)
		n.install(t, k.now)
		k.back(t, n)
	case "while it starts":
		check(t, n.stop(syscall.SIGTERM))
		n.install(t, k.now)
		check(t, n.start())
		pause(3 * time.Second)
		k.kill(t, n, when)
		k.back(t, n)
	}
	k.kept(2)
}

// TestKilledUpgrade upgrades three nodes, and kills each of them with SIGKILL meanwhile. Then it kills
// nodes that carry durable sessions over to the new runtime, at each step of that. Each acknowledged
// cell of a durable session is there once, or its log names it as lost.
func TestKilledUpgrade(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(os.Getenv("SANDGATE_CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = 7
	}
	now := currentRelease(t)
	before := earlierRelease(t, now)
	a := newSeparateCluster(t, separateOptions{
		nodes: 3, gateways: 2, release: &before, cluster: "take_over: 10m, drain_limit: 5m",
		memory: true,
		settings: "pool: {size: 1, spare: 0, languages: [python]}\nupgrade: {window: 20s}\n" +
			"sessions: {durable_every: 1s}\n",
	})
	h := a.history()
	// A list is unavailable while a node with a lease does not answer.
	h.mayFail = func(l listing) bool { return fault.Is(l.err, fault.Unavailable) }
	k := &killing{
		traffic: bareTraffic(t, a, h, 2), random: rand.New(rand.NewPCG(seed, 0)), now: now,
		killed: map[string]int{},
	}
	k.kills = true
	k.keep(t, a.server(a.front.address()), 6)
	stop := k.start()
	k.kept(2)
	for i, when := range []string{"while it stops", "while it starts", "while it works"} {
		k.upgrade(t, a.nodes[i], when)
	}
	stop()
	for _, w := range k.users {
		if loss := h.ledger.loss(w.id); (w.lost != nil) != (loss != "") {
			t.Errorf("%s: %v, and its node: %q", w.name, w.lost, loss)
		} else if w.lost != nil && !fault.Is(w.lost, fault.SandboxLost) {
			t.Errorf("the loss of %s has no name: %v", w.name, w.lost)
		}
	}
	k.prove(t, "after the upgrade", "")
	k.carry(t)
	k.prove(t, "after they were carried over", `"event":"upgraded"`)
	k.report(t)
	t.Logf("seed %d, kills: %v", seed, k.killed)
	h.mustHold(t)
}

// carry hibernates the durable sessions, and kills the nodes that carry them over to the current
// edition, once at each moment. It waits until all are carried over.
func (k *killing) carry(t *testing.T) {
	t.Helper()
	on := map[*part][]string{}
	first := ""
	for _, one := range k.keepers {
		check(t, one.conn.Close())
		check(t, insist(k.ctx, func() error {
			_, err := k.cl.HibernateSession(k.ctx, one.id)
			return err
		}))
		n := k.a.owner(one.id)
		on[n] = append(on[n], one.id)
		first = editionIn(n, one.id)
	}
	for left := carryMoments(); len(left) > 0; {
		killed := map[*part]carryMoment{}
		var work sync.WaitGroup
		for n, all := range on {
			ids := slices.DeleteFunc(slices.Clone(all), func(id string) bool {
				return editionIn(n, id) != first
			})
			if len(ids) == 0 || len(left) == 0 {
				continue
			}
			m := left[0]
			left, killed[n] = left[1:], m
			work.Go(func() {
				is := m.at(n, ids, first)
				eventually(t, m.name, func() bool { return is() || t.Failed() })
				n.signal(syscall.SIGKILL)
			})
		}
		if len(killed) == 0 {
			t.Fatalf("no node has a session of the earlier edition; %d moments are left", len(left))
		}
		work.Wait()
		for n, m := range killed {
			k.kill(t, n, m.name)
			k.back(t, n)
		}
	}
	for _, one := range k.keepers {
		k.carried(t, one, first)
	}
}

// carried waits until a session is of another edition than the first. Otherwise it shows the logs.
func (k *killing) carried(t *testing.T, one *keeper, first string) {
	t.Helper()
	is := false
	defer func() {
		if !is {
			t.Logf("the logs about %s:\n%s", one.id, k.h.logged(one.id))
		}
	}()
	eventually(t, one.name+" is carried over", func() bool {
		v, err := k.cl.Session(k.ctx, one.id)
		return err == nil && v.Edition != first
	})
	is = true
}

// carryMoment is a moment of the work that carries a session over to the current edition.
type carryMoment struct {
	name string
	// at returns a function that reports whether a node is at the moment, with one of the sessions of
	// the first edition that it has.
	at func(n *part, ids []string, first string) func() bool
}

// carryMoments are the moments at which a node is killed, in their order.
func carryMoments() []carryMoment {
	return []carryMoment{
		{"while files move", func(n *part, ids []string, _ string) func() bool {
			return func() bool {
				return slices.ContainsFunc(ids, func(id string) bool {
					return exists(n.data(), "sessions", id, "session.json")
				})
			}
		}},
		{"while the new sandbox is saved", func(n *part, _ []string, _ string) func() bool {
			return func() bool { return exists(n.data(), "forks", "*") }
		}},
		{"after the exchange", func(n *part, ids []string, first string) func() bool {
			return func() bool {
				return slices.ContainsFunc(ids, func(id string) bool {
					of := editionIn(n, id)
					return of != "" && of != first
				})
			}
		}},
		{"before the exchange", func(n *part, _ []string, _ string) func() bool {
			return func() bool { return exists(n.data(), "forks", "*", "session.json") }
		}},
		{"after the copy", func(n *part, _ []string, _ string) func() bool {
			line := regexp.MustCompile(`level=INFO .*carried over to the current`)
			carried := func() int { return len(line.FindAllString(n.log(), -1)) }
			before := carried()
			return func() bool { return carried() > before }
		}},
	}
}

// editionIn returns the edition of a session's folder on a node; empty without one.
func editionIn(n *part, id string) string {
	var m struct {
		Build string `json:"build_id"`
		Image string `json:"image_id"`
	}
	text, err := os.ReadFile(filepath.Join(n.data(), "sessions", id, "snapshot", "sandgate.json"))
	if err != nil || json.Unmarshal(text, &m) != nil {
		return ""
	}
	return m.Build + "-" + m.Image
}
