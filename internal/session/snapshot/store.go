package snapshot

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// idPrefix begins the id of each snapshot, and the name of none.
	idPrefix = "n_"
	// maxName is the most bytes of a snapshot's name.
	maxName = 128
	// maxLife is the longest time for which a snapshot may be kept. A snapshot without an expiry is
	// kept until it is deleted.
	maxLife = 10 * 365 * 24 * time.Hour
)

// Source is a session from which a snapshot is taken.
type Source interface {
	// ID returns the session's id.
	ID() string
	// Copy writes the state of the session at one moment to a folder. The session continues before
	// Copy returns. A hibernated session is resumed for it.
	Copy(ctx context.Context, dir string) (*Manifest, error)
}

// Admission checks quotas. *admission.Controller implements it.
type Admission interface {
	// SessionUse returns the resources that a tenant holds without its snapshots, and the part of a
	// subject.
	SessionUse(tenant, subject string) (all, own tenant.Use)
	// Check compares a request with the quotas on this node, for a holder whose tenant holds all
	// and whose subject holds own. The Store calls it with its lock held.
	Check(op string, r admission.Request, all, own tenant.Use) error
	// Confirm compares a request with the quotas over all nodes.
	Confirm(ctx context.Context, op string, r admission.Request) error
	// ReportStored makes a snapshot in Shared count also after the end of this node, until a time.
	// The zero time ends that.
	ReportStored(ctx context.Context, h admission.Holder, id string, until time.Time,
		bytes int64) error
}

// Moved counts uploads and fetches that have ended.
type Moved interface {
	Uploaded(err error)
	Fetched(err error)
}

// StoreConfig has the settings of a Store. All fields are required, except those for Shared.
type StoreConfig struct {
	// Dir is the folder of the snapshots, each below its id.
	Dir string
	// Max is the most snapshots that the store holds, and MaxBytes the most bytes that all of them
	// take.
	Max      int
	MaxBytes int64
	// Admission checks the quotas of tenants and keys.
	Admission Admission
	// Taken is called for each snapshot that was taken, with the labels of the session.
	Taken func(tenant, session string, labels map[string]string, made protocol.Snapshot)
	// Go runs a function in the background. Context ends when the node closes.
	Go      func(func())
	Context context.Context
	Log     *slog.Logger
	// Shared has the snapshots of all nodes; nil means that each node has its own. Names and Moved
	// are required with it.
	Shared Shared
	Names  Names
	Moved  Moved
	// All returns the headers of all snapshots in Shared; nil without Shared.
	All func(ctx context.Context) ([]*Manifest, error)
	// Edition returns the edition of the sandbox that was saved to a folder.
	Edition func(dir string) (string, error)
}

// storeRank is the place of Store.mu in the order of locks: see locks.go of
// package session.
type storeRank struct{}

func (storeRank) Rank() int      { return 20 }
func (storeRank) String() string { return "snapshot.Store.mu" }

// Store has the snapshots that users have taken: copies of sessions, from which other sessions
// start. Each snapshot in it is complete. Any goroutine may use it.
type Store struct {
	cfg StoreConfig

	mu    lockorder.Mutex[storeRank] // guards all below
	all   map[string]*Manifest
	bytes int64
	// pending are the snapshots that are being taken. Each has a place in the
	// store, and its name is reserved.
	pending map[*pendingSnapshot]struct{}
	// tasks has the snapshots that are being uploaded, fetched or removed, and uploading how many
	// are being uploaded. retry is when an upload that failed is tried again.
	tasks     map[string]*task
	uploading int
	retry     map[string]time.Time
	// uses has the snapshots that were used. Each copy is in it.
	uses map[string]*use
	// fetching is held during a fetch. It is not guarded by mu.
	fetching chan struct{}
}

// pendingSnapshot is a snapshot that is being taken, or that is being fetched and has no holder.
type pendingSnapshot struct {
	holder admission.Holder
	name   string
	bytes  int64 // its size if it is being fetched
}

