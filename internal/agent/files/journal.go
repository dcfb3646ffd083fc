package files

import (
	"container/list"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of the journal.
const (
	maxJournalNames  = 32 << 10  // names of files that the journal knows
	maxJournalEpochs = 32        // epochs whose cursors are valid
	maxJournalReads  = 256       // reads of the events in one drain
	maxJournalReply  = 512 << 10 // approximate bytes of a reply
	// The time from the first event to a drain that nobody has asked for. It bounds the events that
	// wait in the kernel, which has no limit for them in gVisor.
	journalPause = 250 * time.Millisecond
)

// journalMask has the events of a folder that the journal watches.
const journalMask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE | unix.IN_ONLYDIR

// journal records which files below a folder were changed. It is empty until it is asked the first
// time. From then on the kernel queues the events of all folders. A request first takes
// over all queued events, so it sees every change that was made before it.
//
// The journal is part of the agent's memory. Copies and restored sandboxes continue with it.
type journal struct {
	// root is the folder.
	root string
	// become gives the calling goroutine a thread with the user's rights.
	become func() error

	mu      sync.Mutex // guards all below
	file    *os.File   // the inotify descriptor; nil before the first request
	raw     syscall.RawConn
	epochs  []journalEpoch // the last one is the current one
	seq     uint64         // number of the newest change
	lost    uint64         // changes up to this number may be missing
	partial bool           // some folders are not watched
	folders map[int32]*journalFolder
	wds     map[string]int32
	names   int // names in all folders
	entries map[string]*list.Element
	order   list.List // each value is a *journalEntry; the oldest change comes first
}

// journalEpoch is the time between two reseeds. end is the number of its last change.
type journalEpoch struct {
	name string
	end  uint64
}

// journalFolder is a watched folder with the names of its files.
type journalFolder struct {
	path  string
	names map[string]struct{}
}

func (f *journalFolder) knows(name string) bool {
	_, known := f.names[name]
	return known
}

// journalEntry is a path that was changed.
type journalEntry struct {
	path   string
	seq    uint64 // number of the last change
	first  uint64 // number of the first recorded change
	own    uint64 // number of the last change that is not reported: see journal.leaveOut
	flip   uint64 // number of the last change that created or removed the file
	before bool   // the file existed before first
	exists bool
}

// existedAt reports whether the file existed after change n.
func (e *journalEntry) existedAt(n uint64) bool {
	switch {
	case n < e.first:
		return e.before
	case n >= e.flip:
		return e.exists
	}
	return !e.exists
}

// answerQuickly answers a request if nothing has changed. It needs no rights of the user, and does not
// wait.
func (j *journal) answerQuickly(q Params) (wire.ChangedFiles, bool) {
	if !j.mu.TryLock() {
		return wire.ChangedFiles{}, false
	}
	defer j.mu.Unlock()
	if j.file == nil || q.Since == "" || j.waiting() != 0 {
		return wire.ChangedFiles{}, false
	}
	n, known, err := j.position(q.Since)
	if err != nil || !known || n < j.lost {
		return wire.ChangedFiles{}, false
	}
	for at := j.order.Back(); at != nil && entryIn(at).seq > n; at = at.Prev() {
		if e := entryIn(at); e.seq != e.own {
			return wire.ChangedFiles{}, false
		}
	}
	return j.page(), true
}

// leaveOut makes the change of a file that was just written no change that is reported. The calling
// goroutine must have the user's rights.
func (j *journal) leaveOut(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return
	}
	j.drain()
	if at := j.entries[path]; at != nil {
		entryIn(at).own = entryIn(at).seq
	}
}

// page returns an empty page that ends with the newest change.
func (j *journal) page() wire.ChangedFiles {
	return wire.ChangedFiles{
		Cursor: j.cursor(j.seq), Files: []wire.ChangedFile{}, Truncated: j.partial,
	}
}

