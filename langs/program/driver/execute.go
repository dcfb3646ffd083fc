package main

import (
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// maxText is the size of a frame with text, in bytes.
	maxText = 64 << 10
	// lastOutput is how long the output of processes that a program left behind is waited for.
	// Later output still has the number of the cell.
	lastOutput = 200 * time.Millisecond
)

// environment returns the variables of compilers and programs.
func (d *driver) environment() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.env)
}

// runProgram runs a program and passes its output on. It returns how the program has ended.
func (d *driver) runProgram(c *cell, argv []string) (status, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = d.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var pipes []*os.File // the ends of the program
	defer func() {
		for _, f := range pipes {
			_ = f.Close()
		}
	}()
	var streams [2]*os.File
	for i := range streams {
		r, w, err := os.Pipe()
		if err != nil {
			return status{}, err
		}
		streams[i], pipes = r, append(pipes, w)
	}
	cmd.Stdout, cmd.Stderr = pipes[0], pipes[1]
	if !c.NoInput && !c.Silent {
		r, w, err := os.Pipe()
		if err != nil {
			return status{}, err
		}
		cmd.Stdin, pipes = r, append(pipes, r)
		c.open(w)
		defer c.shut()
	}
	if err := cmd.Start(); err != nil {
		for _, f := range streams {
			_ = f.Close()
		}
		return status{}, err
	}
	for _, f := range pipes {
		_ = f.Close()
	}
	pipes = nil
	group := cmd.Process.Pid
	if !c.setGroup(group) {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	var copying sync.WaitGroup
	for i, kind := range []frame.Type{frame.Stdout, frame.Stderr} {
		copying.Go(func() { d.pass(c, streams[i], kind) })
	}
	done := make(chan struct{})
	if !c.NoInput && !c.Silent {
		go d.watchInput(c, group, done)
	}
	_ = cmd.Wait() // its state says more
	close(done)
	// The program is over, and so are the processes of its group.
	_ = syscall.Kill(-group, syscall.SIGKILL)
	c.setGroup(0)
	copied := make(chan struct{})
	go func() { copying.Wait(); close(copied) }()
	d.awaitOutput(copied)
	wait, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status{wait}, nil
}

// awaitOutput waits for the end of the output, or until a process that the program left behind has
// kept it open for a while.
func (d *driver) awaitOutput(copied <-chan struct{}) {
	for {
		before := d.passed.Load()
		select {
		case <-copied:
			return
		case <-time.After(lastOutput):
			if d.passed.Load() == before {
				return
			}
		}
	}
}

// pass sends what a program writes to a stream.
func (d *driver) pass(c *cell, from *os.File, kind frame.Type) {
	defer func() { _ = from.Close() }()
	buf := make([]byte, maxText)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			d.sendText(c, kind, buf[:n])
			d.passed.Add(1)
		}
		if err != nil {
			return
		}
	}
}
