package carry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// node is a node with sessions that only have a state.
type node struct {
	sessions         []*session
	closing          bool
	frozen, reopened []string
}

type session struct {
	n       *node
	id      string
	state   string
	edition string
	durable bool
	moving  bool
	life    context.Context
	stays   error // returned by Freeze
}

func (s *session) Describe() migrate.Description {
	return migrate.Description{ID: s.id, Durable: s.durable, Moving: s.moving, Copy: 7}
}

func (s *session) View() protocol.Session {
	return protocol.Session{ID: s.id, State: s.state, Edition: s.edition}
}

func (s *session) Life() context.Context { return s.life }
func (s *session) Forget()               {}

func (s *session) Freeze(context.Context) (migrate.Frozen, error) {
	if s.stays == nil {
		s.n.frozen = append(s.n.frozen, s.id)
	}
	return migrate.Frozen{}, s.stays
}

func (n *node) All() (all []migrate.Movable, open bool) {
	for _, s := range n.sessions {
		all = append(all, s)
	}
	return all, !n.closing
}

func (n *node) BeginWork(string) (migrate.Movable, func(), bool) {
	return nil, func() {}, !n.closing
}

func (n *node) Reopen(_ context.Context, old migrate.Movable, copied int) error {
	if copied != 7 {
		return errors.New("the number of the copy is lost")
	}
	n.reopened = append(n.reopened, old.Describe().ID)
	return nil
}

// parked is a blob store with sessions.
type parked struct {
	n     *node
	known map[string]*session
	// elsewhere is an edition that another node keeps.
	elsewhere string
	again     []string
}

