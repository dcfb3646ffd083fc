package e2e

import (
	"archive/tar"
	"archive/zip"
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

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// command runs the command line against a server.
func command(ctx context.Context, t *testing.T, s *Server, args ...string) (string, error) {
	t.Helper()
	bin, err := Bin("sandgate")
	check(t, err)
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+s.URL, "SANDGATE_TOKEN="+s.Token)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// wheel writes a package for pip.
func wheel(t *testing.T, dir, name, code string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, name+"-1.0-py3-none-any.whl"))
	check(t, err)
	defer f.Close()
	z := zip.NewWriter(f)
	info := name + "-1.0.dist-info/"
	for _, x := range []struct{ name, text string }{
		{name + ".py", code},
		{info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n"},
		{
			info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		},
		{info + "RECORD", name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info +
			"RECORD,,\n"},
	} {
		w, err := z.Create(x.name)
		check(t, err)
		_, err = io.WriteString(w, x.text)
		check(t, err)
	}
	check(t, z.Close())
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(file), 0o755))
	check(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// TestTemplate builds a template with all settings from the command line, uses it, and
// finds it again after a restart, also when its snapshot is no longer valid.
func TestTemplate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [bash]}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	dir := t.TempDir()
	wheels := filepath.Join(dir, "wheels")
	check(t, os.Mkdir(wheels, 0o755))
	wheel(t, wheels, "sandwheel", "answer = 42\n")
	write(t, filepath.Join(dir, "lib", "mine.py"), "import os\nstage = os.environ['STAGE']\n")
	recipe := write(t, filepath.Join(dir, "data.yaml"), `
name: data
description: for the test
languages: [python]
env: {STAGE: test}
limits: {cpus: 1, processes: 100, tmp: 16MiB, cell: 30s}
files: [{from: lib, to: lib}]
packages: {python: [sandwheel], from: wheels}
run: ["echo built in $PWD; echo $STAGE > built"]
code: |
  import sys; sys.path.append('/home/user/lib')
  import mine, sandwheel, random
  drawn = random.random()
`)
	out, err := command(ctx, t, srv, "template", "build", recipe)
	if err != nil || !strings.Contains(out, "built in /home/user") ||
		!strings.Contains(out, "ready:") {
		t.Fatalf("the build: %v\n%s", err, out)
	}
	out, err = command(ctx, t, srv, "template", "ls")
	contains(t, out, "data", "ready", "python", "for the test")
	check(t, err)

	use := func(p protocol.SessionCreate) *session {
		t.Helper()
		p.Template = "data"
		s := openWith(t, srv, p)
		out := s.run(
			"ok", "import os, subprocess\nmine.stage, sandwheel.answer, open('built').read(), os.environ['STAGE'], os.environ.get('MORE'), subprocess.getoutput('echo $STAGE')")
		if got, want := out.result(t), fmt.Sprintf(`('test', 42, 'test\n', 'test', %s, 'test')`,
			more(p)); got != want {
			t.Errorf("in the template: %s, want %s", got, want)
		}
		return s
	}
	s := use(protocol.SessionCreate{Env: map[string]string{"MORE": "more"}})
	if out := s.run(
		"ok", "os.path.exists('/tmp/.sandgate-packages'), os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize >> 20"); out.result(t) != "(False, 16)" {
		t.Errorf("packages that remain, /tmp: %s", out.result(t))
	}
	info, err := s.client.Session(ctx, s.id)
	check(t, err)
	if info.Template != "data" || info.Limits.Processes != 100 || info.Limits.CellSeconds != 30 {
		t.Errorf("the session: %+v %+v", info, info.Limits)
	}
	// Copies have different random numbers.
	o := use(protocol.SessionCreate{})
	if a, b := s.run("ok", "random.random(), drawn").result(t), o.run("ok",
		"random.random(), drawn").result(t); a == b {
		t.Errorf("two copies have the random number %s", a)
	}
	// A session may have other limits if the snapshot allows them, and no others.
	use(protocol.SessionCreate{Limits: &protocol.Limits{CPUs: 0.5, MemoryBytes: 512 << 20}})
	_, err = s.client.CreateSession(ctx, protocol.SessionCreate{
		Template: "data",
		Limits:   &protocol.Limits{TmpBytes: 8 << 20},
	})
	if fault.PublicOf(err).Field != "limits" {
		t.Errorf("another /tmp: %v", err)
	}
	_, err = s.client.CreateSession(ctx, protocol.SessionCreate{Template: "data", Language: "php"})
	if fault.PublicOf(err).Field != "language" {
		t.Errorf("another language: %v", err)
	}

	// The pool follows the demand: after these claims some sandboxes are ready.
	eventually(t, "a ready sandbox of the template", func() bool {
		v, err := s.client.Template(ctx, "data")
		check(t, err)
		return v.Ready > 0
	})

	// A build that fails reports the reason, and has no other effect.
	bad := write(t, filepath.Join(dir, "bad.yaml"),
		"name: bad\nlanguages: [python]\ncode: |\n  print(undefined)\n")
	out, err = command(ctx, t, srv, "template", "build", bad)
	if err == nil || !strings.Contains(out, "NameError") {
		t.Errorf("a build that fails: %v\n%s", err, out)
	}
	if _, err := s.client.CreateSession(ctx, protocol.SessionCreate{Template: "bad"}); !fault.Is(
		err, fault.Conflict) {
		t.Errorf("a session of it: %v", err)
	}
	bad = write(t, filepath.Join(dir, "bad.yaml"), "name: bad\nrun: ['echo said; exit 3']\n")
	out, err = command(ctx, t, srv, "template", "build", bad)
	if err == nil || strings.Count(out, "said\n") != 1 ||
		!strings.Contains(out, "status 3; it said: said") {
		t.Errorf("a command that fails: %v\n%s", err, out)
	}
	if out, err := command(ctx, t, srv, "template", "rm", "bad"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for name, text := range map[string]string{
		"sometimes":           "name: x\nsometimes: y\n",
		"limits.memory_bytes": "name: x\nlimits: {memory: 1TiB}\n",
		"packages.from":       "name: x\npackages: {python: [y]}\n",
		"languages":           "name: x\nlanguages: [cobol]\n",
		"name":                "name: ../x\n",
	} {
		out, err := command(ctx, t, srv, "template", "build",
			write(t, filepath.Join(dir, "x.yaml"), text))
		if err == nil || !strings.Contains(out, strings.TrimSuffix(name, "s")) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}

	// A bare template has loaded only its language.
	out, err = command(ctx, t, srv, "template", "build", write(t, filepath.Join(dir, "light.yaml"),
		"name: light\nlanguages: [python]\nbare: true\n"))
	if err != nil {
		t.Fatalf("a bare template: %v\n%s", err, out)
	}
	const loaded = "import sys; 'pandas' in sys.modules"
	light := openWith(t, srv, protocol.SessionCreate{Template: "light"})
	if a, b := light.run("ok", loaded).result(t), s.run("ok", loaded).result(t); a != "False" ||
		b != "True" {
		t.Errorf("pandas in a bare template: %s, in another: %s", a, b)
	}
	if got := light.run("ok", "import pandas; len(pandas.DataFrame({'a': [1, 2]}))").result(
		t); got != "2" {
		t.Errorf("pandas in the bare template: %s", got)
	}

	// The template and its sessions survive the server.
	made := strings.Count(srv.Log(), "made a warm snapshot\" part=node template=local/data")
	check(t, srv.Halt(syscall.SIGTERM))
	check(t, srv.Boot(ctx))
	if out := s.run("ok", "sandwheel.answer"); out.result(t) != "42" {
		t.Errorf("after a restart: %s", out.result(t))
	}
	use(protocol.SessionCreate{})
	if n := strings.Count(srv.Log(),
		"made a warm snapshot\" part=node template=local/data"); made != 1 || n != 1 {
		t.Errorf("the snapshot was made %d times, and %d after a restart", made, n)
	}
	// With another layout of sandboxes the snapshot is not valid, and is made again.
	check(t, srv.Halt(syscall.SIGTERM))
	text, err := os.ReadFile(srv.Config)
	check(t, err)
	check(t, os.WriteFile(srv.Config, append(text, "limits: {open_files: 1000}\n"...), 0o644))
	check(t, srv.Boot(ctx))
	p := use(protocol.SessionCreate{})
	if out := p.run(
		"ok", "import resource; resource.getrlimit(resource.RLIMIT_NOFILE)[1]"); out.result(
		t) != "1000" {
		t.Errorf("open files: %s", out.result(t))
	}
	if n := strings.Count(srv.Log(),
		"made a warm snapshot\" part=node template=local/data"); n != 2 {
		t.Errorf("the snapshot was made %d times", n)
	}
}

