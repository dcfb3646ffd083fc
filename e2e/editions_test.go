package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// release is a version of Sandgate that is installed in a folder: the program, the runtime and the
// image.
type release struct{ program, runsc, image string }

// currentRelease returns the files that make build has built.
func currentRelease(t *testing.T) (r release) {
	t.Helper()
	for name, to := range map[string]*string{
		"sandgate": &r.program, "runsc": &r.runsc, "image.erofs": &r.image,
	} {
		path, err := Bin(name)
		check(t, err)
		*to = path
	}
	return r
}

// earlierRelease returns a version of Sandgate in a folder of its own. Its program and its runtime
// say that they are of another version of gVisor, and its image has another superblock: the node
// cannot know that they are otherwise equal.
func earlierRelease(t *testing.T, now release) release {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandgate-release-")
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	check(t, os.Chmod(dir, 0o755))
	r := release{dir + "/sandgate", dir + "/runsc", dir + "/image.erofs"}
	version, err := edition.GVisor(now.runsc)
	check(t, err)
	last := len(version) - 1
	other := version[:last] + string("01"[version[last]&1^1])
	for from, to := range map[string]string{now.program: r.program, now.runsc: r.runsc} {
		text, err := os.ReadFile(from)
		check(t, err)
		check(t, os.WriteFile(to, bytes.ReplaceAll(text, []byte(version), []byte(other)), 0o755))
	}
	if got, err := edition.GVisor(r.runsc); err != nil || got != other {
		t.Fatalf("the earlier runtime is of gVisor %s, want %s: %v", got, other, err)
	}
	in, err := os.Open(now.image)
	check(t, err)
	defer in.Close()
	out, err := os.Create(r.image)
	check(t, err)
	_, err = io.Copy(out, in)
	check(t, err)
	_, err = out.WriteAt([]byte("an earlier image"), 0) // the file system begins at 1 KiB
	check(t, err)
	check(t, out.Close())
	about, err := os.ReadFile(now.image + ".json")
	check(t, err)
	check(t, os.WriteFile(r.image+".json", about, 0o644))
	return r
}

// installed starts the server again with a version, and with the window of earlier editions.
func (s *Server) installed(ctx context.Context, t *testing.T, r release, window string) {
	t.Helper()
	check(t, s.Halt(syscall.SIGTERM))
	s.configure(t, r, window)
	check(t, s.Boot(ctx))
}

// configure writes the settings of a version.
func (s *Server) configure(t *testing.T, r release, window string) {
	t.Helper()
	configure(t, s.Config, r, fmt.Sprintf("upgrade: {window: %s}\n", window))
	s.program = r.program
}

// configure writes the settings of a version, and others, to the end of a file. Lines with the same
// keys that follow the mark of an earlier version are removed.
func configure(t *testing.T, file string, r release, more string) {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	before, after, _ := strings.Cut(string(text), "# the version\n")
	fresh := version(r) + more
	keys := map[string]bool{}
	for line := range strings.Lines(fresh) {
		key, _, _ := strings.Cut(line, ":")
		keys[key] = true
	}
	for line := range strings.Lines(after) {
		if key, _, _ := strings.Cut(line, ":"); !keys[key] {
			before += line
		}
	}
	check(t, os.WriteFile(file, []byte(strings.TrimSuffix(before, "\n")+"\n"+fresh), 0o644))
}

func version(r release) string {
	return fmt.Sprintf("# the version\nrunsc: %s\nimage: %s\n", r.runsc, r.image)
}

// editions returns the editions of the server's only node.
func (s *Server) editions(t *testing.T) []nodes.Edition {
	t.Helper()
	var list nodes.NodeList
	code, err := s.Get(t.Context(), "/v1/nodes", &list)
	check(t, err)
	if code != 200 || len(list.Nodes) != 1 {
		t.Fatalf("%d %+v", code, list)
	}
	return list.Nodes[0].Editions
}

