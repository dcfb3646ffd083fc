package gvisor

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func readFile(tb testing.TB, name string) string {
	tb.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

func readLink(tb testing.TB, name string) string {
	tb.Helper()
	to, err := os.Readlink(name)
	if err != nil {
		tb.Fatal(err)
	}
	return to
}

// census lists everything that a sandbox could leave behind.
type census struct {
	// processes are the command lines of runsc's descendants.
	processes []string
	mounts    []string
	cgroups   []string
	files     []string
	fds       []string
	// goroutines are the stacks of goroutines that run this package or gVisor's.
	goroutines []string
}

// take counts everything. It counts the files of stateDir.
func take(tb testing.TB, stateDir string) census {
	tb.Helper()
	var c census
	c.processes = runscProcesses(tb)
	for _, line := range strings.Split(readFile(tb, "/proc/self/mountinfo"), "\n") {
		if f := strings.Fields(line); len(f) > 4 {
			c.mounts = append(c.mounts, f[4])
		}
	}
	for _, root := range []string{
		filepath.Join(cgroupRoot, "*", "sandgate-test"),
		filepath.Join(cgroupRoot, "sandgate-test"),
	} {
		tops, _ := filepath.Glob(root)
		for _, top := range tops {
			c.cgroups = append(c.cgroups, walk(top, true)[1:]...) // top itself is not counted
		}
	}
	c.files = append(walk(stateDir, false), globs("/run/runsc*", "/var/run/runsc*", "/tmp/runsc*",
		"/run/sandgate-doctor-*")...)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil &&
			!strings.HasSuffix(to, "/fd") {
			c.fds = append(c.fds, to)
		}
	}
	buf := make([]byte, 4<<20)
	for _, stack := range bytes.Split(buf[:runtime.Stack(buf, true)], []byte("\n\n")) {
		text := string(stack)
		if strings.Contains(text, "testing.tRunner") || strings.Contains(text, "main.main") {
			continue
		}
		if strings.Contains(text, "gvisor") {
			c.goroutines = append(c.goroutines, text)
		}
	}
	return c
}

// runscProcesses returns the command lines of processes that runsc started, without zombies of
// other processes but with those of this process.
func runscProcesses(tb testing.TB) []string {
	tb.Helper()
	var out []string
	entries, err := os.ReadDir("/proc")
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil {
			continue
		}
		status := string(data)
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		mine := strings.Contains(string(cmdline), testDir)
		zombie := strings.Contains(status, "State:\tZ") && strings.Contains(status, "\nPPid:\t"+
			itoa(os.Getpid())+"\n")
		if mine && strings.Contains(string(cmdline), "runsc") || zombie {
			out = append(out, e.Name()+" "+strings.ReplaceAll(string(cmdline), "\x00", " ")+status)
		}
	}
	return out
}

func walk(dir string, dirsOnly bool) []string {
	var out []string
	_ = filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err == nil && (fi.IsDir() || !dirsOnly) {
			out = append(out, p)
		}
		return nil
	})
	return out
}

func globs(patterns ...string) []string {
	var out []string
	for _, p := range patterns {
		m, _ := filepath.Glob(p)
		out = append(out, m...)
	}
	return out
}

// compare fails the test for everything that there is more of now than before.
func (before census) compare(tb testing.TB, now census) {
	tb.Helper()
	for _, kind := range []struct {
		name     string
		was, are []string
	}{
		{"processes", before.processes, now.processes},
		{"mounts", before.mounts, now.mounts},
		{"cgroups", before.cgroups, now.cgroups},
		{"files", before.files, now.files},
		{"descriptors", before.fds, now.fds},
		{"goroutines", before.goroutines, now.goroutines},
	} {
		if len(kind.are) > len(kind.was) {
			tb.Errorf("%d %s before, %d now:\n%s", len(kind.was), kind.name, len(kind.are),
				strings.Join(kind.are, "\n"))
		}
	}
}
