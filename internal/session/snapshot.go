package session

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// SnapshotStore keeps the snapshots that users have taken: copies of sessions, for
// other sessions to start from. Each in it is complete.
type SnapshotStore struct {
	m *Manager

	mu    lockorder.Mutex[snapshotsRank] // guards all below
	all   map[string]*snapshot.Manifest
	bytes int64
	// taking counts snapshots that have a place and are not there yet, names
	// are theirs, each behind its tenant.
	taking int
	takers map[*noderpc.Principal]struct{}
	names  map[string]bool
}

func (m *Manager) userSnapshotsDir() string { return filepath.Join(m.cfg.DataDir, "kept") }

func (h *SnapshotStore) dir(id string) string              { return filepath.Join(h.m.userSnapshotsDir(), id) }
func owned(c *snapshot.Manifest, p noderpc.Principal) bool { return c.Tenant == p.Tenant }
func nameOf(p noderpc.Principal, n string) string          { return p.Tenant + "\x00" + n }

// newSnapshotStore finds the snapshots of earlier processes, and removes those that
// are not complete.
func newSnapshotStore(m *Manager) (*SnapshotStore, error) {
	h := &SnapshotStore{m: m, all: map[string]*snapshot.Manifest{}, names: map[string]bool{}, takers: map[*noderpc.Principal]struct{}{}}
	entries, err := os.ReadDir(m.userSnapshotsDir())
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		c, err := snapshot.ReadManifest(h.dir(e.Name()))
		if err == nil && c.ID == e.Name() && !c.Expired(time.Now()) {
			h.all[c.ID] = c
			h.bytes += c.Bytes
			continue
		}
		m.log.Info("removed a snapshot that is over or not whole", "snapshot", e.Name())
		if err := os.RemoveAll(h.dir(e.Name())); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Create takes a snapshot of a session, and resumes the session for that. Errors:
// InvalidArgument, Conflict for a name that is taken, Exhausted at a limit.
func (h *SnapshotStore) Create(ctx context.Context, p noderpc.Principal, s *Session, r protocol.SnapshotCreate) (protocol.Snapshot, error) {
	var none protocol.Snapshot
	if err := checkSnapshot(r); err != nil {
		return none, err
	}
	done, err := h.reserve(p, r.Name)
	if err != nil {
		return none, err
	}
	defer done()
	if err := h.m.admission.Confirm(ctx, "session.snapshot", admission.ForSnapshot(holderOf(p))); err != nil {
		return none, err
	}
	unlock, err := s.acquireIdle(ctx)
	if err != nil {
		return none, err
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	if err := s.ensureRunning(ctx); err != nil {
		return none, err
	}
	id := "n_" + strings.TrimPrefix(newID(), "s_")
	dir := h.dir(id)
	c, err := h.write(ctx, s, dir, func() { unlock() })
	if err == nil {
		c.ID, c.Label, c.Tenant, c.Subject = id, r.Name, p.Tenant, p.Subject
		if r.ExpiresSeconds > 0 {
			c.Ends = c.At.Add(time.Duration(r.ExpiresSeconds) * time.Second)
		}
		err = snapshot.Commit(dir, c)
	}
	if err == nil {
		err = h.add(c)
	}
	if err != nil {
		return none, errors.Join(err, os.RemoveAll(dir+snapshot.Partial), snapshot.Remove(dir))
	}
	h.m.stats.Snapshots.Add(1)
	h.m.log.Info("snapshot taken", "session", s.spec.ID, "snapshot", id, "bytes", c.Bytes, "pause", c.Pause)
	return c.View(), nil
}

func (h *SnapshotStore) write(ctx context.Context, s *Session, dir string, unlock func()) (*snapshot.Manifest, error) {
	st, err := s.copyTo(ctx, dir+snapshot.Partial, false, func(*captured) { unlock() })
	if err != nil {
		return nil, err
	}
	return &snapshot.Manifest{Record: st.record, At: st.at, Pause: st.pause, Session: s.spec.ID}, nil
}

// reserve takes a place and a name.
func (h *SnapshotStore) reserve(p noderpc.Principal, name string) (done func(), err error) {
	const op = "session.snapshot"
	all, own := h.m.admission.SessionUse(p.Tenant, p.Subject)
	h.mu.Lock()
	defer h.mu.Unlock()
	a, o := h.useLocked(p.Tenant, p.Subject)
	all.Add(a)
	own.Add(o)
	if err := h.m.admission.Check(op, admission.ForSnapshot(holderOf(p)), all, own); err != nil {
		return nil, err
	}
	switch cfg := h.m.cfg; {
	case len(h.all)+h.taking >= cfg.MaxSnapshots:
		return nil, fault.New(fault.Exhausted, op, "there are %d snapshots, which is the limit; delete some", len(h.all)+h.taking)
	case h.bytes >= cfg.MaxSnapshotBytes:
		return nil, fault.New(fault.Exhausted, op, "the snapshots take %d bytes, the limit is %d; delete some", h.bytes, cfg.MaxSnapshotBytes)
	case name != "" && (h.names[nameOf(p, name)] || h.find(p, name) != nil):
		return nil, &fault.Error{Kind: fault.Conflict, Op: op, Field: "name", Message: "you have a snapshot of this name"}
	}
	h.taking++
	h.takers[&p] = struct{}{}
	if name != "" {
		h.names[nameOf(p, name)] = true
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.taking--
		delete(h.takers, &p)
		delete(h.names, nameOf(p, name))
	}, nil
}

// add adds a snapshot, if it fits.
func (h *SnapshotStore) add(c *snapshot.Manifest) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if limit := h.m.cfg.MaxSnapshotBytes; h.bytes+c.Bytes > limit {
		return fault.New(fault.Exhausted, "session.snapshot", "the snapshot has %d bytes, and of the limit of %d are %d left; delete some", c.Bytes, limit, limit-h.bytes)
	}
	h.all[c.ID] = c.Header()
	h.bytes += c.Bytes
	return nil
}

// find returns the principal's snapshot of that id or name, or nil.
// Preconditions: mu is held.
func (h *SnapshotStore) find(p noderpc.Principal, ref string) *snapshot.Manifest {
	if c := h.all[ref]; c != nil && owned(c, p) {
		return c
	}
	for _, c := range h.all {
		if ref != "" && c.Label == ref && owned(c, p) {
			return c
		}
	}
	return nil
}

// lookup returns a principal's snapshot. Errors: NotFound, also for another
// tenant's snapshot.
func (h *SnapshotStore) lookup(p noderpc.Principal, ref string) (*snapshot.Manifest, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.find(p, ref)
	if c == nil || c.Expired(time.Now()) {
		return nil, &fault.Error{Kind: fault.NotFound, Op: "snapshot.find", Field: "snapshot", Message: "there is no such snapshot"}
	}
	return c, nil
}

// List returns the tenant's snapshots, newest first.
func (h *SnapshotStore) List(p noderpc.Principal) protocol.SnapshotList {
	h.mu.Lock()
	defer h.mu.Unlock()
	var mine []*snapshot.Manifest
	for _, c := range h.all {
		if owned(c, p) && !c.Expired(time.Now()) {
			mine = append(mine, c)
		}
	}
	slices.SortFunc(mine, func(a, b *snapshot.Manifest) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID)) })
	out := protocol.SnapshotList{Snapshots: []protocol.Snapshot{}}
	for _, c := range mine {
		out.Snapshots = append(out.Snapshots, c.View())
	}
	return out
}

