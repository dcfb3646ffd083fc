package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/message"
)

// step is a measure against a cell that continues.
type step struct {
	after time.Duration // time after the interrupt
	do    func(d *driver, c *cell, interrupted time.Duration)
}

// course ends a cell that its interrupt has not ended: within 0.3 s, and in the same shell, unless
// something prevents the shell's traps.
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
	{dismissal + hearing, (*driver).unhang},
	{dismissal + hearing + nudge, (*driver).unhang},
	{dismissal + hearing + 2*nudge, (*driver).unhang},
	{dismissal + farewell, func(d *driver, c *cell, _ time.Duration) {
		if !c.leaving {
			_ = d.shell.cmd.Process.Kill()
		}
	}},
	{dismissal + 2*farewell, func(d *driver, _ *cell, _ time.Duration) {
		_ = d.shell.cmd.Process.Kill()
	}},
}

// unhang ends a shell that signals itself forever and so never runs its EXIT trap. Bash runs the
// trap within the handler of a SIGSYS if that is the second one. Each further one would cut the
// trap off, so none is sent once the trap has begun.
func (d *driver) unhang(c *cell, _ time.Duration) {
	if !c.leaving {
		_ = d.shell.cmd.Process.Signal(syscall.SIGSYS)
	}
}

// killLeft ends a shell that an interrupt has made leave and that hangs after its EXIT trap.
func (d *driver) killLeft() {
	left := d.shell
	if !d.cell.ended {
		return
	}
	d.later(2*nudge, func() {
		if d.shell == left {
			_ = left.cmd.Process.Kill()
		}
	})
}

// interrupt interrupts a cell, and makes sure that it ends.
func (d *driver) interrupt(number uint32) {
	c := d.cell
	if c == nil || number != 0 && number != c.Cell {
		d.interruptOther(number)
		return
	}
	c.interrupts++
	c.asking = ""
	d.signalled()
	hit(d.shell.cmd.Process.Pid, c)
	if c.interrupts > 1 {
		return // it is already ending
	}
	d.takeSteps(course, 0, c, uptime())
}

// maxHits bounds how often hit looks for processes that have begun meanwhile.
const maxHits = 3

// hit sends SIGINT to the shell and to the processes of its group, except jobs of earlier cells.
// Bash does not make all of them ignore the signal: not the programs within a job, and not a job
// that it has forked a moment ago.
func hit(shell int, c *cell) {
	all := processes()
	if _, lives := all[shell]; !lives {
		return
	}
	spared := all.earlier(shell, c)
	if len(spared) == 0 {
		_ = syscall.Kill(-shell, syscall.SIGINT) // reaches all at once, also those that fork
		return
	}
	// The shell must have it before its child ends, otherwise it would continue.
	done := map[int]bool{shell: true}
	_ = syscall.Kill(shell, syscall.SIGINT)
	for range maxHits {
		before := len(done)
		for pid, p := range all {
			if p.group == shell && !spared[pid] && !done[pid] {
				done[pid] = true
				_ = syscall.Kill(pid, syscall.SIGINT)
			}
		}
		if len(done) == before {
			return
		}
		all = processes()
		spared = all.earlier(shell, c)
	}
}

// takeSteps takes the steps of a course, each as long after the previous one as the course says: on
// a busy machine the driver is late, and so is the shell.
func (d *driver) takeSteps(steps []step, before time.Duration, c *cell, interrupted time.Duration) {
	if len(steps) == 0 {
		return
	}
	s := steps[0]
	d.later(s.after-before, func() {
		if d.cell != c {
			return
		}
		s.do(d, c, interrupted)
		// The signal may have cut off the report of the end. It may also swallow this line.
		d.shell.send(d.room.endCommand("130") + "; " +
			d.room.hidden(fmt.Sprintf("%s %d", d.room.calls("__sg_over"), c.Cell)))
		d.takeSteps(steps[1:], s.after, c, interrupted)
	})
}

// stop makes the shell leave the cell from within, even if it handles SIGINT. SIGURG, which nothing
// else sends, makes it drop its INT trap for a moment and interrupt itself. That happens
// between two commands, so no child can receive the signal, and the shell keeps its whole state,
// including jobs and open descriptors.
func (d *driver) stop(c *cell, _ time.Duration) {
	if !c.ended {
		c.ended = true
		// It is read before a later cell begins, see fence.
		_ = os.WriteFile(d.room.path("stop"), fmt.Appendln(nil, c.Cell), 0o600)
	}
	d.signalled()
	_ = d.shell.cmd.Process.Signal(syscall.SIGURG)
}

// ending ends the processes that the shell waits for, so that it can leave the cell: programs of
// the cell and their descendants, but no job. With all, processes that look like jobs end too. The
// shell is asked to leave first, so that it does not continue when they end.
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

// interruptOther handles an interrupt of a cell that is not running.
func (d *driver) interruptOther(number uint32) {
	if i := slices.IndexFunc(d.queue,
		func(r kernel.Request) bool { return r.Cell == number }); i >= 0 {
		r := d.queue[i]
		d.queue = slices.Delete(d.queue, i, i+1)
		d.reply(message.Reply{
			ID: r.ID, Status: "error", EName: "Interrupted",
			EValue: "the cell was interrupted before it began",
		})
		d.next()
	}
}

// insist repeats an interrupt if it can only have been lost. Bash loses an interrupt that comes
// before it has read the cell. If it comes between a fork and the exec of the child's program,
// Bash's own handler in the child swallows it, and the child continues. Bash then assumes that the
// program has handled it.
//
// Shells and programs that handle SIGINT are left alone: a shell with a trap, and a program that
// had run for a while, have the time patience.
func (d *driver) insist(c *cell, interrupted time.Duration) {
	if d.traps(c) {
		return
	}
	shell := d.shell.cmd.Process.Pid
	all := processes()
	if _, lives := all[shell]; !lives {
		return
	}
	last := all.lastChild(shell)
	older := last != 0 && all[last].began < interrupted-forked && c.started(last, all[last])
	spared := all.earlier(shell, c)
	for pid, p := range all {
		// By their group: a subshell that received the signal may have left its child.
		ours := p.group == shell && pid != shell && !spared[pid]
		if ours && p.began >= interrupted-forked && (!older || p.began <= interrupted+forkedLate) {
			_ = syscall.Kill(pid, syscall.SIGINT)
			d.signalled()
		}
	}
	if older {
		return // the program that the shell waits for is older; others of a pipeline may not be
	}
	d.stop(c, interrupted)
}

// traps reports whether the shell has its own trap for SIGINT.
func (d *driver) traps(c *cell) bool {
	return strings.Contains(c.Code, "trap") || trapsInterrupt(d.saved)
}
