package migrate

import (
	"context"
	"hash/fnv"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
)

const (
	// sweepSpread is the time over which nodes that start together spread.
	sweepSpread = 10 * time.Minute
	// maxSwept bounds the names that are held at once.
	maxSwept = 200_000
)

// SweepDelay is how long after its start a node first looks through the store:
// 1 to 11 minutes, spread by a hash of its name, so that the nodes of a cluster
// do so at different times.
func SweepDelay(node cluster.NodeID) time.Duration {
	h := fnv.New64a()
	h.Write([]byte(node)) // never fails
	// The last step mixes well names that differ in their last letter alone.
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	sum ^= sum >> 33
	return time.Minute + time.Duration(sum%uint64(sweepSpread))
}

// Sweep removes what is nobody's and was last changed before then: of
// sessions whose time is over, of writes that did not end, of nodes that wrote
// what they had lost.
func (b *Store) Sweep(ctx context.Context, before, now time.Time) error {
	n, err := b.Blobs.Tidy(ctx, before)
	b.Swept(n)
	if err != nil {
		return err
	}
	folders := map[string][]string{} // the old objects of each session
	held := 0
	for _, folder := range []string{"checkpoints", "sessions", "tenants"} {
		err := b.Blobs.Walk(ctx, folder, func(name string, changed time.Time) error {
			parts := strings.Split(name, "/")
			if len(parts) != 3 || !changed.Before(before) || held == maxSwept {
				return nil
			}
			id := parts[1]
			if folder == "tenants" {
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

// sweepSession removes those of a session's old objects that nobody needs.
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
	// Abouts go first: without theirs other objects are nothing.
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