// OpenStore returns the store in a folder, with the snapshots of earlier
// processes. It removes those that are incomplete or expired.
func OpenStore(cfg StoreConfig) (*Store, error) {
	h := &Store{
		cfg: cfg, all: map[string]*Manifest{}, pending: map[*pendingSnapshot]struct{}{},
		tasks: map[string]*task{}, retry: map[string]time.Time{}, uses: map[string]*use{},
		fetching: make(chan struct{}, maxFetches),
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		c, err := ReadManifest(h.Dir(e.Name()))
		if err == nil && c.ID == e.Name() && !c.Expired(time.Now()) {
			c = c.Header()
			cfg.setEdition(c, h.Dir(c.ID))
			c.Stored, c.Copy = readMark(h.Dir(c.ID))
			h.all[c.ID], h.uses[c.ID] = c, &use{}
			h.bytes += c.Bytes
			continue
		}
		cfg.Log.Info("removed an expired or incomplete snapshot", "snapshot", e.Name())
		if err := os.RemoveAll(h.Dir(e.Name())); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// setEdition sets the edition of a snapshot in a folder; it stays empty if it is not known.
func (cfg StoreConfig) setEdition(c *Manifest, dir string) {
	if c.Edition != "" || cfg.Edition == nil {
		return
	}
	if of, err := cfg.Edition(filepath.Join(dir, "snapshot")); err == nil {
		c.Edition = of
	}
}

// IsID reports whether a reference has the form of an id, and not that of a name.
func IsID(ref string) bool {
	rest, is := strings.CutPrefix(ref, idPrefix)
	return is && len(rest) <= maxName && !strings.ContainsFunc(rest, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// Dir returns the folder of a snapshot.
func (h *Store) Dir(id string) string { return filepath.Join(h.cfg.Dir, id) }

// Create takes a snapshot of a session. Errors: InvalidArgument, Conflict if another snapshot of
// the tenant has the name, Exhausted at a limit, and the errors of the session.
func (h *Store) Create(ctx context.Context, p noderpc.Principal, s Source,
	r protocol.SnapshotCreate,
) (protocol.Snapshot, error) {
	var none protocol.Snapshot
	if err := checkCreate(r); err != nil {
		return none, err
	}
	done, err := h.reserve(holderOf(p), r.Name)
	if err != nil {
		return none, err
	}
	defer done()
	if err := h.cfg.Admission.Confirm(ctx, protocol.OpSnapshot,
		admission.ForSnapshot(holderOf(p))); err != nil {
		return none, err
	}
	id := idPrefix + strings.ToLower(rand.Text())
	if err := h.cfg.holdName(ctx, p.Tenant, r.Name, id); err != nil {
		return none, err
	}
	dir := h.Dir(id)
	c, err := s.Copy(ctx, dir+Partial)
	if err == nil {
		c.ID, c.Label, c.Tenant, c.Subject = id, r.Name, p.Tenant, p.Subject
		if r.ExpiresSeconds > 0 {
			c.Ends = c.At.Add(time.Duration(r.ExpiresSeconds) * time.Second)
		}
		h.cfg.setEdition(c, dir+Partial)
		err = Commit(dir, c)
	}
	if err == nil {
		err = h.add(c)
	}
	if err != nil {
		h.cfg.freeName(ctx, p.Tenant, r.Name, id)
		return none, errors.Join(err, os.RemoveAll(dir+Partial), Remove(dir))
	}
	made := h.cfg.viewOf(c.Header())
	h.Upload(time.Now())
	h.cfg.Taken(p.Tenant, s.ID(), c.Labels, made)
	h.cfg.Log.Info("snapshot taken", "session", s.ID(), "snapshot", id, "bytes", c.Bytes, "pause",
		c.Pause)
	return made, nil
}

func checkCreate(r protocol.SnapshotCreate) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if len(r.Name) > maxName || !utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name,
		control) || strings.HasPrefix(r.Name, idPrefix) || strings.Contains(r.Name, "/") {
		return fault.Invalid(protocol.OpSnapshot, "name",
			"a name is UTF-8 text of at most %d bytes without control characters and slashes, and does not begin with n_", maxName)
	}
	if r.ExpiresSeconds < 0 || r.ExpiresSeconds > int64(maxLife/time.Second) {
		return fault.Invalid(protocol.OpSnapshot, "expires_seconds",
			"a snapshot is kept for 0 to %d seconds", int64(maxLife/time.Second))
	}
	return nil
}

// reserve reserves a place and a name until done is called.
func (h *Store) reserve(holder admission.Holder, name string) (done func(), err error) {
	const op = protocol.OpSnapshot
	all, own := h.cfg.Admission.SessionUse(holder.Tenant, holder.Subject)
	h.mu.Lock()
	defer h.mu.Unlock()
	a, o := h.use(holder)
	all.Add(a)
	own.Add(o)
	if err := h.cfg.Admission.Check(op, admission.ForSnapshot(holder), all, own); err != nil {
		return nil, err
	}
	h.makeRoom(1, 1)
	switch n := len(h.all) + len(h.pending); {
	case n >= h.cfg.Max:
		return nil, fault.New(fault.Exhausted, op,
			"there are %d snapshots, which is the limit; delete some", n).For(fault.CauseLimit)
	case h.bytes >= h.cfg.MaxBytes:
		return nil, fault.New(fault.Exhausted, op,
			"the snapshots take %d bytes, the limit is %d; delete some", h.bytes, h.cfg.MaxBytes).
			For(fault.CauseLimit)
	case name != "" && h.hasName(holder.Tenant, name):
		return nil, errNameTaken()
	}
	x := &pendingSnapshot{holder: holder, name: name}
	h.pending[x] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.pending, x)
	}, nil
}