// startEarlier starts a server of the release before the current one, and returns the current one.
// The context bounds the test.
func startEarlier(t *testing.T) (ctx context.Context, srv *Server, now release) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	now = currentRelease(t)
	before := earlierRelease(t, now)
	srv, err := startRelease(ctx, before.program,
		"pool: {size: 1, languages: [python]}\n"+version(before), "")
	check(t, err)
	t.Cleanup(func() { check(t, srv.Stop()) })
	return ctx, srv, now
}

// TestUpgradeOfGVisor upgrades a server to another runtime, of another version of gVisor, and another
// image. Sessions and snapshots continue with the earlier ones until the end of their window.
func TestUpgradeOfGVisor(t *testing.T) {
	t.Parallel()
	ctx, srv, now := startEarlier(t)
	s := open(t, srv)
	s.run("ok", "x = 41")
	v := s.terminal(protocol.ChannelOpen{})
	v.do("held=in-the-shell; echo rea''dy", "ready")
	idle := open(t, srv)
	idle.run("ok", "y = 1")
	taken, err := s.client.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.id, Name: "kept"})
	check(t, err)
	about, err := s.client.Session(ctx, s.id)
	check(t, err)
	first := about.Edition

	srv.installed(ctx, t, now, "1h")
	if got := s.run("ok", "x + 1").result(t); got != "42" {
		t.Errorf("after the upgrade: %s", got)
	}
	v.do("echo $held", "\rin-the-shell")
	fresh := open(t, srv)
	fresh.run("ok", "z = 1")
	editionOf := func(s *session) string {
		v, err := s.client.Session(ctx, s.id)
		check(t, err)
		return v.Edition
	}
	second := editionOf(fresh)
	if first == "" || editionOf(s) != first || second == first {
		t.Errorf("the session is of %s, was of %s; a new one is of %s", editionOf(s), first, second)
	}
	// It is saved and restored with its own edition again, also after another restart.
	_, err = s.client.HibernateSession(ctx, s.id)
	check(t, err)
	if got := s.run("ok", "x += 1; x").result(t); got != "42" {
		t.Errorf("after it was hibernated: %s", got)
	}
	from, err := s.client.CreateSession(ctx, protocol.SessionCreate{Snapshot: taken.ID})
	check(t, err)
	if got := s.at(from.ID).run("ok", "x").result(t); got != "41" {
		t.Errorf("from the snapshot: %s", got)
	}
	eventually(t, "the counts of the present", func() bool { // they may be some seconds old
		all := srv.editions(t)
		return len(all) == 2 && all[1].Hibernated == 1 && all[1].Sessions == 2
	})
	all := srv.editions(t)
	if all[0].ID != second || !all[0].Current || all[1].ID != first || all[1].Current ||
		all[1].EndsMS == 0 || all[1].Snapshots != 1 || all[0].GVisor == all[1].GVisor ||
		all[1].Missing {
		t.Errorf("%+v", all)
	}
	said := srv.status(t)
	contains(t, said, first[:8], second[:8], "current", "earlier",
		"4 sessions, copies and snapshots need an earlier edition")
	srv.reportsEdition(t, first, "2 running sessions, 1 hibernated sessions, 1 snapshots")
	check(t, s.client.DeleteSession(ctx, from.ID))
	srv.installed(ctx, t, now, "1h")
	if got := s.run("ok", "x").result(t); got != "42" || editionOf(s) != first {
		t.Errorf("after another restart: %s with %s", got, editionOf(s))
	}

	// After the window nothing of the earlier edition is left.
	srv.installed(ctx, t, now, "0s")
	if folders, _ := filepath.Glob(srv.Dir + "/data/editions/*/*"); len(folders) != 0 {
		t.Errorf("on the disk: %v", folders)
	}
	if _, err := s.client.ResumeSession(ctx, idle.id); !fault.Is(err, fault.SandboxLost) {
		t.Errorf("a session after the window: %v", err)
	}
	lost, err := s.client.Session(ctx, idle.id)
	check(t, err)
	if lost.State != "lost" || lost.Reason != "upgraded" {
		t.Errorf("after the window: %+v", lost)
	}
	if _, err := s.client.CreateSession(ctx, protocol.SessionCreate{
		Snapshot: taken.ID,
	}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a snapshot after the window: %v", err)
	}
	if got := fresh.run("ok", "z").result(t); got != "1" {
		t.Errorf("the session of the current edition: %s", got)
	}
}

