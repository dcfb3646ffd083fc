package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
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
	kept, err := s.client.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.id, Name: "kept"})
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
	from, err := s.client.CreateSession(ctx, protocol.SessionCreate{Snapshot: kept.ID})
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
		Snapshot: kept.ID,
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

// status returns the table of sandgate cluster upgrade status.
func (s *Server) status(t *testing.T) string {
	t.Helper()
	out, err := Sandgate("cluster", "upgrade", "status", "--url", s.URL, "--token-from",
		s.Dir+"/data/token")
	check(t, err)
	return out
}

// TestUpgradeOfCluster moves a session of an earlier edition in a cluster. A node that lacks the edition
// leaves the session in the blob store and names the edition. A node that has it continues the session.
func TestUpgradeOfCluster(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	now := currentRelease(t)
	before := earlierRelease(t, now)
	all, err := NewCluster(ctx)
	check(t, err)
	c := &cluster{all, t}
	t.Cleanup(func() { check(t, c.Stop()) })
	const settings = "pool: {size: 1, spare: 0}\nlog: {level: debug}\ngateway: {self_check: 0}\n"
	c.Program = before.program
	old, err := c.Start(ctx, clusterLease, settings+version(before))
	check(t, err)
	s := openAs(t, old, protocol.SessionCreate{})
	s.run("ok", "x = 41")
	about, err := s.client.Session(ctx, s.id)
	check(t, err)
	check(t, old.Halt(syscall.SIGTERM))
	text, err := os.ReadFile(old.Config)
	check(t, err)
	check(t, os.WriteFile(old.Config, bytes.ReplaceAll(bytes.ReplaceAll(text, []byte(before.runsc),
		[]byte(now.runsc)), []byte(before.image), []byte(now.image)), 0o644))
	old.program = ""
	check(t, old.Boot(ctx))
	if got := s.run("ok", "x += 1; x").result(t); got != "42" {
		t.Errorf("after the upgrade of its node: %s", got)
	}

	c.Program = ""
	fresh, err := c.Start(ctx, clusterLease, settings+version(now))
	check(t, err)
	_, err = old.Drain()
	check(t, err)
	other, err := wire.New(fresh.URL, fresh.Token, wire.Options{})
	check(t, err)
	runtime, _, _ := strings.Cut(about.Edition, "-")
	// The gateway may try the drained node until it knows about the drain.
	eventually(t, "the node without the edition names it", func() bool {
		_, err := other.ResumeSession(ctx, s.id)
		if !fault.Is(err, fault.Unavailable) {
			t.Fatalf("on a node without the edition %s: %v", about.Edition, err)
		}
		return strings.Contains(err.Error(), runtime[:12])
	})
	contains(t, fresh.status(t), "parked", about.Edition[:8])
	if code, err := fresh.JSON(ctx, "PATCH", "/v1/nodes/n0", map[string]bool{"draining": false},
		nil); err != nil || code != 200 {
		t.Fatalf("%d %v", code, err)
	}
	eventually(t, "the session continues on the node that has its edition", func() bool {
		_, err := other.ResumeSession(ctx, s.id)
		return err == nil
	})
	if got := s.on(fresh).run("ok", "x").result(t); got != "42" || c.owner(s.id) != 0 {
		t.Errorf("after the move: %s on node %d", got, c.owner(s.id))
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
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	now := currentRelease(t)
	before := earlierRelease(t, now)
	all, err := NewCluster(ctx)
	check(t, err)
	c := &cluster{all, t}
	t.Cleanup(func() { check(t, c.Stop()) })
	const settings = "pool: {size: 1, spare: 0}\ngateway: {self_check: 0}\n"
	c.Program = before.program
	old, err := c.Start(ctx, clusterLease, settings+version(before))
	check(t, err)
	yes := true
	s := openAs(t, old, protocol.SessionCreate{Durable: &yes})
	s.run("ok", "x = 41; n = open('file', 'w').write('in a file')")
	taken, err := s.client.TakeSnapshot(ctx, protocol.SnapshotCreate{Session: s.id, Name: "kept"})
	check(t, err)
	s.run("ok", "n = open('file', 'w').write('later')")
	about, err := s.client.Session(ctx, s.id)
	check(t, err)
	check(t, s.conn.Close())

	c.Program = ""
	fresh, err := c.Start(ctx, clusterLease, settings+version(now))
	check(t, err)
	knowsTwo(t, old)
	knowsTwo(t, fresh)
	old.installed(ctx, t, now, "1s") // its sessions move to the store when it stops
	contains(t, old.Log(), "session parked")
	eventually(t, "the earlier edition is removed", func() bool {
		files, err := filepath.Glob(old.Dir + "/data/editions/*/*")
		return err == nil && len(files) == 2
	})
	knowsTwo(t, old)
	check(t, old.Halt(syscall.SIGTERM))
	other, err := wire.New(fresh.URL, fresh.Token, wire.Options{})
	check(t, err)
	eventually(t, "the session continues on the other node", func() bool {
		_, err := other.ResumeSession(ctx, s.id)
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
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

// TestUpgradeFetchesEdition kills the only node that has the edition of a parked session. Another node,
// which never had it, fetches the runtime and the image from the blob store, and continues the session
// with its variables.
func TestUpgradeFetchesEdition(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	now := currentRelease(t)
	before := earlierRelease(t, now)
	all, err := NewCluster(ctx)
	check(t, err)
	c := &cluster{all, t}
	defer c.Stop() // with the error of the server that is killed
	const settings = "pool: {size: 1, spare: 0}\ngateway: {self_check: 0}\n"
	c.Program = before.program
	old, err := c.Start(ctx, clusterLease, settings+version(before))
	check(t, err)
	s := openAs(t, old, protocol.SessionCreate{})
	s.run("ok", "x = 41")
	check(t, s.conn.Close())
	c.Program = ""
	fresh, err := c.Start(ctx, clusterLease, settings+version(now))
	check(t, err)
	knowsTwo(t, old)
	old.installed(ctx, t, now, "10m") // its session moves to the store when it stops
	contains(t, old.Log(), "session parked")
	eventually(t, "the earlier edition is in the store", func() bool {
		stored, err := filepath.Glob(c.Dir + "/blobs/kept/editions/*")
		return err == nil && len(stored) == 1
	})
	syscall.Kill(old.PID(), syscall.SIGSTOP) // so that it does not start the node again
	old.Signal(syscall.SIGKILL)
	old.Halt(syscall.SIGKILL)
	other, err := wire.New(fresh.URL, fresh.Token, wire.Options{})
	check(t, err)
	eventually(t, "the other node has fetched the edition", func() bool {
		_, err := other.ResumeSession(ctx, s.id)
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	if got := s.on(fresh).run("ok", "x + 1").result(t); got != "42" {
		t.Errorf("the session on the other node: %s", got)
	}
	contains(t, fresh.status(t), "earlier", "yes")
}
