package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/durable"
	"github.com/sandgate/sandgate/internal/session/ownership"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const testTenant = "a tenant"

// testCluster is a cluster: a directory, a blob store and the disks of nodes.
type testCluster struct {
	t     *testing.T
	dir   *local.Directory
	blobs Blobs
	disks map[cluster.NodeID]string
}

func newTestCluster(t *testing.T) *testCluster {
	t.Helper()
	dir, err := local.OpenDirectory(filepath.Join(t.TempDir(), "directory"))
	must(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	store, err := blob.OpenDir(filepath.Join(t.TempDir(), "blobs"), "n1")
	must(t, err)
	return &testCluster{t, dir, store, map[cluster.NodeID]string{
		"a": t.TempDir(),
		"b": t.TempDir(),
	}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// end ends the lease of a node's process, as if the process had been silent for the duration of a
// lease.
func (c *testCluster) end(name cluster.NodeID) {
	c.t.Helper()
	next, err := cluster.NewLeaseHolder(c.dir,
		cluster.LeaseHolderOptions{Node: name, Instance: string(name)})
	must(c.t, err)
	next.Heartbeat(c.t.Context())
}

// node is one process of a node. Its sessions are values without sandboxes: the file "value"
// represents the whole state of a session.
type node struct {
	*Migrator
	c       *testCluster
	leases  *cluster.LeaseHolder
	folders Folders
	copies  durable.Store
	mu      sync.Mutex // guards all below
	all     map[string]*fake
	killIn  int // steps until the process is killed, 0 for never
	failIn  int // steps until one of the blob store or the directory fails, 0 for never
	// loseAnswer makes the failing step take effect, but loses its answer.
	loseAnswer bool
	// wakes makes a session run as soon as it is opened. That uses up its folder, as in package
	// session: see Session.wake. woke reports that a session has run.
	wakes, woke bool
	resumed     []string // the ids of resumed sessions, in their order
	// watch is called before each step; nil for nothing.
	watch func()
}

// killed is the panic of a process that is killed.
type killed struct{}

// step is called before each step whose effect is visible outside the process. A killed process
// makes no more steps.
func (n *node) step() {
	if n.watch != nil {
		n.watch()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.killIn == 1 {
		panic(killed{})
	}
	if n.killIn > 1 {
		n.killIn--
	}
}

// answer makes a step that the blob store or the directory answers. A failing step is not made, or
// its answer is lost.
func (n *node) answer(do func() error) error {
	n.step()
	n.mu.Lock()
	fails := n.failIn == 1
	n.failIn = max(0, n.failIn-1)
	n.mu.Unlock()
	switch {
	case !fails:
		return do()
	case n.loseAnswer:
		return errors.Join(errBroken, do())
	}
	return errBroken
}

// errBroken is the error of a step that fails.
var errBroken = fault.New(fault.Unavailable, "test", "broken")

// killAt runs f and kills the process before a step. It reports whether f ended before the kill.
func (n *node) killAt(step int, f func() error) (err error, survived bool) {
	n.mu.Lock()
	n.killIn = step
	n.mu.Unlock()
	defer func() {
		if x := recover(); x != nil {
			if _, is := x.(killed); !is {
				panic(x)
			}
			survived = false
		}
	}()
	return f(), true
}

// start starts a process of a node, as session.New does.
func (c *testCluster) start(name cluster.NodeID) *node {
	c.t.Helper()
	disk := c.disks[name]
	n := &node{c: c, all: map[string]*fake{}, folders: Folders{
		Sessions: filepath.Join(disk, "sessions"), Logs: filepath.Join(disk, "logs"),
		Temporary: filepath.Join(disk, "forks"),
	}}
	must(c.t, os.RemoveAll(n.folders.Temporary))
	for _, dir := range []string{n.folders.Sessions, n.folders.Logs, n.folders.Temporary} {
		must(c.t, os.MkdirAll(dir, 0o700))
	}
	var err error
	n.copies, err = durable.NewStore(filepath.Join(disk, "durable"))
	must(c.t, err)
	n.leases, err = cluster.NewLeaseHolder(c.dir, cluster.LeaseHolderOptions{
		Node: name, Instance: string(name), Lost: func(id cluster.SessionID) { n.lose(string(id)) },
	})
	must(c.t, err)
	counters := stats.New(stats.Config{})
	n.Migrator = New(Config{
		Sessions: n, Departures: ownership.NewDepartures(), Keys: keys{}, Quotas: quotas{},
		Owner: ownership.New(ownership.Config{
			Directory: slowDirectory{n.leases, n}, Retention: time.Hour,
			Fenced: &counters.Fenced.Int64,
		}),
		Blobs: slowBlobs{c.blobs, n}, Folders: n.folders, Copies: n.copies,
		Node: name, Checkpoints: true, CheckpointRate: 1 << 30, Retry: time.Second, Parallel: 1,
		Context: c.t.Context(), Go: func(f func()) { f() }, Stats: counters,
		Logger: slog.New(slog.DiscardHandler),
	})
	n.load()
	for _, id := range n.Start() {
		n.lose(id)
	}
	n.leases.Heartbeat(c.t.Context())
	n.removeLeftovers()
	return n
}

// load finds the sessions of an earlier process, as session.Manager.load does.
func (n *node) load() {
	n.c.t.Helper()
	folders, err := os.ReadDir(n.folders.Sessions)
	must(n.c.t, err)
	for _, f := range folders {
		if _, err := n.Open(f.Name()); err != nil {
			must(n.c.t, os.RemoveAll(n.folders.session(f.Name())))
		}
	}
	ids, err := n.copies.Sessions()
	must(n.c.t, err)
	for _, id := range ids {
		number, err := n.copies.Newest(id)
		if err == nil && n.all[id] == nil {
			_, err = n.Recover(Checkpoint{Manifest: Manifest{ID: id}}, number)
		}
		if err != nil {
			must(n.c.t, n.copies.Remove(id))
			must(n.c.t, n.DisposeLater(id))
		}
	}
}

// create makes a session. A durable one has a copy on the disk.
func (n *node) create(id, value string, isDurable bool) *fake {
	n.c.t.Helper()
	must(n.c.t, n.cfg.Owner.Claim(n.c.t.Context(), id, time.Now()))
	s := n.newFake(snapshot.Record{
		Version: snapshot.Version,
		Spec:    snapshot.Spec{ID: id, Tenant: testTenant, Created: time.Now(), Durable: isDurable},
		Status:  snapshot.Status{Expires: time.Now().Add(time.Hour)},
	}, value)
	if isDurable {
		d := s.copies.Begin()
		must(n.c.t, d.Create())
		must(n.c.t, os.Mkdir(filepath.Join(d.Dir(), "snapshot"), 0o700))
		must(n.c.t, os.Mkdir(filepath.Join(d.Dir(), "logs"), 0o700))
		must(n.c.t, os.WriteFile(filepath.Join(d.Dir(), "snapshot", "value"), []byte(value), 0o600))
		d.Record()
		must(n.c.t, d.Commit(&snapshot.Manifest{Record: s.record, At: time.Now(), Session: id}))
		must(n.c.t, d.Publish(time.Now()))
		d.End()
	}
	return s
}

func (n *node) newFake(r snapshot.Record, value string) *fake {
	s := &fake{
		n: n, record: r, value: value, uploads: NewUploads(),
		copies: n.copies.Copies(r.ID, r.Durable, n.log),
	}
	s.life, s.end = context.WithCancel(context.Background())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[r.ID] = s
	n.cfg.Departures.Remove(r.ID)
	return s
}

// has returns the session with the id if this node has and owns it.
func (n *node) has(id string) *fake {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.all[id]; s != nil && s.life.Err() == nil && n.cfg.Owner.Owns(id) {
		return s
	}
	return nil
}

// lists reports whether the node has the session in its list.
func (n *node) lists(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[id] != nil
}

// lose ends a session that another node has taken, as session.Manager.Moved does.
func (n *node) lose(id string) {
	n.mu.Lock()
	s := n.all[id]
	delete(n.all, id)
	n.mu.Unlock()
	if s != nil {
		s.end()
		s.copies.Close(true)
		must(n.c.t, n.removeFolders(id))
	}
}

// adoptIt is Adopt for the tenant of the tests.
func (n *node) adoptIt(id string) error {
	_, err := n.Adopt(n.c.t.Context(), noderpc.Principal{Tenant: testTenant}, id)
	return err
}

func (n *node) All() (all []Movable, open bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(n.all)) {
		all = append(all, n.all[id])
	}
	return all, true
}

func (n *node) BeginWork(id string) (s Movable, end func(), open bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if here := n.all[id]; here != nil {
		s = here
	}
	return s, func() {}, true
}

func (n *node) Open(id string) (Movable, error) {
	n.step()
	s, err := n.from(n.folders.session(id))
	if err == nil && n.wakes {
		n.woke = true
		err = os.RemoveAll(n.folders.session(id))
	}
	return s, err
}

func (n *node) Recover(c Checkpoint, number int) (Movable, error) {
	n.step()
	s, err := n.from(n.copies.Copies(c.ID, true, n.log).Folder(number))
	if err != nil {
		return nil, err
	}
	s.copies.Resume(number, time.Now())
	if c.Base != "" {
		s.uploads.Uploaded(number, c.Base)
	}
	return s, nil
}

func (n *node) from(dir string) (*fake, error) {
	m, err := snapshot.ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	value, err := os.ReadFile(filepath.Join(dir, "snapshot", "value"))
	if err != nil {
		return nil, err
	}
	return n.newFake(m.Record, string(value)), nil
}

func (n *node) Resume(_ context.Context, id string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resumed = append(n.resumed, id)
	return nil
}

// fake is a session of a node.
type fake struct {
	n       *node
	record  snapshot.Record // guarded by n.mu
	value   string
	copies  *durable.Copies
	uploads *Uploads
	life    context.Context
	end     context.CancelFunc
}

func (s *fake) recorded() snapshot.Record {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	return s.record
}

func (s *fake) Describe() Description {
	r := s.recorded()
	d := Description{
		ID: r.ID, Tenant: r.Tenant, Created: r.Created, Expires: r.Expires, Token: r.Token,
		Durable: r.Durable, Active: r.Active, Works: r.Works,
		Copy: s.copies.Newest(), Uploads: s.uploads,
	}
	if d.Copy > 0 {
		d.CopyDir = s.copies.Folder(d.Copy)
	}
	return d
}

func (s *fake) View() protocol.Session {
	return protocol.Session{ID: s.record.ID, State: "hibernated"}
}

func (s *fake) Life() context.Context { return s.life }

func (s *fake) Freeze(context.Context) (Frozen, error) {
	r := s.recorded()
	dir := s.n.folders.session(r.ID)
	r.Token = s.n.cfg.Owner.Token(r.ID)
	s.n.mu.Lock()
	s.record.Token = r.Token
	s.n.mu.Unlock()
	data, err := json.Marshal(r)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, "snapshot"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "snapshot", "value"), []byte(s.value), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "session.json"), data, 0o600)
	}
	s.copies.Close(false)
	s.end()
	return Frozen{View: s.View(), Key: "key", Expires: r.Expires, Works: r.Works}, err
}

