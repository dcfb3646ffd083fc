// Package tenant stores API keys with their roles, and the quotas of tenants and keys. One node
// stores them in a file, the nodes of a cluster in a shared store. Gateways receive the key table
// and store nothing else.
package tenant

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// MaxTenants is the maximum number of tenants with a quota of their own. A table with as many
	// tenants, keys and links as there may be has at most 7 MiB, and a frame at most 8 MiB.
	MaxTenants = 1_000
	// DefaultGrace is how long keys stay valid while a shared store does not answer, unless the
	// settings say otherwise.
	DefaultGrace = 10 * time.Minute

	// seal is the length of a table's secret in bytes.
	seal = 32
	// look is the time between two requests to a shared store for changes. The store also reports
	// changes at once; the requests show that it still answers.
	look = time.Second
	// lookWait bounds one such request, changeWait a change of the table.
	lookWait   = 3 * time.Second
	changeWait = 10 * time.Second
	// changeTries is how often a change is repeated because another change came first.
	changeTries = 20
)

// KeyTableStore keeps the key table. Versions increase.
type KeyTableStore interface {
	// Load returns the stored version, 0 for none, and its bytes unless the version
	// is have.
	Load(ctx context.Context, have uint64) (version uint64, table []byte, err error)
	// Replace replaces version was by version is. Conflict means that another
	// version is stored. Restarting means that the store is new and accepts no
	// changes before all nodes had the time to restore what it has lost.
	Replace(ctx context.Context, was, is uint64, table []byte) error
	// Restore stores a version unless the same or a later one is stored.
	Restore(ctx context.Context, is uint64, table []byte) error
	// Watch reports until ctx ends that another version may be stored. One event
	// may stand for several.
	Watch(ctx context.Context) <-chan struct{}
}

// Copy keeps a copy of the key table on a node.
type Copy interface {
	// Load returns the version of the copy, 0 for none, and its bytes unless the
	// version is have.
	Load(ctx context.Context, have uint64) (version uint64, table []byte, err error)
	// Put replaces the copy.
	Put(table []byte) error
}

// Options are the options of a Store.
type Options struct {
	Tables KeyTableStore
	// Copy gets each new version of the table. The node restores it in a key table store that has
	// lost its data. nil means none.
	Copy Copy
	// Grace is how long keys are valid while the key table store is unreachable. 0 means forever,
	// which is right for a store that is not shared.
	Grace  time.Duration
	Logger *slog.Logger
}

// Store serves and changes the key table of a KeyTableStore. It is safe for concurrent
// use. A change is stored before it is visible.
type Store struct {
	tables KeyTableStore
	grace  time.Duration
	copy   Copy // nil without one
	log    *slog.Logger

	hashes  Places        // for hashing passwords
	writing chan struct{} // held while the key table store is used; a lock with a context

	mu      sync.Mutex // guards all below; leaf
	index   *Index     // its version is 0 before the first load
	known   *Table     // the last table that was seen; nil for none
	away    bool       // the key table store does not answer
	heard   time.Time  // the time of its last answer
	changed chan struct{}
}

// Open returns a store that has read the table. It creates a table that is missing.
func Open(tables KeyTableStore) (*Store, error) {
	s := New(Options{Tables: tables})
	return s, s.Reload()
}

