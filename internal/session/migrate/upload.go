package migrate

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// uploadPiece is how many bytes of a copy are sent at once, in bytes.
	uploadPiece = 1 << 20
	// journalLimit bounds the upload of a journal.
	journalLimit = 20 * time.Second
)

// Uploads is the progress of the uploads of one session's copies. Each session has one from its
// start.
type Uploads struct {
	// writing is held over writes to the session's objects in the blob store. It is taken before mu.
	writing ctxlock.Lock

	mu sync.Mutex // guards all below; a leaf
	// the number of the copy in the newest checkpoint; 0 for a copy of another process
	number  int
	base    string    // the name of that checkpoint
	journal int64     // how many bytes of the copy's journal are uploaded
	retry   time.Time // a failed upload is not tried again before
}

// NewUploads returns the progress of a session without checkpoints.
func NewUploads() *Uploads { return &Uploads{writing: ctxlock.New()} }

// Uploaded records that a checkpoint has the copy with a number.
func (u *Uploads) Uploaded(number int, base string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.number, u.base, u.journal = number, base, 0
}

// newest returns the number of the copy that the newest checkpoint has, and the checkpoint's name.
func (u *Uploads) newest() (number int, base string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.number, u.base
}

// due reports whether a copy, or the journal of that copy, needs an upload.
func (u *Uploads) due(number int, journal string, now time.Time) (state, cells bool) {
	u.mu.Lock()
	uploaded, size, retry := u.number, u.journal, u.retry
	u.mu.Unlock()
	if now.Before(retry) {
		return false, false
	}
	if uploaded != number {
		return true, false
	}
	info, err := os.Stat(journal)
	return false, err == nil && info.Size() > size && info.Size() <= MaxJournal
}

// UploadDue uploads the newest copy of a durable session in the background, if the blob store does
// not have it. If it has, it uploads the journal with the cells that were acknowledged since. It does
// nothing while another upload of the same kind runs. The node calls it at each tick.
func (m *Migrator) UploadDue(s Movable, now time.Time) {
	if !m.cfg.Checkpoints || !m.Shared() {
		return
	}
	d := s.Describe()
	if !d.Durable || d.Bound != "" || d.Copy == 0 || s.Life().Err() != nil {
		return
	}
	journal := filepath.Join(d.CopyDir, snapshot.JournalName)
	state, cells := d.Uploads.due(d.Copy, journal, now)
	slot, upload := m.uploading, func(ctx context.Context) error {
		return m.uploadCopy(ctx, s,
			d.Copy, d.CopyDir)
	}
	if cells {
		slot, upload = m.uploadingJournal,
			func(ctx context.Context) error { return m.uploadJournal(ctx, s, d.Copy, journal) }
	}
	if !state && !cells || !slot.TryLock() {
		return
	}
	m.cfg.Go(func() {
		defer slot.Unlock()
		ctx, cancel := context.WithCancel(m.cfg.Context)
		defer cancel()
		defer context.AfterFunc(s.Life(), cancel)()
		if err := upload(ctx); err != nil && ctx.Err() == nil {
			m.cfg.Stats.CheckpointsFailed.Add(1)
			m.log.Warn("the blob store did not take the copy of a durable session", "session", d.ID,
				"error", err)
			d.Uploads.mu.Lock()
			d.Uploads.retry = time.Now().Add(m.cfg.Retry)
			d.Uploads.mu.Unlock()
		}
	})
}

