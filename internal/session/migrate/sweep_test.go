package migrate

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/internal/cluster"
)

// TestSweepStore checks that a sweep removes old objects that no session needs, and no others.
func TestSweepStore(t *testing.T) {
	store, err := blob.OpenDir(filepath.Join(t.TempDir(), "blobs"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	names := func() []string {
		return blobtest.Names(t, store, "checkpoints", "sessions",
			"tenants")
	}
	m := &Store{Blobs: store, Swept: func(int) {}}
	now := time.Now()
	var keep []string
	put := func(kept bool, name string, v any) {
		t.Helper()
		if err := m.PutJSON(t.Context(), name, v); err != nil {
			t.Fatal(err)
		}
		if kept {
			keep = append(keep, name)
		}
	}
	of := func(id string, life time.Duration, state string) Checkpoint {
		return Checkpoint{Manifest: Manifest{
			Version: Version, ID: id, Tenant: "t",
			Expires: now.Add(life),
		}, State: state}
	}
	for id, life := range map[string]time.Duration{"s_good": time.Hour, "s_over": -time.Hour} {
		good := life > 0
		base := CheckpointBase(id, 7, 2)
		put(good, base+".state", 1)
		put(good, base+".journal", 1)
		put(good, base+".about", of(id, life, base+".state"))
		put(good, ViewName("t", id), 1)
		put(false, CheckpointBase(id, 7, 1)+".state", 1) // replaced
		put(false, CheckpointBase(id, 6, 9)+".about", of(id, life, "x"))
		put(good, CheckpointBase(id, 7, 3)+".state", 1) // still being uploaded
	}
	put(true, CheckpointBase("s_ref", 9, 0)+".about", of("s_ref", time.Hour, StateName("s_ref")))
	put(true, StateName("s_ref"), 1)
	for id, life := range map[string]time.Duration{"s_parked": time.Hour, "s_stale": -time.Hour} {
		put(life > 0, StateName(id), 1)
		put(life > 0, ManifestName(id), Manifest{
			Version: Version, ID: id, Tenant: "t",
			Expires: now.Add(life),
		})
		put(life > 0, ViewName("t", id), 1)
	}
	put(false, StateName("s_half"), 1)
	put(false, ViewName("t", "s_none"), 1)
	put(false, CheckpointBase("s_half", 1, 1)+".state", 1)
	slices.Sort(keep)

	all := names()
	if err := m.Sweep(t.Context(), now.Add(-time.Hour), now); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, all) {
		t.Errorf("new objects were swept: %v left of %v", got, all)
	}
	if err := m.Sweep(t.Context(), now.Add(time.Hour), now); err != nil {
		t.Fatal(err)
	}
	if got := names(); !slices.Equal(got, keep) {
		t.Errorf("left\n%s\nwant\n%s", fmt.Sprint(got), fmt.Sprint(keep))
	}
}

// TestSweepDelay checks that the nodes of a cluster sweep the store at different times, with any
// names.
func TestSweepDelay(t *testing.T) {
	seen := map[time.Duration]cluster.NodeID{}
	var times []time.Duration
	for i := range 20 {
		node := cluster.NodeID(fmt.Sprintf("n%d", i+1))
		d := SweepDelay(node)
		if d < time.Minute || d >= time.Minute+sweepSpread || d != SweepDelay(node) {
			t.Errorf("%s waits for %s", node, d)
		}
		if other, there := seen[d.Truncate(time.Second)]; there {
			t.Errorf("%s and %s sweep at the same time", node, other)
		}
		seen[d.Truncate(time.Second)] = node
		times = append(times, d)
	}
	slices.Sort(times)
	if times[0] > time.Minute+sweepSpread/4 || times[19] < time.Minute+3*sweepSpread/4 {
		t.Errorf("20 nodes are not spread: %v", times)
	}
}
