package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol/message"
	"golang.org/x/sys/unix"
)

// done ends the cell with its status.
func (d *driver) done(status int, options string) {
	c := d.cell
	// A state that was requested before the cell and was not reported will never be.
	d.saving, d.again = 0, false
	d.flags = ""
	for _, f := range "eux" {
		if strings.ContainsRune(options, f) && !c.program {
			d.flags += string(f)
		}
	}
	switch {
	case c.syntax != "":
		d.fail("SyntaxError", c.syntax, d.place(c.syntax))
	case c.ended:
		d.fail("Interrupted", "the cell was interrupted", d.traceback())
	case status == 0 && !c.program:
		d.finish(message.Reply{})
	case status == 0:
		d.finish(message.Reply{ExitCode: &status})
	case status >= 128 && c.interrupts > 0:
		d.fail("Interrupted", "the cell was interrupted", d.traceback())
	case !c.program && c.condition(status):
		d.finish(message.Reply{ExitCode: &status}) // a condition was false
	default:
		d.failStatus(status)
	}
}

// condition reports whether the status only means that a condition is false: the status of a test,
// or of a list with && or || or !, for which Bash runs no ERR trap either.
func (c *cell) condition(status int) bool {
	if c.failure.status == status {
		word, _, _ := strings.Cut(c.failure.command, " ")
		return slices.Contains([]string{"[", "[[", "test", "let"}, word) ||
			strings.HasPrefix(c.failure.command, "((")
	}
	lines := strings.Split(strings.TrimSpace(c.Code), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return strings.Contains(last, "&&") || strings.Contains(last, "||") ||
		strings.HasPrefix(last, "!")
}

// failStatus ends the cell with an exit status other than 0.
func (d *driver) failStatus(status int) {
	name, value := "ExitStatus", fmt.Sprint(status)
	command := d.cell.failure.command
	switch {
	case status == 126:
		name = "NotExecutable"
	case status == 127:
		name = "CommandNotFound"
	case status > 128 && status < 128+65:
		name, value = "Signal", signalName(unix.Signal(status-128))
	}
	if command != "" && d.cell.failure.status == status {
		value += ": " + firstLine(command)
	}
	d.failWith(name, value, d.traceback(), &status)
}

func firstLine(s string) string {
	line, rest, _ := strings.Cut(s, "\n")
	if rest != "" {
		line += " …"
	}
	return line
}

func (d *driver) fail(name, value string, traceback []string) {
	d.failWith(name, value, traceback, nil)
}

func (d *driver) failWith(name, value string, traceback []string, status *int) {
	lines := append([]string{name + ": " + value}, traceback...)
	d.message(d.cell.Cell, message.ErrorType, message.Error{
		EName: name, EValue: value,
		Traceback: lines,
	})
	d.finish(message.Reply{Status: "error", EName: name, EValue: value, ExitCode: status})
}

// finish answers the cell's request and writes the state while there is time.
func (d *driver) finish(r message.Reply) {
	c := d.cell
	d.cell = nil
	d.last = c.Cell
	if c.beside != "" {
		_ = os.Remove(c.beside)
	}
	r.ID = c.ID
	if !c.Silent {
		r.Count = d.count
	}
	d.reply(r)
	d.stale = true
	if time.Now().After(d.nextDue) {
		d.save()
	}
	d.next()
}

// gone starts a new shell that replaces an ended one.
func (d *driver) gone() {
	status, how := d.shell.status()
	d.shell.close()
	state, whole := d.saved, false
	c := d.cell
	if c != nil && c.restricts && status == 128+int(unix.SIGKILL) && c.interrupts == 0 {
		status, how = 0, "the cell restricted its shell, which cannot run another one"
	}
	if c != nil && c.exit != nil {
		state, whole = d.keepExit(), true
		if c.interrupts > 0 {
			status = *c.exit // the driver has ended it since
		}
	}
	d.saving, d.again = 0, false
	endKeeping(d, errors.New(how))
	// An interrupt of the previous cell may have ended a shell that could not yet handle it.
	unborn := !d.shell.up && d.unborn < maxUnborn
	switch {
	case unborn:
		d.unborn++
		state = d.shell.state
	case !d.shell.up:
		state = "" // it may be the reason why the shells end
	}
	var next *shell
	err := fmt.Errorf("it %s at once", how)
	if d.shell.up || unborn || d.saved != "" {
		next, err = d.room.start(state)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bash driver: cannot start a new shell:", err)
		d.close()
		os.Exit(1)
	}
	lived := d.shell.up
	d.shell = next
	d.insisted, d.fenced, d.repeats, d.running = 0, false, 0, 0
	if unborn && c == nil {
		return // the end of the previous shell was already reported
	}
	if state == "" {
		d.saved = ""
		_ = os.Remove(d.room.path("debug"))
	}
	number := uint32(0)
	if c != nil {
		number = c.Cell
	}
	switch {
	case whole && lived && c.ended:
		d.message(number, message.KernelEventType, message.KernelEvent{
			Event:   "restored",
			Message: "the shell ignored the interrupt and was ended; a new one has its variables, functions, options and folder. Jobs continue, but the new shell does not know them; open descriptors are lost",
		})
	case whole && lived:
	case state == "":
		d.message(number, message.KernelEventType,
			message.KernelEvent{Event: "state_lost", Message: how + "; a new one has been started"})
	default:
		d.message(number, message.KernelEventType, message.KernelEvent{
			Event: "restored",
			Message: fmt.Sprintf(
				"%s; a new one has the variables, functions, options and folder as they were after cell %d", how, d.savedAt),
		})
	}
	d.flushWaiting()
	if c == nil {
		return
	}
	switch {
	case c.ended || status >= 128 && c.interrupts > 0:
		d.fail("Interrupted", "the cell was interrupted, and its shell ended", d.traceback())
	case status == 0:
		d.finish(message.Reply{ExitCode: &status})
	default:
		d.failStatus(status)
	}
}
