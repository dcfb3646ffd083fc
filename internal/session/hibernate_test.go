package session

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// states returns the distinct states that the state events on ch reported to the peer, in their
// order.
func (p *peer) states(ch uint32) string {
	var all []string
	for _, c := range p.changes(ch) {
		if len(all) == 0 || all[len(all)-1] != c.State {
			all = append(all, c.State)
		}
	}
	return strings.Join(all, " ")
}

func (p *peer) changes(ch uint32) []protocol.StateChange {
	var all []protocol.StateChange
	for _, n := range p.news {
		var c protocol.StateChange
		if n.Event == protocol.EventState && n.Ch == ch && json.Unmarshal(n.Params, &c) == nil {
			all = append(all, c)
		}
	}
	return all
}

// phases returns the phases of the last resume that were reported to a peer.
func (p *peer) phases(ch uint32) (text string) {
	for _, c := range p.changes(ch) {
		if c.State == hibernated.String() {
			text = ""
			continue
		}
		text += fmt.Sprintf("%s %s %d;", c.State, c.Phase, c.Percent)
	}
	return text
}

// TestGVisorResuming reports the progress of a resume to waiting clients, also when another session
// must be evicted first.
func TestGVisorResuming(t *testing.T) {
	r := newGVisor(t, t.TempDir(), func(c *Config) { c.Pools, c.MaxSessions = map[string]int{}, 1 })
	p := r.open()
	a := r.create()
	p.attach(1, a.ID, "k1")
	p.run(1, "x = 41")
	p.must(protocol.OpHibernate, 0, protocol.SessionRef{Session: a.ID}, nil)
	p.run(1, "x += 1")
	const plain = "resuming memory 10;resuming kernels 80;running  0;"
	p.until("the phases", func() bool { return p.phases(1) == plain })
	// Only a session that was idle for a moment can be evicted.
	patiently := func(op string, params, result any) {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			err := p.ask(op, 0, params, result)
			if err == nil {
				return
			}
			if !fault.Is(err, fault.Exhausted) || time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	var b protocol.Session
	patiently(protocol.OpSessionCreate, protocol.SessionCreate{}, &b)
	p.hasStates(1, "hibernated resuming running hibernated")
	p.attach(2, b.ID, "k1")
	p.run(2, "1")
	patiently(protocol.OpResume, protocol.SessionRef{Session: a.ID}, nil)
	p.until("the phases with that of room",
		func() bool { return strings.HasSuffix(p.phases(1), "resuming room 0;"+plain) })
	if text, _ := p.run(1, "print(x)"); text != "42\n" {
		t.Errorf("after the resume: %q", text)
	}
}

func (p *peer) hasStates(ch uint32, states string) {
	p.r.t.Helper()
	p.until("the states "+states, func() bool { return p.states(ch) == states })
}

// TestGVisorHibernate checks that running, printing and waiting programs continue after a
// hibernation. The output has no gap and no repetition.
func TestGVisorHibernate(t *testing.T) {
	r := newGVisor(t, t.TempDir())
	s := r.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(
		1, "import pandas, random\nx = pandas.DataFrame({'a': range(1000)})\nopen('kept', 'w').write('in a file')\nrandom.seed(7)")
	c := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "terminal", Env: map[string]string{"PS1": "$ "}})
	p.attachAt(2, protocol.Attach{Session: s.ID, Channel: c.ID, Writer: "w"}, true)
	p.input(2, 1, "held=in-the-shell\r", false)
	q := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "process", Argv: []string{"cat"}, Stdin: true})
	p.attachAt(3, protocol.Attach{Session: s.ID, Channel: q.ID, Writer: "w"}, true)
	p.input(3, 1, "one\n", false)
	p.printed(3, "one\n")

	// A cell prints without pause while the session is hibernated repeatedly.
	const lines = 600_000
	cell := p.execute(
		1, fmt.Sprintf(
			"for i in range(%d): print(i, 'and some more text to make the line long')\nprint(x.a.sum(), random.random())", lines))
	p.printed(1, "1000 and")
	const rounds = 3
	for i := range rounds {
		begin := time.Now()
		if v := must[protocol.Session](r, protocol.OpHibernate,
			ref); v.State != hibernated.String() {
			t.Fatalf("hibernated: %+v", v)
		}
		t.Logf("hibernating: %s", time.Since(begin))
		if m := r.session(s.ID); !m.is(hibernated) {
			t.Fatal("it is not hibernated")
		}
		p.mu.Lock()
		_, done := p.view[1].reply(cell)
		p.mu.Unlock()
		if done {
			t.Fatalf("the flood ended before hibernation %d", i)
		}
		begin = time.Now()
		if v := must[protocol.Session](r, protocol.OpResume, ref); v.State != running.String() {
			t.Fatalf("resumed: %+v", v)
		}
		t.Logf("waking: %s", time.Since(begin))
	}
	if reply := p.reply(1, cell); reply.Status != "ok" {
		t.Errorf("the cell: %+v", reply)
	}
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "%d and some more text to make the line long\n", i)
	}
	want.WriteString("499500 0.32383276483316237\n")
	p.mu.Lock()
	got := p.view[1].text(frame.KindStdout, cell)
	gaps := p.view[1].text(frame.KindGap, 0)
	p.mu.Unlock()
	if gaps != "" || got != want.String() {
		i := 0
		for i < min(len(got), want.Len()) && got[i] == want.String()[i] {
			i++
		}
		t.Errorf("the output has %d bytes, want %d; they differ from byte %d: %.200q; gaps %q",
			len(got), want.Len(), i, got[max(0, i-100):], gaps)
	}

	// Each request for work resumes the session. A request that only reads its state does not.
	hibernate := func() {
		t.Helper()
		must[protocol.Session](r, protocol.OpHibernate, ref)
	}
	hibernate()
	o := r.open()
	o.attach(1, s.ID, "k1")
	o.hasStates(1, "hibernated")
	if v := must[protocol.Session](r, protocol.OpSessionGet, ref); v.State != hibernated.String() ||
		len(v.Channels) != 3 {
		t.Errorf("seen: %+v", v)
	}
	p.input(2, 2, "echo $held; cat kept\r", false)
	p.printed(2, "in-the-shell\r\nin a file")
	hibernate()
	p.input(3, 2, "two\n", true)
	p.printed(3, "two\n")
	if e := p.exit(3); e.Code != 0 {
		t.Errorf("cat: %+v", e)
	}
	hibernate()
	if text, _ := p.run(1, "print(x.shape, len(open('kept').read()))"); text != "(1000, 1) 9\n" {
		t.Errorf("after a hibernation: %q", text)
	}
	hibernate()
	f := must[protocol.File](r, protocol.OpFileStat, protocol.FileRef{Session: s.ID, Path: "kept"})
	if f.Size != 9 {
		t.Errorf("the file: %+v", f)
	}
	round := " hibernated resuming running"
	o.hasStates(1, "hibernated resuming running"+strings.Repeat(round, 3))

	// The timeout of a cell resumes the session too. It ends the cell. On a busy machine the kernel
	// may take longer than the interrupt's grace.
	cell = p.execute(1, "import time\nprint('asleep', flush=True)\ntime.sleep(1000)",
		func(e *protocol.Execute) { e.TimeoutMS = 3000 })
	p.printed(1, "asleep")
	hibernate()
	if reply := p.reply(1, cell); reply.EName != "KeyboardInterrupt" && reply.EName != "KernelDied" {
		t.Errorf("a cell with a timeout: %+v", reply)
	}

	// A session that is deleted while it is hibernated leaves no files.
	hibernate()
	must[struct{}](r, protocol.OpSessionDelete, ref)
	if e := p.exit(1); e.Reason != "deleted" {
		t.Errorf("the kernel's channel: %+v", e)
	}
	eventually(t, "the snapshot is gone", func() bool {
		names, err := os.ReadDir(filepath.Join(r.m.cfg.DataDir, "sessions"))
		return err == nil && len(names) == 0
	})
}

