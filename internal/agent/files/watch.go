package files

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of watching files.
const (
	MaxChanges   = 1024     // changes in one report, or that wait
	maxEach      = 16 << 10 // the same for a watch that reports each change
	maxChangePut = 32 << 10 // approximate bytes of one line
	// from a change to its report, together with the ones after it
	watchPause = 50 * time.Millisecond
)

// watchMask has the events of a watched folder.
const watchMask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_ATTRIB |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// watcher is one watch. Its goroutine has the user's rights, so that the kernel
// decides what the user may watch. Another goroutine reads the events.
type watcher struct {
	t         Transfer
	file      *os.File // the inotify descriptor
	root      string
	only      string // the name in root to watch; "" for all
	recursive bool
	paths     map[int32]string // paths of folders by their watch descriptors
	wds       map[string]int32
	order     []string // paths of changes in the order in which they came
	kinds     map[string]wire.FileChange
	each      bool              // report each change by itself
	every     []wire.FileChange // the changes of a watch with each
	written   writtenFile       // the last temporary file that was renamed
	more      bool              // changes were left out
	gone      bool              // root is gone
}

// writtenFile is a temporary file of the agent that is renamed. The next event has its new name.
type writtenFile struct {
	cookie  uint32
	replace bool
}

type watchEvent struct {
	wd     int32
	mask   uint32
	cookie uint32 // is equal in both events of a rename
	name   string
}

// watchFile watches until the transfer is aborted or the watched path is gone.
func (s *Service) watchFile(t Transfer, path string, recursive, each bool) {
	w := &watcher{
		t: t, root: path, recursive: recursive, each: each, paths: map[int32]string{},
		wds: map[string]int32{}, kinds: map[string]wire.FileChange{},
	}
	stat, err := w.open()
	if err != nil {
		t.Respond(nil, fileError("agent.file.watch", err))
		return
	}
	t.OnAbort(func() { _ = w.file.Close() })
	events := make(chan []watchEvent)
	quit := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		readEvents(w.file, events, quit)
	}()
	t.Respond(s.owned(stat), nil)
	err = w.run(events)
	close(quit)
	_ = w.file.Close()
	<-done
	t.Finish(fileError("agent."+wire.OpFileWatch, err))
}

// open starts to watch.
func (w *watcher) open() (wire.FileStat, error) {
	if inProc(w.root) {
		return wire.FileStat{}, syscall.EACCES
	}
	info, err := os.Stat(w.root)
	if err != nil {
		return wire.FileStat{}, err
	}
	stat := statOf(w.root, info)
	if !info.IsDir() {
		// Watch the folder of a file, because many programs replace a file instead of
		// writing it.
		w.only, w.root, w.recursive = filepath.Base(w.root), filepath.Dir(w.root), false
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return stat, err
	}
	w.file = os.NewFile(uintptr(fd), "inotify")
	if err := w.add(w.root, false); err != nil || w.more {
		_ = w.file.Close()
		if err == nil {
			err = fault.New(fault.Exhausted, "agent.file.watch",
				"there are more than %d folders; watch a part of them", wire.MaxFolders)
		}
		return stat, err
	}
	return stat, nil
}

// add watches a folder, and all folders below it if the watch is recursive. If `tell` is true,
// it also reports the folder's entries as created, because they may be older than the watch.
func (w *watcher) add(path string, tell bool) error {
	if _, there := w.wds[path]; !there {
		if len(w.paths) >= wire.MaxFolders {
			w.more = true
			return nil
		}
		mask := uint32(watchMask)
		if path != w.root {
			mask |= unix.IN_DONT_FOLLOW
		}
		var wd int
		err := w.control(func(fd int) (err error) {
			wd, err = unix.InotifyAddWatch(fd, path, mask)
			return err
		})
		if errors.Is(err, unix.ENOSPC) {
			w.more = true
			return nil
		}
		if err != nil {
			return err
		}
		w.paths[int32(wd)], w.wds[path] = path, int32(wd)
	}
	if !w.recursive && !tell {
		return nil
	}
	dir, err := openFolder(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(256)
		for _, e := range entries {
			name := filepath.Join(path, e.Name())
			if tell && !(w.each && strings.HasPrefix(e.Name(), temporaryPrefix)) {
				w.noteChange(name, wire.FileCreated, e.IsDir())
			}
			if w.recursive && e.IsDir() && !w.more {
				// Skip a folder that the user may not read, or that is gone.
				_ = w.add(name, tell)
			}
		}
		if err != nil || len(entries) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
	}
}

func (w *watcher) control(do func(fd int) error) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = do(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// readEvents passes events on until the file is closed.
func readEvents(f *os.File, out chan<- []watchEvent, quit <-chan struct{}) {
	defer close(out)
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		select {
		case out <- parseEvents(buf[:n]):
		case <-quit:
			return
		}
	}
}

// run reports changes, each batch watchPause after its first change.
func (w *watcher) run(events <-chan []watchEvent) error {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	waiting := false
	for {
		select {
		case list, ok := <-events:
			if !ok {
				return context.Canceled
			}
			for _, e := range list {
				w.handleEvent(e)
			}
			if w.gone {
				return w.report()
			}
			if !waiting && (len(w.order) > 0 || len(w.every) > 0 || w.more) {
				waiting = true
				timer.Reset(watchPause)
			}
		case <-timer.C:
			waiting = false
			if err := w.report(); err != nil {
				return err
			}
		}
	}
}

