package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/kernel"
)

// step is one of the things that are done about a cell that goes on.
type step struct {
	after time.Duration // the interrupt
	do    func(d *driver, c *cell, interrupted time.Duration)
}

// course is how a cell ends that its interrupt has not ended: within 0.3 s, and
// in the shell that it began in, unless something keeps that from its traps.
var course = []step{
	{nudge, (*driver).insist},
	{2 * nudge, (*driver).insist},
	{patience, (*driver).stop},
	{patience + 25*time.Millisecond, ending(syscall.SIGTERM, false)},
	{patience + 65*time.Millisecond, ending(syscall.SIGKILL, false)},
	{patience + 85*time.Millisecond, ending(syscall.SIGKILL, true)},
	{patience + 150*time.Millisecond, ending(syscall.SIGKILL, true)},
	{patience + 250*time.Millisecond, ending(syscall.SIGKILL, true)},
	{dismissal, func(d *driver, c *cell, _ time.Duration) {
		c.ended = true
		_ = d.shell.cmd.Process.Signal(syscall.SIGVTALRM)
	}},
	{dismissal + farewell, func(d *driver, c *cell, _ time.Duration) { _ = d.shell.cmd.Process.Kill() }},
}

// interrupt notes that a cell is interrupted, and sees to it that it ends. The
// shell and what it runs get a SIGINT from the agent right behind the request.
func (d *driver) interrupt(number uint32) {
	c := d.cell
	if c == nil || number != 0 && number != c.Cell {
		d.interruptOther(number)
		return
	}
	c.interrupts++
	c.asking = ""
	if c.interrupts > 1 {
		return // its end is under way
	}
	interrupted := uptime()
	for _, s := range course {
		d.later(s.after, func() {
			if d.cell != c {
				return
			}
			s.do(d, c, interrupted)
			// It may have cut off what tells of the end; or swallow this line.
			d.shell.send(fmt.Sprintf("{ __sg_over %d; } 2>/dev/null", c.Cell))
		})
	}
}

// stop has the shell leave the cell from within, whatever it does at SIGINT: a
// SIGURG, which nobody else sends, makes it drop its INT trap for a moment and
// interrupt itself. That is done between two commands, so that no child can take
// the signal for itself, and everything of the shell's is kept, jobs and open
// descriptors too.
func (d *driver) stop(c *cell, _ time.Duration) {
	if !c.ended {
		c.ended = true
		// It is read before a later cell is begun, see fence.
		_ = os.WriteFile(d.room.path("stop"), fmt.Appendln(nil, c.Cell), 0o600)
	}
	d.insisted = true
	_ = d.shell.cmd.Process.Signal(syscall.SIGURG)
}

// ending ends what the shell waits for, so that it can leave the cell: programs
// that the cell has started, and what these have, but no job. What looks like one
// goes too if all is set. The shell is asked before, so that it does not go on
// when they end.
func ending(sig syscall.Signal, all bool) func(d *driver, c *cell, _ time.Duration) {
	return func(d *driver, c *cell, interrupted time.Duration) {
		d.stop(c, interrupted)
		processes := processes()
		for _, child := range processes.startedBy(d.shell.cmd.Process.Pid, c, all) {
			_ = syscall.Kill(child, sig)
			for pid := range processes.below(child) {
				_ = syscall.Kill(pid, sig)
			}
		}
	}
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
// ran for a while when it came, has patience for what it does about it.
func (d *driver) insist(c *cell, interrupted time.Duration) {
	if d.traps(c) {
		return
	}
	shell := d.shell.cmd.Process.Pid
	all := processes()
	if all[shell].group <= 1 {
		return // it has ended
	}
	last := all.lastChild(shell)
	older := last != 0 && all[last].began < interrupted-forked && c.started(last, all[last])
	for pid, p := range all {
		// By their group: a subshell that had the signal may have left its child.
		ours := p.group == all[shell].group && pid != shell && pid != os.Getpid()
		if ours && p.began >= interrupted-forked && (!older || p.began <= interrupted+forkedLate) {
			_ = syscall.Kill(pid, syscall.SIGINT)
			d.insisted = true
		}
	}
	if older {
		return // what it waits for ran before; others of a pipeline may not have
	}
	d.stop(c, interrupted)
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
