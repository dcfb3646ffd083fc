package snapshot

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Shared keeps snapshots where all nodes of a cluster find them. A snapshot is there completely or
// not at all. Errors of all methods: Unavailable if it cannot be reached.
type Shared interface {
	// Put stores a snapshot from its folder.
	Put(ctx context.Context, c *Manifest, dir string) error
	// Find returns the header of a tenant's snapshot, by id or name. Errors: NotFound.
	Find(ctx context.Context, tenant, ref string) (*Manifest, error)
	// List returns the headers of a tenant's snapshots.
	List(ctx context.Context, tenant string) ([]*Manifest, error)
	// Fetch writes a snapshot to a folder, which it creates. Errors: NotFound; Host if it is
	// damaged.
	Fetch(ctx context.Context, c *Manifest, dir string) error
	// Remove removes a snapshot, and what an interrupted Put has left of it.
	Remove(ctx context.Context, c *Manifest) error
}

// Names gives each name of a tenant to one snapshot while Shared does not have the snapshot yet.
type Names interface {
	// HoldSnapshotName gives a name to the snapshot with an id for a time, and frees it for a time
	// of 0. Errors: Conflict if another snapshot has it.
	HoldSnapshotName(ctx context.Context, tenant, name, id string, life time.Duration) error
}

// The states of snapshots as clients see them.
const (
	stateStored    = "stored"
	stateUploading = "uploading"
	stateLocal     = "local"
)

const (
	// lookLimit bounds the question whether a snapshot was deleted on another node. Without an
	// answer this node's copy counts.
	lookLimit = 3 * time.Second
	// removeLimit bounds the removal of an expired snapshot from Shared.
	removeLimit = 30 * time.Second
	// nameLife is how long a name is held. It is held again for each attempt of an upload.
	nameLife = 10 * time.Minute
	// markName is the file of a snapshot that Shared has. Its content is markOwn on the node that
	// took the snapshot, and markCopy on others.
	markName, markOwn, markCopy = "stored", "own", "copy"
)

// task is an upload, a fetch or a removal of a snapshot. A snapshot has one at a time.
type task struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed at the end; guards err
	err    error
}

// startTask starts a task of a snapshot that has none. Preconditions: mu is held.
func (h *Store) startTask(id string) *task {
	t := &task{done: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancel(h.cfg.Context)
	h.tasks[id] = t
	return t
}

// endTask ends a task. Preconditions: mu is held.
func (h *Store) endTask(id string, t *task, err error) {
	delete(h.tasks, id)
	t.cancel()
	t.err = err
	close(t.done)
}

// interrupt ends the task of a snapshot and begins another one.
func (h *Store) interrupt(ctx context.Context, id string) (end func(), err error) {
	for {
		h.mu.Lock()
		before := h.tasks[id]
		if before == nil {
			t := h.startTask(id)
			h.mu.Unlock()
			return func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.endTask(id, t, nil)
			}, nil
		}
		h.mu.Unlock()
		before.cancel()
		select {
		case <-before.done:
		case <-ctx.Done():
			return nil, fault.Wrap(fault.KindOf(ctx.Err()), protocol.OpSnapshotDel, ctx.Err())
		}
	}
}

// mark records in the folder of a snapshot that Shared has it.
func mark(dir, as string) error {
	return os.WriteFile(filepath.Join(dir, markName), []byte(as), 0o600)
}

// readMark reads what mark has recorded.
func readMark(dir string) (stored, isCopy bool) {
	as, err := os.ReadFile(filepath.Join(dir, markName))
	return err == nil, string(as) == markCopy
}

// viewOf returns a snapshot as clients see it.
func (cfg StoreConfig) viewOf(c *Manifest) protocol.Snapshot {
	v := c.View()
	switch {
	case cfg.Shared == nil:
	case c.Stored:
		v.State = stateStored
	case c.Bound:
		v.State = stateLocal
	default:
		v.State = stateUploading
	}
	return v
}

// holdName reserves a name for a new snapshot in the whole cluster. Errors: Conflict.
func (cfg StoreConfig) holdName(ctx context.Context, tenant, name, id string) error {
	if cfg.Shared == nil || name == "" {
		return nil
	}
	if err := cfg.Names.HoldSnapshotName(ctx, tenant, name, id, nameLife); err != nil {
		return err
	}
	_, err := cfg.Shared.Find(ctx, tenant, name)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	cfg.freeName(ctx, tenant, name, id)
	if err == nil {
		err = errNameTaken()
	}
	return err
}

