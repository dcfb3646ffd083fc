package main

import (
	"encoding/json"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/kernel"
)

// large is a command that makes the state so large that writing and reading it take a while.
const large = `for ((i = 0; i < 20000; i++)); do many[i]=value-$i; done; `

// send sends a cell without waiting for its end.
func (r *rig) send(cell uint64, code string) {
	r.t.Helper()
	body, err := json.Marshal(kernel.Request{
		ID: cell, Op: "execute", Cell: uint32(cell), Code: code,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(string(body))
}

// checkKept checks that the shell has the state of an earlier cell.
func (r *rig) checkKept(cell uint64) {
	r.t.Helper()
	reply := r.ask(kernel.Request{
		ID: cell, Op: "execute", Cell: uint32(cell),
		Code: `[ "$kept ${#many[@]}" = "41 20000" ]`,
	})
	if reply.Status != "ok" || reply.ExitCode != nil {
		r.t.Fatalf("the state was lost: %+v", reply)
	}
}

// TestInterruptSparesState interrupts cells while the shell writes the state of the cell before.
// The state must be there although the next cell ends the shell.
func TestInterruptSparesState(t *testing.T) {
	for _, wait := range []time.Duration{0, 5, 20, 60} {
		r := newRig(t)
		r.ask(kernel.Request{ID: 1, Op: "execute", Cell: 1, Code: large + "kept=41"})
		r.send(2, "kill -9 $$")
		time.Sleep(wait * time.Millisecond) // the moment that is tested
		r.interrupt(2)
		r.reply(2)
		r.send(3, "kill -9 $$")
		r.reply(3)
		r.checkKept(4)
	}
}

// TestInterruptSparesBeginning interrupts cells while a new shell reads the state of the one that
// it replaces. It must not run a cell with a part of it.
func TestInterruptSparesBeginning(t *testing.T) {
	r := newRig(t)
	r.ask(kernel.Request{ID: 1, Op: "execute", Cell: 1, Code: large + "kept=41"})
	r.ask(kernel.Request{ID: 2, Op: "variables"})
	id := uint64(3)
	for _, wait := range []time.Duration{0, 1, 2, 5, 10, 20, 40, 80, 160} {
		r.send(id, "kill -9 $$")
		r.reply(id)
		r.send(id+1, "sleep 1000")
		time.Sleep(wait * time.Millisecond) // the moment that is tested
		r.interrupt(uint32(id + 1))
		if reply, ok := r.reply(id + 1); !ok || reply.EName != "Interrupted" {
			t.Fatalf("after %d ms: %+v", wait, reply)
		}
		r.checkKept(id + 2)
		id += 3
	}
}

// TestHangingShell brings Bash into the state in which it signals itself forever: a SIGINT between
// the system call that installs its handler for waiting and the assignment that follows. The
// interrupt must end that shell, and the next one must have what the cell had set.
func TestHangingShell(t *testing.T) {
	r := newRig(t)
	r.forget()
	r.send(1, "kept=41\necho shell $$\nread -t 0.3 < <(sleep 0.3)\nthis=1\n"+
		"while :; do /bin/sleep 0.1; done")
	r.awaitPrinted("\n")
	r.mu.Lock()
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(r.printed.String(), "shell ")))
	r.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	hang(t, pid)
	sent := time.Now()
	r.interrupt(1)
	if reply, ok := r.reply(1); !ok || reply.EName != "Interrupted" {
		t.Fatalf("%+v", reply)
	}
	t.Logf("it took %v", time.Since(sent))
	if syscall.Kill(pid, 0) == nil {
		t.Error("the shell did not hang")
	}
	reply := r.ask(kernel.Request{
		ID: 2, Op: "execute", Cell: 2, Code: `[ "$kept $this" = "41 1" ]`,
	})
	if reply.Status != "ok" || reply.ExitCode != nil {
		t.Errorf("the state was lost: %+v", reply)
	}
}

// hang sends the process a SIGINT at the end of its next system call that sets the handler of
// SIGINT.
func hang(t *testing.T, pid int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.PtraceAttach(pid); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.PtraceDetach(pid) }()
	var status syscall.WaitStatus
	signal := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
			t.Fatal(err, status)
		}
		signal = 0
		if s := status.StopSignal(); s != syscall.SIGTRAP && s != syscall.SIGSTOP {
			signal = int(s)
		}
		var regs syscall.PtraceRegs
		if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
			t.Fatal(err)
		}
		// At its end its result is 0; at its beginning the register holds ENOSYS.
		if signal == 0 && regs.Orig_rax == syscall.SYS_RT_SIGACTION &&
			regs.Rdi == uint64(syscall.SIGINT) && regs.Rsi != 0 && regs.Rax == 0 {
			if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err := syscall.PtraceSyscall(pid, signal); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("it sets no handler")
}
