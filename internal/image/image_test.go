package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tarOf(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		body := h.PAXRecords["body"]
		h.PAXRecords = nil
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		h.Size = int64(len(body))
		check(t, w.WriteHeader(&h))
		_, err := w.Write([]byte(body))
		check(t, err)
	}
	check(t, w.Close())
	return b.Bytes()
}

func file(name, body string) tar.Header {
	return tar.Header{Name: name, PAXRecords: map[string]string{"body": body}}
}

func link(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
}

func imageOf(t *testing.T, layers ...[]byte) v1.Image {
	t.Helper()
	img := v1.Image(empty.Image)
	for _, l := range layers {
		layer, err := tarball.LayerFromOpener(
			func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l)), nil })
		check(t, err)
		img, err = mutate.AppendLayers(img, layer)
		check(t, err)
	}
	return img
}

// tree lists the content of a folder: name, mode, and content or target.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %v", rel, info.Mode())
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += " " + string(b)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			line += " " + to
		}
		all = append(all, line)
		return nil
	}))
	return all
}

func TestLayersOverride(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	low := tarOf(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir},
		file("a/gone", "1"), file("a/stays", "2"), file("b/x", "3"), file("b/y/z", "4"),
		file("was-a-file", "5"),
		link("was-a-link", "a"), file("was-a-folder/x", "6"),
		tar.Header{Name: "suid", Mode: 0o6755}, tar.Header{
			Name: "dir", Typeflag: tar.TypeDir,
			Mode: 0o1777,
		},
		tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		tar.Header{Name: "pipe", Typeflag: tar.TypeFifo},
		tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "a/stays"},
	)
	high := tarOf(t,
		file("a/.wh.gone", ""), file("b/new", "7"), file("b/.wh..wh..opq", ""),
		file("was-a-file/now", "8"),
		file("was-a-link", "9"), file("was-a-folder", "10"), file("/absolute", "11"),
		file(".wh.nothing", ""),
	)
	check(t, unpack(t.Context(), root, imageOf(t, low, high), newBudget(MaxBytes)))
	want := []string{
		"a drwxr-xr-x", "a/stays -rwxr-xr-x 2", "absolute -rwxr-xr-x 11", "b drwxr-xr-x",
		"b/new -rwxr-xr-x 7",
		"dir dtrwxrwxrwx", "hard -rwxr-xr-x 2", "suid -rwxr-xr-x ",
		"was-a-file drwxr-xr-x", "was-a-file/now -rwxr-xr-x 8", "was-a-folder -rwxr-xr-x 10",
		"was-a-link -rwxr-xr-x 9",
	}
	if got := tree(t, dir); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHostileLayers: no image can read, write, link to or remove anything outside its folder.