// TestGVisorHibernateLoop checks that repeated hibernations change no bit of a session's files and
// variables.
func TestGVisorHibernateLoop(t *testing.T) {
	r := newGVisor(t, t.TempDir())
	s := r.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, `
import hashlib, os, random
r = random.Random(1)
data = {i: r.randbytes(r.randrange(4096)) for i in range(2000)}
for i, b in data.items():
    os.makedirs(f'tree/{i % 17}/{i % 5}', exist_ok=True)
    open(f'tree/{i % 17}/{i % 5}/{i}', 'wb').write(b)
def digest():
    h = hashlib.sha256()
    for d, ds, fs in sorted(os.walk('tree')):
        for f in sorted(fs):
            h.update(os.path.join(d, f).encode() + open(os.path.join(d, f), 'rb').read())
    for i in sorted(data):
        h.update(data[i])
    return h.hexdigest()`)
	want, reply := p.run(1, "print(digest())")
	if len(want) != 65 {
		t.Fatalf("the digest is %q, %+v", want, reply)
	}
	for i := range 8 {
		must[protocol.Session](r, protocol.OpHibernate, ref)
		if got, _ := p.run(1, "print(digest())"); got != want {
			t.Fatalf("after %d cycles the digest is %q, want %q", i+1, got, want)
		}
	}
	if c := r.m.Status().Counters; c["hibernations"] != 8 || c["wakes"] != 8 {
		t.Errorf("counters: %v", c)
	}
}