// New returns a store without keys. Reload or Run loads them.
func New(o Options) *Store {
	s := &Store{
		tables: o.Tables, copy: o.Copy, grace: o.Grace, log: o.Logger,
		writing: make(chan struct{}, 1), hashes: NewPlaces(1),
		index: NewIndex(Table{}), changed: make(chan struct{}), heard: time.Now(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.copy != nil {
		if t, err := read(context.Background(), s.copy, 0); err == nil {
			s.known = t
		} else {
			s.log.Warn("the copy of the keys cannot be read", "error", err)
		}
	}
	return s
}

// Run follows a shared store until ctx ends.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	changed := s.tables.Watch(ctx)
	for {
		_ = s.reload(ctx) // Index reports the error to callers
		select {
		case _, open := <-changed:
			if !open {
				changed = nil
			}
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Reload loads the table, which another program may have changed. If the table cannot be read,
// nothing changes.
func (s *Store) Reload() error { return s.reload(context.Background()) }

func (s *Store) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return s.sync(ctx)
}

func (s *Store) lock(ctx context.Context) error {
	select {
	case s.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &fault.Error{
			Kind: fault.Unavailable, Op: "tenant.store", RetryAfter: 1,
			Message: "others are changing the keys", Err: ctx.Err(),
		}
	}
}

func (s *Store) unlock() { <-s.writing }

// loader is a KeyTableStore or a Copy.
type loader interface {
	Load(ctx context.Context, have uint64) (version uint64, table []byte, err error)
}

// read returns the table in a store. It returns nil if the store has no table, or its version is
// have.
func read(ctx context.Context, from loader, have uint64) (*Table, error) {
	version, b, err := from.Load(ctx, have)
	if err != nil || version == have || version == 0 {
		return nil, err
	}
	return parse(version, b)
}

func parse(version uint64, b []byte) (*Table, error) {
	const op = "tenant.load"
	var t Table
	err := json.Unmarshal(b, &t)
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return nil, &fault.Error{
			Kind: fault.Host, Op: op, Message: "the key table cannot be read",
			Err: err,
		}
	}
	t.Version = version
	return &t, nil
}

// sync loads the stored table, or restores it in a store that has lost it. writing is held.
func (s *Store) sync(ctx context.Context) error {
	s.mu.Lock()
	known, have := s.known, s.index.Version
	s.mu.Unlock()
	version, b, err := s.tables.Load(ctx, have)
	if err == nil && (version == 0 || known != nil && version < known.Version) {
		if known != nil {
			s.log.Warn("the key table store has lost the table; this node restores its copy",
				"version", known.Version, "found", version)
		} else {
			// Any table of another node is newer than this one.
			known = &Table{Version: 1, Seal: make([]byte, seal)}
			_, _ = rand.Read(known.Seal) // never fails
		}
		var out []byte
		if out, err = encode(*known); err == nil {
			err = s.tables.Restore(ctx, known.Version, out)
		}
		if err == nil {
			version, b, err = s.tables.Load(ctx, 0)
		}
	}
	var t *Table
	if err == nil && b != nil {
		t, err = parse(version, b)
	}
	if err != nil {
		s.lost(err)
		return err
	}
	s.set(t)
	return nil
}

func encode(t Table) ([]byte, error) {
	b, err := json.MarshalIndent(t, "", " ")
	return b, fault.Wrap(fault.Internal, "tenant.store", err)
}

func (t *Table) check() error {
	const op = "tenant.load"
	if len(t.Seal) != seal {
		return fault.New(fault.Malformed, op, "the seal does not have %d bytes", seal)
	}
	seen := map[string]bool{}
	for _, k := range t.Keys {
		if !k.Role.Known() || CheckName(op, k.Tenant) != nil || k.ID == "" || len(k.Hash) != 64 ||
			seen[k.ID] {
			return fault.New(fault.Malformed, op, "the key %.40q is incomplete, or exists twice",
				k.ID)
		}
		seen[k.ID] = true
	}
	return nil
}

// set replaces the table and wakes those who wait for changes. A nil t keeps the table, which is
// the stored one. writing is held.
func (s *Store) set(t *Table) {
	s.mu.Lock()
	back := s.away
	s.away, s.heard = false, time.Now()
	if t != nil {
		s.index, s.known = NewIndex(*t), t
	}
	if back || t != nil {
		s.publish()
	}
	s.mu.Unlock()
	if back {
		s.log.Info("the key table store answers again")
	}
	if s.copy == nil || t == nil {
		return
	}
	b, err := encode(*t)
	if err == nil {
		err = s.copy.Put(b)
	}
	if err != nil {
		s.log.Warn("the copy of the keys cannot be written", "error", err)
	}
}

// lost records that the key table store does not answer.
func (s *Store) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away && s.grace > 0 {
		s.away = true
		s.publish()
		s.log.Warn("the key table store does not answer", "error", err, "good_for", s.grace)
	}
}

// publish wakes those who wait for changes. mu is held.
func (s *Store) publish() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Index returns the current table, and a channel that is closed when the table or its state
// changes.
func (s *Store) Index() (*Index, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index, s.changed
}

// Shared reports whether a tenant beside the operator has a key. A nil Store has no keys.
func (s *Store) Shared() bool {
	if s == nil {
		return false
	}
	x, _ := s.Index()
	return x.shared
}

// News returns the message for a gateway. It contains the table unless the gateway has this version
// already.
func (s *Store) News(have uint64) (News, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := News{Away: s.away, GraceMS: s.grace.Milliseconds()}
	if s.index.Version != have {
		n.Table = s.index.Table
	}
	if s.away && s.grace > 0 {
		n.GraceMS = max(1, (s.grace - time.Since(s.heard)).Milliseconds())
	}
	return n, s.changed
}

// change applies f to a copy of the table and stores the result.
func (s *Store) change(ctx context.Context, f func(t *Table) error) error {
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	var err error
	for range changeTries {
		err = s.try(ctx, f)
		switch {
		case err == nil:
			return nil
		case fault.Is(err, fault.Conflict):
		case fault.Is(err, fault.Restarting):
			timer := time.NewTimer(look / 4)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return err
			}
		default:
			return err
		}
		if err = s.sync(ctx); err != nil {
			return err
		}
	}
	return &fault.Error{
		Kind: fault.Unavailable, Op: "tenant.store", RetryAfter: 1,
		Message: "others keep changing the keys",
	}
}