func TestHostileLayers(t *testing.T) {
	for name, headers := range map[string][]tar.Header{
		"up":             {file("../victim/owned", "x")},
		"up in between":  {file("a/../../victim/owned", "x")},
		"absolute link":  {link("a", "VICTIM"), file("a/owned", "x")},
		"relative link":  {link("a", "../victim"), file("a/owned", "x")},
		"link of a link": {link("a", ".."), link("b", "a/victim"), file("b/owned", "x")},
		"hard link":      {{Name: "a", Typeflag: tar.TypeLink, Linkname: "../victim/secret"}},
		"absolute hard":  {{Name: "a", Typeflag: tar.TypeLink, Linkname: "VICTIM/secret"}},
		"hard through": {
			link("a", "VICTIM"),
			{Name: "b", Typeflag: tar.TypeLink, Linkname: "a/secret"},
			file("b", "x"),
		},
		"hard and kept": {
			link("a", "VICTIM"),
			{Name: "b", Typeflag: tar.TypeLink, Linkname: "a/secret"},
		},
		"write over link": {link("a", "VICTIM/secret"), file("a", "x")},
		"folder on link":  {link("a", "VICTIM"), {Name: "a", Typeflag: tar.TypeDir, Mode: 0o777}},
		"whiteout":        {link("a", "VICTIM"), file("a/.wh.secret", "")},
		"whiteout of up":  {file(".wh...", ""), file("a/.wh..", ""), file(".wh.", "")},
		"opaque":          {link("a", "VICTIM"), file("a/.wh..wh..opq", "")},
		"owner":           {{Name: "a", Uid: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			victim, dir := filepath.Join(work, "victim"), filepath.Join(work, "root")
			check(t, errorsOf(os.Mkdir(victim, 0o755), os.Mkdir(dir, 0o755),
				os.WriteFile(filepath.Join(victim, "secret"), []byte("kept"), 0o640)))
			for i := range headers {
				headers[i].Linkname = strings.ReplaceAll(headers[i].Linkname, "VICTIM", victim)
			}
			root, err := os.OpenRoot(dir)
			check(t, err)
			defer root.Close()
			done := make(chan error, 1)
			go func() {
				img := imageOf(t, tarOf(t, headers...))
				done <- unpack(t.Context(), root, img, newBudget(MaxBytes))
			}()
			select {
			case err := <-done:
				t.Logf("%v", err)
			case <-time.After(2 * time.Minute):
				t.Fatal("it hangs")
			}
			if got := tree(t, victim); !slices.Equal(got, []string{"secret -rw-r----- kept"}) {
				t.Errorf("outside there is now %q", got)
			}
			info, err := os.Stat(filepath.Join(victim, "secret"))
			check(t, err)
			for _, p := range []string{"a", "b"} {
				if inside, err := os.Lstat(filepath.Join(dir, p)); err == nil &&
					os.SameFile(info, inside) {
					t.Errorf("%s is the secret", p)
				}
			}
		})
	}
}

func errorsOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// sparseTar is a tar whose only file declares real bytes and has none.
func sparseTar(name string, real int64) []byte {
	record := func(key, value string) string {
		body := " " + key + "=" + value + "\n"
		n := len(body) + 1
		for len(strconv.Itoa(n))+len(body) != n {
			n = len(strconv.Itoa(n)) + len(body)
		}
		return strconv.Itoa(n) + body
	}
	head := func(name string, kind byte, size int) []byte {
		h := make([]byte, 512)
		copy(h, name)
		copy(h[100:], "0000644\x000000000\x000000000\x00")
		copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00        ", size, 0))
		h[156] = kind
		copy(h[257:], "ustar\x0000")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		return h
	}
	pad := func(b []byte) []byte { return append(b, make([]byte, (512-len(b)%512)%512)...) }
	records := record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") +
		record("GNU.sparse.name", name) + record("GNU.sparse.realsize", strconv.FormatInt(real, 10))
	return slices.Concat(head("PaxHeaders/x", 'x', len(records)), pad([]byte(records)),
		head("x", '0', 512), pad([]byte(fmt.Sprintf("1\n%d\n0\n", real))), make([]byte, 1024))
}