func (s *fake) Forget() {
	s.n.step()
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	delete(s.n.all, s.record.ID)
}

// slowDirectory and slowBlobs announce each step that changes something.
type slowDirectory struct {
	*cluster.LeaseHolder
	n *node
}

func (d slowDirectory) Own(
	ctx context.Context, id cluster.SessionID, mode cluster.ClaimMode, last cluster.Token,
	until time.Time,
) (cluster.Token, error) {
	d.n.step()
	return d.LeaseHolder.Own(ctx, id, mode, last, until)
}

func (d slowDirectory) TakeOver(
	ctx context.Context, id cluster.SessionID, from cluster.NodeID, last cluster.Token,
	until time.Time,
) (cluster.Token, error) {
	d.n.step()
	return d.LeaseHolder.TakeOver(ctx, id, from, last, until)
}

func (d slowDirectory) Release(
	ctx context.Context, id cluster.SessionID, as cluster.ReleaseInfo,
) error {
	return d.n.answer(func() error { return d.LeaseHolder.Release(ctx, id, as) })
}

func (d slowDirectory) Forget(ctx context.Context, id cluster.SessionID) {
	d.n.step()
	d.LeaseHolder.Forget(ctx, id)
}

type slowBlobs struct {
	Blobs
	n *node
}

func (b slowBlobs) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return b.n.answer(func() error { return b.Blobs.Put(ctx, name, write) })
}

func (b slowBlobs) Remove(ctx context.Context, name string) error {
	return b.n.answer(func() error { return b.Blobs.Remove(ctx, name) })
}

type keys struct{}

func (keys) Key(sandbox.Spec) (string, error) { return "key", nil }

func (keys) Edition(string) (string, error) { return "runtime-image", nil }

func (keys) Restorable(context.Context, string) error { return nil }

type quotas struct{}

func (quotas) ReportReleased(context.Context, admission.Holder, cluster.SessionID, time.Time,
	int64,
) error {
	return nil
}