func (s *Store) try(ctx context.Context, f func(t *Table) error) error {
	now, _ := s.Index()
	if now.Version == 0 {
		return &fault.Error{
			Kind: fault.Unavailable, Op: "tenant.store", RetryAfter: 1,
			Message: "the keys of the cluster cannot be reached",
		}
	}
	t := now.Table
	t.Keys, t.Links, t.Tenants = slices.Clone(t.Keys), slices.Clone(t.Links), maps.Clone(t.Tenants)
	// Keys that expired a month ago are no longer needed.
	t.Keys = slices.DeleteFunc(t.Keys,
		func(k Key) bool { return !k.Good(time.Now().Add(-30 * 24 * time.Hour)) })
	t.Links = slices.DeleteFunc(t.Links, func(l Link) bool { return !time.Now().Before(l.Expires) })
	t.PortLinks = slices.DeleteFunc(slices.Clone(t.PortLinks),
		func(l PortLink) bool { return l.forgotten(time.Now()) })
	if err := f(&t); err != nil {
		return err
	}
	// The version is a time, so that the last changed of two tables counts, also when they have diverged.
	t.Version = max(now.Version+1, uint64(time.Now().UnixMicro()))
	b, err := encode(t)
	if err == nil {
		err = checkSize(b, now.Table)
	}
	if err == nil {
		err = s.tables.Replace(ctx, now.Version, t.Version, b)
	}
	if err != nil {
		return err
	}
	s.set(&t)
	return nil
}

