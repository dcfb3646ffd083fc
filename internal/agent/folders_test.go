package agent

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

func TestFileParts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stat, err := r.write(1, "f", "0123456789")
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct {
		q    wire.FileRead
		want string
		at   int64
	}{
		{wire.FileRead{Offset: 3}, "3456789", 3},
		{wire.FileRead{Offset: 3, Length: 4}, "3456", 3},
		{wire.FileRead{Offset: -4, Length: 2}, "67", 6},
		{wire.FileRead{Offset: -40}, "0123456789", 0},
		{wire.FileRead{Offset: 10}, "", 10},
		{wire.FileRead{Offset: 99}, "", 99},
		{wire.FileRead{Offset: 3, IfRange: stat.ETag}, "3456789", 3},
		{wire.FileRead{Offset: 3, IfRange: "other"}, "0123456789", 0},
	} {
		var b bytes.Buffer
		x.q.Path = "f"
		part, err := r.Files.Read(r.ctx, uint32(10+i), x.q, nil, &b)
		if err != nil || b.String() != x.want || part.Offset != x.at ||
			part.Length != int64(len(x.want)) || part.FileStat != stat {
			t.Errorf("%+v: %q, %+v, %v", x.q, b.String(), part, err)
		}
	}
}

// TestFileConditions lets two dozen writers save over the same state of a file. One succeeds, and
// the others get an error.
func TestFileConditions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	write := func(ch uint32, q wire.FileWrite, body string) (wire.FileStat, error) {
		q.Path = "note"
		return r.Files.Write(r.ctx, ch, q, strings.NewReader(body))
	}
	if _, err := write(1, wire.FileWrite{IfMatch: "x"}, "a"); agenttest.WantKind(t, err,
		fault.Conflict).Field != "if_match" {
		t.Error(err)
	}
	first, err := write(2, wire.FileWrite{IfAbsent: true}, "first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := write(3, wire.FileWrite{IfAbsent: true}, "a"); agenttest.WantKind(t, err,
		fault.Conflict).Field != "if_absent" {
		t.Error(err)
	}
	race := func(q wire.FileWrite, base uint32) (won []string) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range uint32(24) {
			wg.Go(func() {
				text := fmt.Sprint("writer ", i)
				_, err := write(base+i, q, text)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, text)
				} else if !fault.Is(err, fault.Conflict) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return won
	}
	won := race(wire.FileWrite{IfMatch: first.ETag}, 100)
	if got, err := r.read(200, "note"); err != nil || len(won) != 1 || got != won[0] {
		t.Errorf("%q were written, the file has %q, %v", won, got, err)
	}
	if err := r.Files.Remove(r.ctx, wire.FileRemove{Path: "note"}); err != nil {
		t.Fatal(err)
	}
	if won := race(wire.FileWrite{IfAbsent: true}, 300); len(won) != 1 {
		t.Errorf("%q were made", won)
	}
	if names := leftovers(t, r.home); len(names) > 0 {
		t.Errorf("temporary files are left: %v", names)
	}
	// The same size and the same time, but another content.
	a, err := r.Files.Stat(r.ctx, wire.FileDescribe{Path: "note"})
	if err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(r.home, "note")
	old, _ := os.ReadFile(note)
	if err := os.WriteFile(note, bytes.ToUpper(old), 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(a.Modified)
	if err := os.Chtimes(note, at, at); err != nil {
		t.Fatal(err)
	}
	if b, err := r.Files.Stat(r.ctx, wire.FileDescribe{Path: "note"}); err != nil || b.ETag == a.ETag {
		t.Errorf("the ETag stayed %s, %v", b.ETag, err)
	}
}

