package volume

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Names gives each name of a tenant to one volume of a cluster, also while the node of the volume is
// away.
type Names interface {
	// HoldVolumeName gives a name to the volume with an id for a time, and frees it for a time of 0.
	// Errors: Conflict if another volume has it, Unavailable.
	HoldVolumeName(ctx context.Context, tenant, name, id string, life time.Duration) error
}

const (
	// nameLife is how long a name stays with a volume whose node is away.
	nameLife = 24 * time.Hour
	// nameEvery is how often the node holds the names of its volumes again.
	nameEvery = 10 * time.Minute
	// nameLimit bounds a request for a name.
	nameLimit = 3 * time.Second
)

// hold gives the volume its name for a time.
func (v *Store) hold(one *volume, life time.Duration) error {
	if v.cfg.Names == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), nameLimit)
	defer cancel()
	return v.cfg.Names.HoldVolumeName(ctx, one.Tenant, one.Name, one.ID, life)
}

// free frees the name of a volume that was removed, or was not created. If that fails, keepNames tries
// it again.
func (v *Store) free(one *volume) {
	if v.hold(one, 0) == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.unfreed = append(v.unfreed, one)
}

// keepNames holds the names of all volumes until ctx ends. The directory may have lost them.
func (v *Store) keepNames(ctx context.Context) {
	if v.cfg.Names == nil {
		return
	}
	tick := time.NewTicker(nameEvery)
	defer tick.Stop()
	for {
		v.holdAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// holdAll holds the names of all volumes once. It stops when the directory does not answer.
func (v *Store) holdAll(ctx context.Context) {
	v.mu.Lock()
	var all []*volume
	for _, one := range v.all {
		all = append(all, one)
	}
	unfreed := v.unfreed
	v.unfreed = nil
	v.mu.Unlock()
	for _, one := range unfreed {
		v.free(one)
	}
	for _, one := range all {
		if ctx.Err() != nil {
			return
		}
		err := v.hold(one, nameLife)
		v.mu.Lock()
		gone := one.gone
		v.mu.Unlock()
		switch {
		case gone:
			v.free(one)
		case fault.Is(err, fault.Conflict):
			v.cfg.Log.Error("another volume of the cluster has the same name", "volume", one.ID,
				"name", one.Name, "tenant", one.Tenant)
		case err != nil:
			v.cfg.Log.Warn("the names of volumes are not held", "error", err)
			return
		}
	}
}
