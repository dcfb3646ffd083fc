package session

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestPauseAsked checks that an explicit pause freezes a session even while a cell runs in it, and
// that the next work resumes it.
func TestPauseAsked(t *testing.T) {
	r := newRig(t)
	s := r.create()
	ref := protocol.SessionRef{Session: s.ID}
	p := r.open()
	p.attach(1, s.ID, "k1")
	cell := p.execute(1, "hang")
	p.printed(1, "hanging")
	for range 2 { // a second one changes nothing
		if v := must[protocol.Session](r, protocol.OpSessionPause,
			ref); v.State != paused.String() {
			t.Fatalf("paused: %+v", v)
		}
	}
	if v := must[protocol.Session](r, protocol.OpSessionKeepalive,
		protocol.SessionKeepalive{Session: s.ID, Seconds: 60}); v.State != paused.String() {
		t.Errorf("after a keep-alive the session is %s, although a keep-alive is not work", v.State)
	}
	p.must(protocol.OpInterrupt, 1, protocol.Interrupt{}, nil)
	if reply := p.reply(1, cell); reply.EName != "KeyboardInterrupt" {
		t.Errorf("the cell: %+v", reply)
	}
	if !r.session(s.ID).is(running) {
		t.Error("an interrupt did not resume the session")
	}
	for _, op := range []string{
		protocol.OpSessionPause, protocol.OpSessionUpdate,
		protocol.OpSessionKeepalive,
	} {
		_, err := call[struct{}](r, mallo, op, ref)
		wantKind(t, op+" of another's", err, fault.NotFound, "session")
	}
}

// TestPolicy checks that each session's own policy decides when it is idle.
func TestPolicy(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.PauseAfter, c.MaxIdle, c.MaxKeepAlive = time.Hour, time.Minute, 1
		c.Tick = time.Hour // only the test applies the policy
	})
	create := func(p protocol.SessionCreate) *Session {
		t.Helper()
		return r.session(must[protocol.Session](r, protocol.OpSessionCreate, p).ID)
	}
	plain, soon, kept := create(protocol.SessionCreate{}),
		create(protocol.SessionCreate{IdlePauseSeconds: 10}),
		create(protocol.SessionCreate{IdlePauseSeconds: 10, KeepAlive: true})
	after := func(s *Session, idle time.Duration) time.Time {
		return time.UnixMilli(s.View().ActiveMS).Add(idle)
	}
	rests := func(s *Session, at time.Time, want State) {
		t.Helper()
		newJanitor(r.m).applyIdlePolicy(s, at)
		if v := s.View(); v.State != want.String() {
			t.Errorf("it is %s, want %s: %+v", v.State, want, v)
		}
	}
	eventually(t, "the kernels are idle", func() bool {
		return !soon.channels.KernelsWork() &&
			!plain.channels.KernelsWork()
	})
	rests(plain, after(plain, 11*time.Second), running)
	rests(soon, after(soon, 9*time.Second), running)
	rests(soon, after(soon, 11*time.Second), paused)
	rests(kept, after(kept, time.Hour), running)
	if v := soon.View(); v.IdlePauseSeconds != 10 || v.IdleHibernateSeconds != 900 || v.KeepAlive {
		t.Errorf("its policy: %+v", v)
	}
	_, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{KeepAlive: true})
	wantKind(t, "one more that is kept alive", err, fault.Exhausted, "keep_alive")

	update := func(p protocol.SessionUpdate) (protocol.Session, error) {
		return call[protocol.Session](r, alice, protocol.OpSessionUpdate, p)
	}
	_, err = update(protocol.SessionUpdate{Session: plain.spec.ID, KeepAlive: new(true)})
	wantKind(t, "the same by an update", err, fault.Exhausted, "keep_alive")
	_, err = update(protocol.SessionUpdate{
		Session:          plain.spec.ID,
		IdlePauseSeconds: new(int64(61)),
	})
	wantKind(t, "too long", err, fault.InvalidArgument, "idle_pause_seconds")
	_, err = update(protocol.SessionUpdate{
		Session:              plain.spec.ID,
		IdleHibernateSeconds: new(int64(protocol.Never)),
	})
	wantKind(t, "never", err, fault.InvalidArgument, "idle_hibernate_seconds")
	_, err = update(protocol.SessionUpdate{Session: plain.spec.ID, LifetimeSeconds: new(int64(0))})
	wantKind(t, "no life", err, fault.InvalidArgument, "lifetime_seconds")
	if _, err := update(protocol.SessionUpdate{
		Session:   kept.spec.ID,
		KeepAlive: new(false),
	}); err != nil {
		t.Error(err)
	}
	rests(kept, time.Now().Add(11*time.Second), paused)
	if _, err := update(protocol.SessionUpdate{
		Session:          plain.spec.ID,
		IdlePauseSeconds: new(int64(1)), KeepAlive: new(true), Name: new("n"),
	}); err != nil {
		t.Error(err)
	}
	rests(plain, time.Now().Add(time.Hour), running)
	if _, err := update(protocol.SessionUpdate{
		Session:   plain.spec.ID,
		KeepAlive: new(false),
	}); err != nil {
		t.Error(err)
	}
	begin := time.Now()
	must[protocol.Session](r, protocol.OpSessionKeepalive,
		protocol.SessionKeepalive{Session: plain.spec.ID, Seconds: 30})
	rests(plain, begin.Add(30*time.Second), running)
	rests(plain, time.Now().Add(32*time.Second), paused)
}