// handleEvent records one event.
func (w *watcher) handleEvent(e watchEvent) {
	if e.mask&unix.IN_Q_OVERFLOW != 0 {
		w.more = true
		return
	}
	dir, known := w.paths[e.wd]
	if !known {
		return
	}
	if e.mask&unix.IN_IGNORED != 0 {
		delete(w.paths, e.wd)
		delete(w.wds, dir)
		return
	}
	if e.mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0 {
		if dir == w.root {
			w.gone = true
			w.noteChange(dir, wire.FileRemoved, true)
		}
		return // the parents of other folders report it
	}
	if e.name == "" || w.only != "" && e.name != w.only {
		return
	}
	path, isDir := filepath.Join(dir, e.name), e.mask&unix.IN_ISDIR != 0
	if w.each && w.noteEach(e, path, isDir) {
		return
	}
	switch {
	case e.mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		w.noteChange(path, wire.FileCreated, isDir)
		if isDir && w.recursive {
			_ = w.add(path, true) // it may be gone already
		}
	case e.mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		w.noteChange(path, wire.FileRemoved, isDir)
		if isDir && e.mask&unix.IN_MOVED_FROM != 0 {
			w.unwatchBelow(path)
		}
	default:
		w.noteChange(path, wire.FileModified, isDir)
	}
}

// unwatchBelow stops watching a folder that was moved away, and all below it.
func (w *watcher) unwatchBelow(path string) {
	for p, wd := range w.wds {
		if p == path || strings.HasPrefix(p, path+"/") {
			_ = w.control(func(fd int) error {
				_, err := unix.InotifyRmWatch(fd, uint32(wd))
				return err
			})
			delete(w.paths, wd)
			delete(w.wds, p)
		}
	}
}

// noteEach records what only a watch with each reports. It returns true if that is all.
func (w *watcher) noteEach(e watchEvent, path string, isDir bool) bool {
	if strings.HasPrefix(e.name, temporaryPrefix) {
		// The agent writes a file. Only the rename to its own name counts.
		if e.mask&unix.IN_MOVED_FROM != 0 {
			w.written = writtenFile{e.cookie, strings.HasPrefix(e.name, replacePrefix)}
		}
		return true
	}
	switch {
	case e.mask&unix.IN_MOVED_TO != 0 && e.cookie == w.written.cookie && e.cookie != 0:
		if !w.written.replace {
			w.noteChange(path, wire.FileCreated, isDir)
		}
		w.noteChange(path, wire.FileModified, isDir)
		return true
	case e.mask&unix.IN_MOVED_FROM != 0:
		w.noteChange(path, wire.FileMoved, isDir)
		if isDir {
			w.unwatchBelow(path)
		}
		return true
	case e.mask&unix.IN_ATTRIB != 0:
		w.noteChange(path, wire.FileMode, isDir)
		return true
	}
	return false
}

// noteChange merges a change with the unreported ones of the same path. A watch with each merges it
// only with an equal change directly before it.
func (w *watcher) noteChange(path, kind string, dir bool) {
	if w.each {
		change := wire.FileChange{Path: strings.ToValidUTF8(path, "\uFFFD"), Kind: kind, Dir: dir}
		switch n := len(w.every); {
		case n > 0 && w.every[n-1] == change:
		case n >= maxEach:
			w.more = true
		default:
			w.every = append(w.every, change)
		}
		return
	}
	before, there := w.kinds[path]
	switch {
	case !there && len(w.order) >= MaxChanges:
		w.more = true
		return
	case !there:
		w.order = append(w.order, path)
	case kind == wire.FileModified:
		kind, dir = before.Kind, before.Dir // a modified new file is still new
	case kind == wire.FileCreated && before.Kind == wire.FileRemoved && !dir && !before.Dir:
		kind = wire.FileModified // it was replaced
	}
	w.kinds[path] = wire.FileChange{Path: strings.ToValidUTF8(path, "\uFFFD"), Kind: kind, Dir: dir}
}

// report sends the recorded changes, in lines of a limited size.
func (w *watcher) report() error {
	rest := w.every
	for _, p := range w.order {
		rest = append(rest, w.kinds[p])
	}
	if len(rest) == 0 && !w.more {
		return nil
	}
	out := &dataWriter{t: w.t}
	for last := false; !last; {
		size := 0
		n := slices.IndexFunc(rest, func(c wire.FileChange) bool {
			size += 64 + 2*len(c.Path)
			return size > maxChangePut && size > 64+2*len(c.Path)
		})
		if last = n < 0; last {
			n = len(rest)
		}
		line := wire.FileChanges{Changes: rest[:n], Overflow: last && w.more}
		if line.Changes == nil {
			line.Changes = []wire.FileChange{}
		}
		data, err := json.Marshal(line)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(data, '\n')); err != nil {
			return err
		}
		rest = rest[n:]
	}
	w.order, w.every, w.more = nil, nil, false
	clear(w.kinds)
	return out.flush()
}
