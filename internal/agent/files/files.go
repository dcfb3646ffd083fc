// Package files carries out the operations on a user's files: it reads, writes, moves, copies,
// removes and lists them, packs and unpacks archives, and watches for changes. Every operation runs
// in a thread with the user's rights.
package files

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxPath is the longest path, in bytes.
const maxPath = 4096

// temporaryPrefix begins the names of files that are not complete.
const temporaryPrefix = ".sandgate-"

// Config configures a Service. All fields are required.
type Config struct {
	Home string // the user's home
	UID  int
	GID  int
	// Closed reports whether the agent is ending. A copy of a folder then stops.
	Closed func() bool
}

// Service carries out the operations on files.
type Service struct {
	cfg Config
	// commit is held while a file takes its place, so that a write replaces
	// exactly the file that it has checked.
	commit   sync.Mutex
	threads  threads
	journals *journals
	accounts accounts
}

// New returns a Service.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg}
	s.journals = newJournals(s.becomeUser)
	s.threads.idle, s.threads.become = make(chan task), s.becomeUser
	s.threads.quit = make(chan struct{})
	return s
}

// Reseed must be called when the sandbox is a copy or was restored.
func (s *Service) Reseed() {
	for _, j := range s.journals.list() {
		j.reseed()
	}
}

// Close ends the records of changes. No operation may begin afterwards.
func (s *Service) Close() {
	for _, j := range s.journals.list() {
		j.close()
	}
	close(s.threads.quit)
}

// AbsPath makes a path absolute. It checks no access: every operation runs with
// the user's rights.
func AbsPath(home, op, p string) (string, *fault.Error) {
	switch {
	case p == "":
		return "", fault.Invalid(op, "path", "a path is needed")
	case len(p) > maxPath:
		return "", fault.Invalid(op, "path", "a path has at most %d bytes", maxPath)
	case strings.IndexByte(p, 0) >= 0:
		return "", fault.Invalid(op, "path", "a path must not contain a NUL byte")
	case !filepath.IsAbs(p):
		return filepath.Join(home, p), nil
	}
	return filepath.Clean(p), nil
}

// becomeUser gives the calling goroutine a thread with the user's rights. The
// thread ends with the goroutine.
//
// The calls are raw because Go's own functions change all threads. setfsuid
// would be the natural call, but gVisor does not have it. The real and the
// saved user remain root. Otherwise the user's processes could signal this
// thread, and with it the agent.
func (s *Service) becomeUser() error {
	runtime.LockOSThread()
	gid := uint32(s.cfg.GID)
	const keep = ^uintptr(0)
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETGROUPS, 1, uintptr(unsafe.Pointer(&gid)),
		0); e != 0 {
		return &fault.Error{Kind: fault.Host, Op: "agent.user", Message: "setgroups failed", Err: e}
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESGID, keep, uintptr(s.cfg.GID),
		keep); e != 0 {
		return &fault.Error{Kind: fault.Host, Op: "agent.user", Message: "setresgid failed", Err: e}
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uintptr(s.cfg.UID),
		keep); e != 0 {
		return &fault.Error{Kind: fault.Host, Op: "agent.user", Message: "setresuid failed", Err: e}
	}
	return nil
}

// fileError converts the error of a failed system call.
func fileError(op string, err error) error {
	if err == nil {
		return nil
	}
	var have *fault.Error
	if errors.As(err, &have) {
		return err
	}
	e := &fault.Error{Op: op, Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Kind, e.Message = fault.DiskFull, "the disk is full"
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Field, e.Message = fault.NotFound, "path", "there is no such file"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Kind, e.Field, e.Message = fault.PermissionDenied, "path",
			"the user has no permission for that"
		e.Cause = fault.CauseFileMode
	case errors.Is(err, syscall.EISDIR):
		e.Kind, e.Field, e.Message = fault.InvalidArgument, "path", "this is a folder"
	case errors.Is(err, syscall.ENAMETOOLONG):
		e.Kind, e.Field, e.Message = fault.InvalidArgument, "path",
			"a name in the path is too long: a name has at most 255 bytes"
	case errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.EINVAL),
		errors.Is(err, syscall.ENXIO):
		e.Kind, e.Field, e.Message = fault.InvalidArgument, "path",
			"this path does not lead to a file"
	case errors.Is(err, context.Canceled):
		e.Kind, e.Message = fault.Canceled, "the transfer was aborted"
	case errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY):
		e.Kind, e.Field, e.Message = fault.Conflict, "path",
			"something with that name exists already"
		e.Cause = fault.CauseExists
	case errors.Is(err, syscall.ENOTEMPTY):
		e.Kind, e.Field, e.Message = fault.Conflict, "path", "the folder is not empty"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Kind, e.Message = fault.Exhausted, "the sandbox has too many open files"
	default:
		e.Kind, e.Message = fault.Internal, "the file could not be reached"
	}
	return e
}

