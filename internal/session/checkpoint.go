package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/snapshot"
)

// A checkpoint is a durable session's copy in the blob store, from which another
// node goes on when the session's own is gone. It has the name
// checkpoints/<session>/<token>-<number>, with three endings: .state is what it
// is unpacked from; .about, written behind that, says so, and without it there
// is none; .journal lists the cells that were acknowledged since. Of several
// the greatest name counts. So a node that has lost the session and does not
// know it yet can write what it likes: its token is smaller than that of the one
// who has taken over.

// checkpoint is the content of an .about.
type checkpoint struct {
	parkedManifest
	// State is the object that it is unpacked from, At when the copy was made.
	State string    `json:"state"`
	At    time.Time `json:"at"`
	// Node wrote it.
	Node cluster.NodeID `json:"node"`

	base string // its name without the ending
}

// remoteState is what the node knows of a durable session's copies in the blob
// store.
type remoteState struct {
	writing ctxlock.Lock // held while something is written there; before keep.mu

	// The rest is guarded by keep.mu.
	number int       // of the copy that is there; 0 for none
	base   string    // its name
	noted  int64     // bytes of its journal that are there
	after  time.Time // when to try again what has failed
}

// Limits of checkpoints.
const (
	// shipPiece is how much may be sent at once of what the rate allows.
	shipPiece = 1 << 20
	// maxNoted is how much of a journal goes to the store: beyond 4,000 cells
	// they are lost with their node, without a word.
	maxNoted = 256 << 10
	// noteLimit bounds a journal's way there.
	noteLimit = 20 * time.Second
)

func checkpointFolder(id string) string { return "checkpoints/" + id }
func checkpointBase(id string, t cluster.Token, number int) string {
	return fmt.Sprintf("%s/%016x-%08d", checkpointFolder(id), uint64(t), number)
}

// clustered reports whether there are other nodes, and a blob store between them.
func (m *Manager) clustered() bool { return m.cfg.Blobs != nil && m.cfg.Directory != nil }

// uploads reports whether the session's copies go to the blob store. A session
// that needs something of this node alone could not run elsewhere.
func (m *Manager) uploads(s *Session) bool {
	return m.cfg.Checkpoints && m.clustered() && s.spec.Durable && s.spec.Layout.Image == "" && len(s.volumes.Mounts()) == 0
}

// uploadDue uploads a session's last copy to the blob store if it is not there, or
// else the cells since, in the background, when no other is on its way.
func (m *Manager) uploadDue(s *Session, now time.Time) {
	if !m.uploads(s) || s.IsLost() {
		return
	}
	s.durability.mu.Lock()
	a := &s.durability.remote
	copied, there, noted, early := s.durability.copied, a.number, a.noted, now.Before(a.after)
	s.durability.mu.Unlock()
	slots, do := m.uploading, s.uploadCopy
	switch {
	case copied == 0 || early:
		return
	case copied == there:
		info, err := os.Stat(s.journalFile(copied))
		if err != nil || info.Size() <= noted || info.Size() > maxNoted {
			return
		}
		slots, do = m.uploadingJournal, s.uploadJournal
	}
	if !slots.TryLock() {
		return
	}
	m.work.Go(func() {
		defer slots.Unlock()
		ctx, cancel := context.WithCancel(m.ctx)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		if err := do(ctx, copied); err != nil && ctx.Err() == nil {
			m.count.checkpointsFailed.Add(1)
			m.log.Warn("the blob store did not take the copy of a durable session", "session", s.spec.ID, "error", err)
			s.durability.mu.Lock()
			a.after = time.Now().Add(m.cfg.DurableEvery)
			s.durability.mu.Unlock()
		}
	})
}

func (s *Session) journalFile(number int) string {
	return filepath.Join(s.m.durableDir(s.spec.ID), fmt.Sprintf("%08d", number), snapshot.JournalName)
}

// uploadCopy makes a checkpoint of the copy of that number.
func (s *Session) uploadCopy(ctx context.Context, number int) error {
	m := s.m
	if err := s.durability.remote.writing.Lock(ctx); err != nil {
		return fault.Wrap(fault.KindOf(err), "session.ship", err)
	}
	defer s.durability.remote.writing.Unlock()
	token, mine := m.cfg.Directory.Owns(cluster.SessionID(s.spec.ID))
	if !mine || s.moving.Load() {
		return nil
	}
	// Linked, so that it stays whole when there is a later one.
	dir := filepath.Join(m.forksDir(), newID())
	defer func() { _ = os.RemoveAll(dir) }() // the next start removes what remains
	err := snapshot.LinkDeep(filepath.Join(m.durableDir(s.spec.ID), fmt.Sprintf("%08d", number)), dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // there is a later one
	}
	if err != nil {
		return fault.Wrap(fault.Host, "session.ship", err)
	}
	copied, err := snapshot.ReadManifest(dir)
	if err != nil {
		return err
	}
	c := checkpoint{
		parkedManifest: parkedManifest{Version: aboutVersion, ID: s.spec.ID, Tenant: s.spec.Tenant, Created: s.spec.Created, Expires: s.status.Expires, Token: token},
		At:             copied.At, Node: m.cfg.Node, base: checkpointBase(s.spec.ID, token, number),
	}
	if c.Key, err = m.cfg.Backend.Key(sandbox.Spec{}); err != nil {
		return err
	}
	begin := time.Now()
	if c.State, err = s.uploadState(ctx, c, dir); err != nil {
		return err
	}
	view := s.View()
	view.State, view.Reason, view.Usage = hibernated.String(), "", nil
	if err := m.putJSON(ctx, viewName(s.spec.Tenant, s.spec.ID), view); err != nil {
		return err
	}
	if t, mine := m.cfg.Directory.Owns(cluster.SessionID(s.spec.ID)); !mine || t != token {
		return nil // what was written is swept
	}
	if err := m.putJSON(ctx, c.base+".about", c); err != nil {
		return err
	}
	s.durability.mu.Lock()
	s.durability.remote.number, s.durability.remote.base, s.durability.remote.noted = number, c.base, 0
	s.durability.mu.Unlock()
	m.count.checkpoints.Add(1)
	m.log.Info("a durable session's copy is in the blob store", "session", s.spec.ID, "token", token, "number", number, "as_of", c.At, "took", time.Since(begin))
	if c.State != stateName(s.spec.ID) {
		// From which it may have been fetched.
		if err := m.cfg.Blobs.Remove(ctx, stateName(s.spec.ID)); err != nil {
			return err
		}
	}
	return m.prune(ctx, c)
}

