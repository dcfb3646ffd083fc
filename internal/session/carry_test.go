package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestGVisorCarry carries a durable session over while it runs, and again while it is hibernated. It
// has its name, files, volume, logs, cells, keys and variables afterwards, also those of the cell that
// was interrupted, and reports that what ran has ended.
func TestGVisorCarry(t *testing.T) {
	data := t.TempDir()
	rarely := func(c *Config) { c.DurableEvery = time.Hour }
	r := newGVisor(t, data, rarely)
	p := r.open()
	p.volume("shared", 0)
	yes := true
	s := must[protocol.Session](r, protocol.OpSessionCreate, protocol.SessionCreate{
		Name: "mine", Durable: &yes, Env: map[string]string{"A": "a"},
		Labels:  map[string]string{"l": "1"},
		Volumes: []protocol.Mount{{Name: "shared", Path: "/home/user/work/shared"}},
	})
	ref := protocol.SessionRef{Session: s.ID}
	at := p.attach(1, s.ID, "k1")
	if _, reply := p.run(1, `import os
x = 41
open('kept', 'w').write('in a file')
os.chmod('kept', 0o640); os.utime('kept', (1, 1_000_000_000))
os.symlink('kept', 'link'); os.mkdir('closed'); open('closed/in', 'w').write('deep')
os.chmod('closed', 0)
open('/mnt/data/d', 'w').write('data'); open('/tmp/t', 'w').write('temporary')
open('work/shared/v', 'w').write('volume')`); reply.Status != "ok" {
		t.Fatalf("%+v", reply)
	}
	shell := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "terminal"})
	cell := p.execute(1, "print('on', flush=True)\nwhile True: pass",
		func(e *protocol.Execute) { e.Key = "runs" })
	behind := p.execute(1, "x = 1")
	p.printed(1, "on\n")

	c := NewCarrier(r.m)
	ends := func(string) bool { return true }
	if left := c.Carry(r.ctx, ends, false); left != 1 {
		t.Errorf("%d are left while one works", left)
	}
	if left := c.Carry(r.ctx, ends, true); left != 0 {
		t.Fatalf("%d are left", left)
	}
	v := must[protocol.Session](r, protocol.OpSessionGet, ref)
	if v.State != hibernated.String() || v.Name != "mine" || v.Labels["l"] != "1" || !v.Durable ||
		v.KeptMS == 0 || len(v.Volumes) != 1 || len(v.Channels) != 2 ||
		v.Channels[0].Epoch != at.Epoch || v.Channels[0].State != "dead" {
		t.Fatalf("%+v", v)
	}
	o := r.open()
	o.attachAt(1, protocol.Attach{Session: s.ID, Channel: "k1", Epoch: at.Epoch}, true)
	o.attachAt(2, protocol.Attach{Session: s.ID, Channel: shell.ID, Writer: "w"}, true)
	if reply := o.reply(1, cell); reply.EName != "KernelDied" ||
		!strings.Contains(reply.EValue, "upgraded") {
		t.Errorf("the cell that ran: %+v", reply)
	}
	if reply := o.reply(1, behind); reply.Status != "aborted" {
		t.Errorf("the cell that waited: %+v", reply)
	}
	if e := o.exit(2); e.Reason != "upgraded" {
		t.Errorf("the terminal: %+v", e)
	}
	var q protocol.Queued
	o.must(protocol.OpExecute, 1, protocol.Execute{Key: "runs", Code: "1"}, &q)
	if !q.Repeated || q.Cell != cell {
		t.Errorf("the key of the cell: %+v", q)
	}
	const look = `import os
s = os.stat('kept')
print('x' in globals(), open('link').read(), oct(s.st_mode), s.st_mtime, s.st_uid,
      os.readlink('link'), open('closed/in').read(), open('/mnt/data/d').read(),
      open('/tmp/t').read(), open('work/shared/v').read(), os.environ['A'])`
	const want = "True in a file 0o100640 1000000000.0 1000 kept deep data temporary volume a\n"
	if text, reply := o.run(1, look); text != want {
		t.Errorf("%q %+v, want %q", text, reply, want)
	}
	o.mu.Lock()
	events := o.view[1].text(frame.KindEvent, 0)
	o.mu.Unlock()
	for _, part := range []string{
		`"event":"upgraded","kept":["/home/user","/mnt/data","/tmp","/var/tmp"],"files":`,
		`"event":"kernel_died"`, `"event":"kernel_restarted","reason":"upgraded"`,
		`"variables":{"written":true,"kept":["os","x"],"kept_count":2,"lost":[],"lost_count":0}`,
		"the variables from before the upgrade are restored: os, x",
	} {
		if !strings.Contains(events, part) {
			t.Errorf("the log does not say %s: %s", part, events)
		}
	}
	o.must(protocol.OpHibernate, 0, ref, nil)
	if left := c.Carry(r.ctx, ends, false); left != 0 {
		t.Fatalf("%d are left of hibernated ones", left)
	}
	if n := r.m.Status().Counters; n["carried"] != 2 || n["carry_failed"] != 0 {
		t.Errorf("counters: %v", n)
	}
	r.stop()

	r = newGVisor(t, data, rarely)
	if is := must[protocol.Session](r, protocol.OpSessionGet, ref).Edition; is == "" ||
		is != v.Edition {
		t.Errorf("before its first use the edition is %q, want %q", is, v.Edition)
	}
	o = r.open()
	o.attachAt(1, protocol.Attach{Session: s.ID, Channel: "k1", Epoch: at.Epoch}, true)
	if text, reply := o.run(1, look); text != want {
		t.Errorf("in the next process: %q %+v, want %q", text, reply, want)
	}
	// The volume is held by one session.
	o.must(protocol.OpSessionDelete, 0, ref, nil)
	eventually(t, "the volume can be deleted", func() bool {
		err := o.ask(protocol.OpVolumeDelete, 0, protocol.VolumeRef{Name: "shared"}, nil)
		return err == nil || fault.Is(err, fault.NotFound)
	})
}

