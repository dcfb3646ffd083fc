package main

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenPrivately opens a socket at a path that nobody but its owner may
// connect to, from its first moment on. Linux gives the file the mode that the
// socket has when it is bound. The process's mask stays as it is: whatever is
// started meanwhile would inherit it.
func listenPrivately(path string) (*net.UnixListener, error) {
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if failed := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); failed != nil {
			return failed
		}
		return err
	}}
	l, err := private.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}