// uploadCopy makes a checkpoint of a copy. The state and the view are written first, then the
// .about file, and then earlier checkpoints are removed: at each moment the store has a complete
// one. The ownership is checked again before the .about file: a node that has lost the session
// cannot replace the current checkpoint.
func (m *Migrator) uploadCopy(ctx context.Context, s Movable, number int, folder string) error {
	const op = "session.checkpoint"
	u := s.Describe().Uploads
	if err := u.writing.Lock(ctx); err != nil {
		return fault.Wrap(fault.KindOf(err), op, err)
	}
	defer u.writing.Unlock()
	d := s.Describe()
	token, owned := m.cfg.Owner.Lookup(d.ID)
	if !owned || d.Moving {
		return nil
	}
	// Links keep the copy complete if a later one replaces it.
	dir := m.cfg.Folders.temporary()
	defer func() { _ = os.RemoveAll(dir) }() // the next start removes what remains
	err := snapshot.LinkDeep(folder, dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a later copy has replaced it
	}
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	copied, err := snapshot.ReadManifest(dir)
	if err != nil {
		return err
	}
	c := Checkpoint{
		Manifest: Manifest{
			Version: Version, ID: d.ID, Tenant: d.Tenant, Created: d.Created, Expires: d.Expires,
			Token: token,
		},
		At: copied.At, Node: m.cfg.Node, Base: CheckpointBase(d.ID, token, number),
	}
	if c.Key, err = m.cfg.Keys.Key(sandbox.Spec{}); err != nil {
		return err
	}
	EditionsOf(m).setEdition(&c.Manifest, dir)
	begin := time.Now()
	if c.State, err = m.uploadState(ctx, u, c, dir); err != nil {
		return err
	}
	if err := m.objects.PutJSON(ctx, ViewName(d.Tenant, d.ID),
		hibernatedView(s.View())); err != nil {
		return err
	}
	if now, owned := m.cfg.Owner.Lookup(d.ID); !owned || now != token {
		return nil // the sweep removes what was written
	}
	if err := m.objects.PutCheckpoint(ctx, c); err != nil {
		return err
	}
	u.Uploaded(number, c.Base)
	m.cfg.Stats.Checkpoints.Add(1)
	m.log.Info("a durable session's copy is in the blob store",
		"session", d.ID, "token", token, "number", number, "as_of", c.At, "took", time.Since(begin))
	if c.State != StateName(d.ID) {
		// The session may have been fetched from this state.
		if err := m.cfg.Blobs.Remove(ctx, StateName(d.ID)); err != nil {
			return err
		}
	}
	return m.objects.Prune(ctx, c)
}

// uploadState uploads the state of a copy, unless an earlier process has done so. It returns the
// name of the object.
func (m *Migrator) uploadState(ctx context.Context, u *Uploads, c Checkpoint,
	dir string,
) (string, error) {
	if number, _ := u.newest(); number == 0 {
		before, err := m.objects.NewestCheckpoint(ctx, c.ID)
		if err == nil && before.At.Equal(c.At) && before.Node == c.Node {
			return before.State, nil
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return "", err
		}
	}
	name := c.Base + ".state"
	err := m.cfg.Blobs.Put(ctx, name, func(w io.Writer) error {
		return snapshot.Pack(&pacedWriter{w: w, ctx: ctx, m: m}, map[string]string{
			"session/session.json": filepath.Join(dir, "session.json"),
			"session/snapshot":     filepath.Join(dir, "snapshot"),
			"logs":                 filepath.Join(dir, "logs"),
		})
	})
	return name, err
}

// pacedWriter limits the bytes a second of all uploads of copies together.
type pacedWriter struct {
	w   io.Writer
	ctx context.Context
	m   *Migrator
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		piece := b[done:min(len(b), done+uploadPiece)]
		if err := p.m.pace.WaitN(p.ctx, len(piece)); err != nil {
			return done, err
		}
		n, err := p.w.Write(piece)
		p.m.cfg.Stats.CheckpointBytes.Add(int64(n))
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// uploadJournal uploads the cells that were acknowledged since the copy with a number, which the
// newest checkpoint has.
func (m *Migrator) uploadJournal(ctx context.Context, s Movable, number int, file string) error {
	const op = "session.checkpoint"
	ctx, cancel := context.WithTimeout(ctx, journalLimit)
	defer cancel()
	u := s.Describe().Uploads
	if err := u.writing.Lock(ctx); err != nil {
		return fault.Wrap(fault.KindOf(err), op, err)
	}
	defer u.writing.Unlock()
	d := s.Describe()
	uploaded, base := u.newest()
	if !m.cfg.Owner.Owns(d.ID) || uploaded != number || d.Moving {
		return nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // a later copy has replaced it
	}
	if err != nil || len(text) > MaxJournal {
		return fault.Wrap(fault.Host, op, err)
	}
	err = m.cfg.Blobs.Put(ctx, base+".journal", func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.journal = int64(len(text))
	return nil
}