// TestGVisorCarryFails: a session whose sandbox cannot be restored for that stays hibernated as it
// was, with its variables.
func TestGVisorCarryFails(t *testing.T) {
	r := newGVisor(t, t.TempDir())
	yes := true
	s := must[protocol.Session](r, protocol.OpSessionCreate, protocol.SessionCreate{Durable: &yes})
	ref := protocol.SessionRef{Session: s.ID}
	p := r.open()
	at := p.attach(1, s.ID, "k1")
	p.run(1, "x = 41")
	p.must(protocol.OpHibernate, 0, ref, nil)
	name := filepath.Join(r.m.dirs.Snapshot(s.ID), "sandgate.json")
	about, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	change := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change(strings.Replace(string(about), `"build_id":"`, `"build_id":"x`, 1))
	c := NewCarrier(r.m)
	if left := c.Carry(r.ctx, func(string) bool { return true }, false); left != 1 {
		t.Errorf("%d are left", left)
	}
	if n := r.m.Status().Counters; n["carried"] != 0 || n["carry_failed"] != 1 {
		t.Errorf("counters: %v", n)
	}
	v := must[protocol.Session](r, protocol.OpSessionGet, ref)
	if v.State != hibernated.String() || v.Channels[0].State != "idle" ||
		v.Channels[0].Epoch != at.Epoch {
		t.Errorf("%+v", v)
	}
	change(string(about))
	o := r.open()
	o.attach(1, s.ID, "k1")
	if text, reply := o.run(1, "print(x + 1)"); text != "42\n" {
		t.Errorf("%q %+v", text, reply)
	}
}

