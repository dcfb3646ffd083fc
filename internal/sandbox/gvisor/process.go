package gvisor

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// process is a host process, held by a pidfd so that another process with a reused process id is
// not mistaken for it.
type process struct {
	pid  int
	file *os.File // the pidfd, in the poller of the Go runtime
}

func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("pidfd_open %d: %w", pid, err)
	}
	return &process{pid: pid, file: os.NewFile(uintptr(fd), fmt.Sprintf("pidfd:%d", pid))}, nil
}

// wait waits for the process to end, reaps it and returns its status. It needs a goroutine but no
// thread, because a pidfd becomes readable at the end.
//
// The process has to be a child of this one. A sentry is one: it became an orphan when `runsc
// create` ended, and a Runtime makes this process adopt its orphans.
func (p *process) wait() (unix.WaitStatus, error) {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var status unix.WaitStatus
	var waitErr error
	err = conn.Read(func(uintptr) (done bool) {
		for {
			pid, err := unix.Wait4(p.pid, &status, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			waitErr = err
			return err != nil || pid == p.pid
		}
	})
	return status, errors.Join(err, waitErr)
}

// kill sends SIGKILL. It does nothing for a process that has ended.
func (p *process) kill() {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
}

func (p *process) close() { _ = p.file.Close() }

// killAll kills the processes of cgroup directories until there are none, and
// reaps those that are children of this process. It must not be used where a
// process.wait or an exec.Cmd waits for one of them.
func killAll(dirs []string, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; {
		pids := processesIn(dirs)
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v in %v do not end", pids, dirs)
		}
		for _, pid := range pids {
			killAndAwait(pid, time.Until(deadline))
		}
	}
}

// killAndAwait kills one process and waits until it has ended.
func killAndAwait(pid int, limit time.Duration) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(limit); ; {
		_, err := unix.Poll(poll, max(1, int(time.Until(deadline).Milliseconds())))
		if !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			break
		}
	}
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // ECHILD when it is not a child of this process
}
