package survey

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/edition"
)

const (
	// shareEvery is how often a node looks which editions the blob store should have.
	shareEvery = 10 * time.Minute
	// shareAge is the age at which an edition in the blob store that nothing needs is removed.
	shareAge = 24 * time.Hour
	// shareLimit bounds the work of one time.
	shareLimit = time.Hour
)

// shareOften calls share at once, because the node may end soon, and then from time to time, until ctx
// ends.
func (e *Survey) shareOften(ctx context.Context) {
	tick := time.NewTicker(e.every())
	defer tick.Stop()
	for {
		e.share(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// share puts the editions of this node into the blob store that something needs, so that a node that
// lacks one can fetch it: the earlier ones, and the current one if other nodes have none of its files.
// It removes those that nothing needs.
func (e *Survey) share(ctx context.Context) {
	if e.Stored == nil || time.Since(e.sharedAt) < shareEvery {
		return
	}
	e.sharedAt = time.Now()
	ctx, cancel := context.WithTimeout(ctx, shareLimit)
	defer cancel()
	if e.turn().Lock(ctx) != nil {
		return
	}
	defer e.turn().Unlock()
	needed, err := e.needed(ctx)
	if err != nil {
		e.Log.Warn("not all editions are known that the blob store needs", "error", err)
	}
	for _, one := range e.Store.List() {
		id := one.String()
		if !needed[id] || one.Current && !e.isAlone(ctx, id) {
			continue
		}
		if err := e.put(ctx, one); err != nil {
			e.Log.Warn("a runtime and an image were not put into the blob store", "edition", id,
				"error", err)
		}
	}
	if err != nil {
		return
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

// StoreLast puts the editions of this node into the blob store that sessions there need, or will
// need when those of this node are moved there, unless another node keeps them. The node may end
// then. It returns how many could not be put there until ctx ended.
func (e *Survey) StoreLast(ctx context.Context) (left int) {
	if e.Stored == nil {
		return 0
	}
	defer e.Stored.Hurry()()
	e.mu.Lock()
	e.use = nil // sessions of the last seconds count
	e.mu.Unlock()
	needed, err := e.needed(ctx)
	if err != nil {
		e.Log.Warn("not all editions are known that the blob store needs", "error", err)
	}
	err = e.turn().Lock(ctx)
	if err == nil {
		defer e.turn().Unlock()
	}
	for _, one := range e.Store.List() {
		id := one.String()
		if !needed[id] {
			continue
		}
		if _, has, serr := e.Others.Stays(ctx, id); has && serr == nil {
			continue
		}
		perr := err
		if perr == nil {
			perr = e.put(ctx, one)
		}
		if perr == nil {
			var whole bool
			if whole, perr = e.Stored.Whole(ctx, one.ID); perr == nil && !whole {
				perr = errors.New("the image is larger than upgrade.share")
			}
		}
		if perr != nil {
			left++
			e.Log.Warn("a runtime and an image are on this node only, which sessions in the blob "+
				"store need", "edition", id, "error", perr)
		}
	}
	return left
}

// turn returns the lock of the work on the blob store.
func (e *Survey) turn() ctxlock.Lock {
	e.once.Do(func() { e.sharing = ctxlock.New() })
	return e.sharing
}

// needed returns the editions that something on this node or in the blob store needs. After an error
// some are missing.
func (e *Survey) needed(ctx context.Context) (map[string]bool, error) {
	needed := map[string]bool{}
	for id, n := range e.counts() { // first: a session is in the store before it is away from here
		if n.Sessions+n.Hibernated+n.Copies+n.Snapshots > 0 {
			needed[id] = true
		}
	}
	stored, err := e.Carrier.Needed(ctx)
	maps.Copy(needed, stored)
	return needed, err
}

// isAlone reports whether there are nodes to which sessions can move, none of which has an edition.
func (e *Survey) isAlone(ctx context.Context, id string) bool {
	others, has, err := e.Others.Stays(ctx, id)
	return err == nil && others && !has
}

// put puts an edition into the blob store, unless it is there. The window of the current one begins
// when this node ends.
func (e *Survey) put(ctx context.Context, one edition.Edition) error {
	f, err := e.Store.Find(ctx, one.ID, false)
	if err != nil {
		return err
	}
	replaced := one.Replaced
	if one.Current {
		replaced = time.Now()
	}
	return e.Stored.Put(ctx, f, replaced)
}