// TestAbuse32_LayersExpandWithinABudget: a small layer cannot make the node write, read, remember or
// create without end.
func TestAbuse32_LayersExpandWithinABudget(t *testing.T) {
	device := tar.Header{Name: "d", Typeflag: tar.TypeChar}
	small := func(change func(*budget)) *budget {
		b := newBudget(1 << 20)
		change(b)
		return b
	}
	hidden := file(".wh.x", strings.Repeat("x", 1<<20))
	for name, x := range map[string]struct {
		layer []byte
		b     *budget
		want  string
	}{
		"bytes": {
			tarOf(t, file("a", strings.Repeat("x", 2<<20))), newBudget(1 << 20), "may expand",
		},
		"bytes that are left out": {tarOf(t, hidden, hidden), newBudget(1 << 20), "may expand"},
		"files": {
			tarOf(t, file("a", ""), file("b", "")), small(func(b *budget) { b.entries = 1 }), "at most",
		},
		"devices": {
			tarOf(t, device, device), small(func(b *budget) { b.entries = 1 }), "at most",
		},
		"folders above": {
			tarOf(t, file("a/b/c/d/e", "")), small(func(b *budget) { b.entries = 4 }), "at most",
		},
		"sparse": {sparseTar("a", 10<<40), newBudget(MaxBytes), "sparse"},
	} {
		t.Run(name, func(t *testing.T) {
			root, err := os.OpenRoot(t.TempDir())
			check(t, err)
			defer root.Close()
			err = unpack(t.Context(), root, imageOf(t, x.layer), x.b)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
	for packed, want := range map[int64]int64{
		0: FreeBytes, 1 << 20: FreeBytes + MaxRatio<<20, 1 << 62: MaxBytes,
	} {
		if got := allowance(packed); got != want {
			t.Errorf("%d bytes may become %d, want %d", packed, got, want)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	root, err := os.OpenRoot(t.TempDir())
	check(t, err)
	defer root.Close()
	err = unpack(gone, root, imageOf(t, tarOf(t, file("a", "x"))), newBudget(MaxBytes))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the caller has gone: %v", err)
	}
}

// TestAbuse32_LargeDocuments: no JSON file of an image is read before its size is known.
func TestAbuse32_LargeDocuments(t *testing.T) {
	make := func(t *testing.T) (dir string, img v1.Image) {
		dir = t.TempDir()
		p, err := layout.Write(dir, empty.Index)
		check(t, err)
		img = imageOf(t, tarOf(t, file("a", "true")))
		check(t, p.AppendImage(img))
		return dir, img
	}
	for name, file := range map[string]func(dir string, img v1.Image) string{
		"index": func(dir string, _ v1.Image) string { return filepath.Join(dir, "index.json") },
		"manifest": func(dir string, img v1.Image) string {
			h, err := img.Digest()
			check(t, err)
			return blobFile(dir, h)
		},
		"configuration": func(dir string, img v1.Image) string {
			h, err := img.ConfigName()
			check(t, err)
			return blobFile(dir, h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, img := make(t)
			_, err := openLayout(dir)
			check(t, err)
			check(t, os.Truncate(file(dir, img), 20<<30)) // a hole: it takes no space on the disk
			if _, err := openLayout(dir); !fault.Is(err, fault.TooLarge) {
				t.Errorf("got %v, want too_large", err)
			}
		})
	}
}

// TestLayersMatchTheImage: a blob that was changed is refused.
func TestLayersMatchTheImage(t *testing.T) {
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	check(t, err)
	img := imageOf(t, tarOf(t, file("a", "true")))
	check(t, p.AppendImage(img))
	other := imageOf(t, tarOf(t, file("a", "fake")))
	digest := func(img v1.Image) string {
		l, err := img.Layers()
		check(t, err)
		d, err := l[0].Digest()
		check(t, err)
		return d.Hex
	}
	p2, err := layout.Write(t.TempDir(), empty.Index)
	check(t, err)
	check(t, p2.AppendImage(other))
	check(t, os.Rename(filepath.Join(string(p2), "blobs/sha256", digest(other)),
		filepath.Join(dir, "blobs/sha256", digest(img))))
	got, err := openLayout(dir)
	check(t, err)
	root, err := os.OpenRoot(t.TempDir())
	check(t, err)
	defer root.Close()
	err = unpack(t.Context(), root, got, newBudget(MaxBytes))
	if err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("got %v", err)
	}
}

// TestFetch: a layout, a tar of it, a tar of docker save and an image in a registry give the same
// result.
func TestFetch(t *testing.T) {
	work := t.TempDir()
	img := imageOf(t, tarOf(t, file("a", "true")))
	want, err := img.Digest()
	check(t, err)
	p, err := layout.Write(filepath.Join(work, "oci"), empty.Index)
	check(t, err)
	check(t, p.AppendImage(img))
	var headers []tar.Header
	check(t, filepath.WalkDir(string(p), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		rel, _ := filepath.Rel(string(p), name)
		headers = append(headers, file(rel, string(b)))
		return err
	}))
	check(t, os.WriteFile(filepath.Join(work, "oci.tar"), tarOf(t, headers...), 0o644))
	check(t, tarball.WriteToFile(filepath.Join(work, "saved.tar"), mustTag(t), img))
	for _, from := range []string{"oci", "oci.tar", "saved.tar"} {
		dir := t.TempDir()
		check(t, Fetch(t.Context(), filepath.Join(work, from), dir))
		got, err := openLayout(Layout(dir))
		check(t, err)
		layers, err := got.Layers()
		check(t, err)
		if d, err := got.Digest(); err != nil || len(layers) != 1 || from != "saved.tar" &&
			d != want {
			t.Errorf("%s: %v with %d layers, want %v; %v", from, d, len(layers), want, err)
		}
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	from := strings.TrimPrefix(server.URL, "http://") + "/test/image:1"
	ref, err := imagename.ParseReference(from)
	check(t, err)
	check(t, remote.Write(ref, img))
	dir := t.TempDir()
	check(t, Fetch(t.Context(), "docker://"+from, dir))
	got, err := openLayout(Layout(dir))
	check(t, err)
	if d, err := got.Digest(); err != nil || d != want {
		t.Errorf("from a registry: %v, want %v; %v", d, want, err)
	}
	if err := Fetch(t.Context(), filepath.Join(work, "none"), t.TempDir()); err == nil {
		t.Error("there is no such image")
	}
}

// TestLanguagesOfAnImage: the languages whose programs the image has are found, also through links.
func TestLanguagesOfAnImage(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	check(t, err)
	defer root.Close()
	check(t, unpack(t.Context(), root, imageOf(t, tarOf(t,
		file("real/bin/bash", "x"), link("bin", "/real/bin"),
		tar.Header{Name: "opt/tool", Mode: 0o644},
	)), newBudget(MaxBytes)))
	env := environment([]string{"PATH=/opt:/bin", "9=no", "A=b"})
	if !slices.Equal(env, []string{"PATH=/opt:/bin", "A=b"}) {
		t.Errorf("the environment is %q", env)
	}
	for argv, want := range map[string]bool{
		"/bin/bash": true, "/usr/bin/bash": false,
		"/opt/tool": false, "/opt/sandgate/langs/x": true, "/loop": false,
	} {
		l := kernel.Manifest{Name: "x", Argv: []string{argv}, Program: []string{"bash", "{file}"}}
		if got := runs(root, l, env); got != want {
			t.Errorf("%s: %v", argv, got)
		}
	}
}

// TestHardening_AgentFolderBelongsToRoot: an image whose /opt is a link to the user's home, or belongs
// to the user, does not make the user the owner of the agent's folder.
func TestHardening_AgentFolderBelongsToRoot(t *testing.T) {
	folder := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o777, Uid: 1000, Gid: 1000}
	}
	for name, headers := range map[string][]tar.Header{
		"link":  {folder("home/user"), link("opt", "home/user")},
		"owner": {folder("."), folder("opt"), folder("opt/sandgate"), file("opt/sandgate/agent", "x")},
		"file":  {file("opt", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			check(t, err)
			defer root.Close()
			layer := tarOf(t, headers...)
			check(t, unpack(t.Context(), root, imageOf(t, layer), newBudget(MaxBytes)))
			check(t, os.Chown(dir, 1000, 1000)) // as an image could, with an entry for its root
			install := func(root *os.Root, _ []string) error {
				return root.WriteFile("opt/sandgate/agent", []byte("agent"), 0o755)
			}
			m := Maker{Home: "/home/user", User: 1000, Install: install}
			check(t, m.addRequirements(root, nil))
			for _, name := range []string{"", "opt", "opt/sandgate", "opt/sandgate/agent"} {
				info, err := os.Lstat(filepath.Join(dir, name))
				check(t, err)
				owner := info.Sys().(*syscall.Stat_t).Uid
				if info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&0o022 != 0 || owner != 0 {
					t.Errorf("/%s is %v and belongs to %d", name, info.Mode(), owner)
				}
			}
			info, err := os.Stat(filepath.Join(dir, "mnt/data"))
			check(t, err)
			if owner := info.Sys().(*syscall.Stat_t).Uid; !info.IsDir() || owner != 1000 {
				t.Errorf("/mnt/data is %v and belongs to %d", info.Mode(), owner)
			}
		})
	}
}

func mustTag(t *testing.T) imagename.Tag {
	t.Helper()
	tag, err := imagename.NewTag("example.org/test:1")
	check(t, err)
	return tag
}
