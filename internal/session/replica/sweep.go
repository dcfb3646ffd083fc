package replica

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// sweepEvery is how often a node sweeps the store. An object without a description is removed
	// when it is older than sweepAge: no upload takes that long.
	sweepEvery = time.Hour
	sweepAge   = 24 * time.Hour
	sweepLimit = 10 * time.Minute
	// maxSwept bounds the number of snapshots in memory.
	maxSwept = 200_000
)

// Sweep removes what interrupted uploads and removals have left before a time, and the snapshots
// that have expired. It returns the number of objects that it has removed.
func (s *Store) Sweep(ctx context.Context, before time.Time) (removed int, err error) {
	type found struct {
		about, old bool
		changed    time.Time // the time of the description
	}
	all := map[string]found{}
	err = s.blobs.Walk(ctx, root, func(name string, changed time.Time) error {
		one, part, ok := cutLast(name)
		f, known := all[one]
		if !ok || !known && len(all) == maxSwept {
			return nil
		}
		switch part {
		case about:
			f.about, f.changed = true, changed
		case state:
			f.old = changed.Before(before)
		}
		all[one] = f
		return nil
	})
	if err != nil {
		return 0, err
	}
	for one, f := range all {
		if f.about {
			_, err := s.read(ctx, one+"/"+about, f.changed)
			if err == nil || !fault.Is(err, fault.NotFound) {
				continue // a node of another version may read it
			}
			if err := s.blobs.Remove(ctx, one+"/"+about); err != nil {
				return removed, err
			}
			removed++
		} else if !f.old {
			continue
		}
		if err := s.blobs.Remove(ctx, one+"/"+state); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// cutLast cuts the last part off the name of an object.
func cutLast(name string) (one, part string, ok bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], strings.Count(name, "/") == 3
}

// Maintenance is what Run does.
type Maintenance struct {
	// Delay is the time until the first sweep. The nodes of a cluster have different ones.
	Delay time.Duration
	// Verify removes this node's copies of deleted snapshots and templates.
	Verify []func(ctx context.Context)
	// Swept is called with the number of removed objects.
	Swept func(n int)
	Log   *slog.Logger
}

// OpenSnapshots opens a node's snapshots. If there is a blob store, they are those of all nodes, and
// the store is swept until cfg.Context ends.
func OpenSnapshots(b Blobs, cfg snapshot.StoreConfig, m Maintenance) (*snapshot.Store, error) {
	if b == nil {
		return snapshot.OpenStore(cfg)
	}
	shared := New(b)
	cfg.Shared, cfg.All = shared, shared.All
	store, err := snapshot.OpenStore(cfg)
	if err == nil {
		m.Verify = append(m.Verify, store.Verify)
		cfg.Go(func() { Run(cfg.Context, b, m) })
	}
	return store, err
}

// Run sweeps the store once an hour until ctx ends.
func Run(ctx context.Context, b Blobs, m Maintenance) {
	timer := time.NewTimer(m.Delay)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(sweepEvery)
		case <-ctx.Done():
			return
		}
		m.once(ctx, New(b).Sweep, NewTemplates(b).Sweep)
	}
}

func (m Maintenance) once(
	ctx context.Context, sweeps ...func(context.Context, time.Time) (int, error),
) {
	limited, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	for _, verify := range m.Verify {
		verify(limited)
	}
	for _, sweep := range sweeps {
		n, err := sweep(limited, time.Now().Add(-sweepAge))
		m.Swept(n)
		if err != nil && ctx.Err() == nil {
			m.Log.Warn("the snapshots and templates in the blob store were not swept", "error", err)
		}
	}
}
