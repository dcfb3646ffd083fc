package admin

import (
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// sharedMemory reports whether sandboxes share the memory of warm snapshots in dir, whose file system
// statfs describes.
func sharedMemory(
	on bool, dir string, statfs func(string, *unix.Statfs_t) error,
) gvisor.Finding {
	const name = "snapshot memory"
	if !on {
		return finding(name, gvisor.OK, "",
			"each sandbox has a copy, because pool.shared_memory is false")
	}
	var st unix.Statfs_t
	if err := statfs(dir, &st); err != nil {
		return finding(name, Skipped, "", "%s: %v", dir, err)
	}
	if st.Flags&unix.ST_NOEXEC != 0 {
		return finding(name, gvisor.Warn,
			"mount the file system of data_dir without noexec, or set pool.shared_memory to false",
			"each sandbox has a copy, because %s is mounted noexec", dir)
	}
	return finding(name, gvisor.OK, "", "sandboxes share that of warm snapshots")
}
