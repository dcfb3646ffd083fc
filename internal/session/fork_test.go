package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/internal/session/durable"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// entries returns the names in a folder of the node.
func (r *rig) entries(name string) []string {
	r.t.Helper()
	list, err := os.ReadDir(filepath.Join(r.m.cfg.DataDir, name))
	if err != nil {
		r.t.Fatal(err)
	}
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// flood returns a cell that prints numbered lines, and its expected output.
func flood(lines int) (code, want string) {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "%d and some more text to make the line long\n", i)
	}
	return fmt.Sprintf("for i in range(%d): print(i, 'and some more text to make the line long')",
		lines), b.String()
}

// same fails if a cell's output differs from the expected output in any byte.
func (p *peer) same(ch, cell uint32, want string) {
	p.r.t.Helper()
	p.mu.Lock()
	got, gaps := p.view[ch].text(frame.KindStdout, cell), p.view[ch].text(frame.KindGap, 0)
	p.mu.Unlock()
	if gaps != "" || got != want {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		p.r.t.Errorf("channel %d has %d bytes, want %d; they differ from byte %d: %.200q; gaps %q",
			ch, len(got), len(want), i, got[max(0, i-100):], gaps)
	}
}

// TestGVisorFork: a session that is busy in every way is forked. Cells, shells and processes
// continue in all of them, each log begins with the complete history, and from then on the sessions
// are independent.
func TestGVisorFork(t *testing.T) {
	r := newGVisor(t, t.TempDir())
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Name: "first", Env: map[string]string{"SECRET": "s"}})
	p := r.open()
	at := p.attach(1, s.ID, "k1")
	p.run(
		1, "import pandas\nx = pandas.DataFrame({'a': range(1000)})\nopen('kept', 'w').write('in a file')")
	c := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "terminal", Env: map[string]string{"PS1": "$ "}})
	p.attachAt(2, protocol.Attach{Session: s.ID, Channel: c.ID, Writer: "w"}, true)
	p.input(2, 1, "held=in-the-shell; echo rea''dy\r", false)
	p.printed(2, "ready")
	q := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "process", Argv: []string{"cat"}, Stdin: true})
	p.attachAt(3, protocol.Attach{Session: s.ID, Channel: q.ID, Writer: "w"}, true)
	p.input(3, 1, "one\n", false)
	p.printed(3, "one\n")
	code, want := flood(600_000)
	cell := p.execute(1, code)
	behind := p.execute(1, "print('behind')\ny = 1", func(e *protocol.Execute) { e.Key = "behind" })
	p.printed(1, "1000 and")

	begin := time.Now()
	f := must[protocol.Forks](r, protocol.OpFork, protocol.SessionFork{Session: s.ID, Count: 2})
	t.Logf("forking twice: %s, of which it stood still %.1f ms", time.Since(begin), f.PauseMS)
	if len(f.Sessions) != 2 || f.PauseMS <= 0 {
		t.Fatalf("forked: %+v", f)
	}
	if left := r.entries("forks"); len(left) > 0 {
		t.Errorf("left of the fork: %v", left)
	}
	o := r.open()
	for i, v := range f.Sessions {
		if v.ID == s.ID || v.Origin != s.ID || v.State != running.String() || v.Name != "" ||
			len(v.Channels) != 3 {
			t.Errorf("a fork: %+v", v)
		}
		ch := uint32(10 * (i + 1))
		here := o.attach(ch, v.ID, "k1")
		if here.Epoch == at.Epoch || here.Offset != 0 {
			t.Errorf("the fork's log has epoch %d and begins at %d; the original's epoch is %d",
				here.Epoch, here.Offset, at.Epoch)
		}
		o.attachAt(ch+1, protocol.Attach{Session: v.ID, Channel: c.ID, Writer: "w"}, true)
		o.attachAt(ch+2, protocol.Attach{Session: v.ID, Channel: q.ID, Writer: "w"}, true)
	}
	for i, v := range f.Sessions {
		ch := uint32(10 * (i + 1))
		// The cell that ran continues, and the queued one does not.
		if reply := o.reply(ch, cell); reply.Status != "ok" {
			t.Errorf("the cell in a fork: %+v", reply)
		}
		o.same(ch, cell, want)
		o.mu.Lock()
		forked, replied := -1, -1
		for i, r := range o.view[ch].records {
			if r.Kind == frame.KindEvent {
				forked = i
			} else if r.Cell == cell && bytes.Contains(r.Payload, []byte(`"execute_reply"`)) {
				replied = i
			}
		}
		o.mu.Unlock()
		if forked < 0 || forked > replied {
			t.Fatalf("the flood ended before it was forked: %d, %d", forked, replied)
		}
		if reply := o.reply(ch, behind); reply.Status != "aborted" {
			t.Errorf("the cell after it: %+v", reply)
		}
		if text, _ := o.run(ch,
			"import os; print(x.a.sum(), open('kept').read(), 'y' in globals(), os.environ['SECRET'])"); text != "499500 in a file False s\n" {
			t.Errorf("a fork has %q", text)
		}
		o.mu.Lock()
		events := o.view[ch].text(frame.KindEvent, 0)
		o.mu.Unlock()
		var e struct {
			Event, From   string
			Epoch, Offset uint64
		}
		if err := json.Unmarshal([]byte(events), &e); err != nil || e.Event != "forked" ||
			e.From != s.ID || e.Epoch != at.Epoch || e.Offset == 0 {
			t.Errorf("the fork's log says %q, %v", events, err)
		}
		var again protocol.Queued
		o.must(protocol.OpExecute, ch, protocol.Execute{Code: "1", Key: "behind"}, &again)
		if !again.Repeated || again.Cell != behind {
			t.Errorf("the key in a fork: %+v", again)
		}
		o.run(ch, fmt.Sprintf("open('kept', 'w').write('of %s')", v.ID))
		o.input(ch+1, 1, "echo $held; cat kept\r", false)
		o.printed(ch+1, "in-the-shell\r\nof "+v.ID)
		o.input(ch+2, 1, fmt.Sprintf("to %d\n", i), true)
		o.printed(ch+2, fmt.Sprintf("one\nto %d\n", i))
		if e := o.exit(ch + 2); e.Code != 0 {
			t.Errorf("cat in a fork: %+v", e)
		}
	}
	// The original is not affected.
	if reply := p.reply(1, behind); reply.Status != "ok" {
		t.Errorf("the cell after it, in the original: %+v", reply)
	}
	p.same(1, cell, want)
	p.same(1, behind, "behind\n")
	p.input(2, 2, "echo $held; cat kept\r", false)
	p.printed(2, "in-the-shell\r\nin a file")
	p.input(3, 2, "two\n", true)
	if e := p.exit(3); e.Code != 0 {
		t.Errorf("cat: %+v", e)
	}
	p.same(3, 0, "one\ntwo\n")

	// A hibernated fork is forked.
	must[protocol.Session](r, protocol.OpHibernate, protocol.SessionRef{Session: f.Sessions[0].ID})
	g := must[protocol.Forks](r, protocol.OpFork, protocol.SessionFork{Session: f.Sessions[0].ID})
	o.attach(30, g.Sessions[0].ID, "k1")
	if text, _ := o.run(30, "print(open('kept').read())"); text != "of "+f.Sessions[0].ID+"\n" {
		t.Errorf("a fork of a fork: %q", text)
	}

	// Bad requests.
	_, err := call[protocol.Forks](r, alice, protocol.OpFork,
		protocol.SessionFork{Session: s.ID, Count: protocol.MaxForks + 1})
	wantKind(t, "too many", err, fault.InvalidArgument, "count")
	_, err = call[protocol.Forks](r, alice, protocol.OpFork,
		protocol.SessionFork{Session: s.ID, Name: "\x00"})
	wantKind(t, "a bad name", err, fault.InvalidArgument, "name")
	_, err = call[protocol.Forks](r, bob, protocol.OpFork, protocol.SessionFork{Session: s.ID})
	wantKind(t, "another's session", err, fault.NotFound, "session")
	r.m.admission.SetMaxSessions(4)
	r.m.mu.Lock()
	r.m.maxHibernated = 0 // no session can be evicted
	r.m.mu.Unlock()
	_, err = call[protocol.Forks](r, alice, protocol.OpFork, protocol.SessionFork{Session: s.ID})
	wantKind(t, "no room", err, fault.Exhausted, "")
}

