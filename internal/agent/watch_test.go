package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/files"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// watching is a watch of a test.
type watching struct {
	r    *rig
	mu   sync.Mutex
	kind map[string][]string // reported changes that the test has not expected yet, by path
	over bool
	news chan struct{}
	stop context.CancelFunc
	done chan error
}

func (r *rig) watch(ch uint32, path string, recursive bool) *watching {
	r.t.Helper()
	return r.watchFiles(ch, wire.FileWatch{Path: path, Recursive: recursive})
}

func (r *rig) watchFiles(ch uint32, q wire.FileWatch) *watching {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.ctx)
	w := &watching{
		r: r, kind: map[string][]string{}, news: make(chan struct{}, 1), stop: cancel,
		done: make(chan error, 1),
	}
	opened := make(chan struct{})
	go func() {
		w.done <- r.Files.Watch(ctx, ch, q,
			func(wire.FileStat) { close(opened) }, func(c wire.FileChanges) error {
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, one := range c.Changes {
					w.kind[one.Path] = append(w.kind[one.Path], one.Kind)
				}
				w.over = w.over || c.Overflow
				select {
				case w.news <- struct{}{}:
				default:
				}
				return nil
			})
	}()
	select {
	case <-opened:
	case err := <-w.done:
		r.t.Fatal(err)
	}
	return w
}

// until waits until ok accepts the reported changes.
func (w *watching) until(what string, ok func() bool) {
	w.r.t.Helper()
	for {
		w.mu.Lock()
		is, kind := ok(), fmt.Sprint(w.kind)
		w.mu.Unlock()
		if is {
			return
		}
		select {
		case <-w.news:
		case err := <-w.done:
			w.r.t.Fatalf("the watch ended before %s: %v; told %s", what, err, kind)
		case <-w.r.ctx.Done():
			w.r.t.Fatalf("%s was not told; told %s", what, kind)
		}
	}
}

