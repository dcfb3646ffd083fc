// Package pty opens terminals in a sandbox, tracks the modes that a program has set, restores them
// in another terminal, and filters the input and output of terminals.
//
// It does not render a screen. It reads output as a terminal's parser does and remembers modes,
// colours and names, a few hundred bytes in all.
package pty

import (
	"errors"
	"os"
	"strconv"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Size is the size of a terminal in character cells.
type Size struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// The limits of a size, and the default size.
const (
	MaxCols = 1000
	MaxRows = 1000

	DefaultCols = 80
	DefaultRows = 24
)

// Check returns an error that names the field that is out of range.
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
// never blocks. The caller must close both descriptors.
func Open(s Size, uid, gid int) (master, program int, err error) {
	m, p, err := pty.Open()
	if err != nil {
		return -1, -1, err
	}
	defer func() { err = errors.Join(err, m.Close(), p.Close()) }()
	// These are copies, because the runtime's poller would control the descriptors of an os.File.
	if master, err = duplicate(m); err != nil {
		return -1, -1, err
	}
	if program, err = duplicate(p); err != nil {
		_ = syscall.Close(master)
		return -1, -1, err
	}
	if err = errors.Join(syscall.SetNonblock(master, true), syscall.SetNonblock(program, false),
		Resize(master, s)); err == nil {
		err = own(program, uid, gid)
	}
	if err != nil {
		_, _ = syscall.Close(master), syscall.Close(program)
		return -1, -1, err
	}
	return master, program, nil
}

// own makes the user the owner of the program's end, so that programs that open
// their terminal by name, such as tmux, may do so.
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

// Resize sets the size of a terminal by a descriptor of either end. The
// foreground program gets SIGWINCH if the size has changed.
func Resize(fd int, s Size) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ,
		&unix.Winsize{Row: uint16(s.Rows), Col: uint16(s.Cols)})
}

// SizeOf returns the size of a terminal by a descriptor of either end.
func SizeOf(fd int) (Size, error) {
	w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil {
		return Size{}, err
	}
	return Size{Rows: int(w.Row), Cols: int(w.Col)}, nil
}

// SignalKey returns the byte for which the terminal sends sig, which is SIGINT,
// SIGQUIT or SIGTSTP. It returns false while the program reads raw keys.
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

// LastSignalKey returns the position of the last byte of b for which the
// terminal sends a signal, or -1.
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
	return [3]signalKey{
		{syscall.SIGINT, unix.VINTR},
		{syscall.SIGQUIT, unix.VQUIT},
		{syscall.SIGTSTP, unix.VSUSP},
	}
}

// FlushInput drops input that the program has not read. program is the descriptor of the program's
// end.
func FlushInput(program int) {
	_ = unix.IoctlSetInt(program, unix.TCFLSH, unix.TCIFLUSH)
}

// number parses a parameter. It returns -1 for anything else.
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