// TestGVisorSnapshots checks that snapshots are kept by name over restarts, start sessions
// repeatedly, are counted, and are removed when they are deleted or expire.
func TestGVisorSnapshots(t *testing.T) {
	data := t.TempDir()
	few := func(c *Config) { c.MaxSnapshots = 2 }
	r := newGVisor(t, data, few)
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Env: map[string]string{"A": "a", "B": "b"}})
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "import pandas\nx = 41\nopen('kept', 'w').write('in a file')")
	cell := p.execute(1, "import time\nprint('on', flush=True)\ntime.sleep(2)\nprint('later')",
		func(e *protocol.Execute) { e.TimeoutMS = 60_000 })
	p.printed(1, "on\n")
	begin := time.Now()
	n := must[protocol.Snapshot](r, protocol.OpSnapshot,
		protocol.SnapshotCreate{Session: s.ID, Name: "base"})
	t.Logf("a snapshot: %s, of which it stood still %.1f ms; %d MiB", time.Since(begin), n.PauseMS,
		n.Bytes>>20)
	if n.Name != "base" || n.Session != s.ID || n.Bytes < 1<<20 || n.PauseMS <= 0 ||
		n.Language != "python" {
		t.Errorf("taken: %+v", n)
	}
	if reply := p.reply(1, cell); reply.Status != "ok" {
		t.Errorf("the cell that ran: %+v", reply)
	}
	_, err := call[protocol.Snapshot](r, alice, protocol.OpSnapshot,
		protocol.SnapshotCreate{Session: s.ID, Name: "base"})
	wantKind(t, "a name twice", err, fault.Conflict, "name")
	second := must[protocol.Snapshot](r, protocol.OpSnapshot,
		protocol.SnapshotCreate{Session: s.ID})
	_, err = call[protocol.Snapshot](r, alice, protocol.OpSnapshot,
		protocol.SnapshotCreate{Session: s.ID})
	wantKind(t, "one too many", err, fault.Exhausted, "")
	must[struct{}](r, protocol.OpSnapshotDel, protocol.SnapshotRef{Snapshot: second.ID})
	over := must[protocol.Snapshot](r, protocol.OpSnapshot,
		protocol.SnapshotCreate{Session: s.ID, ExpiresSeconds: 1})
	eventually(t, "the other is over", func() bool { return len(r.entries("kept")) == 1 })
	_, err = call[protocol.Snapshot](r, alice, protocol.OpSnapshotGet,
		protocol.SnapshotRef{Snapshot: over.ID})
	wantKind(t, "one that is over", err, fault.NotFound, "snapshot")

	// Owners.
	for _, op := range []string{protocol.OpSnapshotGet, protocol.OpSnapshotDel} {
		for _, ref := range []string{n.ID, "base", "n_none"} {
			_, err := call[protocol.Snapshot](r, bob, op, protocol.SnapshotRef{Snapshot: ref})
			wantKind(t, op+" of another's", err, fault.NotFound, "snapshot")
		}
	}
	_, err = call[protocol.Session](r, bob, protocol.OpSessionCreate,
		protocol.SessionCreate{Snapshot: n.ID})
	wantKind(t, "a start from another's", err, fault.NotFound, "snapshot")
	if l, err := call[protocol.SnapshotList](r, bob, protocol.OpSnapshotList, nil); err != nil ||
		l.Snapshots == nil || len(l.Snapshots) != 0 {
		t.Errorf("another's list: %+v, %v", l, err)
	}
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
	r.stop()

	// The next process finds the snapshot, and removes incomplete ones.
	for _, bad := range []string{"n_half.partial/snapshot", "n_empty", "n_cut"} {
		if err := os.MkdirAll(filepath.Join(data, "kept", bad), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(data, "kept", "n_cut", "session.json"),
		[]byte(`{"version":1,`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(data, "forks", "s_cut"), 0o700); err != nil {
		t.Fatal(err)
	}
	r = newGVisor(t, data, few)
	if names := r.entries("kept"); fmt.Sprint(names) != "["+n.ID+"]" ||
		len(r.entries("forks")) != 0 {
		t.Errorf("kept: %v, forks: %v", names, r.entries("forks"))
	}
	l := must[protocol.SnapshotList](r, protocol.OpSnapshotList, nil)
	if len(l.Snapshots) != 1 || l.Snapshots[0] != n {
		t.Errorf("listed: %+v, want %+v", l, n)
	}
	if st := r.m.Status(); st.Snapshots != 1 || st.SnapshotBytes != n.Bytes {
		t.Errorf("status: %+v", st)
	}
	_, err = call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{Snapshot: "base", Language: "php"})
	wantKind(t, "another language", err, fault.InvalidArgument, "language")
	p = r.open()
	for i := range uint32(2) {
		begin := time.Now()
		s := must[protocol.Session](r, protocol.OpSessionCreate,
			protocol.SessionCreate{
				Snapshot: "base", Name: fmt.Sprint("again ", i),
				Env: map[string]string{"B": "c"},
			})
		t.Logf("a start: %s", time.Since(begin))
		if s.Origin != n.ID || s.Name != fmt.Sprint("again ", i) || s.State != running.String() {
			t.Errorf("started: %+v", s)
		}
		p.attach(i+1, s.ID, "k1")
		// The cell that ran during the snapshot also ends here, much later.
		if reply := p.reply(i+1, cell); reply.Status != "ok" {
			t.Errorf("the cell that ran: %+v", reply)
		}
		p.same(i+1, cell, "on\nlater\n")
		if text, _ := p.run(i+1,
			"import os; x += 1; print(x, open('kept').read(), os.environ['A'], os.environ['B'])"); text != "42 in a file a c\n" {
			t.Errorf("started from it: %q", text)
		}
	}
	// A snapshot may be deleted while sessions that began with it run.
	must[struct{}](r, protocol.OpSnapshotDel, protocol.SnapshotRef{Snapshot: "base"})
	if names := r.entries("kept"); len(names) != 0 {
		t.Errorf("left of it: %v", names)
	}
	if text, _ := p.run(2, "x += 1; print(x)"); text != "43\n" {
		t.Errorf("its session: %q", text)
	}
}