// TestUpgradeCarriesFiles upgrades a server, and ends the window of the earlier edition. Sessions are
// carried over before the edition is removed: their files and the variables of Python stay.
func TestUpgradeCarriesFiles(t *testing.T) {
	t.Parallel() // most of the time it waits for the next look at the editions
	ctx, srv, now := startEarlier(t)
	yes := true
	s := openAs(t, srv, protocol.SessionCreate{Name: "kept", Durable: &yes})
	s.run("ok", "x = 41; n = open('file', 'w').write('in a file')")
	v := s.terminal(protocol.ChannelOpen{Argv: []string{}}) // a shell, which may be idle
	v.do("mkdir -p work && echo fr''om >work/shell; sync; echo rea''dy", "ready")
	volatile := open(t, srv)
	volatile.run("ok", "y = 1; n = open('file', 'w').write('kept, too')")
	about, err := s.client.Session(ctx, s.id)
	check(t, err)

	srv.installed(ctx, t, now, "1h")
	if got := s.run("ok", "x + 1").result(t); got != "42" {
		t.Errorf("within the window: %s", got)
	}
	check(t, s.conn.Close()) // a terminal that attaches again would resume the session
	srv.installed(ctx, t, now, "1s")
	eventually(t, "the earlier edition is removed", func() bool {
		files, err := filepath.Glob(srv.Dir + "/data/editions/*/*")
		return err == nil && len(files) == 2
	})
	s = s.on(srv)
	if got := s.run("ok", "x").result(t); got != "41" {
		t.Errorf("its variable: %s", got)
	}
	const files = "open('file').read() + ' ' + open('work/shell').read()"
	if got := s.run("ok", files).result(t); got != `'in a file from\n'` {
		t.Errorf("its files: %s", got)
	}
	if e := s.attach(v.term.Channel().ID, wire.AttachOptions{}).ended(); e.Reason != "upgraded" {
		t.Errorf("its terminal: %+v", e)
	}
	after, err := s.client.Session(ctx, s.id)
	check(t, err)
	if after.Name != "kept" || after.Edition == about.Edition || after.Edition == "" {
		t.Errorf("the session: %+v, was of %s", after, about.Edition)
	}
	if got := volatile.on(srv).run("ok", "y, open('file').read()").result(t); got !=
		"(1, 'kept, too')" {
		t.Errorf("a session that is not durable: %s", got)
	}
	_, err = s.client.HibernateSession(ctx, s.id)
	check(t, err)
	srv.installed(ctx, t, now, "0s")
	if got := s.run("ok", files).result(t); got != `'in a file from\n'` {
		t.Errorf("after another restart: %s", got)
	}
}

// findings returns what sandgate doctor says about a subject. Others may fail on the machine of a test.
func (s *Server) findings(t *testing.T, about string) (said string) {
	t.Helper()
	bin, err := Bin("sandgate")
	check(t, err)
	cmd := exec.CommandContext(t.Context(), bin, "doctor", "--config", s.Config, "--url", s.URL)
	cmd.Env = append(os.Environ(), "SANDGATE_TOKEN="+s.Token)
	out, _ := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, about) {
			said += line
		}
	}
	if said == "" {
		t.Fatalf("sandgate doctor does not report %s:\n%s", about, out)
	}
	return said
}