func more(p protocol.SessionCreate) string {
	if v := p.Env["MORE"]; v != "" {
		return "'" + v + "'"
	}
	return "None"
}

// busyImage is an image with only a static shell, in two layers.
func busyImage(t *testing.T) v1.Image {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal("these tests make an image of busybox: install busybox-static")
	}
	program, err := os.ReadFile(busybox)
	check(t, err)
	layer := func(add func(w *tar.Writer)) v1.Layer {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		add(w)
		check(t, w.Close())
		l, err := tarball.LayerFromOpener(
			func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
		check(t, err)
		return l
	}
	put := func(w *tar.Writer, name string, mode int64, text []byte) {
		check(t, w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: mode,
			Size: int64(len(text)),
		}))
		_, err := w.Write(text)
		check(t, err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer(func(w *tar.Writer) {
		put(w, "bin/busybox", 0o4755, program)
		for _, name := range []string{"sh", "ls", "cat", "id", "echo", "env", "stat", "sleep"} {
			check(t, w.WriteHeader(&tar.Header{
				Typeflag: tar.TypeSymlink, Name: "bin/" + name,
				Linkname: "busybox",
			}))
		}
		put(w, "etc/gone", 0o644, nil)
		check(t, w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeChar, Name: "etc/device", Devmajor: 1,
			Devminor: 3,
		}))
	}), layer(func(w *tar.Writer) {
		put(w, "etc/.wh.gone", 0o644, nil)
		put(w, "etc/here", 0o644, []byte("in the image\n"))
	}))
	check(t, err)
	img, err = mutate.Config(img, v1.Config{Env: []string{"PATH=/bin", "FROM_IMAGE=yes"}})
	check(t, err)
	return img
}