// uploadState uploads a copy, unless a process before this one has done so. It
// returns the object's name.
func (s *Session) uploadState(ctx context.Context, c checkpoint, dir string) (string, error) {
	m := s.m
	s.durability.mu.Lock()
	first := s.durability.remote.number == 0
	s.durability.mu.Unlock()
	if first {
		before, err := m.newestCheckpoint(ctx, s.spec.ID)
		if err == nil && before.At.Equal(c.At) && before.Node == c.Node {
			return before.State, nil
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return "", err
		}
	}
	name := c.base + ".state"
	err := m.cfg.Blobs.Put(ctx, name, func(w io.Writer) error {
		return snapshot.Pack(&throttled{w: w, ctx: ctx, m: m}, map[string]string{
			"session/session.json": filepath.Join(dir, "session.json"), "session/snapshot": filepath.Join(dir, "snapshot"), "logs": filepath.Join(dir, "logs"),
		})
	})
	return name, err
}

// throttled writes as fast as the node's checkpoints may together.
type throttled struct {
	w   io.Writer
	ctx context.Context
	m   *Manager
}

func (p *throttled) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		piece := b[done:min(len(b), done+shipPiece)]
		if err := p.m.pace.WaitN(p.ctx, len(piece)); err != nil {
			return done, err
		}
		n, err := p.w.Write(piece)
		p.m.count.checkpointBytes.Add(int64(n))
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// uploadJournal uploads the cells that were acknowledged since the copy.
func (s *Session) uploadJournal(ctx context.Context, number int) error {
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	if err := s.durability.remote.writing.Lock(ctx); err != nil {
		return fault.Wrap(fault.KindOf(err), "session.ship", err)
	}
	defer s.durability.remote.writing.Unlock()
	s.durability.mu.Lock()
	base, there := s.durability.remote.base, s.durability.remote.number
	s.durability.mu.Unlock()
	if _, mine := s.m.cfg.Directory.Owns(cluster.SessionID(s.spec.ID)); !mine || there != number || s.moving.Load() {
		return nil
	}
	text, err := os.ReadFile(s.journalFile(number))
	if errors.Is(err, os.ErrNotExist) {
		return nil // there is a later copy
	}
	if err != nil || len(text) > maxNoted {
		return fault.Wrap(fault.Host, "session.ship", err)
	}
	err = s.m.cfg.Blobs.Put(ctx, base+".journal", func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	s.durability.mu.Lock()
	defer s.durability.mu.Unlock()
	s.durability.remote.noted = int64(len(text))
	return nil
}

// prune removes what is of earlier checkpoints than c, the abouts first.
func (m *Manager) prune(ctx context.Context, c checkpoint) error {
	return m.clear(ctx, c.ID, func(name string) bool {
		return name != c.State && name[:len(name)-len(path.Ext(name))] < c.base
	})
}

// clear removes the objects of a session's checkpoints that are to go, the
// abouts first.
func (m *Manager) clear(ctx context.Context, id string, goes func(name string) bool) error {
	var abouts, rest []string
	err := m.cfg.Blobs.Walk(ctx, checkpointFolder(id), func(name string, _ time.Time) error {
		switch {
		case !goes(name):
		case strings.HasSuffix(name, ".about"):
			abouts = append(abouts, name)
		default:
			rest = append(rest, name)
		}
		return nil
	})
	for _, name := range append(abouts, rest...) {
		if err == nil {
			err = m.cfg.Blobs.Remove(ctx, name)
		}
	}
	return err
}

func all(string) bool { return true }

// newestCheckpoint returns the one that counts: NotFound when there is none.
func (m *Manager) newestCheckpoint(ctx context.Context, id string) (checkpoint, error) {
	const op = "session.checkpoint"
	var c checkpoint
	newest := ""
	for range 3 { // it may be replaced meanwhile
		newest = ""
		err := m.cfg.Blobs.Walk(ctx, checkpointFolder(id), func(name string, _ time.Time) error {
			if strings.HasSuffix(name, ".about") {
				newest = max(newest, name)
			}
			return nil
		})
		if err != nil {
			return c, err
		}
		if newest == "" {
			break
		}
		r, err := m.cfg.Blobs.Get(ctx, newest)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return c, err
		}
		text, err := io.ReadAll(io.LimitReader(r, maxAbout))
		if err = errors.Join(err, r.Close()); err != nil {
			return c, err
		}
		c.base = strings.TrimSuffix(newest, ".about")
		if err := json.Unmarshal(text, &c); err != nil || c.Version != aboutVersion || c.ID != id {
			return c, &fault.Error{Kind: fault.Unavailable, Op: op, Message: "what the blob store has of the session cannot be read by this node", Err: err}
		}
		return c, nil
	}
	return c, &fault.Error{Kind: fault.NotFound, Op: op, Field: "session", Message: "there is no such session"}
}
