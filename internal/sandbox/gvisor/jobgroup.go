package gvisor

import (
	"os"
	"path/filepath"
	"strconv"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// JobGroup is the cgroup of a process of the node that works on data of users. It is below the
// cgroup of the sandboxes, so that an earlier process's groups are removed like sandboxes.
type JobGroup struct{ group group }

// NewJobGroup creates a cgroup with limits of memory, CPUs, and processes with threads.
func (r *Runtime) NewJobGroup(memory int64, cpus float64, pids int64) (*JobGroup, error) {
	g, err := newGroup(filepath.Join(r.parent.path, "job-"+string(newID())))
	if err != nil {
		return nil, err
	}
	resources := &specs.LinuxResources{
		Memory: &specs.LinuxMemory{Limit: &memory},
		CPU:    cpuResources(cpus),
		Pids:   &specs.LinuxPids{Limit: pids},
	}
	if r.swap {
		resources.Memory.Swap = &memory
	}
	if g.v2 {
		resources.Unified = map[string]string{"memory.oom.group": "1"}
	}
	if err := g.Install(resources); err != nil {
		_ = removeTree(g.path, g.v2, killLimit)
		return nil, err
	}
	return &JobGroup{g}, nil
}

// Confine moves a process with its threads into the cgroup.
func (j *JobGroup) Confine(pid int) error {
	for _, dir := range dirs(j.group.path, j.group.v2) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)),
			0); err != nil {
			return err
		}
	}
	return nil
}

// OutOfMemory reports whether the kernel killed a process of the cgroup for lack of memory.
func (j *JobGroup) OutOfMemory() bool { return j.group.read().killed > 0 }

// Remove kills the processes that are left in the cgroup, and removes it.
func (j *JobGroup) Remove() error { return removeTree(j.group.path, j.group.v2, killLimit) }
