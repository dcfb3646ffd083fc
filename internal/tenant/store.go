// Package tenant knows who may come in and how much each may hold: API keys
// with their roles, and the quotas of tenants and keys. One node keeps them in
// a file, the nodes of a cluster in a store that they share; gateways are given
// the table of it and hold nothing else.
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

	"github.com/sandgate/sandgate/fault"
)

const (
	// MaxKeys is how many keys there are at most, and MaxTenants how many
	// tenants have a quota of their own. A table of so many has at most 5 MiB, and a frame 8.
	MaxKeys    = 5_000
	MaxTenants = 1_000
	// DefaultGrace is how long keys are good without word from a store that is
	// shared, unless the settings say otherwise.
	DefaultGrace = 10 * time.Minute

	// seal is how many bytes a table's secret has.
	seal = 32
	// look is how often a shared store is asked whether it has changed: it is
	// told of changes at once, and asking shows that it is still there.
	look = time.Second
	// lookWait bounds one look, changeWait a change of the table.
	lookWait   = 3 * time.Second
	changeWait = 10 * time.Second
	// changeTries is how often a change is made anew that another was before.
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
	// Copy gets each new version of the table. The node restores it in a key table
	// store that has lost its data. nil is none.
	Copy Copy
	// Grace is how long keys are valid while the key table store is unreachable; 0 is
	// for ever, which is right for a store that nobody shares.
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

	writing chan struct{} // held over what uses the key table store; a lock with a context

	mu      sync.Mutex // guards all below; leaf
	index   *Index     // of version 0 before the first load
	known   *Table     // the last one that was seen; nil for none
	away    bool       // the key table store does not answer
	heard   time.Time  // when it last did
	changed chan struct{}
}

// Open returns a store that has read the table. It creates a table that is missing.
func Open(tables KeyTableStore) (*Store, error) {
	s := New(Options{Tables: tables})
	return s, s.Reload()
}

// New returns a store that knows nothing before it is told to Reload or Run.
func New(o Options) *Store {
	s := &Store{
		tables: o.Tables, copy: o.Copy, grace: o.Grace, log: o.Logger, writing: make(chan struct{}, 1),
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
		_ = s.reload(ctx) // who asks for keys meanwhile is told
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

// Reload loads the table: another program may have changed what is there.
// What cannot be read changes nothing.
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
		return &fault.Error{Kind: fault.Unavailable, Op: "tenant.store", RetryAfter: 1, Message: "the keys are being changed by others", Err: ctx.Err()}
	}
}

func (s *Store) unlock() { <-s.writing }

// loader is a KeyTableStore or a Copy.
type loader interface {
	Load(ctx context.Context, have uint64) (version uint64, table []byte, err error)
}

// read returns the table in a store unless it is the one of version have; nil
// for that, and for none.
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
		return nil, &fault.Error{Kind: fault.Host, Op: op, Message: "the table of keys cannot be read", Err: err}
	}
	t.Version = version
	return &t, nil
}

// sync loads the stored table, or puts back what it has lost. writing is held.
func (s *Store) sync(ctx context.Context) error {
	s.mu.Lock()
	known, have := s.known, s.index.Version
	s.mu.Unlock()
	version, b, err := s.tables.Load(ctx, have)
	if err == nil && (version == 0 || known != nil && version < known.Version) {
		if known != nil {
			s.log.Warn("the key table store has lost a table that this node has: it is restored", "version", known.Version, "found", version)
		} else {
			// Anybody's who knows more goes before it.
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

// set has those who wait see the table, which is the stored one; nil for the one
// they see. writing is held.
func (s *Store) set(t *Table) {
	s.mu.Lock()
	back := s.away
	s.away, s.heard = false, time.Now()
	if t != nil {
		s.index, s.known = NewIndex(*t), t
	}
	if back || t != nil {
		s.tell()
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

// lost notes that the key table store does not answer.
func (s *Store) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away && s.grace > 0 {
		s.away = true
		s.tell()
		s.log.Warn("the key table store does not answer", "error", err, "good_for", s.grace)
	}
}

// tell wakes those who wait. mu is held.
func (s *Store) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Index returns the present table, and a channel that is closed when it, or the
// news of it, is no longer that.
func (s *Store) Index() (*Index, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index, s.changed
}

// News is what a gateway is told now. It has the table unless that is of the
// version that the gateway has.
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

// change puts the table into the store that f makes of a copy of the present one.
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
	return &fault.Error{Kind: fault.Unavailable, Op: "tenant.store", RetryAfter: 1, Message: "others change the keys all the time"}
}

func (s *Store) try(ctx context.Context, f func(t *Table) error) error {
	now, _ := s.Index()
	if now.Version == 0 {
		return &fault.Error{Kind: fault.Unavailable, Op: "tenant.store", RetryAfter: 1, Message: "the keys of the cluster cannot be reached"}
	}
	t := now.Table
	t.Keys, t.Links, t.Tenants = slices.Clone(t.Keys), slices.Clone(t.Links), maps.Clone(t.Tenants)
	// What has expired a month ago nobody asks about any more.
	t.Keys = slices.DeleteFunc(t.Keys, func(k Key) bool { return !k.Good(time.Now().Add(-30 * 24 * time.Hour)) })
	t.Links = slices.DeleteFunc(t.Links, func(l Link) bool { return !time.Now().Before(l.Expires) })
	if err := f(&t); err != nil {
		return err
	}
	// Of two tables the one counts that was changed last, also when they have
	// grown apart.
	t.Version = max(now.Version+1, uint64(time.Now().UnixMicro()))
	b, err := encode(t)
	if err == nil {
		err = s.tables.Replace(ctx, now.Version, t.Version, b)
	}
	if err != nil {
		return err
	}
	s.set(&t)
	return nil
}

// Create makes a key of k's name, tenant, role, expiry, maker and quota. The
// secret is told this once.
func (s *Store) Create(ctx context.Context, k Key) (made Key, secret string, err error) {
	const op = "key.create"
	now := time.Now().UTC().Truncate(time.Second)
	if err := k.check(op, now); err != nil {
		return Key{}, "", err
	}
	made = Key{ID: random(idBytes), Name: k.Name, Tenant: k.Tenant, Role: k.Role, Created: now, By: k.By, Expires: k.Expires, Quota: k.Quota}
	secret, made.Hash = newSecret(made.ID)
	err = s.change(ctx, func(t *Table) error {
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
func (s *Store) Rotate(ctx context.Context, tenant, id string, keep time.Duration) (made Key, secret string, err error) {
	const op = "key.rotate"
	if keep < 0 || keep > MaxKeep {
		return Key{}, "", fault.Invalid(op, "keep_seconds", "a secret stays good for 0 to %d seconds after its rotation", int64(MaxKeep/time.Second))
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

// Revoke ends a key.
func (s *Store) Revoke(ctx context.Context, tenant, id string) error {
	return s.change(ctx, func(t *Table) error {
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
