package snapshot

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxUploads is how many snapshots are uploaded at a time.
	maxUploads = 2
	// uploadLimit bounds an upload. A failed one is tried again after uploadRetry.
	uploadLimit = time.Hour
	uploadRetry = 30 * time.Second
)

// Upload stores the snapshots in Shared that only this node has, in the background. The node calls
// it at each tick.
func (h *Store) Upload(now time.Time) {
	if h.cfg.Shared == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, c := range h.all {
		if h.uploading == maxUploads {
			return
		}
		if c.Stored || c.Bound || c.Expired(now) || h.tasks[id] != nil || now.Before(h.retry[id]) {
			continue
		}
		t := h.startTask(id)
		h.uploading++
		h.cfg.Go(func() { h.upload(c, t) })
	}
}

func (h *Store) upload(c *Manifest, t *task) {
	ctx, cancel := context.WithTimeout(t.ctx, uploadLimit)
	defer cancel()
	dir := h.Dir(c.ID)
	var err error
	if c.Label != "" {
		err = h.cfg.Names.HoldSnapshotName(ctx, c.Tenant, c.Label, c.ID, nameLife)
	}
	if err == nil || !fault.Is(err, fault.Conflict) { // the directory may be away
		err = h.cfg.Shared.Put(ctx, c, dir)
	}
	if err == nil {
		err = mark(dir, markOwn)
	}
	interrupted := t.ctx.Err() != nil
	h.mu.Lock()
	h.uploading--
	if err == nil {
		stored := *c
		stored.Stored = true
		h.all[c.ID] = &stored
		delete(h.retry, c.ID)
	} else {
		h.retry[c.ID] = time.Now().Add(uploadRetry)
	}
	h.endTask(c.ID, t, err)
	h.mu.Unlock()
	switch {
	case err == nil:
		h.cfg.Moved.Uploaded(nil)
		h.cfg.reportStored(h.cfg.Context, c, c.ends())
		h.cfg.Log.Info("a snapshot is in the blob store", "snapshot", c.ID, "bytes", c.Bytes)
	case !interrupted:
		h.cfg.Moved.Uploaded(err)
		h.cfg.Log.Warn("the blob store did not take a snapshot", "snapshot", c.ID, "error", err)
	}
}

// UploadAll waits until Shared has the snapshots of this node, as far as it takes them, or until
// ctx ends. It returns how many only this node has then.
func (h *Store) UploadAll(ctx context.Context) int {
	for {
		h.Upload(time.Now())
		h.mu.Lock()
		var work *task
		for id, t := range h.tasks {
			if c := h.all[id]; c != nil && !c.Stored {
				work = t
			}
		}
		h.mu.Unlock()
		if work == nil {
			return h.Unstored()
		}
		select {
		case <-work.done:
		case <-ctx.Done():
			return h.Unstored()
		}
	}
}
