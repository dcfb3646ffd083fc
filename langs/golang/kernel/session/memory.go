package session

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/langs/golang/kernel/host"
)

// memoryInterval is how often the heap is checked while a cell runs.
const memoryInterval = 20 * time.Millisecond

// memory prevents cells from using all of the sandbox's memory: that would end all kernels in it.
type memory struct {
	limit uint64 // bytes of heap; 0 means no limit
}

// reserved is kept free for the compiler, the linker and everything else, in bytes.
const reserved = 256 << 20

// measure sets the limit from the system's present memory: all but the reserved part, and at least
// a quarter.
func (m *memory) measure() {
	total := memTotal()
	if total == 0 {
		return
	}
	m.limit = total / 4
	if total > reserved {
		m.limit = max(m.limit, total-reserved)
	}
	m.limit = min(m.limit, total*3/4)
	debug.SetMemoryLimit(int64(m.limit))
	host.LimitHeap(m.limit)
}

// memTotal returns the memory of the system, or the limit of its control group.
func memTotal() uint64 {
	var total uint64
	if f, err := os.Open("/proc/meminfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if rest, ok := strings.CutPrefix(s.Text(), "MemTotal:"); ok {
				n, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
				total = n << 10
				break
			}
		}
	}
	for _, name := range []string{
		"/sys/fs/cgroup/memory.max",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes",
	} {
		if b, err := os.ReadFile(name); err == nil {
			if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil &&
				n > 0 && n < total {
				total = n
			}
		}
	}
	return total
}

// exceeded reports whether live objects use more than the limit.
func (m *memory) exceeded() bool {
	if m.limit == 0 || heap() <= m.limit {
		return false
	}
	runtime.GC()
	return heap() > m.limit
}

func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func (m *memory) message() string {
	return fmt.Sprintf(
		"out of memory: the session's objects take more than %d MiB; the cell was stopped, and its variables stay", m.limit>>20)
}