// TestLimitEvents checks that a cell over its time and a channel over its rate
// report it once, and that no output is lost. The cell over its rate has a minute,
// and prints slower than its rate only on a machine that is very busy.
func TestLimitEvents(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits = protocol.Limits{CellSeconds: 60} })
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Limits: &protocol.Limits{CellSeconds: 1}})
	p := r.open()
	p.attach(1, s.ID, "k1")
	events := func(cell uint32) string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.view[1].text(frame.KindEvent, cell)
	}
	cell := p.execute(1, "hang", func(e *protocol.Execute) { e.TimeoutMS = 100_000 })
	if reply := p.reply(1, cell); reply.EName != "KeyboardInterrupt" {
		t.Errorf("over its time: %+v", reply)
	}
	if e := events(cell); !strings.Contains(e, `"limit":"cell_seconds"`) ||
		!strings.Contains(e, `"max":1`) || !strings.Contains(e, `"event":"limit"`) {
		t.Errorf("the events are %s", e)
	}
	_, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{Limits: &protocol.Limits{CellSeconds: 61}})
	wantKind(t, "more than the server's", err, fault.InvalidArgument, "limits.cell_seconds")

	// 3 MiB at 1 a second: 1 at once, 1 in the window, the rest waits a second.
	s = must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Limits: &protocol.Limits{OutputBytesPerSecond: 1 << 20}})
	p = r.open()
	p.attach(1, s.ID, "k1")
	const n = 3 << 20
	begin := time.Now()
	cell = p.execute(1, fmt.Sprint("flood ", n))
	p.reply(1, cell)
	took := time.Since(begin)
	p.mu.Lock()
	got := len(p.view[1].text(frame.KindStdout, cell))
	p.mu.Unlock()
	if got != n || took < 300*time.Millisecond {
		t.Errorf("%d bytes in %s, want %d", got, took, n)
	}
	if e := events(cell); strings.Count(e, `"output_bytes_per_second"`) != 1 {
		t.Errorf("the events are %s", e)
	}
	if text, _ := p.run(1, "print after"); text != "after" {
		t.Errorf("afterwards: %q", text)
	}
}