// drop deletes a snapshot. Sessions that were
// started from it do not need it.
func (h *SnapshotStore) drop(c *snapshot.Manifest) error {
	h.mu.Lock()
	_, there := h.all[c.ID]
	if there {
		delete(h.all, c.ID)
		h.bytes -= c.Bytes
	}
	h.mu.Unlock()
	if !there {
		return nil
	}
	return fault.Wrap(fault.Host, "snapshot.delete", snapshot.Remove(h.dir(c.ID)))
}

// expire removes the snapshots whose time is over.
func (h *SnapshotStore) expire(now time.Time) {
	h.mu.Lock()
	var over []*snapshot.Manifest
	for _, c := range h.all {
		if c.Expired(now) {
			over = append(over, c)
		}
	}
	h.mu.Unlock()
	for _, c := range over {
		h.m.work.Go(func() {
			if err := h.drop(c); err != nil {
				h.m.log.Warn("a snapshot was not removed", "snapshot", c.ID, "error", err)
			}
		})
	}
}

// total is how many snapshots there are, and their bytes.
func (h *SnapshotStore) total() (int, int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all), h.bytes
}

// start makes a session that goes on from a snapshot.
func (h *SnapshotStore) start(ctx context.Context, p noderpc.Principal, r protocol.SessionCreate) (*Session, error) {
	const op = "session.create"
	found, err := h.lookup(p, r.Snapshot)
	if err != nil {
		return nil, err
	}
	if r.Language != "" {
		if name, err := h.m.checkLanguage(op, r.Language); err != nil || name != found.Language {
			return nil, fault.Invalid(op, "language", "the snapshot's language is %s", found.Language)
		}
	}
	if r.Template != "" || r.Limits != nil || len(r.Volumes) > 0 {
		return nil, fault.Invalid(op, "snapshot", "template, limits and volumes are the snapshot's")
	}
	w, err := h.m.checkCreate(p, r)
	if err != nil {
		return nil, err
	}
	c, err := snapshot.ReadManifest(h.dir(found.ID))
	if err != nil {
		return nil, err
	}
	release, err := h.m.reserve(ctx, op, 1, p, c.Limits, func() error {
		if !r.KeepAlive {
			return nil
		}
		return h.m.mayKeep(op)
	})
	if err != nil {
		return nil, err
	}
	defer release()
	network := w.network
	if network == nil && r.Network != nil {
		network = r.Network // off
	}
	return h.m.start(ctx, branch{
		network: network,
		owner:   p, dir: h.dir(c.ID), origin: c.ID, event: "started", name: r.Name, env: r.Env, lifetime: w.lifetime, durable: h.m.wantsDurable(r), policy: w.policy,
	}, c)
}