func (p *parked) Ending(_ context.Context, ends func(string) bool, all bool) (
	ids []string, err error,
) {
	for id, s := range p.known {
		if ends(s.edition) && (all || s.state != "failed") {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (p *parked) Fetch(_ context.Context, id string) (migrate.Movable, error) {
	s := p.known[id]
	if s.stays != nil {
		return nil, s.stays
	}
	delete(p.known, id)
	return s, nil
}

func (p *parked) Park(_ context.Context, id string) error {
	p.again = append(p.again, id)
	return nil
}

func (p *parked) Elsewhere(_ context.Context, edition string) bool { return edition == p.elsewhere }

// kept are snapshots, by their ids, with their editions.
type kept struct {
	all map[string]string
	err error
}

func (k *kept) Ending(_ context.Context, ends func(string) bool, all bool) (
	list []*snapshot.Manifest, err error,
) {
	for id, of := range k.all {
		if ends(of) && (all || !strings.HasPrefix(id, "other")) {
			list = append(list, &snapshot.Manifest{ID: id})
		}
	}
	return list, nil
}

func (k *kept) Carry(ctx context.Context, c *snapshot.Manifest,
	renew func(ctx context.Context, dir, work string) error,
) error {
	if k.err != nil {
		return k.err
	}
	k.all[c.ID] = "new"
	return renew(ctx, c.ID, "")
}

// backend knows the editions of hibernated sessions, which are the names of their folders.
type backend struct{ Backend }

func (backend) Edition(dir string) (string, error) {
	id := filepath.Base(filepath.Dir(dir))
	if _, of, ok := strings.Cut(id, "-"); ok {
		return of, nil
	}
	return "", errors.New("there is no snapshot")
}

func newCarrier(t *testing.T, n *node) *Carrier {
	t.Helper()
	return New(Config{
		Sessions: n, Backend: backend{}, Parked: &parked{}, Snapshots: &kept{},
		Folder:  func(id string) string { return "/" + id },
		Context: t.Context(), Stats: stats.New(stats.Config{}), Log: slog.New(slog.DiscardHandler),
	})
}

// TestCarry carries over the sessions whose edition ends, the durable ones first, and no others.
func TestCarry(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	n := &node{}
	add := func(s session) {
		s.n = n
		if s.life == nil {
			s.life = t.Context()
		}
		n.sessions = append(n.sessions, &s)
	}
	add(session{id: "volatile-old", state: "hibernated"})
	add(session{id: "asleep-old", state: "hibernated", edition: "new", durable: true})
	add(session{id: "paused", state: "paused", edition: "old", durable: true})
	add(session{id: "busy", state: "running", edition: "old", durable: true})
	add(session{id: "new-new", state: "hibernated", edition: "old", durable: true})
	add(session{id: "lost-old", state: "lost", edition: "old", durable: true, life: ended})
	add(session{id: "leaving-old", state: "hibernated", durable: true, moving: true})
	c := newCarrier(t, n)
	var renewed []string
	c.renew = func(_ context.Context, id string) error {
		renewed = append(renewed, id)
		return nil
	}
	ends := func(edition string) bool { return edition == "old" }
	n.closing = true
	if left := c.Carry(t.Context(), ends, true); left != 5 || renewed != nil {
		t.Errorf("a closing node: %d %v", left, renewed)
	}
	n.closing = false
	if left := c.Carry(ended, ends, true); left != 5 || renewed != nil {
		t.Errorf("after the end of the time: %d %v", left, renewed)
	}
	if left := c.Carry(t.Context(), ends, false); left != 2 {
		t.Errorf("%d are left", left)
	}
	if want := []string{"asleep-old", "paused", "volatile-old"}; !slices.Equal(renewed, want) ||
		!slices.Equal(n.frozen, want) || !slices.Equal(n.reopened, want) {
		t.Errorf("%v %v %v", renewed, n.frozen, n.reopened)
	}
	if n := c.cfg.Stats.Carried.Load(); n != 3 {
		t.Errorf("%d are counted", n)
	}
	n.sessions, renewed = n.sessions[3:4], nil
	if left := c.Carry(t.Context(), ends, true); left != 0 || !slices.Equal(renewed, []string{"busy"}) {
		t.Errorf("urgent: %d %v", left, renewed)
	}
}

// TestCarryFails: a session that cannot be carried over comes back as it was. It is tried three times,
// and again as long as it is used or the node is full.
func TestCarryFails(t *testing.T) {
	t.Parallel()
	n := &node{}
	s := &session{n: n, id: "a-old", state: "hibernated", durable: true, life: t.Context()}
	used := &session{
		n: n, id: "b-old", state: "hibernated", durable: true, life: t.Context(),
		stays: errors.New("requests are under way"),
	}
	n.sessions = []*session{s, used}
	c := newCarrier(t, n)
	c.renew = func(context.Context, string) error { return errors.New("the disk is full") }
	for i := range maxTries + 1 {
		left := c.Carry(t.Context(), func(string) bool { return true }, false)
		want := 2
		if i == maxTries {
			want = 1 // the other one may be carried over later
		}
		if left != want {
			t.Errorf("attempt %d: %d are left", i, left)
		}
	}
	if len(n.reopened) != maxTries || n.reopened[0] != s.id {
		t.Errorf("reopened: %v", n.reopened)
	}
	if failed := c.cfg.Stats.CarryFailed.Load(); failed != 2*maxTries+1 {
		t.Errorf("%d failures are counted", failed)
	}
}

// TestCarryStored carries over the sessions in the blob store and the snapshots, unless another node
// keeps their edition. Those of failed nodes come in the end.
func TestCarryStored(t *testing.T) {
	t.Parallel()
	n := &node{}
	store := &parked{n: n, known: map[string]*session{}, elsewhere: "kept"}
	add := func(id, state, edition string, stays error) {
		store.known[id] = &session{
			n: n, id: id, state: state, edition: edition, life: t.Context(), stays: stays,
		}
	}
	add("parked", "hibernated", "old", nil)
	add("failed", "failed", "old", nil)
	add("taken", "hibernated", "old", fault.New(fault.Conflict, "test", "another node has it"))
	add("away", "hibernated", "old", fault.New(fault.Unavailable, "test", "it is away"))
	add("later", "hibernated", "kept", nil)
	add("new", "hibernated", "new", nil)
	snapshots := &kept{all: map[string]string{
		"mine": "old", "other": "old", "later": "kept", "fresh": "new",
	}}
	c := newCarrier(t, n)
	c.cfg.Parked, c.cfg.Snapshots = store, snapshots
	var renewed []string
	c.renew = func(_ context.Context, id string) error {
		renewed = append(renewed, id)
		return nil
	}
	c.renewSnapshot = func(_ context.Context, dir, _ string) error {
		renewed = append(renewed, dir)
		return nil
	}
	ends := func(edition string) bool { return edition != "new" }
	if left := c.Carry(t.Context(), ends, false); left != 1 {
		t.Errorf("%d are left", left)
	}
	if want := []string{"parked", "mine"}; !slices.Equal(renewed, want) {
		t.Errorf("carried over: %v, want %v", renewed, want)
	}
	renewed = nil
	snapshots.err = fault.New(fault.Unavailable, "test", "it is used")
	if left := c.Carry(t.Context(), ends, true); left != 2 {
		t.Errorf("%d are left in the end", left)
	}
	snapshots.err = nil
	delete(store.known, "away")
	if left := c.Carry(t.Context(), ends, true); left != 0 {
		t.Errorf("%d are left after that", left)
	}
	if want := []string{"failed", "other"}; !slices.Equal(renewed, want) ||
		!slices.Equal(store.again, []string{"parked", "failed"}) {
		t.Errorf("carried over: %v, want %v; parked again: %v", renewed, want, store.again)
	}
	if n := c.cfg.Stats.CarryFailed.Load(); n != 3 {
		t.Errorf("%d failures are counted", n)
	}
}

// tree has the folders of a sandbox, each with the content of its archive. A folder whose content
// begins with "!" cannot be moved.
type tree struct {
	folders map[string]string
	numbers []uint32
	got     map[string]string
	refused string
	home    string // "" for /home/user
}

func (f *tree) Stat(_ context.Context, p wire.FileDescribe) (wire.FileStat, error) {
	at := p.Path
	if at == "." {
		at = cmp.Or(f.home, "/home/user")
	}
	text, ok := f.folders[at]
	switch {
	case !ok:
		return wire.FileStat{}, fault.New(fault.NotFound, "test", "there is no %s", at)
	case text == "link":
		return wire.FileStat{Path: at, Type: "link"}, nil
	}
	return wire.FileStat{Path: at, Type: "folder"}, nil
}

func (f *tree) ReadTree(_ context.Context, ch uint32, p wire.TreeRead,
	opened func(wire.FileStat) error, w io.Writer,
) error {
	f.numbers = append(f.numbers, ch)
	if p.Archive != wire.Tar || !p.Force {
		return errors.New("not all files are asked for")
	}
	if err := opened(wire.FileStat{}); err != nil {
		return err
	}
	text := f.folders[p.Path]
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	if strings.HasPrefix(text, "!") {
		return errors.New("it became shorter")
	}
	return nil
}

func (f *tree) WriteTree(_ context.Context, ch uint32, p wire.TreeWrite,
	body io.Reader,
) (wire.TreeStat, error) {
	f.numbers = append(f.numbers, ch)
	if f.refused != "" {
		return wire.TreeStat{}, errors.New(f.refused)
	}
	text, err := io.ReadAll(body)
	if err != nil || !p.Whole {
		return wire.TreeStat{}, errors.Join(err, errors.New("it is not complete"))
	}
	f.got[string(text)] = p.Path
	return wire.TreeStat{Files: 2, Links: 1, Bytes: int64(len(text))}, nil
}

// TestMove moves the folders of a sandbox to another one, from agent to agent.
func TestMove(t *testing.T) {
	t.Parallel()
	from := &tree{folders: map[string]string{
		"/home/user": "files at home", "/mnt/data": "data", "/tmp": "!not whole", "/var/tmp": "link",
	}}
	to := &tree{got: map[string]string{}}
	next := uint32(40)
	m := mover{from, to, func() uint32 { next++; return next }}
	done, err := m.move(t.Context(), folders())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(done.Kept, []string{"/home/user", "/mnt/data"}) ||
		!slices.Equal(done.Left, []string{"/tmp"}) || done.Files != 4 || done.Links != 2 ||
		done.Bytes != int64(len("files at home"+"data")) {
		t.Errorf("%+v", done)
	}
	if len(to.got) != 2 || to.got["files at home"] != "/home" || to.got["data"] != "/mnt" {
		t.Errorf("%v", to.got)
	}
	if all := slices.Concat(from.numbers, to.numbers); len(slices.Compact(slices.Sorted(
		slices.Values(all)))) != len(all) {
		t.Errorf("a number is used twice: %v", all)
	}

	// Without the files at home a session is not carried over.
	from.folders["/home/user"] = "!"
	if _, err := m.move(t.Context(), folders()); err == nil ||
		!strings.Contains(err.Error(), "became shorter") {
		t.Errorf("files that cannot be read: %v", err)
	}
	from.folders["/home/user"] = strings.Repeat("much", 1<<20)
	to.refused = "the disk is full"
	if _, err := m.move(t.Context(), folders()); err == nil ||
		!strings.Contains(err.Error(), to.refused) {
		t.Errorf("files that cannot be written: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	from.folders["/home/user"], to.refused = "files", ""
	from.folders["/mnt/data"] = "link"
	if _, err := m.move(ctx, []folder{{"/tmp", false}}); err == nil {
		t.Error("a move continues after its end")
	}
}

// TestReplaceSandbox: the record of a carried session keeps the logs, the cells and the keys of its
// channels, and says that what ran in them has ended.
func TestReplaceSandbox(t *testing.T) {
	t.Parallel()
	v := snapshot.Record{
		Wires: map[uint32]string{1: "k1", 2: "t2"}, NextWire: 9, Keys: map[string]string{"x": "t2"},
		Channels: []snapshot.Channel{
			{ID: "k1", Kind: "kernel", Wire: 1, Queue: &queue.Saved{
				State: "busy", Cells: 3, Running: &queue.SavedCell{Cell: 2},
				Waiting: []queue.SavedCell{{Cell: 3}},
			}},
			{ID: "t2", Kind: "terminal", Wire: 2},
			{ID: "p3", Kind: "process", Exit: &protocol.Exit{Code: 4}},
			{ID: "p4", Kind: "process", Wire: 5, Service: &snapshot.ServiceChannel{Name: "web"}},
			{ID: "k5", Kind: "kernel", Queue: &queue.Saved{State: "dead"}},
		},
	}
	v.Works = true
	fresh := &warm.Instance{Layout: warm.Layout{Image: "new"}}
	said := Variables{Kept: kernel.Kept{
		Kept: []string{"x", "y"}, KeptCount: 3, Lost: []string{"socket"}, LostCount: 1,
	}}
	if err := replaceSandbox(&v, fresh, client.Saved{NextID: 5}, Moved{
		Kept: []string{"/home/user"}, Files: 2, said: map[string]Variables{"k1": said},
	}); err != nil {
		t.Fatal(err)
	}
	if v.Layout.Image != "new" || v.Agent.NextID != 5 || len(v.Wires) != 0 || v.NextWire != 9 ||
		!v.Stale || v.Works || len(v.Keys) != 1 {
		t.Errorf("%+v", v)
	}
	k := v.Channels[0]
	if k.Wire != 0 || k.Exit != nil || k.Queue.Died == nil || k.Queue.Died.Reason != Reason ||
		k.Queue.Running == nil || len(k.Queue.Abort) != 1 || k.Queue.Cells != 3 {
		t.Errorf("%+v", k.Queue)
	}
	if e := v.Channels[1].Exit; e == nil || e.Reason != Reason {
		t.Errorf("the terminal: %+v", e)
	}
	if p := v.Channels[2]; p.Exit.Code != 4 || p.Note != nil {
		t.Errorf("a process that had ended: %+v", p)
	}
	if p := v.Channels[3]; p.Exit != nil || p.Note == nil {
		t.Errorf("a service: %+v", p)
	}
	if q := v.Channels[4].Queue; q.Died != nil {
		t.Errorf("a kernel that had ended: %+v", q)
	}
	var event struct {
		Event     string
		Kept      []string
		Files     int
		Variables *Variables
		Message   string
	}
	const message = "the server was upgraded: files and variables (x, y and 1 more) are kept, " +
		"variables that cannot be kept (socket) and running programs are lost"
	if err := json.Unmarshal(k.Note, &event); err != nil || event.Event != "upgraded" ||
		event.Files != 2 || len(event.Kept) != 1 || event.Message != message ||
		event.Variables == nil || event.Variables.KeptCount != 3 ||
		k.Queue.Died.Message != message {
		t.Errorf("%s %v", k.Note, err)
	}
	event.Variables = nil
	if err := json.Unmarshal(v.Channels[1].Note, &event); err != nil || event.Variables != nil ||
		strings.Contains(event.Message, "variables") {
		t.Errorf("the log of the terminal: %s %v", v.Channels[1].Note, err)
	}
}

// TestExchange exchanges the folders of two sandboxes.
func TestExchange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, name := range []string{a, b} {
		if err := errors.Join(os.Mkdir(name, 0o700),
			os.WriteFile(filepath.Join(name, "is"), []byte(name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := snapshot.Exchange(a, b); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{a: b, b: a} {
		if text, err := os.ReadFile(filepath.Join(name, "is")); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	if err := snapshot.Exchange(a, filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is missing was exchanged")
	}
}
