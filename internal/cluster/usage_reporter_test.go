package cluster_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestUsageByChange does random steps with nodes that report by change to a real server, which is
// emptied and gets older data. Then each node makes one heartbeat and one report, and the sums are
// those of a model: what live nodes use, and the sessions that Redis knows as released.
func TestUsageByChange(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SANDGATE_USAGE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the seed is %d: repeat it with SANDGATE_USAGE_SEED", seed)
	w := &usageWorld{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), s: startRedis(t), saved: map[string]string{},
		parked: map[string]string{}, stale: map[string]string{},
	}
	w.r = w.s.join(t, "c")
	w.s.age(t, "c")
	for i := range 3 {
		w.nodes = append(w.nodes, &usageNode{id: cluster.NodeID(fmt.Sprint("n", i))})
		w.start(w.nodes[i])
	}
	for range 60 {
		for range 1 + w.rand.IntN(25) {
			w.step()
		}
		w.settle()
		if t.Failed() {
			return
		}
	}
}

// usageWorld is a cluster whose usage is known.
type usageWorld struct {
	t     *testing.T
	rand  *rand.Rand
	s     *redisServer
	r     redisCluster
	nodes []*usageNode
	made  int
	// parked has the holders of released sessions in Redis; saved is that of the copy of its data.
	// stale has sessions that are parked in older data: their owner has not claimed them again yet.
	parked, saved, stale map[string]string
	copied               bool
	adopted              []cluster.SessionID
}

type usageNode struct {
	id       cluster.NodeID
	process  string
	leases   *cluster.LeaseHolder // nil while it does not run
	reporter *cluster.UsageReporter
	uses     map[string]float64 // by holder with a quota
}

func (n *usageNode) used(h string) cluster.Amounts {
	if n.uses[h] == 0 {
		return nil
	}
	return cluster.Amounts{n.uses[h]}
}

func (n *usageNode) update(ctx context.Context) error {
	_, err := n.reporter.ReportChanges(ctx, slices.Sorted(maps.Keys(n.uses)), n.used)
	return err
}