// expect waits for a change. Other changes may come before and after it: changes that a program
// makes in a row are in one report only if the program is fast enough.
func (w *watching) expect(path, kind string) {
	w.r.t.Helper()
	path = filepath.Join(w.r.home, path)
	w.until(path+" "+kind, func() bool {
		i := slices.Index(w.kind[path], kind)
		w.kind[path] = w.kind[path][i+1:]
		return i >= 0
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.program(1, "mkdir -p a/b && echo x > a/b/old && mkdir other && mkdir -m 700 -p a/closed")
	w := r.watch(10, "a", true)
	r.program(
		2, "echo y > a/new; echo z >> a/b/old; mkdir -p a/c/d/e && echo deep > a/c/d/e/f; touch other/not")
	w.expect("a/new", wire.FileCreated)
	w.expect("a/b/old", wire.FileModified)
	// also files that existed before their folder was watched
	w.expect("a/c/d/e/f", wire.FileCreated)
	r.program(
		3, "mv a/c other/c; echo more >> other/c/d/e/f; rm a/new; echo q > a/b/tmp; mv a/b/tmp a/b/old")
	w.expect("a/c", wire.FileRemoved)
	w.expect("a/new", wire.FileRemoved)
	w.expect("a/b/old", wire.FileCreated)
	w.mu.Lock()
	for path := range w.kind {
		if !strings.HasPrefix(path, filepath.Join(r.home, "a")+"/") {
			t.Errorf("told of %s, which is elsewhere", path)
		}
	}
	if w.over {
		t.Error("said that something was left out")
	}
	w.mu.Unlock()
	w.stop()
	if err := <-w.done; fault.KindOf(err) != fault.Canceled {
		t.Error(err)
	}
}

func TestWatchFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.program(1, "mkdir d && echo 1 > d/file")
	w := r.watch(10, "d/file", false)
	r.program(2, "echo 2 > d/next; mv d/next d/file; echo other > d/beside")
	w.expect("d/file", wire.FileCreated)
	r.program(3, "echo 3 >> d/file")
	w.expect("d/file", wire.FileModified)
	w.mu.Lock()
	if len(w.kind) != 1 {
		t.Errorf("told of more than the file: %v", w.kind)
	}
	w.mu.Unlock()
	r.program(4, "rm -r d")
	if err := <-w.done; err != nil {
		t.Errorf("the end of what is watched: %v", err)
	}
}

// TestWatchEach compares the changes of files, each by itself and in order.
func TestWatchEach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.program(1, "mkdir d d/sub; echo 1 > d/old")
	w := r.watchFiles(10, wire.FileWatch{Path: "d", Recursive: true, Each: true})
	is := func(path string, want ...string) {
		t.Helper()
		path = filepath.Join(r.home, path)
		w.until(fmt.Sprint(path, want), func() bool { return slices.Equal(w.kind[path], want) })
	}
	write := func(ch uint32, path string) {
		t.Helper()
		if _, err := r.Files.Write(r.ctx, ch, wire.FileWrite{Path: path},
			strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	write(20, "d/new")
	is("d/new", wire.FileCreated, wire.FileModified)
	write(21, "d/old")
	is("d/old", wire.FileModified)
	r.program(2, "chmod 600 d/old; mv d/old d/sub/moved; rm d/new; mv d/sub d/other")
	is("d/old", wire.FileModified, wire.FileMode, wire.FileMoved)
	is("d/sub/moved", wire.FileCreated)
	is("d/new", wire.FileCreated, wire.FileModified, wire.FileRemoved)
	is("d/sub", wire.FileMoved)
	r.program(3, "echo 2 >> d/other/moved")
	w.expect("d/other/moved", wire.FileModified)
	for i := range 20 { // each write creates its folder too
		path := fmt.Sprintf("d/fresh%d/file", i)
		write(uint32(30+i), path)
		w.expect(path, wire.FileCreated)
	}
	w.mu.Lock()
	for path := range w.kind {
		if strings.Contains(path, ".sandgate-") {
			t.Errorf("told of the temporary file %s", path)
		}
	}
	w.mu.Unlock()
}

func TestWatchLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	open := func(ch uint32, path string) error {
		return r.Files.Watch(r.ctx, ch, wire.FileWatch{Path: path, Recursive: true},
			func(wire.FileStat) {}, func(wire.FileChanges) error { return nil })
	}
	if err := open(1, "missing"); fault.KindOf(err) != fault.NotFound {
		t.Error(err)
	}
	if err := open(2, "/proc/self"); fault.KindOf(err) != fault.PermissionDenied {
		t.Error(err)
	}
	dir := filepath.Join(r.home, "closed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := open(3, "closed"); fault.KindOf(err) != fault.PermissionDenied {
		t.Error(err)
	}
	r.program(4, fmt.Sprintf("mkdir many; cd many; seq -f %%g %d | xargs mkdir", wire.MaxFolders))
	if err := open(5, "many"); fault.KindOf(err) != fault.Exhausted {
		t.Error(err)
	}
	r.program(6, "mkdir flood")
	w := r.watch(7, "flood", false)
	w.mu.Lock() // so that no report is taken meanwhile, however slowly it arrives
	r.program(8, fmt.Sprintf("cd flood; seq %d | xargs touch", 40*files.MaxChanges))
	w.mu.Unlock()
	w.until("an overflow", func() bool { return w.over })
	w.stop()
	<-w.done
	var all []*watching
	for i := range wire.MaxWatches {
		all = append(all, r.watch(uint32(100+i), ".", false))
	}
	if err := open(200, "."); fault.KindOf(err) != fault.Exhausted {
		t.Error(err)
	}
	for _, w := range all {
		w.stop()
		<-w.done
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		s, err := r.Stats(r.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s.Transfers == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d watches remain", s.Transfers)
		}
	}
}
