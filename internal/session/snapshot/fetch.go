package snapshot

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxFetches is how many snapshots are fetched at a time.
	maxFetches = 2
	// fetchLimit bounds a fetch with the wait for its turn.
	fetchLimit = 10 * time.Minute
	// openTries is how often Open fetches a snapshot whose copy is removed before it is used.
	openTries = 3
)

// use records the use of a snapshot's folder.
type use struct {
	users int
	last  time.Time
}

// Open returns a principal's snapshot with its whole manifest. It fetches the snapshot if this node
// does not have it. Its folder stays until release is called, unless the snapshot is deleted.
// Errors: NotFound; Unavailable if it is not here and Shared cannot be reached; Exhausted without
// room for it.
func (h *Store) Open(ctx context.Context, p noderpc.Principal, ref string) (
	c *Manifest, release func(), err error,
) {
	const op = "snapshot.open"
	for range openTries {
		found, err := h.current(ctx, p, ref)
		if err == nil {
			if c, release, err = h.hold(found); err == nil {
				return c, release, nil
			}
		}
		if h.cfg.Shared == nil || !fault.Is(err, fault.NotFound) {
			return nil, nil, err
		}
		if found, err = h.cfg.Shared.Find(ctx, p.Tenant, ref); err == nil {
			err = h.fetch(ctx, found)
		}
		if fault.Is(err, fault.Unavailable) {
			err = &fault.Error{
				Kind: fault.Unavailable, Op: op, RetryAfter: restoreRetry, Err: err,
				Message: "this node does not have the snapshot, and the blob store does not answer",
			}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, &fault.Error{
		Kind: fault.Unavailable, Op: op, RetryAfter: restoreRetry,
		Message: "the node has no room for the snapshot at the moment",
	}
}

// hold keeps the copy of a snapshot until release is called.
func (h *Store) hold(found *Manifest) (c *Manifest, release func(), err error) {
	h.mu.Lock()
	if h.all[found.ID] == nil {
		h.mu.Unlock()
		return nil, nil, unknown("snapshot.open")
	}
	u := h.uses[found.ID]
	if u == nil {
		u = &use{}
		h.uses[found.ID] = u
	}
	u.users++
	h.mu.Unlock()
	release = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		u.users--
		u.last = time.Now()
	}
	if c, err = ReadManifest(h.Dir(found.ID)); err != nil {
		release()
	}
	return c, release, err
}

// fetch brings a snapshot to this node. Callers for the same snapshot share one fetch, which
// continues without them.
func (h *Store) fetch(ctx context.Context, c *Manifest) error {
	h.mu.Lock()
	t := h.tasks[c.ID]
	if t == nil && h.all[c.ID] == nil {
		t = h.startTask(c.ID)
		h.cfg.Go(func() {
			err := h.receive(t.ctx, c)
			h.cfg.Moved.Fetched(err)
			if err != nil {
				h.cfg.Log.Warn("a snapshot was not fetched", "snapshot", c.ID, "error", err)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.endTask(c.ID, t, err)
		})
	}
	h.mu.Unlock()
	if t == nil {
		return nil // it is here by now
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "snapshot.fetch", ctx.Err())
	}
}

// receive writes a snapshot to its folder.
func (h *Store) receive(ctx context.Context, c *Manifest) error {
	const op = "snapshot.fetch"
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	select {
	case h.fetching <- struct{}{}:
		defer func() { <-h.fetching }()
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
	arrival := &pendingSnapshot{bytes: c.Bytes}
	h.mu.Lock()
	if !h.makeRoom(1, c.Bytes) {
		h.mu.Unlock()
		return fault.New(fault.Exhausted, op,
			"this node has no room for the snapshot beside its own; delete some").
			For(fault.CauseLimit)
	}
	h.pending[arrival] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.pending, arrival)
	}()
	dir := h.Dir(c.ID)
	work := dir + Partial
	defer func() { _ = os.RemoveAll(work) }() // the next start removes what remains
	if err := os.RemoveAll(work); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	if err := h.cfg.Shared.Fetch(ctx, c, work); err != nil {
		return err
	}
	got, err := ReadManifest(work)
	if err != nil {
		return err
	}
	if got.ID != c.ID || got.Tenant != c.Tenant {
		return fault.New(fault.Host, op, "the blob store has another snapshot in the place of %s", c.ID)
	}
	if err := mark(work, markCopy); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	if err := os.Rename(work, dir); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	header := got.Header()
	header.Stored, header.Copy = true, true
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[c.ID] = header
	h.bytes += header.Bytes
	h.uses[c.ID] = &use{last: time.Now()}
	return nil
}

// makeRoom removes copies of other nodes' snapshots, the least recently used ones first, until
// there is room for n more snapshots with some bytes. It reports whether there is. Preconditions:
// mu is held.
func (h *Store) makeRoom(n int, bytes int64) bool {
	for x := range h.pending {
		bytes += x.bytes
	}
	for len(h.all)+len(h.pending)+n > h.cfg.Max || h.bytes+bytes > h.cfg.MaxBytes {
		var oldest *Manifest
		for _, c := range h.all {
			if u := h.uses[c.ID]; c.Copy && h.tasks[c.ID] == nil && u.users == 0 &&
				(oldest == nil || u.last.Before(h.uses[oldest.ID].last)) {
				oldest = c
			}
		}
		if oldest == nil {
			return false
		}
		h.unlist(oldest)
		gone := filepath.Join(h.cfg.Dir, rand.Text()+Partial) // the next start removes it
		if os.Rename(h.Dir(oldest.ID), gone) == nil {
			h.cfg.Go(func() { _ = os.RemoveAll(gone) })
		}
	}
	return true
}

// unlist removes a snapshot from the list, and reports whether it was there. Preconditions: mu is
// held.
func (h *Store) unlist(c *Manifest) bool {
	if h.all[c.ID] == nil {
		return false
	}
	delete(h.all, c.ID)
	delete(h.uses, c.ID)
	delete(h.retry, c.ID)
	h.bytes -= c.Bytes
	return true
}

// dropCopy removes this node's copy of a snapshot.
func (h *Store) dropCopy(c *Manifest) error {
	h.mu.Lock()
	there := h.unlist(c)
	h.mu.Unlock()
	if !there {
		return nil
	}
	return fault.Wrap(fault.Host, protocol.OpSnapshotDel, Remove(h.Dir(c.ID)))
}
