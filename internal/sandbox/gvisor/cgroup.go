package gvisor

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/runsc/cgroup"
)

const cgroupRoot = "/sys/fs/cgroup"

// group is one sandbox's cgroup. The code of runsc creates, changes and removes it, because that
// code knows both cgroup versions. This type adds counters and the list of processes, which runsc
// does not offer.
type group struct {
	cgroup.Cgroup
	path string
	v2   bool
}

// newGroup returns the cgroup at an absolute path. It does not create it.
func newGroup(path string) (group, error) {
	cg, err := cgroup.NewFromPath(path, false)
	if err != nil {
		return group{}, err
	}
	return group{Cgroup: cg, path: path, v2: cgroup.IsOnlyV2()}, nil
}

// dirs returns the directories of the cgroup at path: one for each hierarchy on v1, a single one on
// v2.
func dirs(path string, v2 bool) []string {
	if v2 {
		return existing(filepath.Join(cgroupRoot, path))
	}
	all, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", path)) // the pattern is well formed
	return existing(all...)
}

func existing(paths ...string) []string {
	seen := map[string]bool{}
	var out []string
	for _, p := range paths {
		// Controllers that share a hierarchy are links to one directory.
		real, err := filepath.EvalSymlinks(p)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		out = append(out, real)
	}
	return out
}

// processesIn returns the ids of the processes in cgroup directories.
func processesIn(dirs []string) []int {
	seen := map[int]bool{}
	var pids []int
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 && !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// removeTree kills the processes in the cgroup at path and below it, and removes the directories.
// Unlike runsc's Uninstall it works for a cgroup that an earlier process created.
func removeTree(path string, v2 bool, limit time.Duration) error {
	var errs []error
	for _, dir := range dirs(path, v2) {
		var below []string
		_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				below = append(below, p)
			}
			return nil // ignore directories that disappear meanwhile
		})
		for i := len(below) - 1; i >= 0; i-- {
			if err := killAll([]string{below[i]}, limit); err != nil {
				errs = append(errs, err)
			}
			if err := unix.Rmdir(below[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, &fs.PathError{Op: "rmdir", Path: below[i], Err: err})
			}
		}
	}
	return errors.Join(errs...)
}

// outOfMemory returns a file that becomes readable when the cgroup runs out of memory. It returns
// nil on v2, which needs no such file: there the kernel kills all processes of a cgroup or none
// (see Limits.resources).
//
// On v1 the kernel kills one process, the largest. That may be one of systrap's stubs, which map
// the guest's memory too. The sentry would then wait for the stub forever.
func (g group) outOfMemory() (*os.File, error) {
	if g.v2 {
		return nil, nil
	}
	dir := g.MakePath("memory")
	control, err := os.Open(filepath.Join(dir, "memory.oom_control"))
	if err != nil {
		return nil, err
	}
	defer control.Close()
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	order := fmt.Sprintf("%d %d", event, control.Fd())
	if err := os.WriteFile(filepath.Join(dir, "cgroup.event_control"), []byte(order),
		0); err != nil {
		unix.Close(event)
		return nil, err
	}
	return os.NewFile(uintptr(event), "oom:"+g.path), nil
}

// counters are a cgroup's readings.
type counters struct {
	memory, peak int64
	// reached is positive when the cgroup reached its own memory limit. killed is the number of
	// processes that an out-of-memory killer ended.
	reached, killed int64
	cpu             time.Duration
	pids            int64
	// pidsReached counts the forks that the limit on tasks refused.
	pidsReached int64
}

// read reads the counters. A counter that the kernel does not offer is 0.
func (g group) read() counters {
	if g.v2 {
		return readV2(g.MakePath(""))
	}
	return readV1(g.MakePath)
}

// held returns the memory of the cgroup and its descendants without file pages: the private memory
// of processes, and shared memory, which holds the memory of gVisor's guests.
func (g group) held() int64 {
	if g.v2 {
		t := readTable(filepath.Join(g.MakePath(""), "memory.stat"))
		return t["anon"] + t["shmem"]
	}
	t := readTable(filepath.Join(g.MakePath("memory"), "memory.stat"))
	return t["total_rss"] + t["total_shmem"]
}

func readV1(dir func(controller string) string) counters {
	oom := readTable(filepath.Join(dir("memory"), "memory.oom_control"))
	pids := readTable(filepath.Join(dir("pids"), "pids.events"))
	c := counters{
		memory:      readInt(filepath.Join(dir("memory"), "memory.usage_in_bytes")),
		peak:        readInt(filepath.Join(dir("memory"), "memory.max_usage_in_bytes")),
		killed:      oom["oom_kill"],
		cpu:         time.Duration(readInt(filepath.Join(dir("cpuacct"), "cpuacct.usage"))),
		pids:        readInt(filepath.Join(dir("pids"), "pids.current")),
		pidsReached: pids["max"],
	}
	// memory.failcnt stays 0 on recent kernels (seen on 6.18). The maximum usage is correct, but
	// may lag by a batch of 64 pages per CPU.
	limit := readInt(filepath.Join(dir("memory"), "memory.limit_in_bytes"))
	if limit > 0 && c.peak >= limit-limit/64 {
		c.reached = 1
	}
	return c
}

func readV2(dir string) counters {
	events := readTable(filepath.Join(dir, "memory.events"))
	cpu := readTable(filepath.Join(dir, "cpu.stat"))
	pids := readTable(filepath.Join(dir, "pids.events"))
	return counters{
		memory: readInt(filepath.Join(dir, "memory.current")),
		peak:   readInt(filepath.Join(dir, "memory.peak")),
		// "max" counts reclaim at the limit, "oom" failure to reclaim.
		reached:     events["oom"],
		killed:      events["oom_kill"],
		cpu:         time.Duration(cpu["usage_usec"]) * time.Microsecond,
		pids:        readInt(filepath.Join(dir, "pids.current")),
		pidsReached: pids["max"],
	}
}

func readInt(name string) int64 {
	data, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// readTable reads a file of lines "name number".
func readTable(name string) map[string]int64 {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	t := map[string]int64{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), " "); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
				t[k] = n
			}
		}
	}
	return t
}
