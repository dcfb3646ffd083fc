package process

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Info has the fields of /proc/<pid>/status that the agent uses.
type Info struct {
	PID, PPID int
	UID       int
	Name      string
	Zombie    bool
	Stopped   bool   // by a signal
	groups    string // with a space before and after each
}

// All reads /proc. It leaves out processes that end meanwhile.
func All() []Info {
	list, _ := scan()
	return list
}

// scan is All. It also returns how many processes ended while /proc was read.
func scan() (list []Info, ended int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, 1
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	list = make([]Info, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + name + "/status")
		if err != nil {
			ended++
			continue
		}
		list = append(list, parse(pid, string(b)))
	}
	return list, ended
}

// parse reads the status of a process.
func parse(pid int, status string) Info {
	p := Info{PID: pid}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Name":
			p.Name = value
		case "State":
			p.Zombie = strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X")
			p.Stopped = strings.HasPrefix(value, "T")
		case "PPid":
			p.PPID, _ = strconv.Atoi(value)
		case "Uid":
			real, _, _ := strings.Cut(value, "\t")
			p.UID, _ = strconv.Atoi(real)
		case "Groups":
			p.groups = " " + value + " "
		}
	}
	return p
}

// maxScans bounds how often own reads /proc again while processes come and go.
const maxScans = 16

// own returns the running processes below the agent that belong, and how many processes ended while
// they were listed. It returns none only when it has seen none in a whole list, or in many lists: a
// tree that forks quickly hides in a list that is not. A list is whole if no process ended while /proc
// was read, and each process has its parent in the list. Otherwise a child of such a process may be
// missing, or its place in the tree. If the processes that belong are marked, those whose parent has
// ended during the reading are below the agent, too: while a fork bomb runs, these are most of them.
func own(
	scan func() ([]Info, int), marked bool, belongs func(Info) bool,
) (found []Info, ended int) {
	for range maxScans {
		list, gone := scan()
		orphaned := missing(list)
		whole := gone == 0 && len(orphaned) == 0
		roots := []int{os.Getpid()}
		if marked {
			roots = append(roots, orphaned...)
		}
		ours := Descendants(list, roots...)
		found = slices.DeleteFunc(list, func(p Info) bool {
			return p.Zombie || !ours[p.PID] || !belongs(p)
		})
		if ended = gone; whole || len(found) > 0 {
			return found, ended
		}
	}
	return nil, ended
}

// missing returns the parents that are not in a list.
func missing(list []Info) (parents []int) {
	known := map[int]bool{0: true} // the parent of the first process
	for _, p := range list {
		known[p.PID] = true
	}
	for _, p := range list {
		if !known[p.PPID] {
			parents = append(parents, p.PPID)
		}
	}
	return parents
}

// Descendants returns the descendants of roots, without the roots.
func Descendants(list []Info, roots ...int) map[int]bool {
	children := map[int][]int{}
	for _, p := range list {
		children[p.PPID] = append(children[p.PPID], p.PID)
	}
	found := map[int]bool{}
	for queue := roots; len(queue) > 0; {
		next := queue[0]
		queue = queue[1:]
		for _, pid := range children[next] {
			if !found[pid] {
				found[pid] = true
				queue = append(queue[:len(queue):len(queue)], pid)
			}
		}
	}
	return found
}

// MarkBase is the first of the groups that mark process trees. No file has such a group, so it grants
// no access.
const MarkBase = 1 << 30

// Members returns the running processes of a tree: the processes with its supplementary group. A
// process inherits its groups regardless of its session, parent and environment, and only root can
// change them, so no process can leave its tree. (The environment would also identify a process, but
// to read it the agent would need the right to trace processes of another user.)
func Members(group uint32) []Info {
	found, _ := members(group)
	return found
}

// members is Members. It also returns how many processes ended while they were listed.
func members(group uint32) (found []Info, ended int) {
	mark := " " + strconv.Itoa(int(group)) + " "
	return own(scan, true, func(p Info) bool { return strings.Contains(p.groups, mark) })
}

// SignalChildren sends sig to the descendants of pid, and not to pid.
func SignalChildren(pid int, sig syscall.Signal) {
	for child := range Descendants(All(), pid) {
		syscall.Kill(child, sig)
	}
}

