package process

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of start times in /proc. startMargin is how far they may be from the clock: gVisor
// rounds both.
const (
	tick        = 10 * time.Millisecond
	startMargin = 3 * tick
)

// Few reports whether no tree can have more than n processes. It is cheap, and counts more than the
// processes of the user, such as threads.
func Few(n int) bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) == nil && int(info.Procs) <= n
}

// KillYounger ends the processes of a tree that are younger than a cell, if they are more than n.
// sent are the times at which the last cells began. lead is the first process of the tree and the
// leader of its process group. It is never ended. KillYounger returns how many processes there were,
// and 0 if it has left them alone.
//
// It first stops the process group. Hundreds of busy processes would leave the agent so little time
// that each process which it sees has ended before it is killed, and its children run. Processes that
// end while they are counted count too, for the same reason.
func KillYounger(group uint32, sent []time.Time, lead, n int) int {
	left, gone := members(group)
	if len(left)+gone <= n {
		return 0
	}
	defer freeze(group, lead, left)()
	left = Members(group)
	if len(left) <= n {
		return 0
	}
	ended := 0
	for _, t := range sent {
		k := killSince(group, time.Since(t), left, lead, n)
		if k > 0 {
			left = Members(group)
		}
		ended += k
	}
	return ended
}

// maxStops bounds how often freeze stops a process group until none of its processes runs.
const maxStops = 8

// freeze stops the process group of lead, and returns the function that lets it continue. Processes
// of the tree that were stopped in the list before stay stopped. Processes that fork at the moment of
// the signal are stopped by the next one.
func freeze(group uint32, lead int, before []Info) (thaw func()) {
	if lead <= 1 {
		return func() {}
	}
	stopped := map[int]bool{}
	for _, p := range before {
		stopped[p.PID] = p.Stopped
	}
	running := func(p Info) bool { return !p.Stopped }
	for range maxStops {
		if syscall.Kill(-lead, syscall.SIGSTOP) != nil ||
			!slices.ContainsFunc(Members(group), running) {
			break
		}
	}
	return func() {
		for _, p := range Members(group) {
			if !stopped[p.PID] {
				syscall.Kill(p.PID, syscall.SIGCONT)
			}
		}
	}
}

// killSince ends the processes of a tree that began within the last age, if they are more than n. It
// checks the ages of the processes of left; later ones are younger.
func killSince(group uint32, age time.Duration, left []Info, lead, n int) int {
	since := uptime() - age - startMargin
	old := map[int]bool{lead: true}
	for _, p := range left {
		if p.PID != lead {
			old[p.PID] = started(p.PID) < since
		}
	}
	list := func() []Info {
		return slices.DeleteFunc(Members(group), func(p Info) bool { return old[p.PID] })
	}
	left = list()
	if len(left) <= n {
		return 0
	}
	killAtOnce(list, killLimit)
	return len(left)
}

// killAtOnce kills processes until none is left or the time of limit is over. Processes that have left
// the process group of their tree still run. It pauses only while it sees no new ones, because those
// that it has not seen double meanwhile.
func killAtOnce(list func() []Info, limit time.Duration) {
	seen := map[int]bool{}
	for end := time.Now().Add(limit); time.Now().Before(end); {
		left := list()
		if len(left) == 0 {
			return
		}
		fresh := false
		for _, p := range left {
			fresh = fresh || !seen[p.PID]
			seen[p.PID] = true
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
		if !fresh {
			time.Sleep(time.Millisecond)
		}
	}
}

// started returns when a process began, on the clock of uptime. A process that has ended counts as
// old.
func started(pid int) time.Duration {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name may have spaces and brackets.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return 0
	}
	n, _ := strconv.ParseInt(f[19], 10, 64)
	return time.Duration(n) * tick
}

// uptime returns the machine's clock, to which start times refer.
func uptime() time.Duration {
	b, _ := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(b), " ")
	s, _ := strconv.ParseFloat(seconds, 64)
	return time.Duration(s * float64(time.Second))
}