// Create creates a key with k's name, tenant, role, expiry, creator and quota. The secret is
// returned only this once.
func (s *Store) Create(ctx context.Context, k Key) (made Key, secret string, err error) {
	const op = "key.create"
	now := time.Now().UTC().Truncate(time.Second)
	if err := k.check(op, now); err != nil {
		return Key{}, "", err
	}
	made = Key{
		ID: random(idBytes), Name: k.Name, Tenant: k.Tenant, Role: k.Role, Created: now,
		By: k.By, Expires: k.Expires, Quota: k.Quota,
	}
	secret, made.Hash = newSecret(made.ID)
	err = s.change(ctx, func(t *Table) error {
		own := 0
		for _, o := range t.Keys {
			if o.Tenant == made.Tenant {
				own++
			}
		}
		if err := tenantlimit.Lookup(tenantlimit.Keys).Check(op, own, len(t.Keys)); err != nil {
			return err
		}
		// The creator's key may have been revoked since the caller looked.
		if id, ok := KeyOf(made.By); ok {
			if _, err := t.at(op, "", id); err != nil {
				return fault.New(fault.Unauthenticated, op, "the creator's key was revoked")
			}
		}
		t.Keys = append(t.Keys, made)
		return nil
	})
	return made, secret, err
}

// at returns the index of a tenant's key with the id; an empty tenant means any. Errors: NotFound,
// also for a key of another tenant.
func (t *Table) at(op, tenant, id string) (int, error) {
	i := slices.IndexFunc(t.Keys,
		func(k Key) bool { return k.ID == id && (tenant == "" || k.Tenant == tenant) })
	if i < 0 {
		return 0, &fault.Error{
			Kind: fault.NotFound, Op: op, Field: "id",
			Message: "there is no such key",
		}
	}
	return i, nil
}

// Get returns a tenant's key with the id; an empty tenant means any.
func (s *Store) Get(tenant, id string) (Key, error) {
	x, _ := s.Index()
	i, err := x.at("key.get", tenant, id)
	if err != nil {
		return Key{}, err
	}
	return x.Keys[i], nil
}

// Rotate gives a key another secret. The previous secret stays valid for keep.
func (s *Store) Rotate(ctx context.Context, tenant, id string,
	keep time.Duration,
) (made Key, secret string, err error) {
	const op = "key.rotate"
	if keep < 0 || keep > MaxKeep {
		return Key{}, "", fault.Invalid(op, "keep_seconds",
			"a secret stays valid for 0 to %d seconds after its rotation",
			int64(MaxKeep/time.Second))
	}
	err = s.change(ctx, func(t *Table) error {
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

// Revoke removes a key, and all keys that were created with it or with a key that it created.
func (s *Store) Revoke(ctx context.Context, tenant, id string) error {
	return s.change(ctx, func(t *Table) error {
		i, err := t.at("key.revoke", tenant, id)
		if err != nil {
			return err
		}
		t.Keys = withoutFamily(t.Keys, t.Keys[i].ID)
		return nil
	})
}

// withoutFamily returns the keys without one key and its descendants.
func withoutFamily(keys []Key, id string) []Key {
	gone := map[string]bool{SubjectPrefix + id: true}
	for found := true; found; {
		found = false
		for _, k := range keys {
			if gone[k.By] && !gone[k.Subject()] {
				gone[k.Subject()], found = true, true
			}
		}
	}
	return slices.DeleteFunc(keys, func(k Key) bool { return gone[k.Subject()] })
}

// SetQuota gives a tenant its own quota. "*" means all tenants without their own, and nil removes
// the quota.
func (s *Store) SetQuota(ctx context.Context, tenant string, q *Quota) error {
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
	return s.change(ctx, func(t *Table) error {
		switch {
		case tenant == "*" && q == nil:
			t.Default = Quota{}
		case tenant == "*":
			t.Default = *q
		case q == nil:
			delete(t.Tenants, tenant)
		case len(t.Tenants) >= MaxTenants && t.Tenants[tenant] == Quota{}:
			return fault.New(fault.Exhausted, op,
				"%d tenants have a quota of their own, which is the limit", len(t.Tenants))
		default:
			if t.Tenants == nil {
				t.Tenants = map[string]Quota{}
			}
			t.Tenants[tenant] = *q
		}
		return nil
	})
}
