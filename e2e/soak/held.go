package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// held counts the things that a server without sessions holds on its machine, by kind.
type held map[string]int

// allowed is how much more than at the start a server may hold, by kind, for pools, caches and records.
// The other kinds may not grow.
func allowed(kind string) int {
	switch kind {
	case "goroutines", "descriptors":
		return 25
	case "memory MiB":
		return 96
	case "disk MiB":
		return 64 // the audit log, the record of use and the series
	case "Redis keys":
		return 8
	case "processes", "cgroups":
		return 6 // sandboxes of the pool that start or end
	}
	return 0
}

// within returns an error that names each kind that has grown.
func (h held) within(before held) error {
	var grown []string
	for kind, n := range h {
		if n > before[kind]+allowed(kind) {
			grown = append(grown, fmt.Sprintf("%s: %d, at the start %d", kind, n, before[kind]))
		}
	}
	if len(grown) > 0 {
		return fmt.Errorf("the server holds more: %s", strings.Join(grown, "; "))
	}
	return nil
}

// quiet deletes everything and counts when the pool is full.
func (s *soak) quiet(ctx context.Context) (held, error) {
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		sessions, err := c.Sessions(ctx)
		for _, one := range sessions {
			if gone := c.DeleteSession(ctx, one.ID); err == nil && !fault.Is(gone, fault.NotFound) {
				err = gone
			}
		}
		snapshots, more := c.Snapshots(ctx)
		for _, one := range snapshots {
			_ = c.DeleteSnapshot(ctx, one.ID)
		}
		if err == nil && more == nil && len(sessions) == 0 && len(snapshots) == 0 {
			break
		}
		if late := wait(ctx, time.Second); late != nil {
			return nil, fmt.Errorf("the sessions cannot be deleted: %w, %w", late, err)
		}
	}
	if err := s.server.Warm(ctx); err != nil {
		return nil, err
	}
	if err := wait(ctx, 3*time.Second); err != nil { // sandboxes end in the background
		return nil, err
	}
	return s.measure(ctx)
}

var goroutines = regexp.MustCompile(`(?m)^sandgate_\w+_goroutines(?:\{[^}]*\})? (\d+)`)

// measure counts what the server holds.
func (s *soak) measure(ctx context.Context) (held, error) {
	h := held{}
	for _, child := range []string{"node", "gateway"} {
		pid, err := s.server.Child(child)
		if err != nil {
			return nil, err
		}
		fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		h["descriptors"] += len(fds)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return nil, err
		}
		_, rss, _ := strings.Cut(string(status), "VmRSS:")
		var kib int
		_, _ = fmt.Sscan(rss, &kib)
		h["memory MiB"] += kib >> 10
	}
	resp, err := s.server.Do(ctx, "GET", "/metrics", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	for _, found := range goroutines.FindAllSubmatch(text, -1) {
		n, _ := strconv.Atoi(string(found[1]))
		h["goroutines"] += n
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if cmd, _ := os.ReadFile(p); strings.Contains(string(cmd), s.server.Dir) {
			h["processes"]++
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	h["mounts"] = strings.Count(string(mounts), s.server.Dir)
	h["cgroups"] = s.cgroups()
	h["disk MiB"] = int(size(s.server.Dir)+size(s.cluster.Dir)) >> 20
	keys, err := exec.CommandContext(ctx, "redis-cli", "-u", "redis://"+s.cluster.Address,
		"dbsize").Output()
	if err != nil {
		return nil, err
	}
	h["Redis keys"], _ = strconv.Atoi(strings.TrimSpace(string(keys)))
	return h, nil
}

// cgroups counts the groups of sandboxes.
func (s *soak) cgroups() (n int) {
	for _, top := range s.server.Cgroups() {
		_ = filepath.WalkDir(top, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				n++
			}
			return nil
		})
	}
	return n
}

// size returns the bytes of all files in a folder. It leaves out uploads that a kill has cut short:
// the sweep of the blob store removes them after a day.
func size(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".partial-") {
			return nil
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
