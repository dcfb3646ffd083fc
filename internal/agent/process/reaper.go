// Package process starts, collects, lists and kills the processes of a sandbox. Only the agent uses
// it, and nothing else in the agent forks or waits for children.
package process

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Ended describes how a process ended.
type Ended struct {
	Status syscall.WaitStatus
	// MaxRSS is the largest resident size it had, in KiB.
	MaxRSS int64
}

// A Reaper collects every child of the agent: the processes that it started and
// those that it inherited as the first process of the sandbox. Nothing else
// calls wait4.
//
// Processes are started and collected under mu. No child can therefore end
// before its callback is registered, and no signal goes to a number that
// another process has meanwhile.
type Reaper struct {
	mu      sync.Mutex
	waiters map[int]func(Ended)
	reaped  uint64
	orphans uint64

	signals chan os.Signal
}

// NewReaper returns a Reaper. One process has at most one.
func NewReaper() *Reaper {
	r := &Reaper{waiters: map[int]func(Ended){}, signals: make(chan os.Signal, 1)}
	signal.Notify(r.signals, syscall.SIGCHLD)
	return r
}

// Run collects until quit is closed.
func (r *Reaper) Run(quit <-chan struct{}) {
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
func (r *Reaper) reapOne() bool {
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
	onEnd := r.waiters[pid]
	delete(r.waiters, pid)
	r.reaped++
	if onEnd == nil {
		r.orphans++
	}
	r.mu.Unlock()
	if onEnd != nil {
		onEnd(Ended{Status: status, MaxRSS: usage.Maxrss})
	}
	return true
}

// start forks, and registers onEnd. The reaper's goroutine calls onEnd once, when the process has
// ended.
func (r *Reaper) start(fork func() (int, error), onEnd func(Ended)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err == nil {
		r.waiters[pid] = onEnd
	}
	return pid, err
}

// Kill sends a signal to a process, or to its group if group is true, unless
// the process has been collected.
func (r *Reaper) Kill(pid int, group bool, sig syscall.Signal) error {
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

// Counts returns how many children were collected, and how many of them the agent had not started.
func (r *Reaper) Counts() (reaped, orphans uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reaped, r.orphans
}
