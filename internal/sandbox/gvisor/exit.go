package gvisor

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// evidence holds the facts from which the reason of an end is derived.
type evidence struct {
	intent Exit
	status unix.WaitStatus
	counters
	pidsLimit int64
	panicLog  string
	stderr    string
	// lost is the reason why the status is not known.
	lost error
}

func (s *Sandbox) classify(status unix.WaitStatus, err error) Exit {
	s.mu.Lock()
	intent := s.intent
	s.mu.Unlock()
	final := s.use()
	s.mu.Lock()
	s.final = final
	s.mu.Unlock()
	return evidence{
		intent:    intent,
		status:    status,
		counters:  s.group.read(),
		pidsLimit: s.spec.Limits.PIDs,
		panicLog:  readPanic(s.runtime.panicLog(s.id)),
		stderr:    s.stderr.wait(), // the only writer has ended
		lost:      err,
	}.verdict()
}

// verdict decides. An intent of this process comes first, because a sentry that it kills is not
// lost. Next is the out-of-memory killer: it may have killed any process of the sandbox, and so can
// look like each of the other ends.
func (ev evidence) verdict() Exit {
	e := Exit{Status: -1}
	switch {
	case ev.lost != nil:
	case ev.status.Signaled():
		e.Signal = int(ev.status.Signal())
	default:
		e.Status = ev.status.ExitStatus()
	}
	switch {
	case ev.intent.Reason != "" && (e.Signal == int(unix.SIGKILL) || ev.lost != nil):
		e.Reason, e.Detail = ev.intent.Reason, ev.intent.Detail
	case ev.killed > 0 && ev.reached > 0:
		e.Reason = Memory
		e.Detail = memoryDetail(ev.peak)
	case ev.killed > 0:
		e.Reason = HostMemory
		e.Detail = "the machine ran out of memory"
	case ev.lost != nil:
		e.Reason = Killed
		e.Detail = "its status is unknown: " + ev.lost.Error()
	case e.Signal == int(unix.SIGKILL):
		e.Reason = Killed
		e.Detail = "a process outside sent SIGKILL to the sentry"
	case e.Signal != 0 || ev.panicLog != "":
		e.Reason = Crashed
		e.Detail = ev.panicLog
		if ev.pidsReached > 0 {
			e.Detail = fmt.Sprintf("the limit of %d host tasks was reached: %s", ev.pidsLimit,
				e.Detail)
		}
	default:
		e.Reason = Exited
		if e.Status != 0 {
			e.Detail = oneLine(ev.stderr)
		}
	}
	e.Detail = strings.ToValidUTF8(e.Detail[:min(len(e.Detail), 2*kiB)], "\uFFFD")
	return e
}

func memoryDetail(peak int64) string {
	return fmt.Sprintf("the memory limit was reached with %d MiB in use", peak/miB)
}

// readPanic returns the beginning of the Go panic in a sentry's panic log, or "" when there is
// none. The log is opened for every sentry and also receives other stderr output of the Go runtime.
func readPanic(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	// The stacks of all goroutines follow a panic. The first 64 KiB hold the important part.
	data, _ := io.ReadAll(io.LimitReader(f, 64*kiB))
	for _, mark := range []string{
		"panic:", "fatal error:", "runtime: failed", "SIGSEGV",
		"unexpected fault",
	} {
		if i := bytes.Index(data, []byte(mark)); i >= 0 {
			return oneLine(string(data[i:min(len(data), i+kiB)]))
		}
	}
	return ""
}
