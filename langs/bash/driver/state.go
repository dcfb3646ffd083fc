package main

import (
	"fmt"
	"os"
	"time"

	"github.com/sandgate/sandgate/protocol/message"
)

// held reports whether the next cell has to wait. The shell must be up, must have handled all
// signals for the previous cell, and must have written the state: an interrupt of the next cell may
// cut that off, and the next cell may be the shell's end.
func (d *driver) held() bool {
	now := time.Now()
	if d.heldSince.IsZero() {
		d.heldSince = now
	}
	settled := d.shell.up && d.insisted == 0 && d.saving == 0
	if settled || now.Sub(d.heldSince) >= holdLimit {
		d.insisted, d.fenced, d.heldSince = 0, false, time.Time{}
		return false
	}
	if d.heldSince.Equal(now) {
		d.later(holdLimit, d.next)
	}
	if !d.fenced && d.repeats < maxRepeats {
		d.fence(0)
	}
	return true
}

// signalled records that signals are sent to the shell: a fence after them has to be reached.
func (d *driver) signalled() { d.insisted = d.fences + 1 }

// fence asks the shell to report that it has handled everything before. A signal may swallow the
// line that asks, so it is sent again. The line needs nothing of the prelude.
func (d *driver) fence(first time.Duration) {
	d.fences++
	number, pause := d.fences, nudge
	d.fenced = true
	var ask func()
	ask = func() {
		if d.fenced && d.fences == number {
			d.shell.send(fmt.Sprintf(`builtin printf fence\\037%d\\036 >%s`, number,
				quote(d.room.path("events"))))
			d.later(pause, ask)
			pause = min(2*pause, time.Second)
		}
	}
	if first == 0 {
		ask()
		return
	}
	d.later(first, ask)
}

// fenceReached continues after a fence. If the shell has not reported an earlier request, a signal
// has cut that off, and it is repeated.
func (d *driver) fenceReached(number int) {
	if !d.fenced || number != d.fences {
		return
	}
	d.fenced = false
	if d.insisted <= number {
		d.insisted = 0
	}
	switch {
	case d.cell != nil || d.repeats >= maxRepeats:
	case !d.shell.up:
		d.repeats++
		d.room.setUp(d.shell)
	case d.saving != 0 && number >= d.savingFence:
		d.repeats++
		d.saving = 0
		d.save()
	case d.saving != 0:
		d.fence(nudge)
	}
	if d.repeats == maxRepeats { // the shell does something else
		d.saving = 0
		d.flushWaiting()
	}
	d.next()
}

// save makes the shell write its state, to a new file.
func (d *driver) save() {
	if d.saving != 0 {
		d.again = true
		return
	}
	d.states++
	d.saving = d.states
	d.shell.send(d.room.hidden(fmt.Sprintf("__sg_keep %d", d.saving)))
	if d.fenced {
		d.savingFence = d.fences + 1
		return
	}
	first := nudge // usually the state is there before
	if d.insisted != 0 {
		first = 0
	}
	d.fence(first)
	d.savingFence = d.fences
}

// savedTo uses the state that the shell has written.
func (d *driver) savedTo(number int, took time.Duration) {
	if number == 0 || number != d.saving {
		return
	}
	file := d.room.state(number)
	if about, err := os.Stat(file); err == nil && took > slowSave && about.Size() > smallState {
		d.nextDue = time.Now().Add(min(3*took, savePause))
	}
	d.saving, d.stale, d.repeats = 0, false, 0
	d.saved, d.savedAt = file, d.last
	for ; d.swept < number-keptStates; d.swept++ {
		_ = os.Remove(d.room.state(d.swept))
	}
	if !d.ready {
		d.ready = true
		d.noteFirst()
		d.reply(message.Reply{Op: "ready", Info: info()})
	}
	if d.again {
		d.again = false
		d.save()
		return
	}
	d.flushWaiting()
	d.next()
}

// keepExit gives the state that a shell has written at its end a name that no other shell writes.
func (d *driver) keepExit() string {
	d.states++
	written, kept := d.room.path("state-exit"), d.room.state(d.states)
	if os.Rename(written, kept) != nil {
		return written
	}
	return kept
}

// noteFirst records the names in the state, none of which is the user's.
func (d *driver) noteFirst() {
	first := map[string]bool{} // helpers may be reading the old map
	d.given = map[variable]bool{}
	for _, v := range readState(d.saved) {
		first[v.name] = true
		d.given[v] = true
	}
	d.first = first
}

func (d *driver) flushWaiting() {
	waiting := d.waiting
	d.waiting = nil
	for _, f := range waiting {
		f()
	}
}