// reportsEdition checks that doctor says what needs an edition, also when its image is away.
func (s *Server) reportsEdition(t *testing.T, id, users string) {
	t.Helper()
	contains(t, s.findings(t, "editions"), "ok    editions", id[:8]+"-", " is kept for "+users+" until ")
	_, image, _ := strings.Cut(id, "-")
	kept := s.Dir + "/data/editions/images/" + image
	check(t, os.Rename(kept, kept+".away"))
	contains(t, s.findings(t, "editions"), "fail  editions", id[:8]+"-", " cannot be used ",
		" is needed by "+users)
	check(t, os.Rename(kept+".away", kept))
}

// status returns the table of sandgate cluster upgrade status.
func (s *Server) status(t *testing.T) string {
	t.Helper()
	out, err := Sandgate("cluster", "upgrade", "status", "--url", s.URL, "--token-from",
		s.Dir+"/data/token")
	check(t, err)
	return out
}

// mixed is a cluster whose first server had the release before the current one.
type mixed struct {
	*cluster
	old *Server
	now release
	// killed means that the old server was killed: its end is an error.
	killed bool
}

// mixedSettings are those of its servers.
const mixedSettings = "pool: {size: 1, spare: 0}\nlog: {level: debug}\ngateway: {self_check: 0}\n"

// startMixed starts a cluster with a server of the release before the current one. The context bounds
// the test.
func startMixed(t *testing.T, settings string) (context.Context, *mixed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	now := currentRelease(t)
	before := earlierRelease(t, now)
	all, err := NewCluster(ctx)
	check(t, err)
	m := &mixed{cluster: &cluster{all, t}, now: now}
	t.Cleanup(func() {
		if t.Failed() && m.old != nil {
			t.Log(m.old.Complaints())
		}
		if err := m.Stop(); !m.killed {
			check(t, err)
		}
	})
	m.Program, m.Settings = before.program, "drain_limit: 100s" // the image has 2.7 GB
	m.old, err = m.Start(ctx, clusterLease, mixedSettings+settings+version(before))
	check(t, err)
	m.Program = ""
	return ctx, m
}

// join starts a server of the current release, and waits until both know each other.
func (m *mixed) join(ctx context.Context, settings string) (*Server, *wire.Client) {
	m.t.Helper()
	fresh, err := m.Start(ctx, clusterLease, mixedSettings+settings+version(m.now))
	check(m.t, err)
	for _, srv := range []*Server{m.old, fresh} {
		knowsTwo(m.t, srv)
	}
	client, err := wire.New(fresh.URL, fresh.Token, wire.Options{})
	check(m.t, err)
	return fresh, client
}

// kill kills the old server at once, and for good.
func (m *mixed) kill() {
	m.killed = true
	_ = syscall.Kill(m.old.PID(), syscall.SIGSTOP) // so that it does not start the node again
	m.old.Signal(syscall.SIGKILL)
	_ = m.old.Halt(syscall.SIGKILL)
}

// resumes waits until a server has a session.
func (m *mixed) resumes(ctx context.Context, on *wire.Client, id string) {
	m.t.Helper()
	eventually(m.t, "the session continues", func() bool {
		_, err := on.ResumeSession(ctx, id)
		if err != nil && !fault.Is(err, fault.Unavailable) {
			m.t.Fatal(err)
		}
		return err == nil
	})
}

