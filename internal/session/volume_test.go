package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// volume makes a volume.
func (p *peer) volume(name string, bytes int64) protocol.Volume {
	p.r.t.Helper()
	var v protocol.Volume
	p.must(protocol.OpVolumeCreate, 0, protocol.VolumeCreate{Name: name, MaxBytes: bytes}, &v)
	return v
}

func (p *peer) session(mounts ...protocol.Mount) protocol.Session {
	p.r.t.Helper()
	var s protocol.Session
	p.must(protocol.OpSessionCreate, 0, protocol.SessionCreate{Language: "python", Volumes: mounts},
		&s)
	return s
}

func (p *peer) says(ch uint32, code, want string) {
	p.r.t.Helper()
	if text, reply := p.run(ch, code); strings.TrimSpace(text) != want {
		p.r.t.Errorf("%s printed %q (%s %s), not %q", code, text, reply.EName, reply.EValue, want)
	}
}

// errno returns code that prints the error of a statement.
func errno(statement string) string {
	return "import errno, os\ntry:\n  " + statement +
		"\n  print('ok')\nexcept OSError as e: print(errno.errorcode[e.errno])"
}

func (p *peer) refused(kind fault.Kind, field, op string, params any) {
	p.r.t.Helper()
	err := p.ask(op, 0, params, nil)
	if !fault.Is(err, kind) || field != "" && fault.PublicOf(err).Field != field {
		p.r.t.Errorf("%s %+v: %v, not %s of %q", op, params, err, kind, field)
	}
}

// TestVolumes shares a volume between two sessions. The volume outlives both sessions, their
// hibernation and the server.
func TestVolumes(t *testing.T) {
	data := t.TempDir()
	r := newGVisor(t, data, func(c *Config) { c.Pools = map[string]int{} })
	p := r.open()
	p.volume("data", 0)
	a := p.session(protocol.Mount{Name: "data", Path: "/home/user/work/shared"})
	b := p.session(protocol.Mount{Name: "data", ReadOnly: true, Path: "/shared"})
	if len(a.Volumes) != 1 || a.Volumes[0].Name != "data" {
		t.Errorf("the session says %+v", a.Volumes)
	}
	p.attach(1, a.ID, "k1")
	p.attach(2, b.ID, "k1")
	p.says(
		1, "open('/home/user/work/shared/x','w').write('one'); print(oct(__import__('os').stat('/volumes/data/x').st_uid))", "0o1750")
	p.says(2, "print(open('/shared/x').read())", "one")
	p.says(2, errno("open('/shared/y','w')"), "EROFS")
	p.says(2, errno("os.remove('/volumes/data/x')"), "EROFS")
	p.says(1, errno("open('/volumes/stray','w')"), "EACCES")

	// Hibernate and resume a session that has an open file.
	p.says(1, "f = open('work/shared/log','a'); print(f.write('1'), f.flush())", "1 None")
	p.must(protocol.OpHibernate, 0, protocol.SessionRef{Session: a.ID}, nil)
	p.says(2, "print(open('/shared/log').read())", "1")
	p.says(1, "f.write('2'); f.flush(); print(open('/volumes/data/log').read())", "12")

	// A fork and a session from a snapshot have the volume too.
	var forks protocol.Forks
	p.must(protocol.OpFork, 0, protocol.SessionFork{Session: a.ID}, &forks)
	fork := forks.Sessions[0]
	p.attach(3, fork.ID, "k1")
	p.says(3, "f.write('3'); f.flush(); print(open('work/shared/log').read())", "123")
	if len(fork.Volumes) != 1 {
		t.Errorf("a fork says %+v", fork.Volumes)
	}

	var v protocol.Volume
	p.must(protocol.OpVolumeGet, 0, protocol.VolumeRef{Name: "data"}, &v)
	if v.Sessions != 3 || v.Files != 2 || v.Bytes < 8192 {
		t.Errorf("the volume is %+v", v)
	}
	p.refused(fault.Conflict, "name", protocol.OpVolumeDelete, protocol.VolumeRef{Name: "data"})
	for _, s := range []protocol.Session{b, fork} {
		p.must(protocol.OpSessionDelete, 0, protocol.SessionRef{Session: s.ID}, nil)
	}
	r.stop() // hibernates a

	r = newGVisor(t, data, func(c *Config) { c.Pools = map[string]int{} })
	p = r.open()
	p.attach(1, a.ID, "k1")
	p.says(1, "f.write('4'); f.flush(); print(open('/volumes/data/log').read())", "1234")
	p.must(protocol.OpSessionDelete, 0, protocol.SessionRef{Session: a.ID}, nil)
	p.must(protocol.OpVolumeDelete, 0, protocol.VolumeRef{Name: "data"}, nil)
	p.refused(fault.NotFound, "name", protocol.OpVolumeGet, protocol.VolumeRef{Name: "data"})
	p.refused(fault.NotFound, "volumes[0].name", protocol.OpSessionCreate,
		protocol.SessionCreate{Volumes: []protocol.Mount{{Name: "data"}}})
	if left, err := os.ReadDir(filepath.Join(data, "volumes")); err != nil || len(left) != 0 {
		t.Errorf("%v remain, %v", left, err)
	}
}

