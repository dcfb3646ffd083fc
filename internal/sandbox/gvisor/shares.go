package gvisor

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox/shares"
)

// CPUTime returns the processor time that the processes of the cgroup have used.
func (g *group) CPUTime() time.Duration {
	if g.v2 {
		t := readTable(filepath.Join(g.MakePath(""), "cpu.stat"))
		return time.Duration(t["usage_usec"]) * time.Microsecond
	}
	return time.Duration(readInt(filepath.Join(g.MakePath("cpuacct"), "cpuacct.usage")))
}

// SetWeight sets the weight of the cgroup. Version 1 counts in other units: there the weight of a
// cgroup without one is 1024 instead of 100.
func (g *group) SetWeight(weight int64) error {
	if g.v2 {
		return writeInt(filepath.Join(g.MakePath(""), "cpu.weight"), weight)
	}
	return writeInt(filepath.Join(g.MakePath("cpu"), "cpu.shares"), max(2, weight*1024/100))
}

// SetIdlePolicy sets whether the cgroup has the idle policy. The kernel replaces the weight with the
// least one, or with that of a new cgroup.
func (g *group) SetIdlePolicy(on bool) error {
	n := int64(0)
	if on {
		n = 1
	}
	return writeInt(g.idlePolicy(), n)
}

// idlePolicy is the file of the idle policy, which Linux has from version 5.15 on.
func (g *group) idlePolicy() string {
	if g.v2 {
		return filepath.Join(g.MakePath(""), "cpu.idle")
	}
	return filepath.Join(g.MakePath("cpu"), "cpu.idle")
}

// newShares returns the shares of this machine's processors.
func (r *Runtime) newShares() *shares.Shares {
	if !exists(r.parent.idlePolicy()) {
		return shares.New(runtime.NumCPU(), nil)
	}
	return shares.New(runtime.NumCPU(), r.parent.CPUTime)
}

// balance gives the cgroup at path, which has all sandboxes, the weight of the node's and the
// gateway's processes when these keep all processors busy. Version 2 does so by itself. In version 1
// each of their threads would have the weight of all sandboxes together.
func balance(path string) error {
	g, err := newGroup(path)
	if err != nil || g.v2 {
		return err
	}
	return writeInt(filepath.Join(g.MakePath("cpu"), "cpu.shares"), int64(1024*runtime.NumCPU()))
}

func writeInt(name string, n int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(strconv.FormatInt(n, 10))
	return err
}
