// Package tenant knows who may come in and how much each may hold: API keys
// with their roles, and the quotas of tenants and keys. A node keeps them in a
// file; gateways are given the table of it and hold nothing else.
package tenant

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
)

const (
	// MaxKeys is how many keys there are at most, and MaxTenants how many
	// tenants have a quota of their own. A table of so many has at most 5 MiB, and a frame 8.
	MaxKeys    = 5_000
	MaxTenants = 1_000
	// maxFile is how large the file may be that a store reads, in bytes.
	maxFile = 16 << 20
	// seal is how many bytes a table's secret has.
	seal = 32
)

// Store keeps a table in a file of mode 0600. It is safe for concurrent use;
// each change is on the disk before it is seen.
type Store struct {
	path string

	writing sync.Mutex // held over a change, while the file is written

	mu      sync.Mutex // guards all below; leaf
	index   *Index
	changed chan struct{} // closed at the next change
}

// Open reads the file at path. One that is not there is made.
func Open(path string) (*Store, error) {
	s := &Store{path: path, changed: make(chan struct{})}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads the file again: another program may have put it there. One that
// cannot be read changes nothing.
func (s *Store) Reload() error {
	const op = "tenant.load"
	s.writing.Lock()
	defer s.writing.Unlock()
	b, err := readFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		t := Table{Version: 1, Seal: make([]byte, seal)}
		_, _ = rand.Read(t.Seal) // never fails
		return s.write(t)
	}
	var t Table
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return &fault.Error{Kind: fault.Host, Op: op, Message: "cannot read the keys in " + s.path, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index != nil {
		t.Version = max(t.Version, s.index.Version+1)
	}
	s.set(t)
	return nil
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fault.New(fault.TooLarge, "tenant.load", "the file has %d bytes, the limit is %d", info.Size(), maxFile)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fault.New(fault.Host, "tenant.load", "others than its owner can read it; chmod 600 it")
	}
	return os.ReadFile(path)
}

func (t *Table) check() error {
	const op = "tenant.load"
	if len(t.Seal) != seal {
		return fault.New(fault.Malformed, op, "the seal has not %d bytes", seal)
	}
	seen := map[string]bool{}
	for _, k := range t.Keys {
		if !k.Role.Known() || CheckName(op, k.Tenant) != nil || k.ID == "" || len(k.Hash) != 64 || seen[k.ID] {
			return fault.New(fault.Malformed, op, "the key %.40q is not whole, or is there twice", k.ID)
		}
		seen[k.ID] = true
	}
	return nil
}

// set has those who wait see the table. mu is held.
func (s *Store) set(t Table) {
	s.index = NewIndex(t)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Index returns the present table, and a channel that is closed when it is no
// longer that.
func (s *Store) Index() (*Index, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index, s.changed
}

// change writes the table that f makes of a copy of the present one.
func (s *Store) change(f func(t *Table) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	now, _ := s.Index()
	t := now.Table
	t.Keys, t.Tenants = slices.Clone(t.Keys), maps.Clone(t.Tenants)
	// What has expired a month ago nobody asks about any more.
	t.Keys = slices.DeleteFunc(t.Keys, func(k Key) bool { return !k.Good(time.Now().Add(-30 * 24 * time.Hour)) })
	if err := f(&t); err != nil {
		return err
	}
	t.Version++
	return s.write(t)
}

// write puts the table into the file, whole or not at all. writing is held.
func (s *Store) write(t Table) error {
	const op = "tenant.store"
	b, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	if err := replace(s.path, b); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(t)
	return nil
}

func replace(path string, data []byte) error {
	part := path + ".new"
	_ = os.Remove(part)
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Create makes a key of k's name, tenant, role, expiry, maker and quota. The
// secret is told this once.
func (s *Store) Create(k Key) (made Key, secret string, err error) {
	const op = "key.create"
	now := time.Now().UTC().Truncate(time.Second)
	if err := k.check(op, now); err != nil {
		return Key{}, "", err
	}
	made = Key{ID: random(idBytes), Name: k.Name, Tenant: k.Tenant, Role: k.Role, Created: now, By: k.By, Expires: k.Expires, Quota: k.Quota}
	secret, made.Hash = newSecret(made.ID)
	err = s.change(func(t *Table) error {
		if len(t.Keys) >= MaxKeys {
			return fault.New(fault.Exhausted, op, "there are %d keys, which is the limit; revoke some", len(t.Keys))
		}
		t.Keys = append(t.Keys, made)
		return nil
	})
	return made, secret, err
}

// at finds a tenant's key of that id; an empty tenant means any. A key of
// another tenant is as unknown as one that never was.
func (t *Table) at(op, tenant, id string) (int, error) {
	i := slices.IndexFunc(t.Keys, func(k Key) bool { return k.ID == id && (tenant == "" || k.Tenant == tenant) })
	if i < 0 {
		return 0, &fault.Error{Kind: fault.NotFound, Op: op, Field: "id", Message: "there is no such key"}
	}
	return i, nil
}

// Get returns a tenant's key of that id; an empty tenant means any.
func (s *Store) Get(tenant, id string) (Key, error) {
	x, _ := s.Index()
	i, err := x.at("key.get", tenant, id)
	if err != nil {
		return Key{}, err
	}
	return x.Keys[i], nil
}

// Rotate gives a key another secret. The one before stays good for keep.
func (s *Store) Rotate(tenant, id string, keep time.Duration) (made Key, secret string, err error) {
	const op = "key.rotate"
	if keep < 0 || keep > MaxKeep {
		return Key{}, "", fault.Invalid(op, "keep_seconds", "a secret stays good for 0 to %d seconds after its rotation", int64(MaxKeep/time.Second))
	}
	err = s.change(func(t *Table) error {
		i, err := t.at(op, tenant, id)
		if err != nil {
			return err
		}
		k := &t.Keys[i]
		now := time.Now().UTC().Truncate(time.Second)
		k.Previous, k.Until, k.Rotated = "", time.Time{}, now
		if keep > 0 {
			k.Previous, k.Until = k.Hash, now.Add(keep)
		}
		secret, k.Hash = newSecret(k.ID)
		made = *k
		return nil
	})
	return made, secret, err
}

// Revoke ends a key.
func (s *Store) Revoke(tenant, id string) error {
	return s.change(func(t *Table) error {
		i, err := t.at("key.revoke", tenant, id)
		if err != nil {
			return err
		}
		t.Keys = slices.Delete(t.Keys, i, i+1)
		return nil
	})
}

// SetQuota gives a tenant a quota of its own; "*" stands for all that have
// none, and nil takes it away.
func (s *Store) SetQuota(tenant string, q *Quota) error {
	const op = "tenant.quota"
	if tenant != "*" {
		if err := CheckName(op, tenant); err != nil {
			return err
		}
	}
	if q != nil {
		if err := q.check(op); err != nil {
			return err
		}
	}
	return s.change(func(t *Table) error {
		switch {
		case tenant == "*" && q == nil:
			t.Default = Quota{}
		case tenant == "*":
			t.Default = *q
		case q == nil:
			delete(t.Tenants, tenant)
		case len(t.Tenants) >= MaxTenants && t.Tenants[tenant] == Quota{}:
			return fault.New(fault.Exhausted, op, "%d tenants have a quota of their own, which is the limit", len(t.Tenants))
		default:
			if t.Tenants == nil {
				t.Tenants = map[string]Quota{}
			}
			t.Tenants[tenant] = *q
		}
		return nil
	})
}
