package cluster_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/fault"
)

// namedDirectory has the methods of both implementations, with the registry of names.
type namedDirectory interface {
	directory
	cluster.NameRegistry
}

// TestNames runs the same tests of the registry of names on both implementations.
func TestNames(t *testing.T) {
	server := startRedis(t)
	for kind, open := range map[string]func(t *testing.T) namedDirectory{
		"embedded": func(t *testing.T) namedDirectory {
			return openLocal(t, filepath.Join(t.TempDir(), "directory"))
		},
		"redis": func(t *testing.T) namedDirectory { return server.open(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Run("belong to one session", func(t *testing.T) { namesBelongToOne(t, open(t)) })
			t.Run("are claimed once", func(t *testing.T) { namesAreClaimedOnce(t, open(t)) })
			t.Run("of a restarted node", func(t *testing.T) { namesOfRestarted(t, open(t)) })
		})
	}
}

// namesBelongToOne: a name belongs to one session of a tenant, moves with it, and is free when the
// session is forgotten, renamed or known to have ended.
func namesBelongToOne(t *testing.T, d namedDirectory) {
	ctx := within(t)
	n := register(t, d, heartbeatOf("n1"))
	tokens := map[cluster.SessionID]cluster.Token{}
	for _, id := range []cluster.SessionID{"s_1", "s_2"} {
		tokens[id] = mustClaim(t, d, claimOf("n1", n, id, cluster.ClaimNew, 0))
	}
	claim := func(id cluster.SessionID, tenant, name string, keep bool) (cluster.NameReply, error) {
		return d.ClaimName(ctx, cluster.NameClaim{
			Session: id, Token: tokens[id], Tenant: tenant, Name: name, Keep: keep,
		})
	}
	holds := func(tenant, name string, want cluster.SessionID) {
		t.Helper()
		if o, err := d.FindName(ctx, tenant, name); err != nil || o.Session != want {
			t.Errorf("%s's %q belongs to %+v, %v, expected %q", tenant, name, o, err, want)
		}
	}
	get := func(id cluster.SessionID, tenant, name string) {
		t.Helper()
		if r, err := claim(id, tenant, name, false); err != nil || r.Name != name {
			t.Errorf("%s claims %q: %+v %v", id, name, r, err)
		}
	}
	get("s_1", "a", "x:ä/1")
	get("s_1", "a", "x:ä/1")
	get("s_2", "a:x", "ä/1") // other tenants have other names
	holds("a", "x:ä/1", "s_1")
	r, err := claim("s_2", "a", "x:ä/1", false)
	wantKind(t, err, fault.Conflict)
	if fault.PublicOf(err).Field != "name" || r.Holder != "s_1" || r.Node != "n1" {
		t.Errorf("%+v %v", r, err)
	}
	holds("a:x", "ä/1", "s_2") // a refused claim changes nothing
	get("s_1", "a", "y")
	holds("a", "x:ä/1", "")
	holds("a", "y", "s_1")
	if r, err := claim("s_1", "a", "older", true); err != nil || r.Name != "y" {
		t.Errorf("the session keeps %+v %v", r, err)
	}
	_, err = d.ClaimName(ctx, cluster.NameClaim{
		Session: "s_1", Token: tokens["s_1"] + 1, Tenant: "a", Name: "z",
	})
	wantKind(t, err, fault.Conflict)

	// A session that moves keeps its name, and its new owner can change it.
	if err := d.Release(ctx, "s_1", tokens["s_1"], cluster.ReleaseInfo{}); err != nil {
		t.Fatal(err)
	}
	holds("a", "y", "s_1")
	other := register(t, d, heartbeatOf("n2"))
	tokens["s_1"] = takeOver(t, d, claimOf("n2", other, "s_1", cluster.ClaimTakeOver,
		tokens["s_1"]))
	get("s_1", "a", "z")
	holds("a", "z", "s_1")

	if err := d.DropName(ctx, "a", "z", "s_2"); err != nil {
		t.Error(err)
	}
	holds("a", "z", "s_1")
	if err := d.DropName(ctx, "a", "z", "s_1"); err != nil {
		t.Error(err)
	}
	holds("a", "z", "")
	get("s_1", "a", "z")
	if err := d.Forget(ctx, "s_1", tokens["s_1"]); err != nil {
		t.Fatal(err)
	}
	holds("a", "z", "")
	get("s_2", "a:x", "")
	holds("a:x", "ä/1", "")
	checkConsistency(t, d)
}