// TestGVisorSnapshotUnfit: a snapshot of another version is never used, and the caller gets an
// error.
func TestGVisorSnapshotUnfit(t *testing.T) {
	r := newGVisor(t, t.TempDir())
	s := r.create()
	n := must[protocol.Snapshot](r, protocol.OpSnapshot, protocol.SnapshotCreate{Session: s.ID})
	name := filepath.Join(r.m.snapshots.Dir(n.ID), "snapshot", "sandgate.json")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name,
		[]byte(strings.Replace(string(data), `"build_id":"`, `"build_id":"x`, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	_, err = call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{Snapshot: n.ID})
	wantKind(t, "a start", err, fault.Conflict, "snapshot")
	if n := len(must[protocol.SessionList](r, protocol.OpSessionList, nil).Sessions); n != 1 {
		t.Errorf("there are %d sessions", n)
	}
	if names := r.entries("logs"); len(names) != 1 {
		t.Errorf("the logs: %v", names)
	}
}

// TestCopyFails: a session whose copy fails continues, and nothing is left.
func TestCopyFails(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Durable, c.DurableEvery = true, time.Millisecond })
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	for range 2 {
		if _, err := call[protocol.Forks](r, alice, protocol.OpFork,
			protocol.SessionFork{Session: s.ID}); err == nil {
			t.Fatal("a copy succeeded on a backend without snapshots")
		}
		if _, err := call[protocol.Snapshot](r, alice, protocol.OpSnapshot,
			protocol.SnapshotCreate{Session: s.ID, Name: "x"}); err == nil ||
			fault.Is(err, fault.Conflict) {
			t.Fatalf("a copy on a backend without snapshots: %v", err)
		}
		if text, _ := p.run(1, "print on"); text != "on" {
			t.Errorf("after a failure: %q", text)
		}
	}
	eventually(t, "a copy is tried", func() bool {
		return r.session(s.ID).copies.Idle()
	})
	for dir, want := range map[string]int{"kept": 0, "forks": 0, "durable/" + s.ID: 1} {
		// Another copy may be in progress.
		eventually(t, "nothing is left in "+dir,
			func() bool { return len(r.entries(dir)) == want })
	}
	if taken, _ := r.m.admission.Places(); taken != 1 || r.m.snapshots.Pending() != 0 {
		t.Errorf("%d places are in use", taken)
	}
}