// TestUpgradeOfCluster moves a session of an earlier edition in a cluster. A node that lacks the edition
// leaves the session in the blob store and names the edition, which is not there because its image is
// too large. A node that has it continues the session.
func TestUpgradeOfCluster(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	ctx, m := startMixed(t, "")
	s := openAs(t, m.old, protocol.SessionCreate{})
	s.run("ok", "x = 41")
	about, err := s.client.Session(ctx, s.id)
	check(t, err)
	m.old.installed(ctx, t, m.now, "1h, share: 0")
	if got := s.run("ok", "x += 1; x").result(t); got != "42" {
		t.Errorf("after the upgrade of its node: %s", got)
	}
	fresh, other := m.join(ctx, "")
	said, err := m.old.Drain()
	check(t, err)
	contains(t, said, "1 runtimes and images of sessions stay on this node")
	runtime, _, _ := strings.Cut(about.Edition, "-")
	// The gateway may try the drained node until it knows about the drain.
	eventually(t, "the node without the edition names it", func() bool {
		_, err := other.ResumeSession(ctx, s.id)
		if !fault.Is(err, fault.Unavailable) {
			t.Fatalf("on a node without the edition %s: %v", about.Edition, err)
		}
		return strings.Contains(err.Error(), runtime[:12])
	})
	eventually(t, "the session is counted as parked", func() bool { // it is counted every ten seconds
		said := fresh.status(t)
		return strings.Contains(said, "parked") && strings.Contains(said, about.Edition[:8])
	})
	if code, err := fresh.JSON(ctx, "PATCH", "/v1/nodes/n0", map[string]bool{"draining": false},
		nil); err != nil || code != 200 {
		t.Fatalf("%d %v", code, err)
	}
	m.resumes(ctx, other, s.id)
	if got := s.on(fresh).run("ok", "x").result(t); got != "42" || m.owner(s.id) != 0 {
		t.Errorf("after the move: %s on node %d", got, m.owner(s.id))
	}
}

// knowsTwo waits until a server knows two nodes.
func knowsTwo(t *testing.T, srv *Server) {
	t.Helper()
	eventually(t, "a node knows the other one", func() bool {
		var list nodes.NodeList
		code, err := srv.Get(t.Context(), "/v1/nodes", &list)
		return err == nil && code == 200 && len(list.Nodes) == 2
	})
}

// TestUpgradeCarriesParked upgrades a node of a cluster. Its sessions and snapshots are in the blob
// store when the window of their edition ends. They are carried over there, and another node, which
// never had the edition, uses them with their files and variables.
func TestUpgradeCarriesParked(t *testing.T) {
	t.Parallel() // most of the time it waits for the next look at the editions
	ctx, m := startMixed(t, "")
	yes := true
	s := openAs(t, m.old, protocol.SessionCreate{Durable: &yes})
	s.run("ok", "x = 41; n = open('file', 'w').write('in a file')")
	taken, err := s.client.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.id, Name: "kept"})
	check(t, err)
	s.run("ok", "n = open('file', 'w').write('later')")
	about, err := s.client.Session(ctx, s.id)
	check(t, err)
	check(t, s.conn.Close())

	fresh, other := m.join(ctx, "")
	m.old.installed(ctx, t, m.now, "1s") // its sessions move to the store when it stops
	contains(t, m.old.Log(), "session parked")
	_, image, _ := strings.Cut(about.Edition, "-")
	eventually(t, "the earlier edition is removed", func() bool { // its server answers before its node
		_, err := os.Stat(m.old.Dir + "/data/editions/images/" + image)
		return os.IsNotExist(err)
	})
	knowsTwo(t, m.old)
	check(t, m.old.Halt(syscall.SIGTERM))
	m.resumes(ctx, other, s.id)
	const look = "x, open('file').read()"
	on := s.on(fresh)
	if got := on.run("ok", look).result(t); got != "(41, 'later')" {
		t.Errorf("the session on the other node: %s", got)
	}
	if v, err := other.Session(ctx, s.id); err != nil || v.Edition == about.Edition {
		t.Errorf("%+v %v", v, err)
	}
	v, err := other.Snapshot(ctx, "kept")
	if err != nil || v.ID != taken.ID || v.UpgradedMS == 0 || v.Edition == taken.Edition {
		t.Errorf("the snapshot: %+v %v", v, err)
	}
	from, err := other.CreateSession(ctx, protocol.SessionCreate{Snapshot: "kept"})
	check(t, err)
	if got := on.at(from.ID).run("ok", look).result(t); got != "(41, 'in a file')" {
		t.Errorf("a session from the snapshot: %s", got)
	}
}

