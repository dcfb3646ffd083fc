package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/kernel"
)

// interrupt notes that a cell is interrupted, and sees to it that it ends. The
// shell and what it runs get a SIGINT from the agent right behind the request.
// A second one ends what ignores the first.
func (d *driver) interrupt(number uint32) {
	c := d.cell
	if c == nil || number != 0 && number != c.Cell {
		d.interruptOther(number)
		return
	}
	c.interrupts++
	c.asking = ""
	began := uptime()
	wait := nudge
	for i := range 1 + insistence {
		d.later(wait, func() {
			if d.cell != c {
				return
			}
			if i < insistence {
				d.insist(c, began)
			} else if c.ended {
				d.press(c)
			}
			// It may have cut off what tells of the end; or swallow this line.
			d.shell.send(fmt.Sprintf("{ __sg_over %d; } 2>/dev/null", c.Cell))
		})
		wait *= 2
	}
	switch {
	case c.interrupts == 2:
		d.press(c)
	case d.deaf(c):
		d.later(stubborn, func() { d.dismiss(c) })
	}
}

// dismiss ends a cell that ignores interrupts. What the shell waits for is
// killed, unless it is a job. A shell that goes on has to leave: a SIGVTALRM,
// which nobody else sends, makes it run its EXIT trap, so that the next shell
// has the state as it was. One that does not is killed, and the next has the
// state of the cell before.
func (d *driver) dismiss(c *cell) {
	if d.cell != c || c.interrupts > 1 {
		return
	}
	c.ended = true
	shell := d.shell.cmd.Process
	leave := func() {
		if d.cell != c {
			return
		}
		_ = shell.Signal(syscall.SIGVTALRM)
		d.later(farewell, func() {
			if d.cell == c {
				_ = shell.Kill()
			}
		})
	}
	// Without a terminal Bash gives to a job the null device to read from.
	last := processes().lastChild(shell.Pid)
	if in, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", last)); last == 0 || in == os.DevNull {
		leave()
		return
	}
	signalTree(shell.Pid, syscall.SIGKILL)
	d.later(nudge, leave)
}

// ignores finds a trap that is empty.
var ignores = regexp.MustCompile(`\btrap\s+(--\s+)?(''|"")`)

// deaf reports whether the cell ignores SIGINT, or a part of it, and with it
// what that runs.
func (d *driver) deaf(c *cell) bool {
	if strings.Contains(c.Code, "trap") {
		return ignores.MatchString(c.Code)
	}
	state, _ := os.ReadFile(d.saved)
	return bytes.Contains(state, []byte("trap -- '' SIGINT\n"))
}

// press kills what a cell runs that is deaf to interrupts, and after that its
// shell. Another has the state as it was before the cell.
func (d *driver) press(c *cell) {
	d.later(stubborn, func() {
		if d.cell != c {
			return
		}
		signalTree(d.shell.cmd.Process.Pid, syscall.SIGKILL)
		d.later(stubborn, func() {
			if d.cell == c {
				_ = d.shell.cmd.Process.Kill()
			}
		})
	})
}

// interruptOther is for a cell that is not at work.
func (d *driver) interruptOther(number uint32) {
	if i := slices.IndexFunc(d.queue, func(r kernel.Request) bool { return r.Cell == number }); i >= 0 {
		r := d.queue[i]
		d.queue = slices.Delete(d.queue, i, i+1)
		d.reply(kernel.Reply{ID: r.ID, Status: "error", EName: "Interrupted", EValue: "the cell was interrupted before it began"})
		return
	}
	// It came late, and may have cut off the writing of the state.
	if began := d.saving; !began.IsZero() {
		d.later(nudge, func() {
			if d.saving.Equal(began) && d.cell == nil {
				d.saving = time.Time{}
				d.save()
			}
		})
	}
}

// insist sends an interrupt again where it can only have been lost. Bash loses
// one that comes before it has the cell. And one that comes between a fork and
// the program that the child becomes finds Bash's own handler in the child,
// which then goes on; Bash itself takes that for a program that has handled it.
//
// Who handles a SIGINT is left alone: a shell with a trap, and a program that
// ran for a while when it came.
func (d *driver) insist(c *cell, interrupted time.Duration) {
	if d.traps(c) {
		return
	}
	shell := d.shell.cmd.Process.Pid
	all := processes()
	if all[shell].group <= 1 {
		return // it has ended
	}
	d.insisted = true
	last := all.lastChild(shell)
	older := last != 0 && all[last].began < interrupted-forked && all[last].began > c.sent
	for pid, p := range all {
		// By their group: a subshell that had the signal may have left its child.
		ours := p.group == all[shell].group && pid != shell && pid != os.Getpid()
		if ours && p.began >= interrupted-forked && (!older || p.began <= interrupted+forkedLate) {
			_ = syscall.Kill(pid, syscall.SIGINT)
			c.ended = true
		}
	}
	if older {
		return // what it waits for ran before; others of a pipeline may not have
	}
	// A loop of short programs has to be hit in between two of them, or while
	// one runs that is no fork of Bash any more, and together with that.
	c.ended = true
	for range volley {
		if syscall.Kill(-all[shell].group, syscall.SIGINT) != nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// fence has the next cell wait until the shell has had all that was sent to it
// for the one before. A signal may swallow the line that asks, so it is asked
// again.
func (d *driver) fence() {
	if !d.insisted {
		return
	}
	d.insisted = false
	d.fences++
	number := d.fences
	d.fenced = true
	var ask func()
	ask = func() {
		if d.fenced && d.fences == number {
			d.shell.send(fmt.Sprintf("__sg_tell fence %d", number))
			d.later(nudge, ask)
		}
	}
	ask()
}

// traps reports whether the shell does something of its own at SIGINT.
func (d *driver) traps(c *cell) bool {
	if strings.Contains(c.Code, "trap") {
		return true
	}
	state, _ := os.ReadFile(d.saved)
	return bytes.Contains(state, []byte("' SIGINT\n"))
}
