// Package notebook keeps copies of the notebooks of sessions on the node's disk, outside of
// sandboxes, so that a notebook outlives its sandbox. A notebook has versions.
package notebook

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
	wire "github.com/sandgate/sandgate/protocol/notebook"
)

const (
	// recordFile is the file of a notebook's folder that has its record. The other files have the
	// text of one version each.
	recordFile = "notebook.json"
	// newVersion is the time for which saves replace the newest version.
	newVersion = 5 * time.Minute
	// kept is how long a notebook is kept after its last save.
	kept = wire.Days * 24 * time.Hour
	// sweepEvery is the time between two searches for notebooks that are older.
	sweepEvery = time.Hour
)

// version is a version of a notebook, as in its record.
type version struct {
	ID    string    `json:"id"`
	Begun time.Time `json:"begun"` // its first save
	Saved time.Time `json:"saved"` // its last save
	Bytes int64     `json:"bytes"`
	Sum   string    `json:"sum"`  // a hash of the text
	File  string    `json:"file"` // with the text, in the notebook's folder
	// Name is that of a user; empty without one.
	Name string `json:"name,omitempty"`
	// Closed means that no later save replaces it, except one of the same text.
	Closed  bool   `json:"closed,omitempty"`
	Subject string `json:"subject,omitempty"`
}

// notebook is a record.
type notebook struct {
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Path    string `json:"path"`
	// Subject is the user or the key of the last save.
	Subject string `json:"subject,omitempty"`
	// Title is the title of the newest version; see titleOf.
	Title    string    `json:"title,omitempty"`
	Versions []version `json:"versions"` // oldest first; at least one
}

func (n *notebook) last() *version { return &n.Versions[len(n.Versions)-1] }

func (n *notebook) bytes() (sum int64) {
	for _, v := range n.Versions {
		sum += v.Bytes
	}
	return sum
}

// Store has the stored notebooks of a node. It is safe for concurrent use.
//
// Lock order: change, mu.
type Store struct {
	dir   string
	log   *slog.Logger
	now   func() time.Time
	count tenantlimit.Row
	space tenantlimit.Row
	saves *tenantlimit.Shares

	change sync.Mutex // held while records and files change
	swept  time.Time  // guarded by change
	mu     sync.Mutex // guards all, whose notebooks are replaced and not changed
	all    map[string]*notebook
}

// Open returns the store in a folder, which it creates. It removes files that no record names.
func Open(dir string, log *slog.Logger) (*Store, error) {
	s := &Store{
		dir: dir, log: log, now: time.Now, all: map[string]*notebook{},
		count: tenantlimit.Lookup(tenantlimit.Notebooks),
		space: tenantlimit.Lookup(tenantlimit.NotebookSpace),
		saves: tenantlimit.New(tenantlimit.Lookup(tenantlimit.NotebookSaves)),
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = s.readRecords()
	}
	return s, fault.Wrap(fault.Host, "notebook.open", err)
}

// readRecords reads the records. A folder without a record that can be read is left alone, so that an
// operator can repair it.
func (s *Store) readRecords() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(s.dir, e.Name())
		if !e.IsDir() {
			if err := os.Remove(name); err != nil { // a save that did not end
				return err
			}
			continue
		}
		n := new(notebook)
		data, err := os.ReadFile(filepath.Join(name, recordFile))
		switch {
		case errors.Is(err, fs.ErrNotExist): // its first save did not end
			err = os.RemoveAll(name)
		case err == nil:
			err = json.Unmarshal(data, n)
		}
		if err != nil {
			s.log.Warn("a stored notebook cannot be read", "folder", name, "error", err)
			continue
		}
		if n.ID != e.Name() || len(n.Versions) == 0 {
			continue
		}
		s.all[n.ID] = n
		s.clean(n)
	}
	return nil
}

// clean removes the files of a notebook that its record does not name.
func (s *Store) clean(n *notebook) {
	dir := filepath.Join(s.dir, n.ID)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		named := func(v version) bool { return v.File == e.Name() }
		if e.Name() != recordFile && !slices.ContainsFunc(n.Versions, named) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		s.log.Warn("old versions of a notebook are still there", "notebook", n.ID, "error", err)
	}
}

// idOf returns the id of a notebook. It is the same on all nodes.
func idOf(tenant, session, path string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + session + "\x00" + path))
	letters := base32.StdEncoding.WithPadding(base32.NoPadding)
	return "nb_" + strings.ToLower(letters.EncodeToString(sum[:16]))
}

// find returns a notebook of a tenant.
func (s *Store) find(op, tenant, id string) (*notebook, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.all[id]; n != nil && n.Tenant == tenant {
		return n, nil
	}
	return nil, &fault.Error{
		Kind: fault.NotFound, Op: op, Field: "notebook", Message: "there is no such notebook",
	}
}

// version returns a version of a notebook.
func (n *notebook) version(op, id string) (int, error) {
	i := slices.IndexFunc(n.Versions, func(v version) bool { return v.ID == id })
	if i < 0 {
		return 0, &fault.Error{
			Kind: fault.NotFound, Op: op, Field: "version",
			Message: "the notebook has no such version",
		}
	}
	return i, nil
}

// put writes a notebook's record, and then removes the files that it no longer names. The caller
// holds change.
func (s *Store) put(n *notebook) error {
	data, err := json.Marshal(n)
	if err == nil {
		err = atomicfile.Write(filepath.Join(s.dir, n.ID, recordFile), data)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.all[n.ID] = n
	s.mu.Unlock()
	s.clean(n)
	return nil
}

// remove removes a notebook. The caller holds change.
func (s *Store) remove(n *notebook) error {
	s.mu.Lock()
	delete(s.all, n.ID)
	s.mu.Unlock()
	// Without its record the folder is removed at the latest with the next start.
	err := os.Remove(filepath.Join(s.dir, n.ID, recordFile))
	return errors.Join(err, os.RemoveAll(filepath.Join(s.dir, n.ID)))
}

// expire removes notebooks that were not saved for a long time. The caller holds change.
func (s *Store) expire() {
	now := s.now()
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	for _, n := range s.list(func(n *notebook) bool { return now.Sub(n.last().Saved) > kept }) {
		if err := s.remove(n); err != nil {
			s.log.Warn("an old notebook was not removed", "notebook", n.ID, "error", err)
		}
	}
}

// list returns the notebooks that are wanted, the one that was saved last first.
func (s *Store) list(wanted func(*notebook) bool) []*notebook {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []*notebook
	for _, n := range s.all {
		if wanted(n) {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, func(a, b *notebook) int {
		return cmp.Or(b.last().Saved.Compare(a.last().Saved), cmp.Compare(a.ID, b.ID))
	})
	return found
}

// DiskUse returns the bytes that a tenant's notebooks use, and those of its notebooks that a subject
// has saved last.
func (s *Store) DiskUse(tenant, subject string) (all, own int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.all {
		if n.Tenant != tenant {
			continue
		}
		all += n.bytes()
		if n.Subject == subject {
			own += n.bytes()
		}
	}
	return all, own
}

func newName() string { return strings.ToLower(rand.Text()) }