// TestVolumeMissing resumes a session whose open file was removed meanwhile. Nothing is lost, and
// the resume succeeds when the file is back.
func TestVolumeMissing(t *testing.T) {
	r := newGVisor(t, t.TempDir(), func(c *Config) { c.Pools = map[string]int{} })
	p := r.open()
	p.volume("v", 0)
	a, b := p.session(protocol.Mount{Name: "v"}), p.session(protocol.Mount{Name: "v"})
	p.attach(1, a.ID, "k1")
	p.attach(2, b.ID, "k1")
	p.says(1, "f = open('/volumes/v/f','w+'); x = 41; print(x)", "41")
	p.must(protocol.OpHibernate, 0, protocol.SessionRef{Session: a.ID}, nil)
	p.says(2, "import os; os.rename('/volumes/v/f', '/volumes/v/g'); print(1)", "1")
	err := p.ask(protocol.OpResume, 0, protocol.SessionRef{Session: a.ID}, nil)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.PublicOf(err).Message,
		"/volumes/v/f") {
		t.Errorf("a resume without the file: %v", err)
	}
	p.says(2, "os.rename('/volumes/v/g', '/volumes/v/f'); print(2)", "2")
	p.says(1, "print(x + 1)", "42")
}

// TestVolumeFull fills a volume beyond its limit: it becomes read-only for the session that writes
// to it, and another session can remove files.
func TestVolumeFull(t *testing.T) {
	r := newGVisor(t, t.TempDir(),
		func(c *Config) { c.Pools, c.VolumeEvery = map[string]int{}, time.Hour })
	p := r.open()
	p.volume("v", 1<<20)
	s := p.session(protocol.Mount{Name: "v"})
	p.attach(1, s.ID, "k1")
	p.says(1, "open('/volumes/v/big','wb').write(b'x' * (2 << 20)); print(1)", "1")
	p.says(
		1, "import time\nfor i in range(1000):\n  try:\n    open('/volumes/v/small','w').close(); time.sleep(0.01)\n  except OSError as e: print(e.errno); break", "30")
	p.must(protocol.OpSessionDelete, 0, protocol.SessionRef{Session: s.ID}, nil)
	s = p.session(protocol.Mount{Name: "v"})
	p.attach(2, s.ID, "k1")
	p.says(2, "import os; os.remove('/volumes/v/big'); print('big' in os.listdir('/volumes/v'))",
		"False")
	if n := r.m.Status().Counters["volumes_full"]; n < 1 {
		t.Errorf("counted %d", n)
	}
}

func TestVolumeRules(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxVolumes, c.MaxVolumeBytes = 2, 1<<20 })
	p := r.open()
	p.volume("a", 0)
	p.volume("b", 5)
	create := func(v protocol.VolumeCreate) any { return v }
	p.refused(fault.Exhausted, "", protocol.OpVolumeCreate,
		create(protocol.VolumeCreate{Name: "c"}))
	p.refused(fault.Conflict, "name", protocol.OpVolumeCreate,
		create(protocol.VolumeCreate{Name: "a"}))
	p.refused(fault.InvalidArgument, "max_bytes", protocol.OpVolumeCreate,
		create(protocol.VolumeCreate{Name: "d", MaxBytes: 1<<20 + 1}))
	for _, name := range []string{"", "..", "a/b", "-a", "ä", strings.Repeat("x", 65)} {
		p.refused(fault.InvalidArgument, "name", protocol.OpVolumeCreate,
			create(protocol.VolumeCreate{Name: name}))
	}
	for _, path := range []string{
		"relative", "/", "/etc/passwd", "/home/user/../x", "/home/user",
		"/home/user/", "/volumes/x", "/a/b", "/x\x00",
	} {
		if err := volume.CheckMounts("test", []protocol.Mount{{Name: "a", Path: path}}); !fault.Is(
			err, fault.InvalidArgument) {
			t.Errorf("the path %q: %v", path, err)
		}
	}
	if err := volume.CheckMounts("test", []protocol.Mount{{Name: "a"}, {Name: "a"}}); !fault.Is(err,
		fault.InvalidArgument) {
		t.Error("a volume that is mounted twice was accepted")
	}
	// Another tenant's volumes give the same error as volumes that never existed.
	m := r.openAs(mallo)
	m.refused(fault.NotFound, "name", protocol.OpVolumeGet, protocol.VolumeRef{Name: "a"})
	m.refused(fault.NotFound, "name", protocol.OpVolumeDelete, protocol.VolumeRef{Name: "a"})
	m.refused(fault.NotFound, "name", protocol.OpVolumeLease, protocol.VolumeLease{Name: "a"})
	m.refused(fault.NotFound, "volumes[0].name", protocol.OpSessionCreate,
		protocol.SessionCreate{Volumes: []protocol.Mount{{Name: "a"}}})
	// A backend without volumes reports that, and nothing is held.
	p.refused(fault.Unsupported, "volumes", protocol.OpSessionCreate,
		protocol.SessionCreate{Volumes: []protocol.Mount{{Name: "a"}}})
	p.must(protocol.OpVolumeDelete, 0, protocol.VolumeRef{Name: "a"}, nil)
	var l protocol.VolumeList
	p.must(protocol.OpVolumeList, 0, nil, &l)
	if len(l.Volumes) != 1 || l.Volumes[0].Name != "b" || l.Volumes[0].MaxBytes != 5 {
		t.Errorf("the list is %+v", l)
	}
}

