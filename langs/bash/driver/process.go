package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/kernel"
)

func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name
	}
	return s.String()
}

// info describes the kernel.
func info() *kernel.Info {
	version := ""
	if out, err := exec.Command("/bin/bash", "-c", "printf %s \"$BASH_VERSION\"").Output(); err == nil {
		version = string(out)
	}
	return &kernel.Info{
		Language: "bash", Version: version, Implementation: "GNU bash " + version,
		FileExtension: ".sh", MIMEType: "application/x-sh", Banner: "GNU bash " + version, PID: os.Getpid(),
	}
}

// signalChildren signals what the shell runs in the foreground: the child that
// it started last, which is the one that it waits for, and all below that.
func signalChildren(pid int, sig syscall.Signal) {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 {
			parent, _ := strconv.Atoi(f[1])
			children[parent] = append(children[parent], child)
		}
	}
	last := 0
	for _, child := range children[pid] {
		last = max(last, child)
	}
	var kill func(pid int)
	kill = func(pid int) {
		_ = syscall.Kill(pid, sig)
		for _, child := range children[pid] {
			kill(child)
		}
	}
	if last != 0 {
		kill(last)
	}
}
