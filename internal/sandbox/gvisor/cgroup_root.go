package gvisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// serverGroup is the cgroup that leaveCgroupRoot moves processes to.
const serverGroup = "sandgate-server"

// leaveCgroupRoot moves the processes of the cgroup v2 at root to a cgroup below it. In a
// container, root is the container's own cgroup. A cgroup with processes cannot delegate memory and
// CPU to the cgroups below it. The machine's root cgroup can, and stays unchanged.
func leaveCgroupRoot(root string) error {
	if _, err := os.Stat(filepath.Join(root, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		return nil // the machine's root has no type, and v1 has none either
	}
	server := filepath.Join(root, serverGroup)
	// A process that starts meanwhile is in its parent's cgroup, so repeat for each generation.
	for range 10 {
		all := processesIn([]string{root})
		if len(all) == 0 {
			return nil
		}
		if err := os.Mkdir(server, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		for _, pid := range all {
			err := os.WriteFile(filepath.Join(server, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil // runsc reports the failure
}