// errNameTaken returns the error of a name that another snapshot of the tenant has.
func errNameTaken() error {
	return &fault.Error{
		Kind: fault.Conflict, Op: protocol.OpSnapshot, Field: "name", Cause: fault.CauseNameTaken,
		Message: "you have a snapshot of this name",
	}
}

// hasName reports whether a tenant's snapshot has a name, or reserves it.
// Preconditions: mu is held.
func (h *Store) hasName(owner, name string) bool {
	for x := range h.pending {
		if x.holder.Tenant == owner && x.name == name {
			return true
		}
	}
	return h.find(owner, name) != nil
}

// add adds a snapshot. Errors: Exhausted if its bytes exceed the limit.
func (h *Store) add(c *Manifest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if limit := h.cfg.MaxBytes; !h.makeRoom(0, c.Bytes) && h.bytes+c.Bytes > limit {
		return fault.New(fault.Exhausted, protocol.OpSnapshot,
			"the snapshot has %d bytes, and of the limit of %d are %d left; delete some", c.Bytes,
			limit, limit-h.bytes).For(fault.CauseLimit)
	}
	h.all[c.ID] = c.Header()
	h.bytes += c.Bytes
	return nil
}

// find returns a tenant's snapshot by id or name, or nil. Preconditions: mu is
// held.
func (h *Store) find(owner, ref string) *Manifest {
	if c := h.all[ref]; c != nil && c.Tenant == owner {
		return c
	}
	for _, c := range h.all {
		if ref != "" && c.Label == ref && c.Tenant == owner {
			return c
		}
	}
	return nil
}

// Lookup returns a principal's snapshot by id or name, with the parts of its manifest that Header
// keeps. Errors: NotFound, also for another tenant's snapshot.
func (h *Store) Lookup(p noderpc.Principal, ref string) (*Manifest, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.find(p.Tenant, ref)
	if c == nil || c.Expired(time.Now()) {
		return nil, unknown("snapshot.find")
	}
	return c, nil
}

// unknown is the error of a snapshot that does not exist for the caller.
func unknown(op string) error {
	return &fault.Error{
		Kind: fault.NotFound, Op: op, Field: "snapshot", Message: "there is no such snapshot",
	}
}

// Get returns a principal's snapshot that this node has, by id or name. Errors: NotFound.
func (h *Store) Get(ctx context.Context, p noderpc.Principal, ref string) (
	protocol.Snapshot, error,
) {
	c, err := h.current(ctx, p, ref)
	if err != nil {
		return protocol.Snapshot{}, err
	}
	return h.cfg.viewOf(c), nil
}

// List returns the tenant's snapshots that this node has taken, newest first. A stored one counts
// only if Shared has it, because it may have been deleted on another node: see Stored.
func (h *Store) List(p noderpc.Principal) protocol.SnapshotList {
	h.mu.Lock()
	defer h.mu.Unlock()
	var mine []*Manifest
	for _, c := range h.all {
		if c.Tenant == p.Tenant && !c.Expired(time.Now()) && !c.Copy {
			mine = append(mine, c)
		}
	}
	sortNewest(mine)
	out := protocol.SnapshotList{Snapshots: []protocol.Snapshot{}}
	for _, c := range mine {
		out.Snapshots = append(out.Snapshots, h.cfg.viewOf(c))
	}
	return out
}

