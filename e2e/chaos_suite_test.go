package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// chaosFault is a failure of a part of a cluster, with the end of it.
type chaosFault struct {
	name string
	does func(*testing.T, *crowd)
	// ends reports that sessions end or move, so that some nodes may have none after it.
	ends bool
	// orderly reports that no part fails, so that lists are available.
	orderly bool
	// long reports that other tests of make test cause the failure, and only TestChaosSuite this way.
	long bool
}

// faults are the failures that do not change where sessions are, and then those that do.
func (a *separateCluster) faults() []chaosFault {
	return []chaosFault{
		{name: "a node cut off from gateways", does: a.cutOff},
		{name: "a node cut off from Redis", does: a.fencedOff},
		{name: "a gateway cut off from Redis", does: a.blindGateway},
		{name: "a slow Redis", does: a.slowRedis},
		{name: "Redis without one record", does: a.lostRecord, orderly: true},
		{name: "Redis without its data", does: a.emptyRedis},
		{name: "a node that stands still", does: a.stoodStill},
		{name: "a clock that jumps", does: a.clockJumps},
		{name: "a gateway killed", does: a.killedGateway},
		{name: "a gateway restarted", does: a.restartedGateway, orderly: true},
		{name: "Redis with older data", does: a.olderRedis, ends: true, long: true},
		{name: "a node restarted", does: a.restartedNode, ends: true, long: true, orderly: true},
		{name: "a node killed", does: a.killedNode, ends: true},
		{name: "a full disk", does: a.fullDisk, ends: true, orderly: true},
	}
}

// cause causes the fault, and waits until all users have worked after it.
func (x chaosFault) cause(c *crowd, does func()) {
	if !x.orderly {
		defer c.h.outage()()
	}
	does()
	c.rounds(1)
}

// chaosSum adds up the faults and the work of a run of TestChaosSuite.
type chaosSum struct {
	faults             map[string]int
	users, cells, keys int
	lost               int
}

