package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// patience is how long an interrupted program may take to end by itself.
const patience = 500 * time.Millisecond

// cell is one execution: a program that is compiled and run.
type cell struct {
	kernel.Request

	mu          sync.Mutex // guards all below
	group       int        // the process group of the compiler or program; 0 means none
	interrupted bool
	stdin       *os.File // the program's input, unless it has none or has ended
	asked       bool     // a request for input waits for an answer
}

func newCell(r kernel.Request) *cell { return &cell{Request: r} }

// setGroup notes the process group that an interrupt goes to. It reports false if the cell has already
// been interrupted.
func (c *cell) setGroup(group int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.group = group
	return !c.interrupted
}

func (c *cell) wasInterrupted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interrupted
}

// interrupt sends SIGINT to the compiler or the program, and ends it if it continues.
func (c *cell) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	group := c.group
	if group == 0 {
		return
	}
	_ = syscall.Kill(-group, syscall.SIGINT)
	time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.group == group {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
	})
}

// cancel ends the compiler or the program at once.
func (c *cell) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupted = true
	if c.group != 0 {
		_ = syscall.Kill(-c.group, syscall.SIGKILL)
	}
}

// perform compiles and runs the cell, and replies.
func (d *driver) perform(c *cell) {
	d.mu.Lock()
	if !c.Silent {
		d.count++
	}
	reply := message.Reply{ID: c.ID, Count: d.count}
	d.mu.Unlock()
	reply = d.run(c, reply)
	d.mu.Lock()
	delete(d.current, c.Cell)
	d.mu.Unlock()
	d.sendReply(reply)
}

func (d *driver) run(c *cell, reply message.Reply) message.Reply {
	if strings.TrimSpace(c.Code) == "" {
		return reply
	}
	file := filepath.Join(d.dir, "main"+extension(d.language))
	program := filepath.Join(d.dir, "main")
	if err := os.WriteFile(file, []byte(c.Code), 0o600); err != nil {
		return d.fail(c, reply, "OSError", err.Error(), nil)
	}
	if argv := d.language.CompileArgs(file, program); argv != nil {
		_ = os.Remove(program)
		result, err := d.compile(c, argv)
		if err != nil {
			return d.fail(c, reply, "OSError", err.Error(), nil)
		}
		if result.status.failed() {
			if c.wasInterrupted() {
				return d.fail(c, reply, "Interrupted", "the compiler was interrupted", nil)
			}
			code := result.status.code()
			reply.ExitCode = &code
			return d.fail(c, reply, "CompileError", result.first(), result.lines())
		}
		if result.text != "" && !c.Silent {
			d.sendMessage(c.Cell, message.DisplayDataType, result.bundle())
		}
	}
	status, err := d.runProgram(c, d.language.RunArgs(file, program))
	if err != nil {
		return d.fail(c, reply, "OSError", err.Error(), nil)
	}
	return d.finishProgram(c, reply, status)
}

// finishProgram sets the reply of a program that has ended.
func (d *driver) finishProgram(c *cell, reply message.Reply, status status) message.Reply {
	if c.wasInterrupted() && status.failed() {
		return d.fail(c, reply, "Interrupted", "the program was interrupted", nil)
	}
	code := status.code()
	reply.ExitCode = &code
	if status.Signaled() {
		return d.fail(c, reply, "Signal", unix.SignalName(status.Signal()),
			[]string{"the program was ended by a signal: " + status.Signal().String()})
	}
	if code != 0 {
		reply.Status = "error"
		reply.EName, reply.EValue = "ExitStatus", status.describe()
	}
	return reply
}

// fail sends an error and returns the reply of the failed cell.
func (d *driver) fail(c *cell, reply message.Reply, name, value string, lines []string,
) message.Reply {
	if lines == nil {
		lines = []string{name + ": " + value}
	}
	problem := message.Error{EName: name, EValue: value, Traceback: lines}
	d.sendMessage(c.Cell, message.ErrorType, problem)
	reply.Status, reply.EName, reply.EValue = "error", name, value
	return reply
}

// sendText sends output of the program.
func (d *driver) sendText(c *cell, kind frame.Type, p []byte) {
	d.write(frame.Frame{Type: kind, Cell: c.Cell, Body: p})
}