// TestVolumeLease passes a lease from one session to another. The tokens grow, also over a restart
// of the server.
func TestVolumeLease(t *testing.T) {
	data := t.TempDir()
	r := newRig(t, func(c *Config) { c.DataDir = data })
	p := r.open()
	p.volume("v", 0)
	var one, two protocol.Lease
	p.must(protocol.OpVolumeLease, 0, protocol.VolumeLease{
		Name: "v", Holder: "one",
		TTLSeconds: 3600,
	}, &one)
	err := p.ask(protocol.OpVolumeLease, 0, protocol.VolumeLease{Name: "v", Holder: "two"}, nil)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(fault.PublicOf(err).Message, `"one"`) ||
		fault.PublicOf(err).RetryAfter < 1 {
		t.Errorf("a lease that is held: %v", err)
	}
	p.must(protocol.OpVolumeLease, 0, protocol.VolumeLease{
		Name: "v", Token: one.Token,
		TTLSeconds: 1,
	}, &two)
	if two.Token != one.Token || two.Holder != "one" || two.ExpiresMS >= one.ExpiresMS {
		t.Errorf("renewed %+v as %+v", one, two)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		// the lease is over by the clock
		err := p.ask(protocol.OpVolumeLease, 0, protocol.VolumeLease{
			Name: "v", Holder: "two",
			TTLSeconds: 3600,
		}, &two)
		if err == nil {
			break
		}
		if !fault.Is(err, fault.Conflict) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if two.Token <= one.Token {
		t.Errorf("the token %d follows %d", two.Token, one.Token)
	}
	p.refused(fault.Conflict, "token", protocol.OpVolumeLease,
		protocol.VolumeLease{Name: "v", Token: one.Token})
	p.refused(fault.Conflict, "token", protocol.OpVolumeRelease,
		protocol.VolumeRelease{Name: "v", Token: one.Token})
	p.refused(fault.InvalidArgument, "ttl_seconds", protocol.OpVolumeLease,
		protocol.VolumeLease{Name: "v", TTLSeconds: 3601})
	r.stop()

	r = newRig(t, func(c *Config) { c.DataDir = data })
	p = r.open()
	p.refused(fault.Conflict, "name", protocol.OpVolumeLease, protocol.VolumeLease{Name: "v"})
	p.must(protocol.OpVolumeRelease, 0, protocol.VolumeRelease{Name: "v", Token: two.Token}, nil)
	p.must(protocol.OpVolumeLease, 0, protocol.VolumeLease{Name: "v"}, &one)
	if one.Token <= two.Token {
		t.Errorf("after a restart the token %d follows %d", one.Token, two.Token)
	}
}

// TestVolumeFlood writes too much to a volume through an open file, which cannot be made read-only.
// The session ends.
func TestVolumeFlood(t *testing.T) {
	r := newGVisor(t, t.TempDir(),
		func(c *Config) { c.Pools, c.VolumeEvery = map[string]int{}, time.Hour })
	p := r.open()
	p.volume("v", 1<<20)
	s := p.session(protocol.Mount{Name: "v"})
	p.attach(1, s.ID, "k1")
	p.execute(
		1, "f = open('/volumes/v/f','wb')\nfor i in range(1 << 10): f.write(b'x' * (1 << 16)); f.flush(); time.sleep(0.01) if 'time' in dir() else __import__('time').sleep(0.01)")
	if e := p.exit(1); e.Reason != "killed" {
		t.Errorf("ended as %+v", e)
	}
}

// TestVolumeOfManyFiles writes new files to a volume as quickly as it can. The volume becomes
// read-only, at twice its limit at the latest, and the session keeps its variables.
func TestVolumeOfManyFiles(t *testing.T) {
	r := newGVisor(t, t.TempDir(), func(c *Config) { c.Pools = map[string]int{} })
	p := r.open()
	const limit = 100 << 20
	p.volume("v", limit)
	s := p.session(protocol.Mount{Name: "v"})
	p.attach(1, s.ID, "k1")
	p.says(1, `import errno
data = b'x' * (1 << 20)
for i in range(400):
  try:
    with open(f'/volumes/v/{i}', 'wb') as f: f.write(data)
  except OSError as e: print(errno.errorcode[e.errno]); break`, "EROFS")
	var v protocol.Volume
	p.must(protocol.OpVolumeGet, 0, protocol.VolumeRef{Name: "v"}, &v)
	if v.Bytes > 2*limit {
		t.Errorf("the volume holds %d bytes of %d", v.Bytes, limit)
	}
	t.Logf("the volume holds %d MiB", v.Bytes>>20)
	p.says(1, "print(len(data))", "1048576")
}
