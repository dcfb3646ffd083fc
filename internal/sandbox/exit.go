package sandbox

import "fmt"

// Reason is why a machine ended.
type Reason string

// The reasons.
const (
	// Exited: the first process ended. Exit.Status is its exit status, or 128
	// plus the number of the signal that ended it.
	Exited Reason = "exited"
	// Memory: the machine exceeded its memory limit.
	Memory Reason = "memory"
	// Killed: the machine was killed from outside: by the server, because a
	// call exceeded its time limit, or by a person.
	Killed Reason = "killed"
	// Crashed: the backend's process panicked, or a signal other than SIGKILL
	// ended it. Exit.Detail holds its last output.
	Crashed Reason = "crashed"
	// HostMemory: the host ran out of memory.
	HostMemory Reason = "host_memory"
	// Checkpointed: Checkpoint ended the machine. Its state is in the snapshot.
	Checkpointed Reason = "checkpointed"
	// Destroyed: Destroy ended the machine.
	Destroyed Reason = "destroyed"
)

// Exit is how a machine ended.
type Exit struct {
	Reason Reason
	// Status is the exit status of the backend's process, -1 when a signal
	// ended it.
	Status int
	// Signal is the number of the signal that ended the process, 0 for none.
	Signal int
	// Detail is one line for a log, at most 2 KiB.
	Detail string
}

// String returns the exit in one line.
func (e Exit) String() string {
	s := string(e.Reason)
	switch {
	case e.Signal != 0:
		s += fmt.Sprintf(" (signal %d)", e.Signal)
	case e.Reason == Exited || e.Reason == Crashed:
		s += fmt.Sprintf(" (status %d)", e.Status)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Lost reports whether the machine ended unexpectedly.
func (e Exit) Lost() bool {
	switch e.Reason {
	case Checkpointed, Destroyed, "":
		return false
	}
	return true
}
