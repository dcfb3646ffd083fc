// Package resources measures what a node has of the resources that its sessions share: memory,
// processors and disk. Gateways choose nodes by these numbers.
package resources

import (
	"fmt"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/cluster"
)

// Meter measures the resources of a node.
type Meter struct {
	// Memory is the number of bytes that all sandboxes may have, and Used returns the number that they
	// have. A Memory of 0 means that there is no bound.
	Memory int64
	Used   func() int64
	// Dir is a folder on the file system of the sessions.
	Dir string
	// Image is the edition of the node's new sessions, and Earlier returns the earlier ones that it
	// keeps, and those of them that are ending. Earlier may be nil.
	Image   string
	Earlier func() (all, ending []string)
	// Zone is the label of the node's place.
	Zone string
}

// Describe adds the resources of the node to its description. A number that cannot be measured
// stays 0, which means unknown.
func (m Meter) Describe(info *cluster.NodeInfo) {
	info.Zone, info.Image = m.Zone, m.Image
	if m.Earlier != nil {
		info.Earlier, info.Ending = m.Earlier()
	}
	if m.Memory > 0 {
		info.Memory, info.MemoryUsed = m.Memory, m.Used()
	}
	info.Processors = processors("/proc/loadavg", runtime.NumCPU())
	var st unix.Statfs_t
	if err := unix.Statfs(m.Dir, &st); err == nil {
		info.Disk, info.DiskFree = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	}
}

// processors returns the average number of threads that ran or waited to run within the last minute,
// for each of n processors, in hundredths. The kernel writes it to file. All nodes of a machine have
// the same number. It is 0 if the file cannot be read.
func processors(file string, n int) float64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	var minute float64
	if _, err := fmt.Sscan(string(text), &minute); err != nil || minute < 0 ||
		math.IsInf(minute, 0) || math.IsNaN(minute) {
		return 0
	}
	return math.Round(100*minute/float64(max(n, 1))) / 100
}
