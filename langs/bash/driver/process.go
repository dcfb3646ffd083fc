package main

import (
	"cmp"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/kernel"
)

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return s.String()
}

// info describes the kernel.
func info() *kernel.Info {
	version := ""
	if out, err := exec.Command("/bin/bash", "-c", "printf %s \"$BASH_VERSION\"").Output(); err == nil {
		version = string(out)
	}
	return &kernel.Info{
		Language: "bash", Version: version, Implementation: "GNU bash " + version,
		FileExtension: ".sh", MIMEType: "application/x-sh", Banner: "GNU bash " + version, PID: os.Getpid(),
	}
}

// process is one of the sandbox's.
type process struct {
	parent int
	group  int
	began  time.Duration // on the machine's clock, see uptime
}

// tick is the unit in which the kernel tells when a process began.
const tick = 10 * time.Millisecond

// processTable is the processes by their id.
type processTable map[int]process

// processes reads /proc. What ends meanwhile is missing.
func processes() processTable {
	all := processTable{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 19 {
			parent, _ := strconv.Atoi(f[1])
			group, _ := strconv.Atoi(f[2])
			began, _ := strconv.Atoi(f[19])
			all[pid] = process{parent, group, time.Duration(began) * tick}
		}
	}
	return all
}

// uptime is the machine's clock by which processes begin, in ticks.
func uptime() time.Duration {
	text, _ := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(text), " ")
	s, _ := strconv.ParseFloat(seconds, 64)
	return time.Duration(s * float64(time.Second))
}

// lastChild is the child that the shell started last, which is the one that it
// waits for; 0 if it has none.
func (t processTable) lastChild(shell int) int {
	last := 0
	for pid, p := range t {
		if p.parent == shell && (last == 0 || cmp.Or(cmp.Compare(p.began, t[last].began), cmp.Compare(pid, last)) > 0) {
			last = pid
		}
	}
	return last
}

// below has all descendants of pid.
func (t processTable) below(pid int) map[int]bool {
	found := map[int]bool{}
	for more := true; more; {
		more = false
		for child, p := range t {
			if !found[child] && (p.parent == pid || found[p.parent]) {
				found[child], more = true, true
			}
		}
	}
	return found
}

// signalTree signals what the shell runs in the foreground: the child that it
// waits for, and all below that.
func signalTree(shell int, sig syscall.Signal) {
	all := processes()
	last := all.lastChild(shell)
	if last == 0 {
		return
	}
	_ = syscall.Kill(last, sig)
	for pid := range all.below(last) {
		_ = syscall.Kill(pid, sig)
	}
}