// TestGVisorHibernateIdle checks that the policy hibernates paused and idle sessions, and that
// places for sandboxes and for sessions are counted separately.
func TestGVisorHibernateIdle(t *testing.T) {
	r := newGVisor(t, t.TempDir(), func(c *Config) {
		c.PauseAfter, c.HibernateAfter = 200*time.Millisecond, 400*time.Millisecond
		c.MaxSessions, c.MaxHibernated = 1, 1
	})
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 6")
	eventually(t, "it is hibernated", func() bool {
		st := r.m.Status()
		return st.Sessions == 0 &&
			st.Hibernated == 1
	})
	o := r.create()
	p.attach(2, o.ID, "k1")
	cell := p.execute(2, "import time\nwhile True: time.sleep(1)")
	err := p.ask(protocol.OpExecute, 1, protocol.Execute{Code: "x"}, nil)
	wantKind(t, "a wake without a place", err, fault.Exhausted, "")
	_, err = call[protocol.Session](r, alice, protocol.OpHibernate,
		protocol.SessionRef{Session: o.ID})
	wantKind(t, "a hibernation without a place", err, fault.Exhausted, "")
	p.must(protocol.OpInterrupt, 2, protocol.Interrupt{}, nil)
	p.reply(2, cell)
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: o.ID})
	if text, _ := p.run(1, "print(x * 7)"); text != "42\n" {
		t.Errorf("after the resume: %q", text)
	}
}

// TestGVisorSnapshotOfAnother checks that a snapshot that this server cannot use is never used, and
// that the session reports this.
func TestGVisorSnapshotOfAnother(t *testing.T) {
	data := t.TempDir()
	t.Run("asked", func(t *testing.T) { snapshotOfAnother(t, data, true) })
	t.Run("by a timeout", func(t *testing.T) { snapshotOfAnother(t, data, false) })
}