// changes returns the changes after a cursor. The calling goroutine must have the user's rights.
func (j *journal) changes(q Params) (wire.ChangedFiles, error) {
	const op = "agent." + wire.OpFileChanges
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		if err := j.start(); err != nil {
			return wire.ChangedFiles{}, fileError(op, err)
		}
	}
	j.drain()
	if _, watched := j.wds[j.root]; !watched { // another folder has taken its place
		j.lose()
		if err := j.add(j.root, false); err != nil {
			return wire.ChangedFiles{}, fileError(op, err)
		}
	}
	if q.Since == "" {
		return j.page(), nil
	}
	since, known, err := j.position(q.Since)
	if err != nil {
		return wire.ChangedFiles{}, err
	}
	out := j.page()
	if !known {
		out.Truncated = true
		return out, nil
	}
	out.Truncated = out.Truncated || since < j.lost
	limit := wire.MaxChangedFiles
	if q.Limit > 0 {
		limit = min(limit, q.Limit)
	}
	first := j.order.Back()
	for first != nil && entryIn(first).seq > since {
		first = first.Prev()
	}
	if first == nil {
		first = j.order.Front()
	} else {
		first = first.Next()
	}
	size := 0
	for at := first; at != nil; at = at.Next() {
		e := entryIn(at)
		file, report := e.describe(since)
		if !report {
			continue
		}
		if size += 128 + len(e.path); len(out.Files) == limit || size > maxJournalReply {
			out.Truncated, out.Cursor = true, j.cursor(e.seq-1)
			break
		}
		out.Files = append(out.Files, file)
	}
	return out, nil
}

func entryIn(at *list.Element) *journalEntry { return at.Value.(*journalEntry) }

// describe compares a file with the time of change n. It reports only regular files whose path the
// protocol can express.
func (e *journalEntry) describe(n uint64) (wire.ChangedFile, bool) {
	file := wire.ChangedFile{Path: e.path, Kind: wire.FileModified}
	if !utf8.ValidString(e.path) || e.seq == e.own {
		return file, false
	}
	before := e.existedAt(n)
	info, err := os.Lstat(e.path)
	if err != nil {
		file.Kind = wire.FileRemoved
		return file, before && errors.Is(err, os.ErrNotExist)
	}
	if !before {
		file.Kind = wire.FileCreated
	}
	file.Size = info.Size()
	return file, info.Mode().IsRegular()
}

// cursor returns the text for a position.
func (j *journal) cursor(n uint64) string {
	return j.epochs[len(j.epochs)-1].name + "." + strconv.FormatUint(n, 10)
}

// position returns the number in a cursor. known is false if the cursor is from another sandbox, or
// from a time that this sandbox has not had.
func (j *journal) position(cursor string) (n uint64, known bool, err error) {
	name, text, ok := strings.Cut(cursor, ".")
	if n, err = strconv.ParseUint(text, 10, 64); err != nil || !ok {
		return 0, false, fault.Invalid("agent."+wire.OpFileChanges, "since",
			"this is not a cursor of an earlier reply")
	}
	for i, e := range j.epochs {
		if e.name == name {
			return n, n <= e.end || n <= j.seq && i == len(j.epochs)-1, nil
		}
	}
	return n, false, nil
}

// reseed begins a new epoch. After a copy or a restore, the numbers of two sandboxes grow apart.
func (j *journal) reseed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		j.begin()
	}
}

// begin begins an epoch.
func (j *journal) begin() {
	var name [8]byte
	rand.Read(name[:]) // never fails
	if len(j.epochs) > 0 {
		j.epochs[len(j.epochs)-1].end = j.seq
	}
	j.epochs = append(j.epochs, journalEpoch{name: hex.EncodeToString(name[:])})
	if len(j.epochs) > maxJournalEpochs {
		j.epochs = j.epochs[1:]
	}
}

// begun reports whether the journal watches its folder.
func (j *journal) begun() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file != nil
}

// start begins to watch.
func (j *journal) start() error {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), "inotify")
	raw, err := file.SyscallConn()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	j.file, j.raw = file, raw
	j.folders, j.wds = map[int32]*journalFolder{}, map[string]int32{}
	j.entries = map[string]*list.Element{}
	j.begin()
	if err := j.add(j.root, false); err != nil {
		j.file = nil
		return errors.Join(err, file.Close())
	}
	go j.follow()
	return nil
}

