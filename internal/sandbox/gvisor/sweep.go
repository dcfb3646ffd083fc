package gvisor

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sweep removes everything that an earlier owner of the state directory left. The caller holds the
// directory's lock, so that owner has ended. It returns the number of sandboxes found.
func (r *Runtime) sweep() (int, error) {
	ids := map[ID]bool{}
	entries, err := os.ReadDir(r.cfg.StateDir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if id := ID(e.Name()); id.valid() {
			ids[id] = true
		}
	}
	for _, dir := range dirs(r.parent.path, r.parent.v2) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		for _, e := range entries {
			if id := ID(e.Name()); e.IsDir() && id.valid() {
				ids[id] = true
			}
		}
	}
	var errs []error
	// Sentries outside their cgroup: somebody else may have removed the machine's cgroups.
	for _, pid := range sentriesOf(r.root()) {
		killAndAwait(pid, killLimit)
	}
	for id := range ids {
		errs = append(errs, r.removeSandbox(id))
	}
	errs = append(errs, removeTree(r.parent.path, r.parent.v2, killLimit))
	errs = append(errs, unmountBelow(r.cfg.StateDir))
	errs = append(errs, os.RemoveAll(r.root()), os.MkdirAll(r.root(), 0o711))
	return len(ids), errors.Join(errs...)
}

// removeSandbox removes all resources of a sandbox on the host, whatever state it is in. No other
// goroutine of this process may wait for its processes.
func (r *Runtime) removeSandbox(id ID) error {
	var errs []error
	path := filepath.Join(r.parent.path, string(id))
	errs = append(errs, removeTree(path, r.parent.v2, killLimit))
	errs = append(errs, unmountBelow(r.bundle(id)))
	// gVisor's state, lock and control socket. All ids have the same length, so no name of another
	// sandbox matches.
	for _, pattern := range []string{string(id) + "_sandbox:*", "runsc-" + string(id) + ".sock"} {
		names, _ := filepath.Glob(filepath.Join(r.root(), pattern)) // the pattern is well formed
		for _, name := range names {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	errs = append(errs, os.RemoveAll(r.bundle(id)))
	return errors.Join(errs...)
}

// sentriesOf returns the processes that gVisor started with the given root
// directory.
func sentriesOf(root string) []int {
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		args := strings.Split(string(data), "\x00")
		if !strings.HasPrefix(args[0], "runsc-") && filepath.Base(args[0]) != "runsc" {
			continue
		}
		for _, a := range args {
			if a == "--root="+root || a == "-root="+root {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// unmountBelow detaches the mounts at and below dir, the innermost first. gVisor leaves its own
// mount of an empty network namespace.
func unmountBelow(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	var points []string
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescapeMount(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(points)))
	var errs []error
	for _, p := range points {
		if err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, &fs.PathError{Op: "unmount", Path: p, Err: err})
		}
	}
	return errors.Join(errs...)
}

// unescapeMount undoes the octal escapes of /proc/self/mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
