package session

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/snapshot"
)

// remoteState is what the node knows of a durable session's copies in the blob
// store.
type remoteState struct {
	writing ctxlock.Lock // held while something is written there; taken before mu

	mu     sync.Mutex // guards all below; a leaf
	number int        // of the copy that is there; 0 for none
	base   string     // its name
	noted  int64      // bytes of its journal that are there
	after  time.Time  // when to try again what has failed
}

// Limits of checkpoints.
const (
	// shipPiece is how much may be sent at once of what the rate allows.
	shipPiece = 1 << 20
	// noteLimit bounds a journal's way there.
	noteLimit = 20 * time.Second
)

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
	copied, a := s.copies.Newest(), &s.remote
	a.mu.Lock()
	there, noted, early := a.number, a.noted, now.Before(a.after)
	a.mu.Unlock()
	slots, do := m.uploading, s.uploadCopy
	switch {
	case copied == 0 || early:
		return
	case copied == there:
		info, err := os.Stat(s.copies.JournalFile(copied))
		if err != nil || info.Size() <= noted || info.Size() > migrate.MaxJournal {
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
			m.stats.CheckpointsFailed.Add(1)
			m.log.Warn("the blob store did not take the copy of a durable session", "session", s.spec.ID, "error", err)
			a.mu.Lock()
			a.after = time.Now().Add(m.cfg.DurableEvery)
			a.mu.Unlock()
		}
	})
}

// uploadCopy makes a checkpoint of the copy of that number.
func (s *Session) uploadCopy(ctx context.Context, number int) error {
	m := s.m
	if err := s.remote.writing.Lock(ctx); err != nil {
		return fault.Wrap(fault.KindOf(err), "session.ship", err)
	}
	defer s.remote.writing.Unlock()
	token, mine := m.cfg.Directory.Owns(cluster.SessionID(s.spec.ID))
	if !mine || s.moving.Load() {
		return nil
	}
	// Linked, so that it stays whole when there is a later one.
	dir := filepath.Join(m.forksDir(), newID())
	defer func() { _ = os.RemoveAll(dir) }() // the next start removes what remains
	err := snapshot.LinkDeep(s.copies.Folder(number), dir)
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
	c := migrate.Checkpoint{
		Manifest: migrate.Manifest{Version: migrate.Version, ID: s.spec.ID, Tenant: s.spec.Tenant, Created: s.spec.Created, Expires: s.status.Expires, Token: token},
		At:       copied.At, Node: m.cfg.Node, Base: migrate.CheckpointBase(s.spec.ID, token, number),
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
	if err := m.objects.PutJSON(ctx, migrate.ViewName(s.spec.Tenant, s.spec.ID), view); err != nil {
		return err
	}
	if t, mine := m.cfg.Directory.Owns(cluster.SessionID(s.spec.ID)); !mine || t != token {
		return nil // what was written is swept
	}
	if err := m.objects.PutJSON(ctx, c.Base+".about", c); err != nil {
		return err
	}
	s.remote.mu.Lock()
	s.remote.number, s.remote.base, s.remote.noted = number, c.Base, 0
	s.remote.mu.Unlock()
	m.stats.Checkpoints.Add(1)
	m.log.Info("a durable session's copy is in the blob store", "session", s.spec.ID, "token", token, "number", number, "as_of", c.At, "took", time.Since(begin))
	if c.State != migrate.StateName(s.spec.ID) {
		// From which it may have been fetched.
		if err := m.cfg.Blobs.Remove(ctx, migrate.StateName(s.spec.ID)); err != nil {
			return err
		}
	}
	return m.objects.Prune(ctx, c)
}

// uploadState uploads a copy, unless a process before this one has done so. It
// returns the object's name.
func (s *Session) uploadState(ctx context.Context, c migrate.Checkpoint, dir string) (string, error) {
	m := s.m
	s.remote.mu.Lock()
	first := s.remote.number == 0
	s.remote.mu.Unlock()
	if first {
		before, err := m.objects.NewestCheckpoint(ctx, s.spec.ID)
		if err == nil && before.At.Equal(c.At) && before.Node == c.Node {
			return before.State, nil
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return "", err
		}
	}
	name := c.Base + ".state"
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
		p.m.stats.CheckpointBytes.Add(int64(n))
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
	if err := s.remote.writing.Lock(ctx); err != nil {
		return fault.Wrap(fault.KindOf(err), "session.ship", err)
	}
	defer s.remote.writing.Unlock()
	s.remote.mu.Lock()
	base, there := s.remote.base, s.remote.number
	s.remote.mu.Unlock()
	if _, mine := s.m.cfg.Directory.Owns(cluster.SessionID(s.spec.ID)); !mine || there != number || s.moving.Load() {
		return nil
	}
	text, err := os.ReadFile(s.copies.JournalFile(number))
	if errors.Is(err, os.ErrNotExist) {
		return nil // there is a later copy
	}
	if err != nil || len(text) > migrate.MaxJournal {
		return fault.Wrap(fault.Host, "session.ship", err)
	}
	err = s.m.cfg.Blobs.Put(ctx, base+".journal", func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	s.remote.mu.Lock()
	defer s.remote.mu.Unlock()
	s.remote.noted = int64(len(text))
	return nil
}
