// Package pty is what Sandgate knows of terminals: how one is opened in a
// sandbox, which modes the program in it has set, how a terminal that comes
// later is brought into them, and what of its input is no person's.
//
// It draws no screen. It reads a stream of output as a terminal's parser does
// and remembers switches, colours and names, a few hundred bytes in all.
package pty

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/fault"
)

// Size is a terminal's, in character cells.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// Limits of a size, and the size of a terminal that nobody has given one.
const (
	MaxCols = 1000
	MaxRows = 1000

	DefaultCols = 80
	DefaultRows = 24
)

// Check returns an error that names the field which is out of range.
func (s Size) Check(op string) error {
	if s.Cols < 1 || s.Cols > MaxCols {
		return fault.Invalid(op, "cols", "a terminal has between 1 and %d columns", MaxCols)
	}
	if s.Rows < 1 || s.Rows > MaxRows {
		return fault.Invalid(op, "rows", "a terminal has between 1 and %d rows", MaxRows)
	}
	return nil
}

// Open opens a terminal whose program's end belongs to uid and gid. master
// never blocks. Both descriptors are the caller's to close.
func Open(s Size, uid, gid int) (master, program int, err error) {
	m, p, err := pty.Open()
	if err != nil {
		return -1, -1, err
	}
	defer func() { err = errors.Join(err, m.Close(), p.Close()) }()
	// Copies, since an os.File would put the descriptors under the care of
	// the runtime's poller.
	if master, err = duplicate(m); err != nil {
		return -1, -1, err
	}
	if program, err = duplicate(p); err != nil {
		_ = syscall.Close(master)
		return -1, -1, err
	}
	if err = errors.Join(syscall.SetNonblock(master, true), syscall.SetNonblock(program, false), Resize(master, s)); err == nil {
		err = own(program, uid, gid)
	}
	if err != nil {
		_, _ = syscall.Close(master), syscall.Close(program)
		return -1, -1, err
	}
	return master, program, nil
}

// own makes the program's end a file of the user's, so that what looks its
// terminal up by name, as tmux does, may open it.
func own(fd, uid, gid int) error {
	if err := syscall.Fchown(fd, uid, gid); err != nil {
		return err
	}
	return syscall.Fchmod(fd, 0o620)
}

func duplicate(f *os.File) (int, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	dup := -1
	cerr := conn.Control(func(fd uintptr) { dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
	return dup, errors.Join(cerr, err)
}

// Resize sets the size of the terminal behind either of its ends. The program
// in front is told by SIGWINCH if the size is another one.
func Resize(fd int, s Size) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(s.Rows), Col: uint16(s.Cols)})
}

// SignalKey returns the byte that the terminal behind master turns into the signal,
// which is SIGINT, SIGQUIT or SIGTSTP. It is false while the program takes its
// keys as they are.
func SignalKey(master int, sig syscall.Signal) (byte, bool) {
	t, err := unix.IoctlGetTermios(master, unix.TCGETS)
	if err != nil || t.Lflag&unix.ISIG == 0 {
		return 0, false
	}
	for _, k := range signalKeys() {
		if k.signal == sig && t.Cc[k.cc] != 0 {
			return t.Cc[k.cc], true
		}
	}
	return 0, false
}

// LastSignalKey returns the position of the last byte of b that the terminal behind
// master turns into a signal, and -1 when there is none.
func LastSignalKey(master int, b []byte) int {
	t, err := unix.IoctlGetTermios(master, unix.TCGETS)
	if err != nil || t.Lflag&unix.ISIG == 0 || t.Lflag&unix.NOFLSH != 0 {
		return -1
	}
	for i := len(b) - 1; i >= 0; i-- {
		for _, k := range signalKeys() {
			if b[i] == t.Cc[k.cc] && b[i] != 0 {
				return i
			}
		}
	}
	return -1
}

type signalKey struct {
	signal syscall.Signal
	cc     int
}

func signalKeys() [3]signalKey {
	return [3]signalKey{{syscall.SIGINT, unix.VINTR}, {syscall.SIGQUIT, unix.VQUIT}, {syscall.SIGTSTP, unix.VSUSP}}
}

// FlushInput throws away what was typed and has not been read. It takes the
// program's end.
func FlushInput(program int) {
	_ = unix.IoctlSetInt(program, unix.TCFLSH, unix.TCIFLUSH)
}

// number parses a parameter; -1 means that it is none.
func number(s string) int {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return -1
	}
	return int(n)
}
