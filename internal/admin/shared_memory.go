package admin

import (
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// sharedMemory reports whether sandboxes share the memory of warm snapshots in dir.
func sharedMemory(on bool, dir string) gvisor.Finding {
	const name = "snapshot memory"
	if !on {
		return finding(name, gvisor.OK, "",
			"each sandbox has a copy, because pool.shared_memory is false")
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return finding(name, Skipped, "", "%s: %v", dir, err)
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return finding(name, gvisor.Warn,
			"mount the file system of data_dir without noexec, or set pool.shared_memory to false",
			"each sandbox has a copy, because %s is mounted noexec", dir)
	}
	return finding(name, gvisor.OK, "", "sandboxes share that of warm snapshots")
}