// close ends the watch.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		_ = j.file.Close()
	}
}

// follow takes over events that nobody asks for, until the journal is closed.
func (j *journal) follow() {
	if j.become() != nil {
		return
	}
	for {
		if j.raw.Read(func(fd uintptr) bool { return unread(fd) != 0 }) != nil {
			return
		}
		time.Sleep(journalPause)
		j.mu.Lock()
		j.drain()
		j.mu.Unlock()
	}
}

// unread returns how many bytes of events wait. It returns -1 if that is unknown.
func unread(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ) // the same number as FIONREAD
	if err != nil {
		return -1
	}
	return n
}

func (j *journal) waiting() (n int) {
	if err := j.raw.Control(func(fd uintptr) { n = unread(fd) }); err != nil {
		return -1
	}
	return n
}

// drain takes over the events that wait.
func (j *journal) drain() {
	buf := make([]byte, 64<<10)
	for range maxJournalReads {
		n := 0
		err := j.raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) })
		if err != nil || n <= 0 {
			return
		}
		for _, e := range parseEvents(buf[:n]) {
			j.handle(e)
		}
	}
	j.lose() // a program makes events faster than they can be read
}

// lose notes that changes up to now may be missing.
func (j *journal) lose() {
	j.seq++
	j.lost = j.seq
}

// ignoredFolder reports whether the journal leaves a folder out.
func ignoredFolder(name string) bool {
	return strings.HasPrefix(name, ".") || name == "node_modules" || name == "__pycache__"
}

// ignoredFile reports whether the journal leaves a file out: a hidden file in its folder, such as a
// history of commands in the home, or a file that the agent has not finished.
func (j *journal) ignoredFile(folder, name string) bool {
	return strings.HasPrefix(name, temporaryPrefix) ||
		strings.HasPrefix(name, ".") && folder == j.root
}

// handle records one event.
func (j *journal) handle(e watchEvent) {
	if e.mask&unix.IN_Q_OVERFLOW != 0 {
		j.lose()
		return
	}
	folder := j.folders[e.wd]
	if folder == nil {
		return
	}
	if e.mask&unix.IN_IGNORED != 0 {
		j.drop(folder.path)
		return
	}
	if e.mask&unix.IN_MOVE_SELF != 0 {
		j.removeBelow(folder.path)
		return
	}
	if e.name == "" {
		return
	}
	path := filepath.Join(folder.path, e.name)
	gone := e.mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0
	switch {
	case e.mask&unix.IN_ISDIR == 0:
		if !j.ignoredFile(folder.path, e.name) {
			j.note(folder, e.name, gone, e.mask&unix.IN_MODIFY != 0)
		}
	case ignoredFolder(e.name):
	case gone:
		j.removeBelow(path)
	default:
		_ = j.add(path, true) // it may be gone already, or the user may not read it
	}
}

// add watches a folder and all folders below it, the nearest ones first. If fresh is true, it also
// records the files in them as created.
func (j *journal) add(root string, fresh bool) error {
	for queue := []string{root}; len(queue) > 0; queue = queue[1:] {
		below, err := j.addOne(queue[0], fresh)
		if err != nil && queue[0] == root {
			return err
		}
		queue = append(queue, below...)
	}
	return nil
}