// freeName frees the name of a snapshot that no longer exists.
func (cfg StoreConfig) freeName(ctx context.Context, tenant, name, id string) {
	if cfg.Shared == nil || name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	// Without an answer the name is free when nameLife is over.
	_ = cfg.Names.HoldSnapshotName(ctx, tenant, name, id, 0)
}

// current returns a snapshot of this node that was not changed on another node. A copy of a changed
// one is removed.
func (h *Store) current(ctx context.Context, p noderpc.Principal, ref string) (*Manifest, error) {
	for {
		c, err := h.Lookup(p, ref)
		if err != nil || !h.isGone(ctx, c) {
			return c, err
		}
		if err := h.dropCopy(c); err != nil {
			return nil, err
		}
	}
}

// isGone reports whether a snapshot was deleted, or carried over, on another node.
func (h *Store) isGone(ctx context.Context, c *Manifest) bool {
	if h.cfg.Shared == nil || !c.Stored {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	found, err := h.cfg.Shared.Find(ctx, c.Tenant, c.ID)
	return fault.Is(err, fault.NotFound) || err == nil && !found.Carried.Equal(c.Carried)
}

// reportStored reports until when a snapshot in Shared counts for quotas without this node.
func (cfg StoreConfig) reportStored(ctx context.Context, c *Manifest, until time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	// Verify reports it again.
	if err := cfg.Admission.ReportStored(ctx, c.Holder(), c.ID, until, c.Bytes); err != nil {
		cfg.Log.Warn("a snapshot may not count for its quotas when this node ends", "snapshot",
			c.ID, "error", err)
	}
}

// Verify removes this node's copies of snapshots that were deleted while the node was away. It
// reports the use of the others again, because the directory may have lost it.
func (h *Store) Verify(ctx context.Context) {
	h.mu.Lock()
	var all []*Manifest
	for _, c := range h.all {
		all = append(all, c)
	}
	h.mu.Unlock()
	for _, c := range all {
		if !h.isGone(ctx, c) {
			if c.Stored && !c.Copy {
				h.cfg.reportStored(ctx, c, c.ends())
			}
			continue
		}
		h.cfg.Log.Info("removed the copy of a deleted or carried snapshot", "snapshot", c.ID)
		if err := h.dropCopy(c); err != nil {
			h.cfg.Log.Warn("a snapshot was not removed", "snapshot", c.ID, "error", err)
		}
	}
}

// Stored returns the tenant's snapshots in Shared, newest first: all of them, or the one with an id
// or name.
func (h *Store) Stored(ctx context.Context, p noderpc.Principal, ref string) (
	protocol.SnapshotList, error,
) {
	out := protocol.SnapshotList{Snapshots: []protocol.Snapshot{}}
	if h.cfg.Shared == nil {
		return out, nil
	}
	all, err := h.cfg.Shared.List(ctx, p.Tenant)
	if ref != "" {
		var one *Manifest
		one, err = h.cfg.Shared.Find(ctx, p.Tenant, ref)
		if fault.Is(err, fault.NotFound) {
			return out, nil
		}
		all = []*Manifest{one}
	}
	if err != nil {
		return out, err
	}
	sortNewest(all)
	for _, c := range all {
		out.Snapshots = append(out.Snapshots, h.cfg.viewOf(c))
	}
	return out, nil
}

// Discard removes a principal's snapshot that no node has from Shared. Errors: NotFound,
// Unsupported without Shared.
func (h *Store) Discard(ctx context.Context, p noderpc.Principal, ref string) error {
	if h.cfg.Shared == nil {
		return fault.New(fault.Unsupported, protocol.OpSnapshotDel, "snapshots are not stored")
	}
	c, err := h.cfg.Shared.Find(ctx, p.Tenant, ref)
	if err != nil {
		return err
	}
	return h.drop(ctx, c)
}

// Unstored returns how many snapshots only this node has.
func (h *Store) Unstored() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.all {
		if !c.Stored {
			n++
		}
	}
	return n
}
