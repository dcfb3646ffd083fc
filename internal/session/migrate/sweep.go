package migrate

import (
	"context"
	"hash/fnv"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// sweepSpread is the time over which the sweeps of nodes are distributed.
	sweepSpread = 10 * time.Minute
	// maxSwept bounds the number of names in memory.
	maxSwept = 200_000
)

// SweepDelay returns how long after its start a node sweeps the store first: 1 to
// 11 minutes, by a hash of its name, so that the nodes of a cluster sweep at
// different times.
func SweepDelay(node cluster.NodeID) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(node)) // never fails
	// Names often differ in the last letter only. This step distributes them.
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	sum ^= sum >> 33
	return time.Minute + time.Duration(sum%uint64(sweepSpread))
}

// Sweep removes objects that no session needs and that were last changed at a time earlier than
// before. These are objects of sessions whose lifetime has ended at now, of writes that did not
// end, and of nodes that wrote after they had lost the session.
func (b *Store) Sweep(ctx context.Context, before, now time.Time) error {
	n, err := b.Blobs.Tidy(ctx, before)
	b.Swept(n)
	if err != nil {
		return err
	}
	folders := map[string][]string{} // the old objects of each session
	held := 0
	for _, folder := range []string{"checkpoints", "sessions", "tenants", marksFolder} {
		err := b.Blobs.Walk(ctx, folder, func(name string, changed time.Time) error {
			parts := strings.Split(name, "/")
			if len(parts) != 3 || !changed.Before(before) || held == maxSwept {
				return nil
			}
			id := parts[1]
			if folder == "tenants" || folder == marksFolder {
				id = parts[2]
			}
			folders[id] = append(folders[id], name)
			held++
			return nil
		})
		if err != nil {
			return err
		}
	}
	for id, old := range folders {
		if cluster.CheckSession(cluster.SessionID(id)) != nil {
			continue
		}
		if err := b.sweepSession(ctx, id, old, now); err != nil {
			return err
		}
	}
	return nil
}

// sweepSession removes the old objects of a session that nothing needs.
func (b *Store) sweepSession(ctx context.Context, id string, old []string, now time.Time) error {
	a, err := b.Parked(ctx, id)
	parked := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	c, err := b.NewestCheckpoint(ctx, id)
	there := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	parked = parked && now.Before(a.Expires)
	there = there && now.Before(c.Expires)
	// The .about files are removed first: the other objects have no use without them.
	for _, last := range []bool{false, true} {
		for _, name := range old {
			isAbout := strings.HasSuffix(name, "about")
			if isAbout == last {
				continue
			}
			needed := false
			switch {
			case strings.HasPrefix(name, "tenants/"):
				needed = parked || there
			case strings.HasPrefix(name, marksFolder+"/"):
				needed = parked && name == markName(a)
			case name == ManifestName(id):
				needed = parked
			case name == StateName(id):
				needed = parked || there && c.State == name
			default:
				base := name[:len(name)-len(filepath.Ext(name))]
				needed = there && (base >= c.Base || name == c.State)
			}
			if needed {
				continue
			}
			if err := b.Blobs.Remove(ctx, name); err != nil {
				return err
			}
			b.Swept(1)
		}
	}
	return nil
}
