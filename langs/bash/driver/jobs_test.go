package main

import (
	"testing"

	"github.com/sandgate/sandgate/kernel"
)

// TestInterruptSparesEarlierJobs interrupts a cell right after one that has started a job. Bash does
// not make all processes of a job ignore SIGINT: not the programs within it, and not a job that it
// has forked a moment ago. Its own command substitution makes that moment long; a busy machine
// makes it long for any job.
func TestInterruptSparesEarlierJobs(t *testing.T) {
	r := newRig(t)
	id := uint64(0)
	for _, job := range []string{
		"sleep $(sleep 0.1; echo 1000) &",
		"sleep $(sleep 0.1; echo 1000) </dev/zero &",
		"f $(sleep 0.1; echo 1000) &",
		"sleep 1000 &",
		"(sleep 1000; :) &",
		"{ sleep 1000; :; } </dev/zero &",
		"coproc sleep 1000;",
		"coproc { sleep 1000; :; };",
	} {
		run := func(code string) {
			t.Helper()
			id++
			reply := r.ask(kernel.Request{ID: id, Op: "execute", Cell: uint32(id), Code: code})
			if reply.Status != "ok" || reply.ExitCode != nil {
				t.Errorf("%s: %q: %+v", job, code, reply)
			}
		}
		run("f() { sleep \"$@\"; }; " + job + " job=$!")
		r.forget()
		id++
		r.send(id, "echo on; while :; do :; done")
		r.awaitPrinted("on\n")
		r.interrupt(uint32(id))
		if reply, ok := r.reply(id); !ok || reply.EName != "Interrupted" {
			t.Fatalf("%s: %+v", job, reply)
		}
		run("programs=$(pgrep -P $job); kill $job; wait $job; s=$?; " +
			"[[ ! $programs ]] || kill $programs; [[ $s == 143 ]]")
	}
}