// killLimit is how long the kill of a process tree may make no progress.
const killLimit = 5 * time.Second

// KillTree ends a process tree with SIGHUP and SIGTERM, and after grace with SIGKILL. With a grace of
// 0 it sends only SIGKILL. It returns false if processes are left after SIGKILL and none ends for
// 5 s. A busy machine needs longer for hundreds of processes, at most 40 s.
func KillTree(group uint32, grace time.Duration) bool {
	list := func() []Info { return Members(group) }
	if grace > 0 {
		for _, p := range list() {
			syscall.Kill(p.PID, syscall.SIGHUP)
			syscall.Kill(p.PID, syscall.SIGTERM)
			syscall.Kill(p.PID, syscall.SIGCONT) // a stopped process would not handle them
		}
		if waitUntilNone(list, grace) {
			return true
		}
	}
	return killUntilGone(list, killLimit)
}

// KillAll ends every process below the agent. It returns false if processes are left and none ends
// for the time of limit.
func KillAll(limit time.Duration) bool {
	return killUntilGone(func() []Info {
		found, _ := own(scan, false, func(Info) bool { return true })
		return found
	}, limit)
}

// killUntilGone kills processes until none is left. It stops processes that
// fork faster than it can kill them: a stopped process does not fork and still
// counts against RLIMIT_NPROC, so the number of new ones is limited.
//
// A child with the agent's own name has not executed its program yet. Until
// then a thread of the agent waits for it in a state in which the garbage
// collector cannot stop that thread. Stopping such a child could stop the
// agent, so it is killed at once.
//
// It gives up when the number of processes has not fallen for the time of limit, or after eight
// times as long.
func killUntilGone(list func() []Info, limit time.Duration) bool {
	begin := time.Now()
	end, last := begin.Add(limit), begin.Add(8*limit)
	fewest := math.MaxInt
	self, name := os.Getpid(), ownName()
	stopped := map[int]bool{}
	for range 32 {
		fresh := 0
		for _, p := range list() {
			if stopped[p.PID] {
				continue
			}
			stopped[p.PID] = true
			fresh++
			if p.PPID == self && p.Name == name {
				syscall.Kill(p.PID, syscall.SIGKILL)
			} else {
				syscall.Kill(p.PID, syscall.SIGSTOP)
			}
		}
		if fresh == 0 {
			break
		}
	}
	for time.Now().Before(end) {
		left := list()
		if len(left) == 0 {
			return true
		}
		if now := time.Now(); len(left) < fewest && now.Before(last) {
			fewest, end = len(left), now.Add(limit)
		}
		for _, p := range left {
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
		if waitUntilNone(list, 50*time.Millisecond) {
			return true
		}
	}
	return false
}

// ownName returns the name that /proc has for the agent, and for its children
// until they execute their programs.
func ownName() string {
	b, _ := os.ReadFile("/proc/self/comm")
	return strings.TrimSpace(string(b))
}

// waitUntilNone waits until list is empty, and checks every 2 to 20 ms: there
// is no event for the end of a process that is not a child.
func waitUntilNone(list func() []Info, limit time.Duration) bool {
	end := time.Now().Add(limit)
	pause := 2 * time.Millisecond
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		if len(list()) == 0 {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		t.Reset(pause)
		<-t.C
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// OOMKills returns the kernel's count of out-of-memory kills. It returns 0
// where there is none, as in gVisor, and where the count includes other
// sandboxes.
func OOMKills() uint64 {
	if os.Getpid() != 1 {
		return 0
	}
	return procNumber("/proc/vmstat", "oom_kill ")
}

// OutOfMemory reports whether a SIGKILL that the agent did not send came most
// likely from the kernel: its count has increased, or the process held four
// fifths of all memory.
func OutOfMemory(e Ended, before uint64) bool {
	if OOMKills() > before {
		return true
	}
	total := procNumber("/proc/meminfo", "MemTotal:")
	return total > 0 && uint64(e.MaxRSS) > total/5*4
}

// procNumber returns the number after name at the beginning of a line.
func procNumber(path, name string) uint64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				n, _ := strconv.ParseUint(f[0], 10, 64)
				return n
			}
		}
	}
	return 0
}