func templateTar(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		body := h.PAXRecords["body"]
		h.PAXRecords, h.Size, h.Mode = nil, int64(len(body)), 0o644
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tarHead is a header without the limits of package tar.
func tarHead(name string, kind byte, size int64) []byte {
	h := make([]byte, 512)
	copy(h, name)
	copy(h[100:], "0000644\x000000000\x000000000\x00")
	if size < 1<<33 {
		copy(h[124:], fmt.Sprintf("%011o\x00", size))
	} else {
		h[124] = 0x80 // the size in base 256
		binary.BigEndian.PutUint64(h[128:], uint64(size))
	}
	copy(h[136:], "00000000000\x00        ")
	h[156] = kind
	copy(h[257:], "ustar\x0000")
	sum := 0
	for _, c := range h {
		sum += int(c)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return h
}

func tarPad(b []byte) []byte { return append(b, make([]byte, (512-len(b)%512)%512)...) }

// declaredTar is a template with a file that declares more bytes than the tar has.
func declaredTar(name string, size int64) []byte {
	return slices.Concat(tarHead("template.json", '0', 2), tarPad([]byte("{}")),
		tarHead(name, '0', size), make([]byte, 4096))
}

// sparseTar is a template with a file that declares real bytes, of which the tar has none.
func sparseTar(version, name string, real int64) []byte {
	records := ""
	add := func(key, value string) {
		body := " " + key + "=" + value + "\n"
		n := len(body) + 1
		for len(strconv.Itoa(n))+len(body) != n {
			n = len(strconv.Itoa(n)) + len(body)
		}
		records += strconv.Itoa(n) + body
	}
	size := strconv.FormatInt(real, 10)
	data := []byte(nil)
	if version == "1.0" {
		add("GNU.sparse.major", "1")
		add("GNU.sparse.minor", "0")
		add("GNU.sparse.realsize", size)
		data = tarPad([]byte("1\n" + size + "\n0\n"))
	} else {
		add("GNU.sparse.size", size)
		add("GNU.sparse.numblocks", "1")
		add("GNU.sparse.map", size+",0")
	}
	add("GNU.sparse.name", name)
	return slices.Concat(tarHead("template.json", '0', 2), tarPad([]byte("{}")),
		tarHead("PaxHeaders/x", 'x', int64(len(records))), tarPad([]byte(records)),
		tarHead(name, '0', int64(len(data))), data, make([]byte, 1024))
}

func entry(name, body string) tar.Header {
	return tar.Header{Name: name, PAXRecords: map[string]string{"body": body}}
}

// TestHostileTemplates checks that no entry of a template's tar is written outside the file that
// the node builds, and that a rejected template leaves no files.
func TestHostileTemplates(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.MaxTemplates, c.TemplateBytes = 2,
			1<<20
		c.MaxLimits.MemoryBytes = 1 << 30
	})
	spec := entry("template.json", "{}")
	for name, x := range map[string]struct {
		data  []byte
		kind  fault.Kind
		field string
	}{
		"nothing":    {nil, fault.Malformed, ""},
		"no tar":     {bytes.Repeat([]byte("x"), 1024), fault.Malformed, ""},
		"no spec":    {templateTar(t, entry("files/x", "")), fault.Malformed, ""},
		"spec later": {templateTar(t, entry("files/x", ""), spec), fault.Malformed, ""},
		"two specs":  {templateTar(t, spec, spec), fault.InvalidArgument, "files"},
		"unknown": {
			templateTar(t,
				entry("template.json", `{"annotations":{"dev.gvisor.flag.host-uds":"all"}}`)),
			fault.InvalidArgument, "annotations",
		},
		"unknown in YAML": {
			templateTar(t, entry("template.yaml", "env:\n  A: b\nannotations: {}\n")),
			fault.InvalidArgument, "annotations",
		},
		"no YAML": {
			templateTar(t, entry("template.yaml", "env: [")),
			fault.InvalidArgument, "template",
		},
		"limits": {
			templateTar(t,
				entry("template.json", `{"limits":{"memory_bytes":1099511627776}}`)),
			fault.InvalidArgument, "limits.memory_bytes",
		},
		"env": {
			templateTar(t, entry("template.json", `{"env":{"a b":""}}`)),
			fault.InvalidArgument, "env",
		},
		"package": {
			templateTar(t,
				entry("template.json", `{"packages":{"python":["--index-url=http://x"]}}`)),
			fault.InvalidArgument, "packages",
		},
		"source": {
			templateTar(t, entry("template.json", `{"packages":{"python":["x"]}}`)),
			fault.InvalidArgument, "packages",
		},
		"build": {
			templateTar(t, entry("template.json", `{"build_network":true}`)),
			fault.PermissionDenied, "build_network",
		},
		"network": {
			templateTar(t,
				entry("template.json", `{"session_network":{"allow":["x.test"]}}`)),
			fault.PermissionDenied, "session_network",
		},
		"volumes": {
			templateTar(t,
				entry("template.json", `{"volumes":[{"name":"x","path":"/home/user/../y"}]}`)),
			fault.InvalidArgument, "volumes[0].path",
		},
		"manager": {
			templateTar(t, entry("template.json", `{"packages":{"rust":["x"]}}`)),
			fault.InvalidArgument, "packages",
		},
		"language": {
			templateTar(t, entry("template.json", `{"languages":["cobol"]}`)),
			fault.InvalidArgument, "languages",
		},
		"up": {
			templateTar(t, spec, entry("files/../../x", "")), fault.InvalidArgument,
			"files",
		},
		"absolute": {
			templateTar(t, spec, entry("/files/x", "")), fault.InvalidArgument,
			"files",
		},
		"link": {templateTar(t, spec, tar.Header{
			Name: "files/x", Typeflag: tar.TypeSymlink,
			Linkname: "/etc",
		}), fault.InvalidArgument, "files"},
		"device": {
			templateTar(t, spec, tar.Header{Name: "files/x", Typeflag: tar.TypeChar}),
			fault.InvalidArgument, "files",
		},
		"elsewhere": {
			templateTar(t, spec, entry("source.json", "{}")), fault.InvalidArgument,
			"files",
		},
		"blob": {
			templateTar(t, spec, entry("oci/../source.json", "{}")),
			fault.InvalidArgument, "files",
		},
		"blob's name": {
			templateTar(t, spec, entry("oci/blobs/sha256/x", "{}")),
			fault.InvalidArgument, "image",
		},
		"image": {
			templateTar(t, spec, entry("oci/index.json", "{}")), fault.Unsupported,
			"image",
		},
		"large": {
			templateTar(t, spec, entry("files/x", strings.Repeat("x", 2<<20))),
			fault.TooLarge, "",
		},
		"sparse 1.0": {sparseTar("1.0", "files/x", 10<<40), fault.InvalidArgument, "files"},
		"sparse 0.1": {sparseTar("0.1", "files/x", 10<<40), fault.InvalidArgument, "files"},
		"sparse index": {
			sparseTar("1.0", "oci/index.json", 10<<40), fault.InvalidArgument, "files",
		},
		"declared": {
			declaredTar("files/x", 10<<40), fault.TooLarge, "",
		},
		"large spec": {
			templateTar(t, entry("template.json", strings.Repeat(" ", 512<<10))),
			fault.TooLarge, "",
		},
	} {
		_, err := r.m.warm.Store(r.t.Context(), alice.Tenant, alice.Subject, "x",
			bytes.NewReader(x.data))
		wantKind(t, name, err, x.kind, x.field)
	}
	for _, name := range []string{"", "../x", "X", "a/b", "-a", strings.Repeat("x", 64)} {
		_, err := r.m.warm.Store(r.t.Context(), alice.Tenant, alice.Subject, name,
			bytes.NewReader(templateTar(t, spec)))
		wantKind(t, name, err, fault.InvalidArgument, "name")
	}
	cut := fault.New(fault.Canceled, "file.write", "cut short")
	if _, err := r.m.warm.Store(r.t.Context(), alice.Tenant, alice.Subject, "x",
		io.MultiReader(bytes.NewReader(templateTar(t, spec)[:600]), failing{cut})); !errors.Is(err,
		cut) {
		t.Errorf("cut short: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(r.m.cfg.DataDir, "templates"))
	if err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestBuildsThatFail checks that a build fails when its time is over and reports its output. The
// operator's log has each failure, and no command.
func TestBuildsThatFail(t *testing.T) {
	var mu sync.Mutex
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return said.Write(p)
	}), nil))
	r := newRig(t, func(c *Config) {
		c.BootLimit, c.BuildLimit, c.Logger = 4*time.Second,
			time.Second, log
	})
	if _, err := r.m.warm.Store(r.t.Context(), alice.Tenant, alice.Subject, "slow",
		bytes.NewReader(templateTar(t,
			entry("template.json", `{"run":["echo begun; exec sleep 1000"]}`)))); err != nil {
		t.Fatal(err)
	}
	var v protocol.Template
	eventually(t, "the build has failed", func() bool {
		v = must[protocol.Template](r, protocol.OpTemplateGet, protocol.TemplateRef{Name: "slow"})
		return v.State == "failed"
	})
	if _, err := r.m.warm.Store(r.t.Context(), alice.Tenant, alice.Subject, "bad",
		bytes.NewReader(templateTar(t,
			entry("template.json", `{"run":["echo told; exit 3 # s3cret"]}`)))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the build has failed", func() bool {
		v := must[protocol.Template](r, protocol.OpTemplateGet, protocol.TemplateRef{Name: "bad"})
		return v.State == "failed" && strings.Contains(v.Error, "status 3; it said: told")
	})
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{
		`"a template could not be built" template=alice/slow kind=conflict`,
		`"a template could not be built" template=alice/bad kind=conflict tries=1 error="run failed"`,
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, said.String())
		}
	}
	if strings.Contains(said.String(), "s3cret") {
		t.Error("a command is in the log")
	}
	if !strings.Contains(v.Error, "5s") || !strings.Contains(v.Error, "templates.build") ||
		!strings.Contains(v.Log, "begun") {
		t.Errorf("it says %q, and has printed %q", v.Error, v.Log)
	}
}

