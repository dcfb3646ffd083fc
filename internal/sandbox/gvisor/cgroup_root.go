package gvisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// serverGroup is where leaveCgroupRoot puts what it finds.
const serverGroup = "sandgate-server"

// leaveCgroupRoot moves the processes of the cgroup at root, a directory of v2, to one
// below it. In a container root is the container's own, in which its processes
// are: such a one may hand no memory or CPU to cgroups below it. The machine's
// root may, and is left as it is.
func leaveCgroupRoot(root string) error {
	if _, err := os.Stat(filepath.Join(root, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		return nil // the machine's root has no type; nor has v1
	}
	server := filepath.Join(root, serverGroup)
	// What is born meanwhile is where its parent was: once more for each
	// generation.
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
	return nil // runsc says what is not possible then
}