// TestUpgradeFetchesEdition stops the only node that has the edition of a session, for good and without
// an upgrade of its own. While it stops, it puts the runtime and the image into the blob store. Another
// node, which never had them, fetches them, and continues the session with its variables.
func TestUpgradeFetchesEdition(t *testing.T) {
	t.Parallel() // most of the time it waits for the disk
	ctx, m := startMixed(t, "")
	s := openAs(t, m.old, protocol.SessionCreate{})
	s.run("ok", "x = 41")
	check(t, s.conn.Close())
	fresh, other := m.join(ctx, "")
	if stored, _ := filepath.Glob(m.Dir + "/blobs/kept/editions/*"); len(stored) != 0 {
		t.Errorf("in the store before: %v", stored)
	}
	check(t, m.old.Halt(syscall.SIGTERM))
	contains(t, m.old.Log(), "session parked", "editions=0")
	m.resumes(ctx, other, s.id)
	if got := s.on(fresh).run("ok", "x + 1").result(t); got != "42" {
		t.Errorf("the session on the other node: %s", got)
	}
	contains(t, fresh.status(t), "earlier", "yes")
}

// TestUpgradeTakesOver kills a node whose earlier edition is at the end of its window, for good. One
// durable session was carried over before, and another one, which runs, was not: its copy in the blob
// store needs the earlier edition. Another node, which never had that one, continues the first session
// with its files and variables, and the second one with all its memory.
func TestUpgradeTakesOver(t *testing.T) {
	t.Parallel() // most of the time it waits for the next look at the editions
	const settings = "sessions: {durable_every: 1s, idle_pause: 0}\n"
	ctx, m := startMixed(t, settings)
	yes := true
	var all []*session
	for range 2 {
		s := openAs(t, m.old, protocol.SessionCreate{Durable: &yes})
		s.run("ok", "x = 41; g = (n for n in range(9)); n = open('file', 'w').write('in a file')")
		all = append(all, s)
	}
	carried, runs := all[0], all[1]
	m.old.installed(ctx, t, m.now, "2m") // they stay on its disk: there is no other node
	for _, s := range all {
		s.run("ok", "x += 1")
	}
	before, err := carried.client.Session(ctx, carried.id)
	check(t, err)
	fresh, other := m.join(ctx, settings)
	_, err = carried.client.HibernateSession(ctx, carried.id)
	check(t, err)
	check(t, carried.conn.Close())
	eventually(t, "a session is carried over", func() bool {
		return strings.Contains(m.old.Log(), "carried over to the current runtime and image")
	})
	eventually(t, "its new copy is in the store", func() bool {
		_, of := m.copied(carried.id)
		return of != "" && of != before.Edition
	})
	earlier, _ := m.copied(runs.id)
	runs.run("ok", "x += 1")
	eventually(t, "the copy with the last cell is in the store", func() bool {
		name, of := m.copied(runs.id)
		if of != "" && of != before.Edition {
			t.Fatalf("the copy of the session that runs is of %s, want %s", of, before.Edition)
		}
		return name != earlier
	})
	check(t, runs.conn.Close())
	m.kill()
	const look = "'g' in globals(), x, open('file').read()"
	for s, want := range map[*session]string{
		carried: "(False, 42, 'in a file')", runs: "(True, 43, 'in a file')",
	} {
		m.resumes(ctx, other, s.id)
		if got := s.on(fresh).run("ok", look).result(t); got != want {
			t.Errorf("on the other node: %s, want %s", got, want)
		}
	}
}

// copied returns the name and the edition of the newest copy of a session in the blob store.
func (m *mixed) copied(id string) (name, of string) {
	m.t.Helper()
	all, err := filepath.Glob(m.Dir + "/blobs/checkpoints/" + id + "/*.about")
	check(m.t, err)
	if len(all) == 0 {
		return "", ""
	}
	name = all[len(all)-1]
	text, err := os.ReadFile(name)
	if err != nil { // a later one has replaced it
		return name, ""
	}
	_, of, _ = strings.Cut(string(text), `"edition":"`)
	of, _, _ = strings.Cut(of, `"`)
	return name, of
}