// TestTemplatesBelongToTenants checks that names of templates are separate for each tenant, that
// templates are counted, and that removed templates are gone.
func TestTemplatesBelongToTenants(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxTemplates = 2 })
	store := func(p noderpc.Principal, name string) error {
		_, err := r.m.warm.Store(r.t.Context(), p.Tenant, p.Subject, name,
			bytes.NewReader(templateTar(t, entry("template.json", `{"description":"of `+p.Tenant+
				`"}`))))
		return err
	}
	for _, err := range []error{
		store(alice, "a"), store(alice, "b"), store(mallo, "a"),
		store(alice, "a"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantKind(t, "one too many", store(alice, "c"), fault.Exhausted, "")
	if l := must[protocol.TemplateList](r, protocol.OpTemplateList, nil).Templates; len(l) != 2 ||
		l[0].Name != "a" || l[0].Spec.Description != "of alice" {
		t.Errorf("the list: %+v", l)
	}
	must[struct{}](r, protocol.OpTemplateDelete, protocol.TemplateRef{Name: "a"})
	_, gone := call[protocol.Template](r, alice, protocol.OpTemplateGet,
		protocol.TemplateRef{Name: "a"})
	_, foreign := call[protocol.Template](r, mallo, protocol.OpTemplateGet,
		protocol.TemplateRef{Name: "b"})
	wantKind(t, "removed", gone, fault.NotFound, "name")
	if fmt.Sprint(gone) != fmt.Sprint(foreign) {
		t.Errorf("removed: %v, another's: %v", gone, foreign)
	}
	if v, err := call[protocol.Template](r, mallo, protocol.OpTemplateGet,
		protocol.TemplateRef{Name: "a"}); err != nil || v.Spec.Description != "of mallory" {
		t.Errorf("mallory's: %+v, %v", v, err)
	}
}

// TestNoEnd checks that a session stays without a lifetime, that an idle policy deletes it, and that
// its view has the end with the reason.
func TestNoEnd(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Tick = time.Hour }) // only the test applies the policy
	create := func(p protocol.SessionCreate) *Session {
		t.Helper()
		return r.session(must[protocol.Session](r, protocol.OpSessionCreate, p).ID)
	}
	for name, s := range map[string]*Session{
		"by default": create(protocol.SessionCreate{}),
		"on request": create(protocol.SessionCreate{LifetimeSeconds: protocol.Never}),
	} {
		v := s.View()
		if v.ExpiresMS != 0 || v.ExpiresReason != "" || v.IdleDeleteSeconds != protocol.Never {
			t.Errorf("%s it expires: %+v", name, v)
		}
		if newJanitor(r.m).expire(s, time.Now().AddDate(99, 0, 0)) {
			t.Errorf("%s it has expired", name)
		}
	}
	idle := create(protocol.SessionCreate{IdleDeleteSeconds: 600, LifetimeSeconds: 86400})
	v := idle.View()
	if v.ExpiresReason != protocol.ExpiresByIdleness || v.IdleDeleteSeconds != 600 ||
		v.ExpiresMS > time.Now().Add(600*time.Second).UnixMilli() {
		t.Errorf("the idle session: %+v", v)
	}
	kernelsRest := func() bool { return !idle.channels.KernelsWork() }
	eventually(t, "the kernel is idle", kernelsRest)
	if newJanitor(r.m).expire(idle, time.Now().Add(500*time.Second)) {
		t.Error("it has expired too early")
	}
	p := r.open()
	p.attach(1, idle.spec.ID, "k1")
	if !newJanitor(r.m).expire(idle, time.Now().Add(601*time.Second)) {
		t.Error("it has not expired")
	}
	if e := p.exit(1); e.Reason != "expired" {
		t.Errorf("its kernel ended: %+v", e)
	}
	if v := idle.View(); v.State != "lost" || v.Reached == nil ||
		v.Reached.Limit != "idle_delete_seconds" || v.Reached.Max != 600 {
		t.Errorf("afterwards: %+v", v)
	}
}

