package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

func (r *rig) write(ch uint32, path, body string) (wire.FileStat, error) {
	return r.Files.Write(r.ctx, ch, wire.FileWrite{Path: path}, strings.NewReader(body))
}

func (r *rig) read(ch uint32, path string) (string, error) {
	var b bytes.Buffer
	opened := 0
	stat, err := r.Files.Read(r.ctx, ch, wire.FileRead{Path: path}, func(s wire.FileOpened) error {
		opened++
		if b.Len() > 0 {
			r.t.Error("data came before the file was opened")
		}
		return nil
	}, &b)
	if err == nil && (opened != 1 || stat.Size != int64(b.Len())) {
		r.t.Errorf("%s: opened %d times, %d of %d bytes", path, opened, b.Len(), stat.Size)
	}
	return b.String(), err
}

func TestFileRoundTrip(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, n := range []int{0, 1, 70_000, 5 << 20} {
		body := strings.Repeat("0123456789", n/10+1)[:n]
		path := fmt.Sprintf("a/b%d/file name", i)
		stat, err := r.write(uint32(10*i+1), path, body)
		if err != nil {
			t.Fatal(err)
		}
		if stat.Path != filepath.Join(r.home, path) || stat.Size != int64(n) ||
			stat.Mode != 0o644 || stat.Modified == 0 || stat.Dir {
			t.Errorf("stat is %+v", stat)
		}
		got, err := r.read(uint32(10*i+2), path)
		if err != nil || got != body {
			t.Errorf("%d bytes came back as %d, %v", n, len(got), err)
		}
		info, err := os.Stat(stat.Path)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); int(s.Uid) != r.uid || s.Gid != 1000 {
			t.Errorf("the file belongs to %d:%d", s.Uid, s.Gid)
		}
		again, err := r.Files.Stat(r.ctx, wire.FileDescribe{Path: path})
		if err != nil || again != stat {
			t.Errorf("a second stat is %+v, %v", again, err)
		}
	}
	stat, err := r.Files.Write(r.ctx, 100, wire.FileWrite{Path: "run.sh", Mode: 0o755},
		strings.NewReader("#!/bin/sh\necho ran\n"))
	if err != nil || stat.Mode != 0o755 {
		t.Errorf("stat is %+v, %v", stat, err)
	}
	if out, _ := r.program(101, "./run.sh"); out != "ran\n" {
		t.Errorf("the program printed %q", out)
	}
	if dir, err := r.Files.Stat(r.ctx, wire.FileDescribe{Path: "a"}); err != nil || !dir.Dir {
		t.Errorf("stat of a folder is %+v, %v", dir, err)
	}
	if names := leftovers(t, r.home); len(names) > 0 {
		t.Errorf("temporary files are left: %v", names)
	}
}

// leftovers lists temporary files.
func leftovers(t *testing.T, dir string) (names []string) {
	t.Helper()
	filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(p), ".sandgate-") {
			names = append(names, p)
		}
		return nil
	})
	return names
}

func TestFileRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := filepath.Join(r.root, "secret")
	for _, err := range []error{
		os.WriteFile(secret, []byte("root's"), 0o600),
		os.Symlink(secret, filepath.Join(r.home, "link")),
		os.Symlink("loop", filepath.Join(r.home, "loop")),
		os.Mkdir(filepath.Join(r.home, "closed"), 0o700),
		syscall.Mkfifo(filepath.Join(r.home, "fifo"), 0o666),
		os.WriteFile(filepath.Join(r.home, "file"), []byte("x"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ch := uint32(0)
	for _, x := range []struct {
		path        string
		read, write fault.Kind // empty where the operation is allowed
	}{
		{"link", fault.PermissionDenied, ""},
		{secret, fault.PermissionDenied, fault.PermissionDenied},
		{"closed/x", fault.PermissionDenied, fault.PermissionDenied},
		{"nothing", fault.NotFound, ""},
		{"closed", fault.PermissionDenied, fault.InvalidArgument},
		{".", fault.InvalidArgument, fault.InvalidArgument},
		{"loop", fault.InvalidArgument, ""},
		{"fifo", fault.InvalidArgument, ""},
		{"file/below", fault.InvalidArgument, fault.InvalidArgument},
		{"", fault.InvalidArgument, fault.InvalidArgument},
		{"nul\x00", fault.InvalidArgument, fault.InvalidArgument},
		{strings.Repeat("x/", 2049), fault.InvalidArgument, fault.InvalidArgument},
		{strings.Repeat("x", 255), fault.NotFound, ""},
		{strings.Repeat("x", 256), fault.InvalidArgument, fault.InvalidArgument},
		{"/proc/self/environ", fault.PermissionDenied, ""},
		{"/proc/self/mem", fault.PermissionDenied, ""},
		{"/dev/null", fault.InvalidArgument, fault.PermissionDenied},
	} {
		ch += 2
		if _, err := r.read(ch, x.path); fault.KindOf(err) != x.read {
			t.Errorf("reading %.30q: %v (%s), want %s", x.path, err, fault.KindOf(err), x.read)
		}
		if strings.HasPrefix(x.path, "/proc") {
			continue // the kernel decides what a write to /proc returns
		}
		if _, err := r.write(ch+1, x.path, "new"); fault.KindOf(err) != x.write {
			t.Errorf("writing %.30q: %v (%s), want %s", x.path, err, fault.KindOf(err), x.write)
		}
	}
	for _, path := range []string{strings.Repeat("x", 256), "new/" + strings.Repeat("x", 256) + "/a"} {
		ch += 2
		_, err := r.write(ch, path, "new")
		if !strings.Contains(fault.PublicOf(err).Message, "name has at most 255 bytes") {
			t.Errorf("a name of 256 bytes: %v", err)
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "root's" {
		t.Errorf("the secret is %q, %v", b, err)
	}
	if names := leftovers(t, r.root); len(names) > 0 {
		t.Errorf("temporary files are left: %v", names)
	}
	agenttest.Eventually(t, "no transfer is left",
		func() bool { s, err := r.Stats(r.ctx); return err == nil && s.Transfers == 0 })
}

// failing is a body that fails in the middle.
type failing struct{ n int }

func (f *failing) Read(p []byte) (int, error) {
	if f.n <= 0 {
		return 0, errors.New("the client is gone")
	}
	n := min(len(p), f.n)
	f.n -= n
	return n, nil
}

func TestFileCutShort(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.write(1, "kept", "old"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Files.Write(r.ctx, 2, wire.FileWrite{Path: "kept"},
		&failing{3 << 20}); err == nil || !strings.Contains(err.Error(), "the client is gone") {
		t.Errorf("a broken body gives %v", err)
	}
	// A write whose context ends while the body hangs in the middle.
	ctx, cancel := context.WithCancel(r.ctx)
	body, feed := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := r.Files.Write(ctx, 3, wire.FileWrite{Path: "kept"}, body)
		done <- err
	}()
	feed.Write(make([]byte, 100_000))
	cancel()
	feed.Close() // the caller closes the body
	agenttest.WantKind(t, <-done, fault.Canceled)
	agenttest.Eventually(t, "the transfers are over",
		func() bool { s, err := r.Stats(r.ctx); return err == nil && s.Transfers == 0 })
	if got, err := r.read(4, "kept"); err != nil || got != "old" {
		t.Errorf("the file is %.20q, %v", got, err)
	}
	// A write that ends because the wire ends.
	body, feed = io.Pipe()
	go func() {
		_, err := r.Files.Write(r.ctx, 5, wire.FileWrite{Path: "kept"}, body)
		done <- err
	}()
	feed.Write(make([]byte, 100_000))
	agenttest.Eventually(t, "the temporary file is there",
		func() bool { return len(leftovers(t, r.home)) == 1 })
	r.in.Close()
	<-r.Done()
	feed.Close()
	agenttest.WantKind(t, <-done, fault.SandboxLost)
	agenttest.Eventually(t, "the temporary file is gone",
		func() bool { return len(leftovers(t, r.home)) == 0 })
	if b, err := os.ReadFile(filepath.Join(r.home, "kept")); err != nil || string(b) != "old" {
		t.Errorf("the file is %.20q, %v", b, err)
	}
}

func TestFileReadGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.write(1, "large", strings.Repeat("x", 20<<20)); err != nil {
		t.Fatal(err)
	}
	refuse := errors.New("no, thank you")
	if _, err := r.Files.Read(r.ctx, 2, wire.FileRead{Path: "large"},
		func(wire.FileOpened) error { return refuse }, io.Discard); !errors.Is(err, refuse) {
		t.Errorf("a refused file gives %v", err)
	}
	// A reader that does not read does not delay others.
	ctx, cancel := context.WithCancel(r.ctx)
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := r.Files.Read(ctx, 3, wire.FileRead{Path: "large"}, nil, in)
		done <- err
	}()
	if _, err := io.ReadFull(out, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	for ch := range uint32(5) {
		if got, err := r.read(10+ch, "large"); err != nil || len(got) != 20<<20 {
			t.Errorf("beside it %d bytes came, %v", len(got), err)
		}
	}
	cancel()
	out.CloseWithError(context.Canceled)
	agenttest.WantKind(t, <-done, fault.Canceled)
	agenttest.Eventually(t, "the transfers are over",
		func() bool { s, err := r.Stats(r.ctx); return err == nil && s.Transfers == 0 })
}

func TestFilesSideBySide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wg sync.WaitGroup
	for i := range uint32(16) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			body := strings.Repeat(string(rune('a'+i)), 1<<20+int(i))
			path := fmt.Sprintf("f%d", i)
			if _, err := r.write(2*i+1, path, body); err != nil {
				t.Error(err)
				return
			}
			if got, err := r.read(2*i+2, path); err != nil || got != body {
				t.Errorf("%d bytes came back as %d, %v", len(body), len(got), err)
			}
		}()
	}
	wg.Wait()
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	small := filepath.Join(r.home, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0,
		fmt.Sprintf("size=1m,uid=%d,gid=1000,mode=0755", r.uid)); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(small, syscall.MNT_DETACH)
	if _, err := r.write(1, "small/kept", "old"); err != nil {
		t.Fatal(err)
	}
	_, err := r.write(2, "small/kept", strings.Repeat("x", 6<<20))
	agenttest.WantKind(t, err, fault.DiskFull)
	if got, err := r.read(3, "small/kept"); err != nil || got != "old" {
		t.Errorf("the file is %.20q, %v", got, err)
	}
	if names := leftovers(t, small); len(names) > 0 {
		t.Errorf("temporary files are left: %v", names)
	}
	if _, err := r.write(4, "small/kept", strings.Repeat("x", 500_000)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestFileGetsShorter fails when a reader gets less than the announced length without an error.
func TestFileGetsShorter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.write(1, "f", strings.Repeat("x", 10<<20)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Files.Read(r.ctx, 2, wire.FileRead{Path: "f"}, func(wire.FileOpened) error {
		return os.Truncate(filepath.Join(r.home, "f"), 1000)
	}, io.Discard)
	agenttest.WantKind(t, err, fault.Conflict)
}

// TestDataForNobody sends parts of files for unknown transfers.
func TestDataForNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 100 {
		f := frame.Frame{Type: frame.Data, Channel: 5, Body: make([]byte, 1000)}
		if _, err := r.in.Write(frame.Append(nil, f)); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := r.Stats(r.ctx); err != nil || s.Stray != 100 {
		t.Errorf("stats are %+v, %v", s, err)
	}
}