// TestGVisorCarryKilled: the node is killed after it has carried a session over, and before the copy
// that follows. The next process makes that copy, so that the session does not need the earlier
// edition.
func TestGVisorCarryKilled(t *testing.T) {
	data := t.TempDir()
	rarely := func(c *Config) { c.DurableEvery = time.Hour }
	r := newGVisor(t, data, rarely)
	yes := true
	s := must[protocol.Session](r, protocol.OpSessionCreate, protocol.SessionCreate{Durable: &yes})
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "open('kept', 'w').write('in a file')")
	if left := NewCarrier(r.m).Carry(r.ctx, func(string) bool { return true }, true); left != 0 {
		t.Fatalf("%d are left", left)
	}
	dead := diskNow(t, data)
	r.stop()
	copies := func(dir string) []string {
		all, err := filepath.Glob(filepath.Join(dir, "durable", s.ID, "*", "snapshot", "sandgate.json"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if len(copies(dead)) != 1 {
		t.Fatalf("the copies: %v", copies(dead))
	}
	name := copies(dead)[0]
	about, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	earlier := strings.Replace(string(about), `"build_id":"`, `"build_id":"x`, 1)
	// It may be a link to the file of the session.
	if err := errors.Join(os.Remove(name), os.WriteFile(name, []byte(earlier), 0o600)); err != nil {
		t.Fatal(err)
	}
	r = newGVisor(t, dead, rarely)
	eventually(t, "a copy of the current edition", func() bool {
		all := copies(dead)
		if len(all) != 1 {
			return false
		}
		text, err := os.ReadFile(all[0])
		return err == nil && !strings.Contains(string(text), `"build_id":"x`)
	})
	o := r.open()
	o.attach(1, s.ID, "k1")
	if text, reply := o.run(1, "print(open('kept').read())"); text != "in a file\n" {
		t.Errorf("%q %+v", text, reply)
	}
}

// TestGVisorCarrySnapshot carries a session over that is not durable, and a snapshot of it. A session
// that starts from the snapshot has its files and variables, and its log reports it.
func TestGVisorCarrySnapshot(t *testing.T) {
	data := t.TempDir()
	r := newGVisor(t, data)
	s := must[protocol.Session](r, protocol.OpSessionCreate, protocol.SessionCreate{})
	ref := protocol.SessionRef{Session: s.ID}
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "x = 41; n = open('kept', 'w').write('in a file')")
	shell := must[protocol.Channel](r, protocol.OpChannelOpen,
		protocol.ChannelOpen{Session: s.ID, Kind: "terminal"})
	made := must[protocol.Snapshot](r, protocol.OpSnapshot,
		protocol.SnapshotCreate{Session: s.ID, Name: "base"})
	if made.Edition == "" || made.Edition != s.Edition {
		t.Errorf("the snapshot is of %q, the session of %q", made.Edition, s.Edition)
	}
	p.run(1, "n = open('kept', 'w').write('later')")
	p.must(protocol.OpHibernate, 0, ref, nil)

	c := NewCarrier(r.m)
	if left := c.Carry(r.ctx, func(string) bool { return true }, false); left != 0 {
		t.Fatalf("%d are left", left)
	}
	if n := r.m.Status().Counters; n["carried"] != 2 || n["carry_failed"] != 0 {
		t.Errorf("counters: %v", n)
	}
	const look = "print('x' in globals(), open('kept').read())"
	o := r.open()
	o.attach(1, s.ID, "k1")
	if text, reply := o.run(1, look); text != "True later\n" {
		t.Errorf("the session: %q %+v", text, reply)
	}
	uses := func(name string) {
		t.Helper()
		var v protocol.Snapshot
		o := r.open()
		o.must(protocol.OpSnapshotGet, 0, protocol.SnapshotRef{Snapshot: "base"}, &v)
		if v.ID != made.ID || v.UpgradedMS == 0 || v.CreatedMS != made.CreatedMS {
			t.Errorf("%s: %+v", name, v)
		}
		from := must[protocol.Session](r, protocol.OpSessionCreate,
			protocol.SessionCreate{Snapshot: "base"})
		o.attach(2, from.ID, "k1")
		if text, reply := o.run(2, look); text != "True in a file\n" {
			t.Errorf("%s: a session from the snapshot: %q %+v", name, text, reply)
		}
		o.attachAt(3, protocol.Attach{Session: from.ID, Channel: shell.ID, Writer: "w"}, true)
		if e := o.exit(3); e.Reason != "upgraded" {
			t.Errorf("%s: the terminal: %+v", name, e)
		}
		o.mu.Lock()
		events := o.view[2].text(frame.KindEvent, 0)
		o.mu.Unlock()
		for _, part := range []string{
			`"event":"upgraded","kept":["/home/user"`, `"event":"started"`,
			`"event":"variables_restored"`,
		} {
			if !strings.Contains(events, part) {
				t.Errorf("%s: the log does not say %s: %s", name, part, events)
			}
		}
		o.must(protocol.OpSessionDelete, 0, protocol.SessionRef{Session: from.ID}, nil)
	}
	uses("at once")
	r.stop()
	r = newGVisor(t, data)
	uses("in the next process")
}