// TestBoundedLifetime checks that the operator's bounds are the defaults, and that a session cannot
// ask for more or for none.
func TestBoundedLifetime(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxLifetime, c.DeleteAfter = time.Hour, time.Minute })
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{KeepAlive: true})
	if left := time.Until(time.UnixMilli(s.ExpiresMS)); left > time.Hour || left < 50*time.Minute ||
		s.ExpiresReason != protocol.ExpiresByLifetime || s.IdleDeleteSeconds != 60 {
		t.Errorf("by default: %+v", s)
	}
	for field, p := range map[string][2]protocol.SessionCreate{
		"lifetime_seconds":    {{LifetimeSeconds: protocol.Never}, {LifetimeSeconds: 3601}},
		"idle_delete_seconds": {{IdleDeleteSeconds: protocol.Never}, {IdleDeleteSeconds: 61}},
	} {
		for _, p := range p {
			_, err := call[protocol.Session](r, alice, protocol.OpSessionCreate, p)
			wantKind(t, field, err, fault.InvalidArgument, field)
		}
	}
	_, err := call[protocol.Session](r, alice, protocol.OpSessionUpdate, protocol.SessionUpdate{
		Session: s.ID, LifetimeSeconds: new(int64(protocol.Never)),
	})
	wantKind(t, "never by an update", err, fault.InvalidArgument, "lifetime_seconds")
}
