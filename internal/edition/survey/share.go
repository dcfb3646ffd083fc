package survey

import (
	"context"
	"maps"
	"time"
)

const (
	// shareEvery is how often a node looks which editions the blob store should have.
	shareEvery = 10 * time.Minute
	// shareAge is the age at which an edition in the blob store that nothing needs is removed.
	shareAge = 24 * time.Hour
	// shareLimit bounds the work of one time.
	shareLimit = time.Hour
)

// share puts the earlier editions of this node into the blob store that something needs, so that a node
// that lacks one can fetch it. It removes those that nothing needs.
func (e *Survey) share(ctx context.Context) {
	if e.Stored == nil || time.Since(e.sharedAt) < shareEvery {
		return
	}
	e.sharedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, shareLimit)
	defer cancel()
	needed, err := e.Carrier.Needed(ctx)
	if err != nil {
		e.Log.Warn("the editions are not known that the blob store needs", "error", err)
		return
	}
	use := e.counts()
	for _, one := range e.Store.List() {
		id := one.String()
		n := use[id]
		if n.Sessions+n.Hibernated+n.Copies+n.Snapshots > 0 {
			needed[id] = true
		}
		if one.Current || !needed[id] || e.Store.Ends(id) {
			continue // the sessions of one that ends are carried over
		}
		f, err := e.Store.Find(ctx, one.ID, false)
		if err == nil {
			err = e.Stored.Put(ctx, f, one.Replaced)
		}
		if err != nil {
			e.Log.Warn("an earlier runtime and image were not put into the blob store", "edition",
				id, "error", err)
		}
	}
	others, err := e.Others.All(ctx)
	maps.Copy(needed, others)
	if err == nil {
		_, err = e.Stored.Sweep(ctx, needed, time.Now().Add(-shareAge))
	}
	if err != nil {
		e.Log.Warn("the runtimes and images in the blob store were not swept", "error", err)
	}
}