// TestChaosSuite causes random failures for the time SANDGATE_CHAOS, which make chaos sets. Without
// it, there is one episode with a fixed seed, since the tests must not depend on chance. An episode
// has new users, up to four failures that leave sessions where they are, and one that moves or ends
// them. Each episode ends with the proof of all users and the check of the whole history.
// SANDGATE_CHAOS_SEED repeats the failures of an earlier run.
func TestChaosSuite(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SANDGATE_CHAOS"))
	once := err != nil || length <= 0
	seed, err := strconv.ParseUint(os.Getenv("SANDGATE_CHAOS_SEED"), 10, 64)
	switch {
	case once:
		seed = 7
	case err != nil:
		seed = rand.Uint64N(1_000_000)
	}
	t.Logf("the seed is %d", seed)
	a := newSeparateCluster(t, separateOptions{nodes: 2, gateways: 2, clock: true, disk: 1500})
	h := a.history()
	h.mayFail = h.inOutage
	sum := chaosSum{faults: map[string]int{}}
	begin := time.Now()
	for n := uint64(0); (once && n == 0 || time.Since(begin) < length) && !t.Failed(); n++ {
		t.Run(fmt.Sprint("episode ", n), func(t *testing.T) {
			a.episode(t, h, rand.New(rand.NewPCG(seed, n)), &sum)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(sum.faults)) {
		t.Logf("%4d × %s", sum.faults[name], name)
	}
	t.Logf("seed %d, %s: %d users ran %d cells and typed %d lines; %d sessions ended with their node",
		seed, time.Since(begin).Round(time.Second), sum.users, sum.cells, sum.keys, sum.lost)
	t.Log("checked: one owner of each session, rising tokens, offsets that never decrease, " +
		"acknowledged work found once, complete lists, no loss without a kill, nothing left behind")
	h.mustHold(t)
	if !t.Failed() {
		a.clean()
	}
}

// episode lets new users work during some failures, and checks what they find.
func (a *separateCluster) episode(t *testing.T, h *history, random *rand.Rand, sum *chaosSum) {
	c := a.crowd(t, h, 3)
	unlist := c.listed(a.server(a.front.address()))
	stop := c.start()
	c.rounds(1)
	all := a.faults()
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(x, y chaosFault) int {
		if x.ends == y.ends {
			return 0
		}
		if y.ends {
			return -1
		}
		return 1
	})
	last := slices.IndexFunc(all, func(f chaosFault) bool { return f.ends })
	few := random.IntN(5)
	for _, f := range append(slices.Clone(all[:few]), all[last]) {
		begin := time.Now()
		f.cause(c, func() { f.does(t, c) })
		sum.faults[f.name]++
		t.Logf("%s: %s", f.name, time.Since(begin).Round(time.Millisecond))
		if t.Failed() {
			break
		}
	}
	stop()
	for _, w := range c.users {
		sum.users, sum.cells, sum.keys = sum.users+1, sum.cells+w.cells, sum.keys+w.keys
		if w.lost != nil {
			sum.lost++
		}
		check(t, w.delete(c.ctx))
	}
	unlist()
	h.mustHold(t)
	h.ledger.clear()
}

// redisCLI runs a command of Redis.
func (a *separateCluster) redisCLI(ctx context.Context, args ...string) string {
	a.t.Helper()
	at, port, err := net.SplitHostPort(a.Address)
	check(a.t, err)
	out, err := exec.CommandContext(ctx, "redis-cli",
		append([]string{"-h", at, "-p", port}, args...)...).Output()
	check(a.t, err)
	return strings.TrimSpace(string(out))
}

// lostRecord deletes the records of a user's session and of one that only one gateway knows. The
// other gateway finds it. The nodes write the records again within a lease.
func (a *separateCluster) lostRecord(t *testing.T, c *crowd) {
	var made protocol.Session
	check(t, insist(c.ctx, func() (err error) {
		made, err = a.through(t, a.gateways[0]).CreateSession(c.ctx,
			protocol.SessionCreate{Language: "python"})
		return err
	}))
	c.h.ledger.made(made.ID)
	a.restartedGateway(t, c) // it knows the session from an event
	var keys []string
	for _, id := range []string{made.ID, a.usersOf(c, a.nodes[0])[0].id} {
		key := a.redisCLI(c.ctx, "--scan", "--pattern", "*session*"+id)
		if key == "" || strings.Contains(key, "\n") {
			t.Fatalf("the records of session %s: %q", id, key)
		}
		a.redisCLI(c.ctx, "DEL", key)
		keys = append(keys, key)
	}
	other := a.through(t, a.gateways[1])
	check(t, insist(c.ctx, func() error { _, err := other.Session(c.ctx, made.ID); return err }))
	for _, key := range keys {
		eventually(t, "the record "+key, func() bool {
			return a.redisCLI(c.ctx, "EXISTS", key) == "1"
		})
	}
	c.h.ledger.ending(made.ID)
	check(t, insist(c.ctx, func() error { return other.DeleteSession(c.ctx, made.ID) }))
	c.h.ledger.ended(made.ID)
}

// olderRedis restarts a node, so that its sessions move, and then gives Redis the data of the time
// before. No session ends, and none returns to an earlier state.
func (a *separateCluster) olderRedis(t *testing.T, c *crowd) {
	a.redisCLI(c.ctx, "SAVE")
	a.restartedNode(t, c)
	again := a.claimedAgain(t)
	a.StopRedis()
	a.startRedis()
	again()
	check(t, os.Remove(filepath.Join(a.Dir, "dump.rdb")))
	c.rounds(1)
}

// restartedNode stops a node in an orderly way and starts it again. No session ends.
func (a *separateCluster) restartedNode(t *testing.T, c *crowd) {
	n := a.nodes[0]
	check(t, n.stop(syscall.SIGTERM))
	c.rounds(1)
	check(t, n.start())
	check(t, n.warm())
}

// restartedGateway stops a gateway in an orderly way and starts it again.
func (a *separateCluster) restartedGateway(t *testing.T, c *crowd) {
	g := a.gateways[1]
	check(t, g.stop(syscall.SIGTERM))
	c.rounds(1)
	check(t, g.start())
	check(t, g.answers())
}
