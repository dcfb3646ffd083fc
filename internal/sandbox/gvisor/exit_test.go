package gvisor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The two forms of a wait status.
func exited(status int) unix.WaitStatus        { return unix.WaitStatus(status << 8) }
func signaled(sig unix.Signal) unix.WaitStatus { return unix.WaitStatus(sig) }

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		name string
		evidence
		want Exit
	}{
		{"ended", evidence{status: exited(0)}, Exit{Reason: Exited}},
		{
			"failed",
			evidence{status: exited(9), stderr: "so\nlong\n"},
			Exit{Reason: Exited, Status: 9, Detail: "so long"},
		},
		{
			"sentry panic",
			evidence{status: exited(2), panicLog: "panic: oh no"},
			Exit{Reason: Crashed, Status: 2, Detail: "panic: oh no"},
		},
		{
			"sentry panic for want of tasks",
			evidence{
				status: exited(2), panicLog: "runtime: failed", pidsLimit: 64,
				counters: counters{pidsReached: 3},
			},
			Exit{
				Reason: Crashed, Status: 2,
				Detail: "the limit of 64 host tasks was reached: runtime: failed",
			},
		},
		{
			"sentry filter",
			evidence{status: signaled(unix.SIGSYS)},
			Exit{Reason: Crashed, Status: -1, Signal: int(unix.SIGSYS)},
		},
		{
			"cgroup, sentry killed",
			evidence{status: signaled(unix.SIGKILL), counters: counters{
				killed: 1, reached: 1,
				peak: 200 * miB,
			}},
			Exit{
				Reason: Memory, Status: -1, Signal: 9,
				Detail: "the memory limit was reached with 200 MiB in use",
			},
		},
		{
			"cgroup, stub killed",
			evidence{
				status: exited(2), panicLog: "panic: stub",
				counters: counters{killed: 2, reached: 1},
			},
			Exit{
				Reason: Memory, Status: 2,
				Detail: "the memory limit was reached with 0 MiB in use",
			},
		},
		{
			"machine out of memory",
			evidence{status: signaled(unix.SIGKILL), counters: counters{killed: 1}},
			Exit{
				Reason: HostMemory, Status: -1, Signal: 9,
				Detail: "the machine ran out of memory",
			},
		},
		{
			"somebody",
			evidence{status: signaled(unix.SIGKILL)},
			Exit{
				Reason: Killed, Status: -1, Signal: 9,
				Detail: "a process outside sent SIGKILL to the sentry",
			},
		},
		{
			"we",
			evidence{
				status: signaled(unix.SIGKILL), intent: Exit{Reason: Destroyed, Detail: "x"},
				counters: counters{killed: 1, reached: 1},
			},
			Exit{Reason: Destroyed, Status: -1, Signal: 9, Detail: "x"},
		},
		{
			"we, too late",
			evidence{status: exited(1), intent: Exit{Reason: Destroyed}},
			Exit{Reason: Exited, Status: 1},
		},
		{
			"unknown",
			evidence{lost: errors.New("no child")},
			Exit{Reason: Killed, Status: -1, Detail: "its status is unknown: no child"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.verdict(); got != test.want {
				t.Errorf("verdict is %+v, want %+v", got, test.want)
			}
		})
	}
	long := evidence{status: exited(1), stderr: strings.Repeat("é", 5000)}.verdict()
	if len(long.Detail) > 2*kiB+3 {
		t.Errorf("a detail of %d bytes", len(long.Detail))
	}
}

func TestReadPanic(t *testing.T) {
	name := filepath.Join(t.TempDir(), "panic.log")
	for _, test := range []struct{ log, want string }{
		{"", ""},
		{"W: starting\n", ""},
		{"W: x\npanic: nil\n\ngoroutine 1 [running]:\n", "panic: nil goroutine 1 [running]:"},
		{"runtime: failed to create new OS thread", "runtime: failed to create new OS thread"},
	} {
		if err := os.WriteFile(name, []byte(test.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := readPanic(name); got != test.want {
			t.Errorf("of %q: %q, want %q", test.log, got, test.want)
		}
	}
	if got := readPanic(name + "x"); got != "" {
		t.Errorf("of no file: %q", got)
	}
}