func statOf(path string, info fs.FileInfo) wire.FileStat {
	mode := uint32(info.Mode().Perm())
	for bit, value := range map[fs.FileMode]uint32{
		fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000,
		fs.ModeSticky: 0o1000,
	} {
		if info.Mode()&bit != 0 {
			mode |= value
		}
	}
	stat := wire.FileStat{
		Path: path, Type: typeOf(info.Mode()), Size: info.Size(), Mode: mode,
		Modified: info.ModTime().UnixMilli(),
		Dir:      info.IsDir(), ETag: etagOf(info),
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		stat.UID, stat.GID = st.Uid, st.Gid
	}
	return stat
}

func typeOf(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "folder"
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeNamedPipe != 0:
		return "fifo"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// etagOf returns a tag for the state of a file. The tag includes the time of
// the last change to the inode, which no program can set.
func etagOf(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatInt(st.Mtim.Nano(), 36) + "-" + strconv.FormatInt(st.Ctim.Nano(), 36) +
		"-" + strconv.FormatInt(st.Size, 36)
}

// meets checks the file at path against the conditions of a write.
func meets(q wire.FileWrite, path string) error {
	const op = "agent.file.write"
	if q.IfAbsent {
		if _, err := os.Lstat(path); err == nil {
			return &fault.Error{
				Kind: fault.Conflict, Op: op, Field: "if_absent", Cause: fault.CauseExists,
				Message: "there is a file already",
			}
		}
	}
	if q.IfMatch == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &fault.Error{
			Kind: fault.Conflict, Op: op, Field: "if_match", Cause: fault.CauseChanged,
			Message: "the file no longer exists",
		}
	case err != nil:
		return err
	case etagOf(info) != q.IfMatch:
		return &fault.Error{
			Kind: fault.Conflict, Op: op, Field: "if_match", Cause: fault.CauseChanged,
			Message: "the file has changed since it was read",
		}
	}
	return nil
}

// writeFile writes body to path by a temporary name beside it. After an error
// it leaves nothing but the parents.
func (s *Service) writeFile(path string, q wire.FileWrite, body io.Reader) (wire.FileStat, error) {
	const op = "agent.file.write"
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return wire.FileStat{}, fileError(op, syscall.EISDIR)
	}
	if err := meets(q, path); err != nil { // check before the data comes
		return wire.FileStat{}, fileError(op, err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return wire.FileStat{}, fileError(op, err)
	}
	temp := temporaryFor(path)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return wire.FileStat{}, fileError(op, err)
	}
	stat, err := func() (wire.FileStat, error) {
		defer f.Close()
		if _, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{body},
			make([]byte, wire.FileChunk)); err != nil {
			return wire.FileStat{}, err
		}
		mode := q.Mode & 0o777
		if mode == 0 {
			mode = 0o644
		}
		if err := f.Chmod(fs.FileMode(mode)); err != nil {
			return wire.FileStat{}, err
		}
		s.commit.Lock()
		defer s.commit.Unlock()
		err := meets(q, path)
		if err == nil {
			err = rename(temp, path, !q.IfAbsent)
		}
		if err != nil {
			return wire.FileStat{}, err
		}
		info, err := f.Stat()
		if err != nil {
			return wire.FileStat{}, err
		}
		return statOf(path, info), nil
	}()
	if err != nil {
		os.Remove(temp) // does nothing if the rename succeeded
		return wire.FileStat{}, fileError(op, err)
	}
	return stat, nil
}

// temporary returns an unused name in dir.
func temporary(dir string) string {
	var suffix [8]byte
	rand.Read(suffix[:]) // never fails
	return filepath.Join(dir, temporaryPrefix+hex.EncodeToString(suffix[:]))
}

// The names of files that are written begin with one of these, so that a watch knows whether the
// write replaces a file.
const (
	freshPrefix   = temporaryPrefix + "n"
	replacePrefix = temporaryPrefix + "r"
)

// temporaryFor returns an unused name beside path, for a file that takes the place of path.
func temporaryFor(path string) string {
	prefix := freshPrefix
	if _, err := os.Lstat(path); err == nil {
		prefix = replacePrefix
	}
	name := strings.TrimPrefix(filepath.Base(temporary("")), temporaryPrefix)
	return filepath.Join(filepath.Dir(path), prefix+name)
}

// rename is os.Rename. It fails with EEXIST if to exists, unless replace is
// true.
func rename(from, to string, replace bool) error {
	if replace {
		return os.Rename(from, to)
	}
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS) {
		// The filesystem does not support RENAME_NOREPLACE.
		if _, err := os.Lstat(to); err == nil {
			return syscall.EEXIST
		}
		return os.Rename(from, to)
	}
	return err
}

// inProc reports whether path is in /proc, which operations on files refuse.
// Their thread has the user's rights, but /proc shows it as the agent, whose
// memory and descriptors /proc/self would expose.
func inProc(path string) bool {
	var st syscall.Statfs_t
	return path == "/proc" || strings.HasPrefix(path, "/proc/") ||
		syscall.Statfs(path, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// makeLink makes a symbolic link, and its parents if parents is true.
func makeLink(path, target string, parents bool) error {
	const op = "agent.file.link"
	if target == "" || len(target) > maxPath || strings.IndexByte(target, 0) >= 0 {
		return fault.Invalid(op, "target", "a link's target has 1 to %d bytes, none of them NUL",
			maxPath)
	}
	if parents {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fileError(op, err)
		}
	}
	return fileError(op, os.Symlink(target, path))
}