// start starts a node that has lost what it used.
func (w *usageWorld) start(n *usageNode) {
	var err error
	n.leases, err = cluster.NewLeaseHolder(w.r, cluster.LeaseHolderOptions{
		Node: n.id, Instance: "disk-of-" + string(n.id), Lease: 10 * time.Minute, Replaces: n.process,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	n.process = n.leases.Process()
	n.reporter, n.uses = cluster.NewUsageReporter(n.leases, nil), map[string]float64{}
	n.leases.Heartbeat(within(w.t))
}

func (w *usageWorld) holder() string { return string(rune('a' + w.rand.IntN(4))) }

// tolerate fails the test unless the directory only waits for a heartbeat.
func (w *usageWorld) tolerate(err error) {
	w.t.Helper()
	if err != nil && !fault.Is(err, fault.Unavailable) {
		w.t.Fatal(err)
	}
}

func (w *usageWorld) step() {
	n := w.nodes[w.rand.IntN(len(w.nodes))]
	ctx := within(w.t)
	if n.leases == nil {
		if w.rand.IntN(3) == 0 {
			w.start(n)
		}
		return
	}
	h := w.holder()
	switch k := w.rand.IntN(100); {
	case k < 35:
		if n.uses[h] = float64(w.rand.IntN(4)); n.uses[h] == 0 || w.rand.IntN(5) == 0 {
			delete(n.uses, h) // it has no quota any more
		}
	case k < 60:
		w.tolerate(n.update(ctx))
	case k < 70:
		_, err := n.reporter.Report(ctx, []cluster.NodeUsage{{Holder: h, Used: n.used(h)}})
		w.tolerate(err)
	case k < 78:
		n.leases.Heartbeat(ctx)
	case k < 86:
		w.park(ctx, n, h)
	case k < 92:
		w.adopt(ctx, n)
	case k < 94:
		w.lapse(n)
	case k < 96:
		w.lapse(n)
		n.leases = nil
	case k < 98:
		w.copyData()
	case k < 99:
		w.empty()
	default:
		w.restore()
	}
}

// lapse ends the lease of a node.
func (w *usageWorld) lapse(n *usageNode) {
	c := w.s.client()
	defer func() { _ = c.Close() }()
	ctx := within(w.t)
	for _, err := range []error{
		c.Del(ctx, "sandgate:{c}:node:"+string(n.id)).Err(),
		c.ZRem(ctx, "sandgate:{c}:nodes", string(n.id)).Err(),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *usageWorld) park(ctx context.Context, n *usageNode, h string) {
	w.made++
	id := cluster.SessionID(fmt.Sprint("s_", w.made))
	if _, err := n.leases.Own(ctx, id, cluster.ClaimNew, 0, until()); err != nil {
		w.tolerate(err)
		return
	}
	if err := n.leases.Release(ctx, id, cluster.ReleaseInfo{}); err != nil {
		w.t.Fatal(err)
	}
	_, err := n.reporter.Report(ctx, []cluster.NodeUsage{{
		Holder: h, Used: n.used(h), Released: &cluster.ReleasedSession{
			Session: id, Until: until(), Used: cluster.Amounts{1},
		},
	}})
	if w.tolerate(err); err == nil {
		w.parked[string(id)] = h
	}
}

func (w *usageWorld) adopt(ctx context.Context, n *usageNode) {
	if len(w.parked) == 0 {
		return
	}
	id := slices.Sorted(maps.Keys(w.parked))[w.rand.IntN(len(w.parked))]
	_, err := n.leases.Own(ctx, cluster.SessionID(id), cluster.ClaimTakeOver, 0, until())
	if w.tolerate(err); err == nil {
		delete(w.parked, id)
		w.adopted = append(w.adopted, cluster.SessionID(id))
	}
}

// hasClaimed reports whether the directory has all sessions that a node has adopted.
func (w *usageWorld) hasClaimed(ctx context.Context, n *usageNode) bool {
	for _, id := range w.adopted {
		if tokenOf(n.leases, id) == 0 {
			continue
		}
		if o, err := w.r.Find(ctx, id); err != nil || o.Node != n.id {
			return false
		}
	}
	return true
}

func (w *usageWorld) file(name string) string { return filepath.Join(w.s.dir, name) }

func (w *usageWorld) copyFile(to, from string) {
	w.t.Helper()
	in, err := os.Open(w.file(from))
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	data, err := io.ReadAll(in)
	if err == nil {
		err = os.WriteFile(w.file(to), data, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *usageWorld) copyData() {
	w.s.save(w.t)
	w.copyFile("copy.rdb", "dump.rdb")
	w.copied = true
	w.resolve(within(w.t))
	w.saved = maps.Clone(w.parked)
	maps.Copy(w.saved, w.stale)
}

// resolve removes the sessions from stale that were claimed, or whose owner has ended.
func (w *usageWorld) resolve(ctx context.Context) {
	for id, h := range w.stale {
		o, err := w.r.Find(ctx, cluster.SessionID(id))
		if err != nil {
			w.t.Fatal(err)
		}
		if o.Node == "" && !w.owned(id) {
			w.parked[id] = h
		}
		if o.Node != "" || !w.owned(id) {
			delete(w.stale, id)
		}
	}
}

// owned reports whether a node that runs has a session.
func (w *usageWorld) owned(id string) bool {
	return slices.ContainsFunc(w.nodes, func(n *usageNode) bool {
		return n.leases != nil && tokenOf(n.leases, cluster.SessionID(id)) != 0
	})
}

// empty removes all data. Parked sessions are not known to the server any more.
func (w *usageWorld) empty() {
	c := w.s.client()
	defer func() { _ = c.Close() }()
	if err := c.FlushAll(within(w.t)).Err(); err != nil {
		w.t.Fatal(err)
	}
	clear(w.parked)
	clear(w.stale)
	w.s.age(w.t, "c")
}

// restore starts the server again with the copy of its data. A node that has adopted a session keeps
// it.
func (w *usageWorld) restore() {
	if !w.copied {
		return
	}
	w.copyFile("dump.rdb", "copy.rdb")
	w.s.restart(w.t)
	w.s.age(w.t, "c")
	w.parked, w.stale = map[string]string{}, map[string]string{}
	for id, h := range w.saved {
		if w.owned(id) {
			w.stale[id] = h
		} else {
			w.parked[id] = h
		}
	}
}

// settle lets each node make one heartbeat and one report, and compares the sums with the model.
func (w *usageWorld) settle() {
	w.t.Helper()
	ctx := within(w.t)
	want := map[string]float64{}
	for _, n := range w.nodes {
		if n.leases == nil {
			w.lapse(n)
			continue
		}
		// The client may have a connection to a server that has ended.
		testenv.Eventually(w.t, "the node registers", func() bool {
			n.leases.Heartbeat(ctx)
			err := n.update(ctx)
			w.tolerate(err)
			return err == nil && w.hasClaimed(ctx, n)
		})
		for h, used := range n.uses {
			want[h] += used
		}
	}
	w.resolve(ctx)
	for _, h := range w.parked {
		want[h]++
	}
	observer := register(w.t, w.r, heartbeatOf("observer"))
	for _, h := range []string{"a", "b", "c", "d"} {
		sum := 0.0
		if s := report(w.t, w.r, "observer", observer, cluster.NodeUsage{Holder: h}); len(s) > 0 {
			sum = s[0]
		}
		if sum != want[h] {
			w.t.Errorf("the ledger has %v of %s, and the model %v", sum, h, want[h])
		}
	}
	checkConsistency(w.t, w.r)
}
