package agent

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// ended describes how a process ended.
type ended struct {
	status syscall.WaitStatus
	// maxRSS is the largest resident size it had, in KiB.
	maxRSS int64
}

// reaper collects every child of the agent: the processes that it started and
// those that it inherited as the first process of the sandbox. Nothing else
// calls wait4.
//
// Processes are started and collected under mu. No child can therefore end
// before its callback is registered, and no signal goes to a number that
// another process has meanwhile.
type reaper struct {
	mu      sync.Mutex
	waiters map[int]func(ended)
	reaped  uint64
	orphans uint64

	signals chan os.Signal
}

func newReaper() *reaper {
	r := &reaper{waiters: map[int]func(ended){}, signals: make(chan os.Signal, 1)}
	signal.Notify(r.signals, syscall.SIGCHLD)
	return r
}

// run collects until quit is closed.
func (r *reaper) run(quit <-chan struct{}) {
	defer signal.Stop(r.signals)
	for {
		for r.reapOne() {
		}
		select {
		case <-r.signals:
		case <-quit:
			return
		}
	}
}

// reapOne collects one child, if one has ended.
func (r *reaper) reapOne() bool {
	r.mu.Lock()
	var status syscall.WaitStatus
	var usage syscall.Rusage
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, &usage)
	if err == syscall.EINTR {
		r.mu.Unlock()
		return true
	}
	if err != nil || pid <= 0 {
		r.mu.Unlock()
		return false
	}
	tell := r.waiters[pid]
	delete(r.waiters, pid)
	r.reaped++
	if tell == nil {
		r.orphans++
	}
	r.mu.Unlock()
	if tell != nil {
		tell(ended{status: status, maxRSS: usage.Maxrss})
	}
	return true
}

// start forks, and registers `tell`. The reaper's goroutine calls `tell` once, when the process has
// ended.
func (r *reaper) start(fork func() (int, error), tell func(ended)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err == nil {
		r.waiters[pid] = tell
	}
	return pid, err
}

// kill sends a signal to a process, or to its group if group is true, unless
// the process has been collected.
func (r *reaper) kill(pid int, group bool, sig syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiters[pid] == nil {
		return syscall.ESRCH
	}
	if group {
		// The leader may have left its group. Then the signal goes to the leader.
		if err := syscall.Kill(-pid, sig); err == nil {
			return nil
		}
	}
	return syscall.Kill(pid, sig)
}

func (r *reaper) counts() (reaped, orphans uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reaped, r.orphans
}