func sortNewest(all []*Manifest) {
	slices.SortFunc(all, func(a, b *Manifest) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID))
	})
}

// Delete removes a principal's snapshot that this node has, also from Shared. Sessions that were
// started from it do not need it. Errors: NotFound; Unavailable if Shared cannot be reached.
func (h *Store) Delete(ctx context.Context, p noderpc.Principal, ref string) error {
	c, err := h.Lookup(p, ref)
	if err != nil {
		return err
	}
	return h.drop(ctx, c)
}

// drop removes a snapshot from Shared and from this node. If Shared cannot be reached, it removes
// nothing.
func (h *Store) drop(ctx context.Context, c *Manifest) error {
	if h.cfg.Shared != nil && !c.Bound {
		end, err := h.interrupt(ctx, c.ID)
		if err != nil {
			return err
		}
		defer end()
		if err := h.cfg.Shared.Remove(ctx, c); err != nil {
			return err
		}
		h.cfg.freeName(ctx, c.Tenant, c.Label, c.ID)
		h.cfg.reportStored(ctx, c, time.Time{})
	}
	return h.dropCopy(c)
}

// Expire removes the snapshots that have expired, in the background.
func (h *Store) Expire(now time.Time) {
	h.mu.Lock()
	var over []*Manifest
	for _, c := range h.all {
		if c.Expired(now) && h.tasks[c.ID] == nil && now.After(h.retry[c.ID]) {
			h.retry[c.ID] = now.Add(uploadRetry)
			over = append(over, c)
		}
	}
	h.mu.Unlock()
	for _, c := range over {
		h.cfg.Go(func() {
			ctx, cancel := context.WithTimeout(h.cfg.Context, removeLimit)
			defer cancel()
			if err := h.drop(ctx, c); err != nil {
				h.cfg.Log.Warn("a snapshot was not removed", "snapshot", c.ID, "error", err)
			}
		})
	}
}

// Total returns how many snapshots this node has taken, and their bytes.
func (h *Store) Total() (n int, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.all {
		if !c.Copy {
			n, bytes = n+1, bytes+c.Bytes
		}
	}
	return n, bytes
}

// Use returns the resources that the snapshots of a tenant hold, and the part of a subject.
// Snapshots that are being taken count.
func (h *Store) Use(name, subject string) (all, own tenant.Use) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.use(admission.Holder{Tenant: name, Subject: subject})
}

// use implements Use. Preconditions: mu is held.
func (h *Store) use(of admission.Holder) (all, own tenant.Use) {
	add := func(holder admission.Holder, u tenant.Use) {
		if holder.Tenant != of.Tenant {
			return
		}
		all.Add(u)
		if holder == of {
			own.Add(u)
		}
	}
	for _, c := range h.all {
		if !c.Copy { // the node that took it counts it
			add(c.Holder(), tenant.Use{Snapshots: 1, DiskBytes: c.Bytes})
		}
	}
	for x := range h.pending {
		add(x.holder, tenant.Use{Snapshots: 1})
	}
	return all, own
}

// Holders returns the tenants and subjects that have snapshots, one entry for
// each snapshot.
func (h *Store) Holders() []admission.Holder {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]admission.Holder, 0, len(h.all))
	for _, c := range h.all {
		if !c.Copy {
			all = append(all, c.Holder())
		}
	}
	return all
}

// ConsistencyCheck compares the store's counter with its snapshots. It is for
// tests and diagnosis.
func (h *Store) ConsistencyCheck() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var bytes int64
	for _, c := range h.all {
		bytes += c.Bytes
	}
	if bytes != h.bytes {
		return fmt.Errorf("snapshots: counted %d bytes, there are %d", h.bytes, bytes)
	}
	return nil
}

// Pending returns how many snapshots are being taken, for tests.
func (h *Store) Pending() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pending)
}

func holderOf(p noderpc.Principal) admission.Holder {
	return admission.Holder{Tenant: p.Tenant, Subject: p.Subject}
}