var bob = noderpc.Principal{Tenant: "bob", Subject: "bob"}

// TestGVisorDurable: a session of a killed node is recovered in its state when it was last idle,
// and each later cell is reported as lost.
func TestGVisorDurable(t *testing.T) {
	data := t.TempDir()
	often := func(c *Config) { c.DurableEvery = time.Millisecond }
	yes := true
	r := newGVisor(t, data, often)
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Durable: &yes, Env: map[string]string{"A": "a"}})
	p := r.open()
	at := p.attach(1, s.ID, "k1")
	p.run(1, "import random, uuid\nx = 41\nopen('kept', 'w').write('in a file')")
	c := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "terminal", Env: map[string]string{"PS1": "$ "}})
	p.attachAt(2, protocol.Attach{Session: s.ID, Channel: c.ID, Writer: "w"}, true)
	p.input(2, 1, "held=in-the-shell; echo rea''dy\r", false)
	p.printed(2, "ready")
	kept := func() bool {
		m := r.session(s.ID)
		return !m.activity.LastActive().After(m.copies.Saved())
	}
	eventually(t, "it is copied", kept)
	if v := must[protocol.Session](r, protocol.OpSessionGet,
		protocol.SessionRef{Session: s.ID}); !v.Durable || v.KeptMS == 0 || v.RecoveredMS != 0 {
		t.Errorf("the session: %+v", v)
	}
	p.run(1, "x = 42")
	eventually(t, "it is copied again", kept)
	eventually(t, "the older copy is gone",
		func() bool { return len(r.entries("durable/"+s.ID)) == 1 })
	var copying *durable.Draft // keeps the session from being copied again
	eventually(t, "no copy is being made", func() bool {
		copying = r.session(s.ID).copies.Begin()
		return copying != nil
	})
	draw, _ := p.run(1, "print(random.random())", func(e *protocol.Execute) { e.Key = "drawn" })
	ended := uint32(3)
	cell := p.execute(1, "x = 0\nprint('on', flush=True)\nwhile True: pass",
		func(e *protocol.Execute) { e.Key = "runs" })
	behind := p.execute(1, "x = 1")
	p.printed(1, "on\n")

	// The disk's content if the node is killed at this moment.
	dead := diskNow(t, data)
	copying.End()
	p.must(protocol.OpInterrupt, 1, protocol.Interrupt{}, nil)
	r.stop()

	for range 2 { // killed again before it is resumed
		r = newGVisor(t, dead, often)
		v := must[protocol.Session](r, protocol.OpSessionGet, protocol.SessionRef{Session: s.ID})
		if v.State != hibernated.String() || v.RecoveredMS == 0 || !v.Durable ||
			len(v.Channels) != 2 || v.Channels[0].State != "idle" {
			t.Fatalf("recovered: %+v", v)
		}
		again := t.TempDir()
		if err := os.CopyFS(again, os.DirFS(dead)); err != nil {
			t.Fatal(err)
		}
		dead = again
		if v.Channels[0].Epoch == at.Epoch {
			t.Error("the log's epoch is that of another history")
		}
		o := r.open()
		o.attachAt(1, protocol.Attach{Session: s.ID, Channel: "k1"}, true)
		o.hasStates(1, "hibernated")
		for _, n := range []uint32{ended, cell, behind} {
			if reply := o.reply(1, n); reply.EName != "SandboxLost" {
				t.Errorf("cell %d: %+v", n, reply)
			}
		}
		o.mu.Lock()
		events := o.view[1].text(frame.KindEvent, 0)
		o.mu.Unlock()
		if !strings.Contains(events, `"event":"recovered"`) ||
			!strings.Contains(events, `"lost_cells":3`) {
			t.Errorf("the log says %q", events)
		}
		var q protocol.Queued
		o.must(protocol.OpExecute, 1, protocol.Execute{Key: "runs", Code: "1"}, &q)
		if !q.Repeated || q.Cell != cell {
			t.Errorf("the key of a lost cell: %+v", q)
		}
		if text, _ := o.run(1,
			"import os; print(x, open('kept').read(), os.environ['A'])"); text != "42 in a file a\n" {
			t.Errorf("recovered: %q", text)
		}
		if text, _ := o.run(1, "print(random.random())"); text == draw {
			t.Error("random numbers were repeated")
		}
		// A writer that continued meanwhile continues at its position, and no input is taken twice.
		o.attachAt(2, protocol.Attach{Session: s.ID, Channel: c.ID, Writer: "w"}, true)
		o.input(2, 7, "echo $held\r", false)
		o.input(2, 7, "never twice\r", false)
		o.input(2, 8, "echo $held\r", false)
		o.until("both answers",
			func() bool {
				text := o.view[2].text(frame.KindStdout, 0)
				return strings.Count(text, "in-the-shell")-strings.Count(text, "held=in") == 2
			})
		if o.count(2, "twice") != 0 {
			t.Error("input was delivered twice")
		}
		eventually(t, "it is copied", kept)
		must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
		eventually(t, "nothing is left", func() bool {
			return len(r.entries("durable")) == 0 &&
				len(r.entries("sessions")) == 0
		})
		r.stop()
	}
}

