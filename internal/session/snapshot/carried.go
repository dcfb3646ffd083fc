package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A snapshot whose edition ends is carried over to the current one: its files are kept, and its
// memory is not. It keeps its id. Manifest.Carried is when that happened. A node that has the
// snapshot as it was before fetches it again.

// WriteCarried completes the folder work, which has the sandbox of a snapshot that is carried
// over. dir is the folder of the snapshot before. c is its manifest, with the new sandbox.
func WriteCarried(work, dir string, c *Manifest) error {
	err := LinkDeep(filepath.Join(dir, "logs"), filepath.Join(work, "logs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a session without channels
		return err
	}
	c.Carried = time.Now()
	if c.Bytes, err = TreeSize(work); err != nil {
		return err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return errors.Join(atomicfile.Write(filepath.Join(work, "session.json"), data),
		syncTree(filepath.Join(work, "logs")), syncPath(work))
}

// Ending returns the headers of snapshots whose edition ends: those that this node has taken, and
// with all also those in Shared, which other nodes have taken. Errors are those of Shared.
func (h *Store) Ending(ctx context.Context, ends func(edition string) bool, all bool) (
	list []*Manifest, err error,
) {
	needs := func(c *Manifest) bool {
		return c.Edition != "" && !c.Expired(time.Now()) && ends(c.Edition)
	}
	own := map[string]bool{}
	h.mu.Lock()
	for id, c := range h.all {
		if !c.Copy && needs(c) {
			list = append(list, c)
		}
		own[id] = !c.Copy
	}
	h.mu.Unlock()
	if !all || h.cfg.All == nil {
		return list, nil
	}
	shared, err := h.cfg.All(ctx)
	for _, c := range shared {
		if !own[c.ID] && needs(c) {
			list = append(list, c)
		}
	}
	return list, err
}

// Carry carries a snapshot over that Ending has returned. renew writes it to the folder work, as one
// of the current edition, from the folder dir. A snapshot of another node becomes one of this node.
// Errors: Unavailable while the snapshot is used or moved, NotFound if it was deleted, and those of
// renew.
func (h *Store) Carry(ctx context.Context, c *Manifest,
	renew func(ctx context.Context, dir, work string) error,
) (err error) {
	if h.cfg.Shared != nil {
		if err := h.fetch(ctx, c); err != nil {
			return err
		}
	}
	h.mu.Lock()
	before := h.all[c.ID]
	if before == nil || h.tasks[c.ID] != nil {
		h.mu.Unlock()
		return errInUse
	}
	t := h.startTask(c.ID)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.endTask(c.ID, t, err)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	work := h.Dir(c.ID) + ".carried" + Partial
	defer func() { _ = os.RemoveAll(work) }() // the next start removes what remains
	if err := os.RemoveAll(work); err != nil {
		return fault.Wrap(fault.Host, "snapshot.carry", err)
	}
	if err := renew(ctx, h.Dir(c.ID), work); err != nil {
		return err
	}
	after, err := ReadManifest(work)
	if err == nil {
		err = h.replace(before, after, work)
	}
	return err
}

// errInUse is the error of a snapshot that cannot be carried over at the moment.
var errInUse = fault.New(fault.Unavailable, "snapshot.carry", "the snapshot is being used")

// replace exchanges the folder of a snapshot for the folder work.
func (h *Store) replace(before, after *Manifest, work string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[after.ID] != before {
		return unknown("snapshot.carry")
	}
	if u := h.uses[after.ID]; u != nil && u.users > 0 {
		return errInUse
	}
	if err := Exchange(work, h.Dir(after.ID)); err != nil {
		return fault.Wrap(fault.Host, "snapshot.carry", err)
	}
	h.bytes += after.Bytes - before.Bytes
	h.all[after.ID] = after.Header() // it is uploaded again
	delete(h.retry, after.ID)
	return nil
}

// Exchange exchanges two folders in one step. If the file system cannot do that, it takes two: a
// process that is killed between them leaves the session with its last copy.
func Exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	aside := a + ".earlier"
	if err := os.Rename(b, aside); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return errors.Join(err, os.Rename(aside, b))
	}
	return os.Rename(aside, a)
}