// namesAreClaimedOnce: of 50 sessions that claim one name at the same time, one gets it.
func namesAreClaimedOnce(t *testing.T, d namedDirectory) {
	ctx := within(t)
	n := register(t, d, heartbeatOf("n1"))
	var won atomic.Int64
	var all sync.WaitGroup
	for i := range 50 {
		id := cluster.SessionID(fmt.Sprint("s_", i))
		token := mustClaim(t, d, claimOf("n1", n, id, cluster.ClaimNew, 0))
		all.Go(func() {
			_, err := d.ClaimName(ctx, cluster.NameClaim{
				Session: id, Token: token, Tenant: "a", Name: "x",
			})
			if err == nil {
				won.Add(1)
			} else if !fault.Is(err, fault.Conflict) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d sessions have the name", won.Load())
	}
}

// namesOfRestarted: a node that lost its sessions gives their names to new ones.
func namesOfRestarted(t *testing.T, d namedDirectory) {
	ctx := within(t)
	start := func(replaces string) *cluster.LeaseHolder {
		l, err := cluster.NewLeaseHolder(d, cluster.LeaseHolderOptions{
			Node: "n1", Instance: "disk", Lease: long, Names: d, Replaces: replaces,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Heartbeat(ctx)
		return l
	}
	own := func(l *cluster.LeaseHolder, id cluster.SessionID) {
		t.Helper()
		if _, err := l.Own(ctx, id, cluster.ClaimNew, 0, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	first := start("")
	own(first, "s_1")
	if _, err := first.ClaimName(ctx, "s_1", "a", "x", false); err != nil {
		t.Fatal(err)
	}
	own(first, "s_2")
	_, err := first.ClaimName(ctx, "s_2", "a", "x", false)
	wantKind(t, err, fault.Conflict)
	second := start(first.Process())
	own(second, "s_3")
	if name, err := second.ClaimName(ctx, "s_3", "a", "x", false); err != nil || name != "x" {
		t.Errorf("%q %v", name, err)
	}
}

// TestNamesAfterLoss: owners claim names again in a directory that lost its data, and the directory
// says that it is young until then.
func TestNamesAfterLoss(t *testing.T) {
	server := startRedis(t)
	d := server.open(t)
	ctx := within(t)
	again := make(chan cluster.SessionID, 10)
	l, err := cluster.NewLeaseHolder(d, cluster.LeaseHolderOptions{
		Node: "n1", Instance: "disk", Lease: long, Names: d,
		Reclaimed: func(id cluster.SessionID) { again <- id },
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Heartbeat(ctx)
	if _, err := l.Own(ctx, "s_1", cluster.ClaimNew, 0, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ClaimName(ctx, "s_1", "a", "x", false); err != nil {
		t.Fatal(err)
	}
	client := server.client()
	defer func() { _ = client.Close() }()
	if err := client.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if o, err := d.FindName(ctx, "a", "x"); err != nil || o.Session != "" || !o.Young {
		t.Errorf("%+v %v", o, err)
	}
	testenv.Eventually(t, "the node claims its session again", func() bool {
		l.Heartbeat(ctx)
		return len(again) == 1
	})
	if _, err := l.ClaimName(ctx, <-again, "a", "x", true); err != nil {
		t.Fatal(err)
	}
	if o, err := d.FindName(ctx, "a", "x"); err != nil || o.Session != "s_1" || !o.Young {
		t.Errorf("%+v %v", o, err)
	}
}
