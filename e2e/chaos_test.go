package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// chaosFault is a failure of a part of a cluster, with the end of it.
type chaosFault struct {
	name string
	does func(*testing.T, *crowd)
	// orderly reports that no part fails, so that lists are available.
	orderly bool
}

// brief are the faults that leave sessions where they are.
func (a *separateCluster) brief() []chaosFault {
	return []chaosFault{
		{"a node cut off from gateways", a.cutOff, false},
		{"a node cut off from Redis", a.fencedOff, false},
		{"a gateway cut off from Redis", a.blindGateway, false},
		{"a slow Redis", a.slowRedis, false},
		{"Redis without one record", a.lostRecord, true},
		{"Redis without its data", a.emptyRedis, false},
		{"a node that stands still", a.stoodStill, false},
		{"a clock that jumps", a.clockJumps, false},
		{"a gateway killed", a.killedGateway, false},
		{"a gateway restarted", a.restartedGateway, true},
		{"a node cut off from gateways for a lease", a.unreachable, false},
		{"no blob store", a.noBlobs, false},
		{"a node with another's certificate", a.wrongNode, true},
	}
}

// moving are the faults that end or move sessions, so that a node may have none after them.
func (a *separateCluster) moving() []chaosFault {
	return []chaosFault{
		{"Redis with older data", a.olderRedis, false},
		{"a node restarted", a.restartedNode, true},
		{"a node killed", a.killedNode, false},
		{"a full disk", a.fullDisk, true},
		{"a node fenced until others have its sessions", a.takenOver, false},
		{"a node killed for longer than a lease", a.goneNode, false},
		{"two nodes killed for longer than a lease", a.goneNodes, false},
	}
}

// inTurn returns the faults of each episode if all occur once.
func (a *separateCluster) inTurn() [][]chaosFault {
	brief, moving := a.brief(), a.moving()
	all := make([][]chaosFault, len(moving))
	for i, f := range brief {
		all[i%len(all)] = append(all[i%len(all)], f)
	}
	for i, f := range moving {
		all[i] = append(all[i], f)
	}
	return all
}

// atRandom returns the faults of an episode: up to six that leave sessions where they are, and one
// that moves or ends them.
func (a *separateCluster) atRandom(random *rand.Rand) []chaosFault {
	brief, moving := a.brief(), a.moving()
	random.Shuffle(len(brief), func(i, j int) { brief[i], brief[j] = brief[j], brief[i] })
	return append(brief[:random.IntN(7)], moving[random.IntN(len(moving))])
}

// cause causes the fault, and waits until all users have worked after it.
func (x chaosFault) cause(t *testing.T, c *crowd) {
	if !x.orderly {
		defer c.h.outage()()
	}
	t.Run(x.name, func(t *testing.T) { x.does(t, c) })
	if !t.Failed() {
		c.rounds(1)
	}
}

// chaosSum adds up the faults and the work of a run of TestChaos.
type chaosSum struct {
	faults             map[string]int
	users, cells, keys int
	lost               int // the sessions that ended with their node
	kept, missed       int // the cells of durable sessions, and those that are reported as lost
	lists, unavailable int
}

// TestChaos causes failures of three nodes, two gateways and Redis while users run cells, type and
// write files without pause. Two of their sessions are durable. Each fault occurs once, in a fixed
// order, since the tests must not depend on chance. make chaos sets SANDGATE_CHAOS: then the faults
// are random for this time, and SANDGATE_CHAOS_SEED repeats those of an earlier run.
//
// An episode has new users, some faults that leave sessions where they are, and one that moves or
// ends them. The nodes change places before it. It ends with the proof of all users and the check of
// the history: one owner, rising tokens, offsets that never decrease, and complete lists. The
// sessions hold everything that was acknowledged, once. Only the kill of a node loses sessions. No
// process and no file remains at the end.
func TestChaos(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SANDGATE_CHAOS"))
	once := err != nil || length <= 0
	seed, err := strconv.ParseUint(os.Getenv("SANDGATE_CHAOS_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64N(1_000_000)
	}
	a := newSeparateCluster(t, separateOptions{
		nodes: 3, gateways: 2, clock: true, disk: 1500, cluster: "take_over: 1s",
		settings: "pool: {size: 1, spare: 0, languages: [python]}\nsessions: {durable_every: 1s}\n",
	})
	h := a.history()
	h.mayFail = h.inOutage
	sum := chaosSum{faults: map[string]int{}}
	begin := time.Now()
	episode := func(n int, faults []chaosFault) {
		t.Run(fmt.Sprint("episode ", n), func(t *testing.T) { a.episode(t, h, faults, &sum) })
	}
	if once {
		for n, faults := range a.inTurn() {
			if !t.Failed() {
				episode(n, faults)
			}
			a.nodes = append(a.nodes[1:], a.nodes[0])
		}
	} else {
		t.Logf("the seed is %d", seed)
		for n := 0; time.Since(begin) < length && !t.Failed(); n++ {
			random := rand.New(rand.NewPCG(seed, uint64(n)))
			random.Shuffle(len(a.nodes), func(i, j int) {
				a.nodes[i], a.nodes[j] = a.nodes[j], a.nodes[i]
			})
			episode(n, a.atRandom(random))
		}
	}
	sum.report(t, begin)
	h.mustHold(t)
	if !t.Failed() {
		a.clean()
	}
}

// report logs the sum.
func (s chaosSum) report(t *testing.T, begin time.Time) {
	all := 0
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		t.Logf("%4d × %s", s.faults[name], name)
		all += s.faults[name]
	}
	t.Logf("%d faults in %s: %d users ran %d cells and typed %d lines; %d sessions ended with their node",
		all, time.Since(begin).Round(time.Second), s.users, s.cells, s.keys, s.lost)
	t.Logf("of %d cells of durable sessions %d are reported as lost; of %d lists %d were unavailable",
		s.kept, s.missed, s.lists, s.unavailable)
	t.Log("checked: one owner of each session, rising tokens, offsets that never decrease, " +
		"acknowledged work found once, complete lists, no loss without a reason, nothing left behind")
}

// episode lets new users work during some failures, and checks what they find.
func (a *separateCluster) episode(t *testing.T, h *history, faults []chaosFault, sum *chaosSum) {
	front := a.server(a.front.address())
	c := a.crowd(t, h, 3)
	c.keep(t, front, 2)
	unlist := c.listed(front)
	stop := c.start()
	c.rounds(1)
	for _, f := range faults {
		begin := time.Now()
		f.cause(t, c)
		sum.faults[f.name]++
		t.Logf("%s: %s", f.name, time.Since(begin).Round(time.Millisecond))
		if t.Failed() {
			return
		}
	}
	stop()
	kept, missed := c.prove(t, "at the end", "")
	sum.kept, sum.missed = sum.kept+kept, sum.missed+missed
	for _, w := range c.users {
		sum.users, sum.cells, sum.keys = sum.users+1, sum.cells+w.cells, sum.keys+w.keys
		if w.lost != nil {
			sum.lost++
		}
		check(t, w.delete(c.ctx))
	}
	for _, k := range c.keepers {
		check(t, k.delete(c.ctx))
	}
	unlist()
	h.mustHold(t)
	lists, unavailable := h.ledger.clear()
	sum.lists, sum.unavailable = sum.lists+lists, sum.unavailable+unavailable
}
