package gvisor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestContainersCgroupHandsOut: a cgroup with processes, like that of a container on cgroup v2, can
// delegate controllers after its processes were moved.
func TestContainersCgroupHandsOut(t *testing.T) {
	mount := t.TempDir()
	if err := unix.Mount("none", mount, "cgroup2", 0, ""); err != nil {
		t.Fatalf("mounting cgroup v2, as root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, 0); err != nil {
			t.Error(err)
		}
	})
	if err := leaveCgroupRoot(mount); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(mount, serverGroup)); err == nil {
		t.Fatal("the machine's own root was vacated")
	}
	there, err := os.ReadFile(filepath.Join(mount, "cgroup.controllers"))
	fatal(t, err)
	has := strings.Fields(string(there))
	i := slices.IndexFunc(has, func(c string) bool {
		return c == "memory" || c == "io" ||
			c == "hugetlb"
	})
	if i < 0 {
		t.Fatalf("v2 has no controller here that needs an empty cgroup, but %q: take one from v1",
			there)
	}
	given := func(dir string) bool {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
		fatal(t, err)
		return slices.Contains(strings.Fields(string(b)), has[i])
	}
	give := func(dir, sign string) error {
		return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(sign+has[i]), 0)
	}
	if !given(mount) {
		fatal(t, give(mount, "+"))
		t.Cleanup(func() {
			if err := give(mount, "-"); err != nil {
				t.Error(err)
			}
		})
	}
	own, err := os.MkdirTemp(mount, "sandgate-test-")
	fatal(t, err)
	cmd := exec.Command("sleep", "600")
	fatal(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for _, dir := range []string{filepath.Join(own, serverGroup), own} {
			if err := unix.Rmdir(dir); err != nil {
				t.Errorf("%s: %v", dir, err)
			}
		}
	})
	fatal(t, os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)),
		0))
	if err := give(own, "+"); !errors.Is(err, unix.EBUSY) {
		t.Errorf("with a process in it: %v", err)
	}
	fatal(t, leaveCgroupRoot(own))
	if err := give(own, "+"); err != nil {
		t.Errorf("vacated: %v", err)
	}
	if all := processesIn([]string{filepath.Join(own, serverGroup)}); !slices.Equal(all,
		[]int{cmd.Process.Pid}) {
		t.Errorf("%v are where %d was put", all, cmd.Process.Pid)
	}
}