// withBash adds this machine's bash, with the libraries that it needs.
func withBash(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	said, err := exec.Command("ldd", "/bin/bash").Output()
	check(t, err)
	files := map[string]string{"/bin/bash": "/bin/bash"}
	for _, word := range strings.Fields(string(said)) {
		if strings.HasPrefix(word, "/") {
			files[word] = word
		}
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, from := range files {
		text, err := os.ReadFile(from)
		check(t, err)
		check(t, w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: 0o755,
			Size: int64(len(text)),
		}))
		_, err = w.Write(text)
		check(t, err)
	}
	check(t, w.Close())
	l, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	check(t, err)
	img, err = mutate.AppendLayers(img, l)
	check(t, err)
	return img
}

// TestTemplateOfAnImage makes a template from an image with only a shell. It has
// processes and terminals, and no language.
func TestTemplateOfAnImage(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	dir := t.TempDir()
	p, err := layout.Write(filepath.Join(dir, "oci"), empty.Index)
	check(t, err)
	check(t, p.AppendImage(busyImage(t)))
	recipe := write(t, filepath.Join(dir, "busy.yaml"),
		"name: busy\nimage: ./oci\nfiles: [{from: busy.yaml, to: said}]\nrun: ['echo $FROM_IMAGE > built']\n")
	buildTemplate(ctx, t, server, recipe)
	c, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, c.DeleteTemplate(context.WithoutCancel(ctx), "busy")) })
	s := openWith(t, server, protocol.SessionCreate{Template: "busy"})
	info, err := c.Session(ctx, s.id)
	check(t, err)
	if info.Language != "" || len(info.Channels) != 0 {
		t.Errorf("the session: %+v", info)
	}
	sh := func(script string) string {
		ch, err := s.conn.OpenChannel(ctx, protocol.ChannelOpen{
			Session: s.id, Kind: "process",
			Argv: []string{"sh", "-c", script},
		})
		check(t, err)
		v, err := s.conn.Attach(ctx, s.id, ch.ID, wire.AttachOptions{})
		check(t, err)
		return readAll(t, s, v)
	}
	got := sh(
		"cat /etc/here ~/built; ls /etc; id -un; pwd; stat -c %a /bin/busybox; ls -d /home/user/said; ls /opt/sandgate/langs | wc -l 2>&1")
	contains(t, got, "in the image\nyes\n", "user\n/home/user\n", "755\n", "/home/user/said")
	for _, no := range []string{"gone", "device", "4755"} {
		if strings.Contains(got, no) {
			t.Errorf("the output has %s:\n%s", no, got)
		}
	}
	if _, err := s.conn.OpenChannel(ctx, protocol.ChannelOpen{
		Session: s.id,
		Kind:    "kernel",
	}); fault.PublicOf(err).Field != "language" {
		t.Errorf("a kernel: %v", err)
	}
	term, err := s.conn.StartTerminal(ctx, protocol.ChannelOpen{Session: s.id})
	check(t, err)
	_ = term

	// An image with Bash has the language Bash.
	q, err := layout.Write(filepath.Join(dir, "bash"), empty.Index)
	check(t, err)
	check(t, q.AppendImage(withBash(t, busyImage(t))))
	recipe = write(t, filepath.Join(dir, "bash.yaml"),
		"name: bash\nimage: ./bash\ncode: set=before\n")
	buildTemplate(ctx, t, server, recipe)
	t.Cleanup(func() { check(t, c.DeleteTemplate(context.WithoutCancel(ctx), "bash")) })
	b := openWith(t, server, protocol.SessionCreate{Template: "bash"})
	if out := b.run(
		"ok", "echo $set $FROM_IMAGE; cat /etc/here"); out.stdout != "before yes\nin the image\n" {
		t.Errorf("Bash in an image: %q", out.stdout)
	}
	if v, err := c.Template(ctx, "bash"); err != nil || len(v.Languages) != 1 ||
		v.Languages[0] != "bash" {
		t.Errorf("its languages: %+v, %v", v, err)
	}

	// Its sessions hibernate and resume like others.
	sh("sleep 1000 & echo kept > mark")
	_, err = c.HibernateSession(ctx, s.id)
	check(t, err)
	if got := sh("cat mark"); got != "kept\n" {
		t.Errorf("resumed: %q", got)
	}
}