// maxSnapshotLife is how long a snapshot may be asked to be kept; one that does
// not say is kept until it is deleted.
const maxSnapshotLife = 10 * 365 * 24 * time.Hour

func checkSnapshot(r protocol.SnapshotCreate) error {
	const op = "session.snapshot"
	if len(r.Name) > maxName || !utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, isControl) || strings.HasPrefix(r.Name, "n_") || strings.Contains(r.Name, "/") {
		return fault.Invalid(op, "name", "a name is UTF-8 text of at most %d bytes without control characters and slashes, and does not begin with n_", maxName)
	}
	if r.ExpiresSeconds < 0 || r.ExpiresSeconds > int64(maxSnapshotLife/time.Second) {
		return fault.Invalid(op, "expires_seconds", "a snapshot is kept for 0 to %d seconds", int64(maxSnapshotLife/time.Second))
	}
	return nil
}

// Get returns a principal's snapshot by id or name.
func (h *SnapshotStore) Get(p noderpc.Principal, ref string) (protocol.Snapshot, error) {
	c, err := h.lookup(p, ref)
	if err != nil {
		return protocol.Snapshot{}, err
	}
	return c.View(), nil
}

// Delete removes a principal's snapshot. Sessions that were started from it do
// not need it.
func (h *SnapshotStore) Delete(p noderpc.Principal, ref string) error {
	c, err := h.lookup(p, ref)
	if err != nil {
		return err
	}
	return h.drop(c)
}

// use returns what the snapshots of a tenant hold, and the part of a subject.
func (h *SnapshotStore) use(name, subject string) (all, own tenant.Use) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.useLocked(name, subject)
}

// useLocked is use. Preconditions: mu is held.
func (h *SnapshotStore) useLocked(name, subject string) (all, own tenant.Use) {
	add := func(p noderpc.Principal, u tenant.Use) {
		if p.Tenant != name {
			return
		}
		all.Add(u)
		if p.Subject == subject {
			own.Add(u)
		}
	}
	for _, c := range h.all {
		add(noderpc.Principal{Tenant: c.Tenant, Subject: c.Subject}, tenant.Use{Snapshots: 1, DiskBytes: c.Bytes})
	}
	for p := range h.takers {
		add(*p, tenant.Use{Snapshots: 1})
	}
	return all, own
}