func TestFileList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 2500
	var want []string
	dir := filepath.Join(r.home, "d")
	for _, err := range []error{
		os.Mkdir(dir, 0o755), os.Mkdir(dir+"/sub", 0o755),
		os.Symlink("sub", dir+"/to-sub"), os.Symlink("nowhere", dir+"/to-nothing"),
		syscall.Mkfifo(dir+"/fifo", 0o644), os.WriteFile(dir+"/bad\xffname", nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file %05d", i)), []byte("x"),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		want = append(want, e.Name())
	}
	slices.Sort(want)
	var got []string
	pages := 0
	found := map[string]wire.FileStat{}
	for after := ""; ; pages++ {
		page, err := r.Files.List(r.ctx, wire.FileList{Path: "d", Limit: 700, After: after})
		if err != nil || page.Path != dir || len(page.Entries) > 700 {
			t.Fatal(page.Path, len(page.Entries), err)
		}
		for _, e := range page.Entries {
			name := filepath.Base(e.Path)
			if e.Raw != "" {
				name = "bad\xffname"
			}
			got = append(got, name)
			found[name] = e
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if pages != 3 || !slices.Equal(got, want) {
		t.Errorf("%d pages, %d of %d names", pages+1, len(got), len(want))
	}
	for name, w := range map[string]wire.FileStat{
		"sub": {Type: "folder", Dir: true}, "to-sub": {Type: "link", Dir: true, Target: "sub"},
		"to-nothing": {Type: "link", Target: "nowhere"}, "fifo": {Type: "fifo"},
		"file 00007": {Type: "file"},
	} {
		e := found[name]
		if e.Type != w.Type || e.Dir != w.Dir || e.Target != w.Target || e.ETag == "" {
			t.Errorf("%s is %+v", name, e)
		}
	}
	if e := found["bad\xffname"]; e.Raw != "YmFk/25hbWU=" || e.Path != dir+"/bad\uFFFDname" {
		t.Errorf("the name that is no text: %+v", e)
	}
	// A page has the size of a message at most, whatever limit the request has.
	long := filepath.Join(r.home, "long")
	os.Mkdir(long, 0o755)
	for i := range 2000 {
		if err := os.WriteFile(filepath.Join(long, strings.Repeat("\x01", 200)+fmt.Sprint(i)), nil,
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := r.Files.List(r.ctx, wire.FileList{Path: "long", Limit: wire.MaxEntries})
	if err != nil || page.Next == "" || len(page.Entries) < 100 || len(page.Entries) > 1000 {
		t.Errorf("%d entries of long names, next %q, %v", len(page.Entries), page.Next, err)
	}
	for q, kind := range map[wire.FileList]fault.Kind{
		{Path: "nothing"}: fault.NotFound, {Path: "d/fifo"}: fault.InvalidArgument,
		{Path: "/proc"}:                         fault.PermissionDenied,
		{Path: "/proc/self/fd"}:                 fault.PermissionDenied,
		{Path: "d", Limit: -1}:                  fault.InvalidArgument,
		{Path: "d", Limit: wire.MaxEntries + 1}: fault.InvalidArgument,
		{Path: "d", After: "!"}:                 fault.InvalidArgument,
	} {
		_, err := r.Files.List(r.ctx, q)
		agenttest.WantKind(t, err, kind)
	}
}

func TestFileMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other, err := os.MkdirTemp("/dev/shm", "sandgate-agent") // a separate filesystem
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(other)
	if err := os.Chmod(other, 0o777); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(r.root, "secret")
	if err := os.WriteFile(secret, []byte("root's"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, p := range []string{"a/one", "a/two/three", "b", "full/x"} {
		if _, err := r.write(uint32(i+1), p, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Files.Mkdir(r.ctx, "empty"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("one", filepath.Join(r.home, "a/link")); err != nil {
		t.Fatal(err)
	}
	content := func(dir string) string {
		var all []string
		filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if rest, _ := filepath.Rel(dir, p); err == nil && !d.IsDir() {
				if to, err := os.Readlink(p); err == nil {
					rest += "->" + to
				}
				all = append(all, rest)
			}
			return nil
		})
		return strings.Join(all, " ")
	}
	const tree = "link->one one two/three"
	if _, err := r.Files.Copy(r.ctx, wire.FileMove{Path: "a", To: "new/parents/a"}); err != nil ||
		content(r.home+"/new/parents/a") != tree || content(r.home+"/a") != tree {
		t.Errorf("copy: %v, %s", err, content(r.home))
	}
	if s, err := r.Files.Move(r.ctx, wire.FileMove{Path: "a", To: "moved"}); err != nil ||
		s.Path != r.home+"/moved" || content(r.home+"/moved") != tree {
		t.Errorf("move: %+v, %v, %s", s, err, content(r.home))
	}
	if _, err := r.Files.Move(r.ctx, wire.FileMove{Path: "moved", To: other +
		"/far"}); err != nil || content(other+"/far") != tree {
		t.Errorf("move over the border: %v, %s", err, content(other))
	}
	if _, err := os.Lstat(r.home + "/moved"); err == nil {
		t.Error("what was moved is still there")
	}
	for _, x := range []struct {
		q     wire.FileMove
		kind  fault.Kind
		field string
	}{
		{wire.FileMove{Path: "nothing", To: "x"}, fault.NotFound, "path"},
		{wire.FileMove{Path: "b", To: "b"}, fault.Conflict, "to"},
		{wire.FileMove{Path: "full", To: "full/x/y"}, fault.InvalidArgument, "to"},
		{wire.FileMove{Path: "b", To: "full/x"}, fault.Conflict, "to"},
		{wire.FileMove{Path: "b", To: "full", Overwrite: true}, fault.Conflict, "to"},
		{wire.FileMove{Path: "empty", To: "full", Overwrite: true}, fault.Conflict, "to"},
		{wire.FileMove{Path: "b", To: ""}, fault.InvalidArgument, "to"},
		{wire.FileMove{Path: secret, To: "mine"}, fault.PermissionDenied, ""},
		{wire.FileMove{Path: "b", To: r.root + "/mine"}, fault.PermissionDenied, ""},
		{wire.FileMove{Path: "/proc/self", To: "x"}, fault.PermissionDenied, ""},
	} {
		_, err := r.Files.Move(r.ctx, x.q)
		if e := agenttest.WantKind(t, err, x.kind); x.field != "" && e.Field != x.field {
			t.Errorf("%+v: the field is %q", x.q, e.Field)
		}
		if x.q.Path == secret {
			continue // this one may be copied
		}
		if _, err = r.Files.Copy(r.ctx, x.q); x.kind != fault.Conflict || !x.q.Overwrite {
			agenttest.WantKind(t, err, x.kind)
		}
	}
	if _, err := r.Files.Move(r.ctx,
		wire.FileMove{Path: "b", To: "full/x", Overwrite: true}); err != nil {
		t.Error(err)
	}
	if names := leftovers(t, r.home); len(names) > 0 {
		t.Errorf("temporary files are left: %v", names)
	}
	agenttest.WantKind(t, r.Files.Remove(r.ctx, wire.FileRemove{Path: "full"}), fault.Conflict)
	agenttest.WantKind(t, r.Files.Remove(r.ctx, wire.FileRemove{Path: "nothing", Recursive: true}),
		fault.NotFound)
	agenttest.WantKind(t, r.Files.Remove(r.ctx, wire.FileRemove{Path: ".", Recursive: true}),
		fault.InvalidArgument)
	agenttest.WantKind(t, r.Files.Remove(r.ctx, wire.FileRemove{Path: "/", Recursive: true}),
		fault.InvalidArgument)
	agenttest.WantKind(t, r.Files.Remove(r.ctx, wire.FileRemove{Path: secret}),
		fault.PermissionDenied)
	// The link is removed, and not its target.
	if err := os.Symlink("full", r.home+"/to-full"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"to-full", "full", "empty"} {
		if p == "full" && content(r.home+"/full") != "x" {
			t.Error("what a link led to is gone")
		}
		if err := r.Files.Remove(r.ctx,
			wire.FileRemove{Path: p, Recursive: p != "empty"}); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := r.Files.Mkdir(r.ctx, "new"); agenttest.WantKind(t, err, fault.Conflict) == nil {
		t.Error("a folder was made twice")
	}
}

// TestTreeRoundTrip packs a tree and unpacks it elsewhere.
func TestTreeRoundTrip(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	big := strings.Repeat("0123456789abcdef", 200_000)
	for i, x := range []struct{ path, body string }{
		{"t/a", "1"},
		{"t/deep/er/big", big},
		{"t/" + strings.Repeat("n", 200), "long"},
	} {
		if _, err := r.write(uint32(i+1), x.path, x.body); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Chmod(r.home+"/t/a", 0o4755), os.Symlink("deep/er", r.home+"/t/link"),
		syscall.Mkfifo(r.home+"/t/fifo", 0o644),
		os.WriteFile(r.home+"/t/bad\xffname", []byte("b"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var packed bytes.Buffer
	opened := func(wire.FileStat) error { return nil }
	if err := r.Files.ReadTree(r.ctx, 10, wire.TreeRead{Path: "t", Archive: wire.Tar}, opened,
		&packed); err != nil {
		t.Fatal(err)
	}
	var names []string
	for in := tar.NewReader(bytes.NewReader(packed.Bytes())); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if names = append(names, h.Name); h.Uid != 0 || h.Uname != "" {
			t.Errorf("%s says whose it was", h.Name)
		}
	}
	if want := []string{
		"t/", "t/a", "t/bad\xffname", "t/deep/", "t/deep/er/", "t/deep/er/big",
		"t/link", "t/" + strings.Repeat("n", 200),
	}; !slices.Equal(names, want) {
		t.Errorf("the archive has %q", names)
	}
	s, err := r.Files.WriteTree(r.ctx, 11, wire.TreeWrite{Path: "copy"}, &packed)
	if err != nil || s.Files != 4 || s.Folders != 3 || s.Links != 1 ||
		s.Bytes != int64(6+len(big)) {
		t.Fatalf("%+v, %v", s, err)
	}
	if got, err := r.read(12, "copy/t/link/big"); err != nil || got != big {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if info, err := os.Stat(r.home + "/copy/t/a"); err != nil || info.Mode() != 0o755 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	} else if old, _ := os.Stat(r.home +
		"/t/a"); info.ModTime().UnixMilli()/1000 != old.ModTime().UnixMilli()/1000 {
		t.Errorf("the time is %v, it was %v", info.ModTime(), old.ModTime())
	}
	if _, err := os.Stat(r.home + "/copy/t/bad\xffname"); err != nil {
		t.Error(err)
	}
	var zipped bytes.Buffer
	if err := r.Files.ReadTree(r.ctx, 13, wire.TreeRead{Path: "t", Archive: wire.Zip}, opened,
		&zipped); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(zipped.Bytes()), int64(zipped.Len()))
	if err != nil {
		t.Fatal(err)
	}
	f, err := z.Open("t/deep/er/big")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(f); err != nil || string(body) != big {
		t.Errorf("%d bytes of the zip, %v", len(body), err)
	}
	number := uint32(20) // no number is used twice
	for p, kind := range map[string]fault.Kind{
		"nothing": fault.NotFound,
		"t/a":     fault.InvalidArgument, "/proc": fault.PermissionDenied,
	} {
		number++
		agenttest.WantKind(t, r.Files.ReadTree(r.ctx, number,
			wire.TreeRead{Path: p, Archive: wire.Tar}, opened, io.Discard), kind)
	}
	agenttest.WantKind(t, r.Files.ReadTree(r.ctx, 15, wire.TreeRead{Path: "t", Archive: "rar"},
		opened, io.Discard), fault.InvalidArgument)
	// A transfer that is aborted in the middle leaves no goroutine behind.
	ctx, cancel := context.WithCancel(r.ctx)
	err = r.Files.ReadTree(ctx, 16, wire.TreeRead{Path: "t", Archive: wire.Tar}, opened,
		writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil }))
	agenttest.WantKind(t, err, fault.Canceled)
	agenttest.Eventually(t, "no transfer",
		func() bool { s, err := r.Stats(r.ctx); return err == nil && s.Transfers == 0 })
}

// TestAbuse32_Archives unpacks archives of the kinds that attackers use.
func TestAbuse32_Archives(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	outside := filepath.Join(r.root, "outside") // the user may write there
	for _, err := range []error{os.Mkdir(outside, 0o777), os.Chmod(outside, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ch := uint32(0)
	send := func(entries ...tar.Header) (wire.TreeStat, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range entries {
			if h.Mode == 0 {
				h.Mode = 0o644
			}
			if h.Typeflag == tar.TypeReg {
				h.Size = 3
			}
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
			if h.Typeflag == tar.TypeReg {
				io.WriteString(w, "new")
			}
		}
		w.Close()
		ch++
		return r.Files.WriteTree(r.ctx, ch, wire.TreeWrite{Path: "into"}, &b)
	}
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	hard := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
	}
	for _, x := range []struct {
		name    string
		entries []tar.Header
		kind    fault.Kind // empty where the entry is made harmless
	}{
		{"climbs", []tar.Header{file("../x")}, fault.InvalidArgument},
		{"climbs inside", []tar.Header{file("a/../../x")}, fault.InvalidArgument},
		{"absolute", []tar.Header{file("/abs/x")}, ""},
		{"through a link", []tar.Header{link("l", outside), file("l/x")}, fault.InvalidArgument},
		{"through a link up", []tar.Header{link("u", ".."), file("u/x")}, fault.InvalidArgument},
		{"through a link inside", []tar.Header{
			{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o755},
			link("i", "d"), file("i/x"),
		}, ""},
		{"over a link", []tar.Header{link("o", outside+"/o"), file("o")}, ""},
		{
			"hard link out",
			[]tar.Header{link("h", outside), hard("h2", "h/x")},
			fault.InvalidArgument,
		},
		{"hard link up", []tar.Header{hard("h3", "../x")}, fault.InvalidArgument},
		{"hard link", []tar.Header{file("h4"), hard("h5", "h4")}, ""},
		{"hard link to itself", []tar.Header{file("h6"), hard("h6", "h6")}, ""},
		{
			"device",
			[]tar.Header{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}},
			"",
		},
		{"fifo", []tar.Header{{Typeflag: tar.TypeFifo, Name: "fifo"}}, ""},
		{"set-id", []tar.Header{{Typeflag: tar.TypeReg, Name: "suid", Mode: 0o6755}}, ""},
		{"twice", []tar.Header{file("t"), file("t")}, ""},
		{"file over folder", []tar.Header{
			{Typeflag: tar.TypeDir, Name: "fd/", Mode: 0o755},
			file("fd"),
		}, fault.Conflict},
		{"folder over file", []tar.Header{
			file("df"),
			{Typeflag: tar.TypeDir, Name: "df/", Mode: 0o755},
		}, fault.Conflict},
		{"itself", []tar.Header{{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}}, ""},
		{
			"closed folder",
			[]tar.Header{{Typeflag: tar.TypeDir, Name: "c/", Mode: 0}, file("c/x")},
			"",
		},
	} {
		if _, err := send(x.entries...); x.kind == "" && err != nil || x.kind != "" &&
			!fault.Is(err, x.kind) {
			t.Errorf("%s: %v (%s), want %q", x.name, err, fault.KindOf(err), x.kind)
		}
	}
	if all, _ := os.ReadDir(outside); len(all) > 0 {
		t.Errorf("there is %v outside", all)
	}
	if _, err := os.Lstat(filepath.Join(r.home, "x")); err == nil {
		t.Error("something climbed")
	}
	if info, err := os.Stat(r.home + "/into/suid"); err != nil || info.Mode() != 0o755 {
		t.Errorf("set-id bits are there: %v %v", info, err)
	}
	if _, err := os.Stat(r.home + "/into/abs/x"); err != nil {
		t.Error(err)
	}
	if names := leftovers(t, r.home); len(names) > 0 {
		t.Errorf("temporary files are left: %v", names)
	}
	// Data that is not an archive, or half of an archive.
	_, err := r.Files.WriteTree(r.ctx, 100, wire.TreeWrite{Path: "into"},
		strings.NewReader(strings.Repeat("no archive ", 1000)))
	agenttest.WantKind(t, err, fault.Malformed)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := file("half")
	h.Mode, h.Size = 0o644, 1000
	w.WriteHeader(&h)
	_, err = r.Files.WriteTree(r.ctx, 101, wire.TreeWrite{Path: "into"},
		io.MultiReader(&b, strings.NewReader("half")))
	agenttest.WantKind(t, err, fault.Malformed)
	if _, err := os.Stat(r.home + "/into/half"); err == nil {
		t.Error("half a file is there")
	}
	// A sparse file of a terabyte needs no bytes on the wire.
	var sparse bytes.Buffer
	w = tar.NewWriter(&sparse)
	h = file("sparse")
	h.Mode, h.Size = 0o644, 1<<40
	w.WriteHeader(&h)
	_, err = r.Files.WriteTree(r.ctx, 102, wire.TreeWrite{Path: "into"}, &sparse)
	agenttest.WantKind(t, err, fault.TooLarge)
}

// TestMoveTree moves all files of a home to another sandbox, with their modes, times and links.
func TestMoveTree(t *testing.T) {
	t.Parallel()
	from, to := newRig(t), newRig(t)
	from.program(1, "mkdir -p w/closed w/locked; echo one >w/a; echo two >w/closed/b; ln -s a w/l;"+
		"chmod 640 w/a; touch -d @1000000000.5 w/a; echo s >w/secret; chmod 000 w/secret w/closed;"+
		"chmod 555 w/locked; mkfifo w/pipe; ln w/a w/hard")
	// Files of the image stay where they are. The new one has a folder of its own.
	for _, dir := range []string{from.home + "/w/image", to.home + "/w/image"} {
		if err := errors.Join(os.MkdirAll(dir, 0o777),
			os.WriteFile(dir+"/is", []byte(dir), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(from.home+"/w/image", 0o777),
		os.Chown(to.home+"/w", to.uid, 1000)); err != nil {
		t.Fatal(err)
	}
	from.program(3, "echo mine >w/image/mine")
	read, write := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := from.Files.ReadTree(from.ctx, 10,
			wire.TreeRead{Path: ".", Archive: wire.Tar, Force: true},
			func(wire.FileStat) error { return nil }, write)
		write.CloseWithError(err)
		sent <- err
	}()
	s, err := to.Files.WriteTree(to.ctx, 10, wire.TreeWrite{
		Path: filepath.Dir(to.home), Whole: true,
	}, read)
	if err := errors.Join(err, <-sent); err != nil {
		t.Fatal(err)
	}
	if s.Files != 4 || s.Links != 1 || s.Skipped != 1 {
		t.Errorf("%+v", s)
	}
	if text, err := os.ReadFile(to.home + "/w/image/is"); err != nil ||
		string(text) != to.home+"/w/image" {
		t.Errorf("a file of the image: %q %v", text, err)
	}
	for name, want := range map[string]fs.FileMode{
		"a": 0o640, "hard": 0o640, "secret": 0, "closed/b": 0o644, "locked": fs.ModeDir | 0o755,
		"closed": fs.ModeDir | 0o700,
	} {
		info, err := os.Stat(to.home + "/w/" + name)
		if err != nil {
			t.Error(err)
		} else if info.Mode() != want {
			t.Errorf("the mode of %s is %v, want %v", name, info.Mode(), want)
		}
	}
	if text, err := os.ReadFile(to.home + "/w/l"); err != nil || string(text) != "one\n" {
		t.Errorf("%q %v", text, err)
	}
	if info, err := os.Stat(to.home + "/w/a"); err != nil ||
		!info.ModTime().Equal(time.Unix(1_000_000_000, 500_000_000)) {
		t.Errorf("the time is %v, %v", info.ModTime(), err)
	}
	// Without force, a file that cannot be read is an error.
	from.program(2, "chmod 000 w/secret")
	err = from.Files.ReadTree(from.ctx, 11, wire.TreeRead{Path: "w", Archive: wire.Tar},
		func(wire.FileStat) error { return nil }, io.Discard)
	agenttest.WantKind(t, err, fault.PermissionDenied)
}

// TestListDepth lists folders below a folder, in pages of all sizes.
func TestListDepth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.program(1, "mkdir -p d/a/b/c d/a-b d/z; touch d/a/b/c/deep d/a/x d/a.txt d/z/last d/a-b/y;"+
		"ln -s z d/link; mkdir -m 300 d/closed; ln -s nowhere d/broken")
	list := func(limit, depth int) (all []string) {
		t.Helper()
		for after := ""; ; {
			page, err := r.Files.List(r.ctx, wire.FileList{
				Path: "d", Depth: depth, Limit: limit, After: after,
			})
			if err != nil || len(page.Entries) > limit {
				t.Fatal(len(page.Entries), err)
			}
			for _, e := range page.Entries {
				all = append(all, strings.TrimPrefix(e.Path, r.home+"/d/"))
			}
			if after = page.Next; after == "" {
				return all
			}
		}
	}
	for depth, want := range map[int]string{
		0: "a a-b a.txt broken closed link z", 1: "a a-b a.txt broken closed link z",
		2:  "a a/b a/x a-b a-b/y a.txt broken closed link z z/last",
		3:  "a a/b a/b/c a/x a-b a-b/y a.txt broken closed link z z/last",
		64: "a a/b a/b/c a/b/c/deep a/x a-b a-b/y a.txt broken closed link z z/last",
	} {
		for _, limit := range []int{1, 2, 3, 5, 100} {
			if got := strings.Join(list(limit, depth), " "); got != want {
				t.Errorf("depth %d in pages of %d: %s", depth, limit, got)
			}
		}
	}
	for _, depth := range []int{-1, 65} {
		if _, err := r.Files.List(r.ctx, wire.FileList{Path: "d", Depth: depth}); fault.KindOf(
			err) != fault.InvalidArgument {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

// TestDescribeLinks describes links, with and without following them, and the owners of files.
func TestDescribeLinks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.program(1, "mkdir d; echo 123 > d/f; ln -s d/f one; ln -s one two; ln -s d dir;"+
		"ln -s nowhere broken; ln -s loop loop")
	home := r.home
	for name, want := range map[string]wire.FileStat{
		"two":    {Type: "link", Target: "one", LeadsTo: home + "/d/f", LeadsType: "file"},
		"dir":    {Type: "link", Target: "d", LeadsTo: home + "/d", LeadsType: "folder", Dir: true},
		"broken": {Type: "link", Target: "nowhere"},
		"loop":   {Type: "link", Target: "loop"},
		"d/f":    {Type: "file"},
	} {
		got, err := r.Files.Stat(r.ctx, wire.FileDescribe{Path: name, NoFollow: true})
		if err != nil || got.Type != want.Type || got.Target != want.Target ||
			got.Dir != want.Dir || got.LeadsTo != want.LeadsTo || got.LeadsType != want.LeadsType {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if int(got.UID) != r.uid || got.GID != 1000 || got.Owner != fmt.Sprint(r.uid) ||
			got.Group == "" {
			t.Errorf("%s is of %d %d %q %q", name, got.UID, got.GID, got.Owner, got.Group)
		}
	}
	if got, err := r.Files.Stat(r.ctx, wire.FileDescribe{Path: "two"}); err != nil ||
		got.Type != "file" || got.Size != 4 {
		t.Errorf("followed: %+v, %v", got, err)
	}
	if _, err := r.Files.Stat(r.ctx, wire.FileDescribe{Path: "broken"}); fault.KindOf(
		err) != fault.NotFound {
		t.Error(err)
	}
	root, err := r.Files.Stat(r.ctx, wire.FileDescribe{Path: "/etc/passwd"})
	if err != nil || root.Owner != "root" || root.Group != "root" {
		t.Errorf("a file of root: %+v, %v", root, err)
	}
}
