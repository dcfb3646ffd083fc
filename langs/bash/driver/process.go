package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol/message"
)

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return s.String()
}

// info describes the kernel.
func info() *message.Info {
	version := ""
	if out, err := exec.Command("/bin/bash", "-c",
		"printf %s \"$BASH_VERSION\"").Output(); err == nil {
		version = string(out)
	}
	return &message.Info{
		Language: "bash", Version: version, Implementation: "GNU bash " + version,
		FileExtension: ".sh", MIMEType: "application/x-sh", Banner: "GNU bash " + version,
		PID: os.Getpid(),
	}
}

// process is a process of the sandbox.
type process struct {
	parent int
	group  int
	began  time.Duration // start time on the machine's clock, see uptime
}

// tick is the unit of a process's start time in /proc.
const tick = 10 * time.Millisecond

// processTable has the processes by their id.
type processTable map[int]process

// processes reads /proc. Processes that end meanwhile are missing.
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

// uptime returns the machine's clock that start times refer to, in ticks.
func uptime() time.Duration {
	text, _ := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(text), " ")
	s, _ := strconv.ParseFloat(seconds, 64)
	return time.Duration(s * float64(time.Second))
}

// lastChild returns the child that the shell started last, which is the one that it waits for; 0
// means none.
func (t processTable) lastChild(shell int) int {
	last := 0
	for pid, p := range t {
		if p.parent == shell &&
			(last == 0 || cmp.Or(cmp.Compare(p.began, t[last].began), cmp.Compare(pid, last)) > 0) {
			last = pid
		}
	}
	return last
}

// below returns all descendants of pid.
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

// startedBy returns the shell's children that began during the cell. Without a terminal Bash gives
// a job the null device as input. Such a child is left out unless all is set.
func (t processTable) startedBy(shell int, c *cell, all bool) []int {
	var found []int
	for pid, p := range t {
		if p.parent != shell || !c.started(pid, p) {
			continue
		}
		in, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", pid))
		if in != os.DevNull || all {
			found = append(found, pid)
		}
	}
	return found
}

// earlier returns the processes of the shell's group that began before the cell, with all their
// descendants: the jobs of earlier cells.
func (t processTable) earlier(shell int, c *cell) map[int]bool {
	found := map[int]bool{}
	for pid, p := range t {
		if pid == shell || p.group != shell || found[pid] || c.started(pid, p) {
			continue
		}
		found[pid] = true
		maps.Copy(found, t.below(pid))
	}
	return found
}

// started reports whether a child of the shell began during the cell. Both times are in ticks, and
// gVisor rounds its clock where Linux rounds down. For a child that began within a tick of the
// cell, the process number decides: it is compared with the last child of the previous cell.
func (c *cell) started(pid int, p process) bool {
	return p.began >= c.sent-2*tick && (pid > c.running || p.began > c.sent+tick)
}
