package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol/message"
)

// The program's state is looked at this often, more rarely the longer it runs.
const (
	shortLook = 5 * time.Millisecond
	longLook  = 100 * time.Millisecond
	// looks is how many times in a row a program must sleep with an empty input until the driver
	// takes it for one that reads.
	looks = 3
)

// open sets the end of the pipe that the program reads.
func (c *cell) open(w *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stdin = w
}

// shut closes the program's input.
func (c *cell) shut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin != nil {
		_ = c.stdin.Close()
		c.stdin = nil
	}
}

// answerInput passes an answer to the program. It does not wait for a program that reads slowly.
func (c *cell) answerInput(value string, eof bool) {
	c.mu.Lock()
	w := c.stdin
	c.mu.Unlock()
	if w == nil {
		return
	}
	if !eof {
		value += "\n"
	}
	go func() {
		_, _ = w.WriteString(value) // the program may have ended
		c.mu.Lock()
		c.asked = false
		c.mu.Unlock()
		if eof {
			c.shut()
		}
	}()
}

// hungry reports whether the program's input is open and empty, and nothing was asked for.
func (c *cell) hungry() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stdin == nil || c.asked {
		return false
	}
	waiting := 1
	raw, err := c.stdin.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { waiting, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return err == nil && waiting == 0
}

// watchInput asks for a line when the program waits for one. No interface of the system reports
// that: a program counts as waiting when all its threads sleep and its input is empty. A program
// that sleeps for another reason gets its line early, which it does not notice.
func (d *driver) watchInput(c *cell, group int, done <-chan struct{}) {
	pause, seen := shortLook, 0
	for {
		select {
		case <-done:
			return
		case <-time.After(pause):
		}
		pause = min(pause*5/4, longLook)
		if !c.hungry() || !sleeps(group) {
			seen = 0
			continue
		}
		if seen++; seen < looks {
			pause = shortLook
			continue
		}
		seen, pause = 0, shortLook
		c.mu.Lock()
		c.asked = true
		c.mu.Unlock()
		d.sendMessage(c.Cell, message.InputRequestType, message.InputRequest{Stream: true})
	}
}

// sleeps reports whether all threads of a process sleep.
func sleeps(pid int) bool {
	folder := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(folder)
	if err != nil {
		return false
	}
	for _, t := range tasks {
		stat, err := os.ReadFile(folder + "/" + t.Name() + "/stat")
		if err != nil {
			return false
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if !strings.HasPrefix(rest, "S") {
			return false
		}
	}
	return len(tasks) > 0
}