// TestGVisorDurableBounds: a session that is too large is not copied, and reports this once. A
// session that was killed before its first copy is lost.
func TestGVisorDurableBounds(t *testing.T) {
	data := t.TempDir()
	for _, bad := range []string{"s_a/00000001.partial/snapshot", "s_b/00000002", "s_c"} {
		if err := os.MkdirAll(filepath.Join(data, "durable", bad), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := newGVisor(t, data, func(c *Config) {
		c.Durable, c.DurableEvery, c.DurableBytes = true,
			time.Millisecond, 1<<20
	})
	if names := r.entries("durable"); len(names) > 0 {
		t.Errorf("left of sessions without a copy: %v", names)
	}
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "1")
	p.until("it is told", func() bool {
		return strings.Contains(p.view[1].text(frame.KindEvent, 0),
			"not_durable")
	})
	p.run(1, "2")
	if c := r.m.Status().Counters; c["preserved"] != 0 {
		t.Errorf("counters: %v", c)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := r.m.Fork(ctx, alice, r.session(s.ID), protocol.SessionFork{}); err == nil {
		t.Error("the fork succeeded although its client had gone")
	}
}

// TestGVisorStandby fails when a resume or a fork does not use a standby sandbox, or when one
// remains.
func TestGVisorStandby(t *testing.T) {
	var standby *gvisor.Standby
	r := newGVisor(t, t.TempDir(), func(c *Config) {
		backend := c.Backend.(*gvisor.Backend)
		standby = gvisor.NewStandby(backend, 1)
		backend.Standby = standby
	})
	t.Cleanup(standby.Close) // when it fails; a second Close does nothing
	ready := func() {
		t.Helper()
		eventually(t, "there is a standby sandbox",
			func() bool { return standby.Stats().Ready == 1 })
	}
	taken := func(want uint64) {
		t.Helper()
		if n := uint64(standby.Stats().Claims); n != want {
			t.Errorf("%d standby sandboxes were taken, want %d", n, want)
		}
	}
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 42")
	ready()
	must[protocol.Session](r, protocol.OpHibernate, protocol.SessionRef{Session: s.ID})
	begin := time.Now()
	if text, _ := p.run(1, "print(x)"); text != "42\n" {
		t.Errorf("resumed in a standby sandbox: %q", text)
	}
	t.Logf("a wake: %s", time.Since(begin))
	taken(1)
	ready()
	f := must[protocol.Forks](r, protocol.OpFork, protocol.SessionFork{Session: s.ID, Count: 2})
	p.attach(2, f.Sessions[0].ID, "k1")
	p.attach(3, f.Sessions[1].ID, "k1")
	one, _ := p.run(2, "import socket; print(x, socket.gethostname())")
	two, _ := p.run(3, "import socket; print(x, socket.gethostname())")
	if !strings.HasPrefix(one, "42 ") || !strings.HasPrefix(two, "42 ") || one == two {
		t.Errorf("the forks say %q and %q", one, two)
	}
	if n := standby.Stats().Claims; n < 2 {
		t.Errorf("%d standby sandboxes were taken", n)
	}
	// A template that is ready is removed with the others.
	ready()
	standby.Close()
	r.stop()
}
