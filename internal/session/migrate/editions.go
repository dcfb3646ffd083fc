package migrate

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// A session in the blob store can be resumed with the edition that wrote its memory only: the runtime
// and the image. A node that lacks it leaves the session in the store until the window of the edition
// is over, and for the time of a window after the session was parked: the edition may have been the
// current one of the node that has parked it. Then the session is adopted, and ends with the reason
// "upgraded".

// Keys are the parts of a backend that show which snapshots a node can restore: see
// sandbox.Backend.
type Keys interface {
	Key(s sandbox.Spec) (string, error)
	Edition(dir string) (string, error)
	Restorable(ctx context.Context, edition string) error
}

// Editions are the editions that the sessions and snapshots of a node, and of the blob store, need.
type Editions struct{ m *Migrator }

// EditionsOf returns the editions of a node.
func EditionsOf(m *Migrator) Editions { return Editions{m} }

// OnDrain makes each drain call store while it parks the sessions. store puts the editions into the
// blob store that sessions there need, until ctx ends, and returns how many only this node has then.
func (e Editions) OnDrain(store func(ctx context.Context) (left int)) {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	e.m.storeEditions = store
}

// storeAll calls the function of OnDrain.
func (e Editions) storeAll(ctx context.Context) (left int) {
	e.m.mu.Lock()
	store := e.m.storeEditions
	e.m.mu.Unlock()
	if store == nil {
		return 0
	}
	left = store(ctx)
	e.m.cfg.Stats.EditionsLeft.Add(int64(left))
	return left
}

// setEdition sets the edition of a session whose snapshot is below folder. Without one, as for a
// session that has no snapshot, any node may try.
func (e Editions) setEdition(a *Manifest, folder string) {
	var err error
	if a.Edition, err = e.m.cfg.Keys.Edition(filepath.Join(folder, "snapshot")); err != nil {
		a.Edition = ""
	}
}

// checkEdition checks that this node can resume a session. Errors: Unavailable.
func (e Editions) checkEdition(ctx context.Context, from stored) error {
	const op = "session.adopt"
	var err error
	if from.Edition != "" {
		err = e.m.cfg.Keys.Restorable(ctx, from.Edition)
	} else if key, kerr := e.m.cfg.Keys.Key(sandbox.Spec{}); kerr != nil {
		return kerr
	} else if key != from.Key { // a node of an earlier release has written it
		err = fault.New(fault.Conflict, op, "the key is another one")
	}
	switch {
	case err == nil:
		return nil
	case from.parked && fault.Is(err, fault.Conflict):
		if time.Since(from.Parked) > e.m.cfg.Window {
			return nil
		}
		// The node that has parked it had the edition.
	case fault.Is(err, fault.Conflict):
		return &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: 30, Err: err,
			Message: "the session's node is gone, and its copy is of another version of the server or its image",
		}
	}
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, RetryAfter: waitFor(err), Err: err,
		Message: "the session stays in the store: " + fault.PublicOf(err).Message,
	}
}

// waitFor returns after how many seconds a client may ask again.
func waitFor(err error) int {
	var known *fault.Error
	if errors.As(err, &known) && known.RetryAfter > 0 {
		return known.RetryAfter
	}
	return 60
}

// Marks are empty objects that show how many parked sessions need an edition. They are a derived
// index: a mark without its session only makes a count too large, until the sweep removes it.
const marksFolder = "editions"

func markName(a Manifest) string { return path.Join(marksFolder, a.Edition, a.ID) }

// empty writes a mark.
func empty(io.Writer) error { return nil }

// removeMark removes the mark of a session that is no longer parked.
func (e Editions) removeMark(ctx context.Context, a Manifest) {
	if a.Edition == "" {
		return
	}
	if err := e.m.cfg.Blobs.Remove(ctx, markName(a)); err != nil {
		e.m.log.Debug("the mark of an adopted session stays for now", "session", a.ID, "error", err)
	}
}

// maxMarks bounds how many parked sessions are counted.
const maxMarks = 10_000

var errMany = errors.New("there are more")

// ParkedEditions counts the parked sessions of each edition, at most maxMarks of them.
func (e Editions) ParkedEditions(ctx context.Context) (map[string]int, error) {
	if !e.m.Shared() {
		return nil, nil
	}
	counts, n := map[string]int{}, 0
	err := e.m.cfg.Blobs.Walk(ctx, marksFolder, func(name string, _ time.Time) error {
		if n++; n > maxMarks {
			return errMany
		}
		counts[path.Base(path.Dir(name))]++
		return nil
	})
	if errors.Is(err, errMany) {
		err = nil
	}
	return counts, err
}

// EditionUse counts what on this node needs each edition.
func (e Editions) EditionUse() map[string]nodes.EditionUse {
	all := map[string]nodes.EditionUse{}
	add := func(edition string, change func(*nodes.EditionUse)) {
		if edition != "" {
			use := all[edition]
			change(&use)
			all[edition] = use
		}
	}
	// Before the sessions, so that one which is resumed meanwhile is counted once at least.
	hibernated := e.editionsIn(e.m.cfg.Folders.Sessions, 1)
	for _, id := range e.editionsIn(e.m.cfg.Folders.Kept, 1) {
		add(id, func(u *nodes.EditionUse) { u.Snapshots++ })
	}
	for _, id := range e.editionsIn(e.m.cfg.Copies.Dir(""), 2) {
		add(id, func(u *nodes.EditionUse) { u.Copies++ })
	}
	sessions, _ := e.m.cfg.Sessions.All()
	for _, s := range sessions {
		v := s.View()
		folder := e.m.cfg.Folders.session(v.ID)
		switch v.State {
		case "lost":
		case "hibernated":
			if hibernated[folder] == "" {
				hibernated[folder] = v.Edition
			}
		default:
			delete(hibernated, folder)
			add(v.Edition, func(u *nodes.EditionUse) { u.Sessions++ })
		}
	}
	for _, id := range hibernated {
		add(id, func(u *nodes.EditionUse) { u.Hibernated++ })
	}
	return all
}

// editionsIn returns the editions of the snapshots in the folders that are some levels below dir, by
// these folders. A folder that cannot be read has none.
func (e Editions) editionsIn(dir string, levels int) map[string]string {
	all := map[string]string{}
	if levels == 0 {
		if id, err := e.m.cfg.Keys.Edition(filepath.Join(dir, "snapshot")); err == nil {
			all[dir] = id
		}
		return all
	}
	entries, _ := os.ReadDir(dir)
	for _, one := range entries {
		maps.Copy(all, e.editionsIn(filepath.Join(dir, one.Name()), levels-1))
	}
	return all
}
