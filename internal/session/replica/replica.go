// Package replica keeps users' snapshots in the blob store, from where each node of a cluster
// fetches them.
package replica

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Blobs is the blob store. An object appears completely or not at all.
type Blobs interface {
	Put(ctx context.Context, name string, write func(io.Writer) error) error
	// Get returns NotFound for an object that does not exist. A read fails with Malformed when the
	// content was changed.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// Remove does nothing for an object that does not exist.
	Remove(ctx context.Context, name string) error
	// Walk calls f for each object below a folder, until f fails.
	Walk(ctx context.Context, folder string, f func(name string, changed time.Time) error) error
}

const (
	root = "snapshots"
	// about and state are the last parts of the names of a snapshot's objects.
	about, state = "about", "state"
	// maxAbout is the size of a description in bytes.
	maxAbout = 64 << 10
	// maxKnown is how many descriptions a node keeps.
	maxKnown = 20_000
	// maxListed is how many snapshots of a tenant are listed. A list of more is Unavailable.
	maxListed = 20_000
	// reads is how many descriptions are read at a time.
	reads = 8
	// cleanLimit bounds the removal of the objects of a Put that failed.
	cleanLimit = 10 * time.Second
)

// Store implements snapshot.Shared. A snapshot has two objects: its state, an archive of its
// folder, and its description, without which it is not there. They are written in this order and
// removed in the opposite order. Both change when the snapshot is carried over to another edition.
type Store struct {
	blobs Blobs

	mu    sync.Mutex // guards known; a leaf
	known map[string]known
}

// known is a description. changed is when its object was written, as a list has reported it.
type known struct {
	*snapshot.Manifest
	changed time.Time
}

// New returns the snapshots in a blob store.
func New(b Blobs) *Store { return &Store{blobs: b, known: map[string]known{}} }

// folder returns the folder of a tenant. It is named by a hash, because a tenant's name may contain
// any character.
func folder(tenant string) string {
	sum := sha256.Sum256([]byte(tenant))
	return root + "/" + hex.EncodeToString(sum[:16])
}

func object(c *snapshot.Manifest, part string) string {
	return folder(c.Tenant) + "/" + c.ID + "/" + part
}

// Put stores a snapshot from its folder.
func (s *Store) Put(ctx context.Context, c *snapshot.Manifest, dir string) error {
	err := s.blobs.Put(ctx, object(c, state), func(w io.Writer) error {
		return snapshot.Pack(w, map[string]string{"session": dir})
	})
	if err == nil {
		described := *c
		described.Version = snapshot.Version
		err = s.blobs.Put(ctx, object(c, about), func(w io.Writer) error {
			return json.NewEncoder(w).Encode(described)
		})
	}
	if err == nil || !c.Carried.IsZero() { // the earlier one is complete
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	return errors.Join(err, s.Remove(ctx, c)) // the sweep does it if this fails
}

// Find returns the description of a tenant's snapshot, by id or name.
func (s *Store) Find(ctx context.Context, tenant, ref string) (*snapshot.Manifest, error) {
	if snapshot.IsID(ref) {
		return s.read(ctx, folder(tenant)+"/"+ref+"/"+about, time.Time{})
	}
	all, err := s.List(ctx, tenant)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if ref != "" && c.Label == ref {
			return c, nil
		}
	}
	return nil, none()
}

// List returns the descriptions of a tenant's snapshots. It reads only those that it does not know.
func (s *Store) List(ctx context.Context, tenant string) (all []*snapshot.Manifest, err error) {
	return s.list(ctx, folder(tenant))
}

// All returns the descriptions of the snapshots of all tenants.
func (s *Store) All(ctx context.Context) ([]*snapshot.Manifest, error) { return s.list(ctx, root) }

func (s *Store) list(ctx context.Context, below string) (all []*snapshot.Manifest, err error) {
	unknown := map[string]time.Time{}
	err = s.blobs.Walk(ctx, below, func(name string, changed time.Time) error {
		if !strings.HasSuffix(name, "/"+about) {
			return nil
		}
		if len(all)+len(unknown) == maxListed {
			return fault.New(fault.Unavailable, "snapshot.list",
				"there are more than %d snapshots, which is too many for a list", maxListed)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if c, is := s.known[name]; !is || !c.changed.Equal(changed) {
			unknown[name] = changed
		} else if !c.Expired(time.Now()) {
			all = append(all, c.Manifest)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards all and err
	var work sync.WaitGroup
	turns := make(chan struct{}, reads)
	for name, changed := range unknown {
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			c, rerr := s.read(ctx, name, changed)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case rerr == nil:
				all = append(all, c)
			case !fault.Is(rerr, fault.NotFound): // it was deleted meanwhile, or is expired
				err = rerr
			}
		})
	}
	work.Wait()
	return all, err
}

// read reads a description. changed is when its object was written, if a list has reported it.
// Errors: NotFound, also for an expired snapshot.
func (s *Store) read(ctx context.Context, name string, changed time.Time) (
	*snapshot.Manifest, error,
) {
	r, err := s.blobs.Get(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return nil, none()
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxAbout))
	err = errors.Join(err, r.Close())
	c := new(snapshot.Manifest)
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	if err != nil || c.Version != snapshot.Version {
		return nil, &fault.Error{
			Kind: fault.Unavailable, Op: "snapshot.find", Err: err,
			Message: "what the blob store has of the snapshot cannot be read by this node",
		}
	}
	c.Stored = true
	s.mu.Lock()
	defer s.mu.Unlock()
	for other := range s.known { // in random order
		if len(s.known) < maxKnown {
			break
		}
		delete(s.known, other)
	}
	if !changed.IsZero() {
		s.known[name] = known{c, changed}
	}
	if c.Expired(time.Now()) {
		return nil, none()
	}
	return c, nil
}

func none() error {
	return &fault.Error{
		Kind: fault.NotFound, Op: "snapshot.find", Field: "snapshot",
		Message: "there is no such snapshot",
	}
}

// Fetch writes a snapshot to a folder. The checksum of the object is compared at its end.
func (s *Store) Fetch(ctx context.Context, c *snapshot.Manifest, dir string) error {
	const op = "snapshot.fetch"
	unpacked := dir + ".unpacked" + snapshot.Partial
	defer func() { _ = os.RemoveAll(unpacked) }()
	if err := errors.Join(os.RemoveAll(unpacked), os.MkdirAll(unpacked, 0o700)); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	r, err := s.blobs.Get(ctx, object(c, state))
	if fault.Is(err, fault.NotFound) {
		return none()
	}
	if err != nil {
		return err
	}
	if err = snapshot.Unpack(ctx, r, unpacked); err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	err = errors.Join(err, r.Close())
	if fault.Is(err, fault.Malformed) {
		return &fault.Error{
			Kind: fault.Host, Op: op, Err: err,
			Message: "what the blob store has of the snapshot is damaged",
		}
	}
	if err != nil {
		return err
	}
	return fault.Wrap(fault.Host, op, os.Rename(filepath.Join(unpacked, "session"), dir))
}

// Remove removes the objects of a snapshot, the description first.
func (s *Store) Remove(ctx context.Context, c *snapshot.Manifest) error {
	if err := s.blobs.Remove(ctx, object(c, about)); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.known, object(c, about))
	s.mu.Unlock()
	return s.blobs.Remove(ctx, object(c, state))
}
