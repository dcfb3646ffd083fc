package process

import (
	"os"
	"runtime"
	"syscall"
)

// Pipe makes a pipe that belongs to a user. Programs of that user can open it by name, such as
// /dev/stdout. No child of the agent inherits it.
func Pipe(uid int) (p [2]int, err error) {
	own := os.Geteuid()
	if uid == own {
		return p, syscall.Pipe2(p[:], syscall.O_CLOEXEC)
	}
	// Go's own functions change the user of all threads. A file system's user, as of setfsuid, does
	// not own pipes in gVisor.
	runtime.LockOSThread()
	if err := becomes(uid); err != nil {
		runtime.UnlockOSThread()
		return p, err
	}
	err = syscall.Pipe2(p[:], syscall.O_CLOEXEC)
	if failed := becomes(own); failed != nil {
		if err == nil {
			_, _ = syscall.Close(p[0]), syscall.Close(p[1])
		}
		return p, failed // the thread stays locked, and ends with its goroutine
	}
	runtime.UnlockOSThread()
	return p, err
}

// becomes sets the effective user of this thread.
func becomes(uid int) error {
	const keep = ^uintptr(0)
	_, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uintptr(uid), keep)
	if e != 0 {
		return e
	}
	return nil
}