// addOne watches one folder. It returns the folders in it.
func (j *journal) addOne(path string, fresh bool) (below []string, err error) {
	if len(j.folders) >= wire.MaxFolders {
		j.partial = true
		return nil, nil
	}
	var wd int
	var mask uint32 = journalMask | unix.IN_DONT_FOLLOW
	if path == j.root {
		mask |= unix.IN_MOVE_SELF // nobody watches the folder above it
	}
	if cerr := j.raw.Control(func(fd uintptr) {
		wd, err = unix.InotifyAddWatch(int(fd), path, mask)
	}); cerr != nil {
		return nil, cerr
	}
	if errors.Is(err, unix.ENOSPC) {
		j.partial = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	folder := j.folders[int32(wd)]
	if folder != nil && folder.path != path { // it was moved here
		j.noteAllGone(folder)
		j.drop(folder.path)
		folder = nil
	}
	if folder == nil {
		folder = &journalFolder{path: path, names: map[string]struct{}{}}
		j.folders[int32(wd)], j.wds[path] = folder, int32(wd)
	}
	dir, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(256)
		for _, e := range entries {
			switch name := e.Name(); {
			case e.IsDir():
				if !ignoredFolder(name) {
					below = append(below, filepath.Join(path, name))
				}
			case j.ignoredFile(path, name):
			case !fresh:
				j.know(folder, name)
			case !folder.knows(name):
				j.note(folder, name, false, false)
			}
		}
		if err != nil || len(entries) == 0 {
			return below, nil
		}
	}
}

// know remembers that a file exists.
func (j *journal) know(f *journalFolder, name string) {
	if !f.knows(name) && j.names < maxJournalNames {
		f.names[name] = struct{}{}
		j.names++
	}
}

// forget is the opposite of know.
func (j *journal) forget(f *journalFolder, name string) {
	if f.knows(name) {
		delete(f.names, name)
		j.names--
	}
}

// note records a change of a file. modified says that the file existed before.
func (j *journal) note(f *journalFolder, name string, gone, modified bool) {
	path := filepath.Join(f.path, name)
	before := f.knows(name) || modified || gone && j.names >= maxJournalNames
	if gone {
		j.forget(f, name)
	} else {
		j.know(f, name)
	}
	at := j.entries[path]
	if at == nil {
		if gone && !before {
			return // it came and went before the journal read its folder
		}
		j.seq++
		e := &journalEntry{path: path, first: j.seq, before: before, exists: before}
		at = j.order.PushBack(e)
		j.entries[path] = at
		j.evict()
	} else {
		j.seq++
		j.order.MoveToBack(at)
	}
	e := entryIn(at)
	e.seq = j.seq
	if e.exists == gone {
		e.exists, e.flip = !gone, j.seq
	}
}

// evict removes the oldest entry when there are too many.
func (j *journal) evict() {
	if j.order.Len() <= wire.MaxChangedFiles {
		return
	}
	e := j.order.Remove(j.order.Front()).(*journalEntry)
	delete(j.entries, e.path)
	j.lost = max(j.lost, e.seq)
}

// removeBelow records that a folder is gone, with all files in it and below.
func (j *journal) removeBelow(path string) {
	for wd, f := range j.folders {
		if f.path != path && !strings.HasPrefix(f.path, path+"/") {
			continue
		}
		j.noteAllGone(f)
		_ = j.raw.Control(func(fd uintptr) {
			_, _ = unix.InotifyRmWatch(int(fd), uint32(wd)) // fails if the folder was deleted
		})
		j.drop(f.path)
	}
}

// noteAllGone records that the files of a folder are not at its path any more.
func (j *journal) noteAllGone(f *journalFolder) {
	for name := range f.names {
		j.note(f, name, true, false)
	}
}

// drop forgets a folder that is no longer watched.
func (j *journal) drop(path string) {
	wd, have := j.wds[path]
	if !have {
		return
	}
	j.names -= len(j.folders[wd].names)
	delete(j.folders, wd)
	delete(j.wds, path)
}

// parseEvents decodes what was read from an inotify descriptor.
func parseEvents(b []byte) (events []watchEvent) {
	for len(b) >= unix.SizeofInotifyEvent {
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if size > len(b) {
			break
		}
		name, _, _ := strings.Cut(string(b[unix.SizeofInotifyEvent:size]), "\x00")
		events = append(events, watchEvent{
			wd:   int32(binary.NativeEndian.Uint32(b)),
			mask: binary.NativeEndian.Uint32(b[4:]), cookie: binary.NativeEndian.Uint32(b[8:]),
			name: name,
		})
		b = b[size:]
	}
	return events
}