// snapshotOfAnother resumes the session by a request, or by a cell's timeout.
func snapshotOfAnother(t *testing.T, folder string, wakes bool) {
	t.Helper()
	r := newGVisor(t, folder)
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	cell := p.execute(1, "import time\nprint('on', flush=True)\ntime.sleep(1000)",
		func(e *protocol.Execute) {
			if !wakes {
				e.TimeoutMS = 15_000
			}
		})
	p.printed(1, "on")
	must[protocol.Session](r, protocol.OpHibernate, protocol.SessionRef{Session: s.ID})
	name := filepath.Join(r.m.dirs.Session(s.ID), "snapshot", "sandgate.json")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name,
		[]byte(strings.Replace(string(data), `"build_id":"`, `"build_id":"x`, 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	if wakes {
		err = p.ask(protocol.OpExecute, 1, protocol.Execute{Code: "1"}, nil)
		wantKind(t, "a wake", err, fault.SandboxLost, "")
	}
	if reply := p.reply(1, cell); reply.EName != "SandboxLost" {
		t.Errorf("the cell that ran: %+v", reply)
	}
	if v := must[protocol.Session](r, protocol.OpSessionGet,
		protocol.SessionRef{Session: s.ID}); v.State != lost.String() || v.Reason != "upgraded" {
		t.Errorf("the session: %+v", v)
	}
}

// TestHibernateFails checks that a session whose checkpoint fails continues.
func TestHibernateFails(t *testing.T) {
	r := newRig(t)
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	for range 2 {
		_, err := call[protocol.Session](r, alice, protocol.OpHibernate,
			protocol.SessionRef{Session: s.ID})
		if err == nil {
			t.Fatal("a hibernation succeeded on a backend without snapshots")
		}
		if text, _ := p.run(1, "print on"); text != "on" {
			t.Errorf("after a failure: %q", text)
		}
	}
	cell := p.execute(1, "hang")
	p.printed(1, "hanging")
	r.session(s.ID).machine.(*nativeMachine).kill("memory")
	if reply := p.reply(1, cell); reply.EName != "SandboxLost" {
		t.Errorf("the machine is still watched: %+v", reply)
	}
}

// rejoin attaches at the position where another peer's view of the channel ends.
func (p *peer) rejoin(ch uint32, before *view, a protocol.Attach) {
	p.r.t.Helper()
	p.mu.Lock()
	p.view[ch] = &view{offset: before.offset, acking: true, records: before.records}
	p.mu.Unlock()
	a.Offset = before.offset
	var at protocol.Attached
	p.must(protocol.OpAttach, ch, a, &at)
	if at.Epoch != a.Epoch || at.Offset != before.offset {
		p.r.t.Errorf("rejoined at %d of %d, want %d of %d", at.Offset, at.Epoch, before.offset,
			a.Epoch)
	}
}

// TestGVisorRestart checks that sessions survive the end of their node. A cell with much output, a
// queued cell, a terminal, typed input and idempotency keys continue. A viewer that reattaches gets
// exactly the remaining output.
func TestGVisorRestart(t *testing.T) {
	data := t.TempDir()
	r := newGVisor(t, data)
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Name: "kept", Env: map[string]string{"SECRET": "of-the-session"}})
	idle := r.create()
	p := r.open()
	a1 := p.attach(1, s.ID, "k1")
	p.run(1, "x = 41\nopen('kept', 'w').write('in a file')")
	c := must[protocol.Channel](r, protocol.OpChannelOpen, protocol.ChannelOpen{
		Session: s.ID,
		Kind:    "terminal", Key: "shell", Env: map[string]string{"PS1": "$ "},
	})
	a2 := p.attachAt(2, protocol.Attach{Session: s.ID, Channel: c.ID, Writer: "w"}, true)
	p.input(2, 1, "held=in-the-shell\r", false)
	p.printed(2, "held=in-the-shell")
	const lines = 600_000
	flood := p.execute(
		1, fmt.Sprintf("for i in range(%d): print(i, 'and some more text to make the line long')",
			lines), func(e *protocol.Execute) { e.Key = "flood" })
	behind := p.execute(1, "x += 1\nprint(x, open('kept').read())")
	p.printed(1, "1000 and")

	var o *peer
	for i := range 3 {
		begin := time.Now()
		r.stop()
		t.Logf("stopping with two sessions: %s", time.Since(begin))
		info, err := os.Stat(filepath.Join(data, "sessions", s.ID, "session.json"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("the session's file: %v, %v", info, err)
		}
		if i == 0 { // a cell that was not finished
			if err := os.MkdirAll(filepath.Join(data, "sessions", "s_half", "snapshot"),
				0o700); err != nil {
				t.Fatal(err)
			}
		}
		begin = time.Now()
		r = newGVisor(t, data)
		t.Logf("starting: %s", time.Since(begin))
		if _, err := os.Stat(filepath.Join(data, "sessions", "s_half")); err == nil {
			t.Error("an incomplete session remains")
		}
		ref := protocol.SessionRef{Session: s.ID}
		v := must[protocol.Session](r, protocol.OpSessionGet, ref)
		if v.State != hibernated.String() || v.Name != "kept" || len(v.Channels) != 2 ||
			v.Channels[0].State != "busy" || v.Channels[0].Queued != 1 {
			t.Fatalf("found: %+v", v)
		}
		o = r.open()
		o.rejoin(1, p.view[1], protocol.Attach{Session: s.ID, Channel: "k1", Epoch: a1.Epoch})
		o.rejoin(2, p.view[2], protocol.Attach{
			Session: s.ID, Channel: c.ID, Epoch: a2.Epoch,
			Writer: "w",
		})
		if i == 1 {
			p = o
			continue // stopped again while it is hibernated
		}
		begin = time.Now()
		must[protocol.Session](r, protocol.OpResume, ref)
		t.Logf("waking: %s", time.Since(begin))
		o.mu.Lock()
		_, done := o.view[1].reply(flood)
		o.mu.Unlock()
		if done && i == 0 {
			t.Fatal("the flood has ended too early")
		}
		p = o
	}
	if reply := o.reply(1, flood); reply.Status != "ok" {
		t.Errorf("the cell: %+v", reply)
	}
	if reply := o.reply(1, behind); reply.Status != "ok" {
		t.Errorf("the queued cell: %+v", reply)
	}
	var want strings.Builder
	for i := range lines {
		fmt.Fprintf(&want, "%d and some more text to make the line long\n", i)
	}
	o.mu.Lock()
	got, last, gaps := o.view[1].text(frame.KindStdout, flood), o.view[1].text(frame.KindStdout,
		behind), o.view[1].text(frame.KindGap, 0)
	o.mu.Unlock()
	if gaps != "" || got != want.String() {
		i := 0
		for i < min(len(got), want.Len()) && got[i] == want.String()[i] {
			i++
		}
		t.Errorf("the output has %d bytes, want %d; they differ from byte %d: %.200q; gaps %q",
			len(got), want.Len(), i, got[max(0, i-100):], gaps)
	}
	if last != "42 in a file\n" {
		t.Errorf("the queued cell printed %q", last)
	}
	o.input(2, 1, "never twice\r", false) // sent before
	o.input(2, 2, "echo $held\r", false)
	o.printed(2, "\rin-the-shell")
	if o.count(2, "twice") != 0 {
		t.Error("input was delivered twice")
	}
	var q protocol.Queued
	o.must(protocol.OpExecute, 1, protocol.Execute{Code: "1", Key: "flood"}, &q)
	if q.Cell != flood || !q.Repeated {
		t.Errorf("the key: %+v", q)
	}
	if again := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "terminal", Key: "shell"}); again.ID != c.ID {
		t.Errorf("the terminal's key gives %s", again.ID)
	}
	if text, reply := o.run(1,
		"import os; print(os.environ['SECRET'])"); text != "of-the-session\n" || reply.Count != 4 {
		t.Errorf("the environment: %q, %+v", text, reply)
	}
	o.attach(3, idle.ID, "k1")
	if text, _ := o.run(3, "print('awake')"); text != "awake\n" {
		t.Errorf("the other session: %q", text)
	}
	// Open a new channel, restart the kernel, and close the old channels.
	o.must(protocol.OpRestart, 1, nil, nil)
	if text, _ := o.run(1, "print('x' in globals())"); text != "False\n" {
		t.Errorf("restarted: %q", text)
	}
	o.input(2, 3, "exit 3\r", false)
	if e := o.exit(2); e.Code != 3 {
		t.Errorf("the shell: %+v", e)
	}
	for _, id := range []string{s.ID, idle.ID} {
		must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: id})
	}
	r.stop()
	for _, dir := range []string{"sessions", "logs"} {
		if names, err := os.ReadDir(filepath.Join(data, dir)); err == nil && len(names) > 0 {
			t.Errorf("%s remain: %v", dir, names)
		}
	}
}

// TestRemoveLater checks that a folder is removed from its place at once, also while an earlier
// folder of the same name is still being removed.
func TestRemoveLater(t *testing.T) {
	m := &Manager{ctx: t.Context(), log: slog.New(slog.DiscardHandler)}
	dir := filepath.Join(t.TempDir(), "s")
	for _, d := range []string{dir, dir + snapshot.ResumedSuffix} {
		if err := os.MkdirAll(filepath.Join(d, "snapshot"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := os.MkdirAll(filepath.Join(dir, "snapshot"), 0o700); err != nil {
			t.Fatal(err)
		}
		snapshot.RemoveLater(m.ctx, dir, m.work.Go, m.log)
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the folder is still in its place: %v", err)
		}
		_ = os.RemoveAll(dir + snapshot.ResumedSuffix)
	}
	m.work.Wait()
	if left, _ := filepath.Glob(dir + "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
