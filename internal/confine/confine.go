// Package confine runs work on data of users in a child process of the same program. The child has
// a cgroup of its own, three capabilities at most, no network, a filter of system calls, and can
// open only the folders that its caller names. It ends when the caller's context ends, or when the
// caller's process ends.
//
// The work is a Job with a name. Main runs it in the child. Run starts the child, sends it the
// arguments and the input, and returns its result.
package confine

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of a child.
const (
	// Memory bounds the child's memory, with the pages of files that it writes.
	Memory = 1536 << 20
	// CPUs is the share of the machine's CPUs.
	CPUs = 1.0
	// PIDs bounds its processes and threads.
	PIDs = 64
	// OpenFiles and FileBytes are its resource limits.
	OpenFiles = 1024
	FileBytes = 16 << 30
	// maxResult bounds the JSON of its result, and maxArguments the JSON of its arguments.
	maxResult    = 4 << 20
	maxArguments = 1 << 20
	// endLimit bounds the wait for its pipes after its end.
	endLimit = 10 * time.Second
)

// Job does the work in the child. args are the arguments of Run as JSON, and in is Run's input. The
// result is sent to the caller as JSON.
type Job func(ctx context.Context, args json.RawMessage, in io.Reader) (result any, err error)

// Group is the cgroup of a child.
type Group interface {
	// Confine moves a process with its threads into the cgroup.
	Confine(pid int) error
	// OutOfMemory reports whether the kernel killed a process of the cgroup for lack of memory.
	OutOfMemory() bool
	// Remove kills what is left in the cgroup and removes it.
	Remove() error
}

// Runner starts children. The zero value is not usable.
type Runner struct {
	// Argv starts the program, up to the name of the job.
	Argv []string
	// Env are variables that the program needs to start. The child has no other variables of the
	// caller.
	Env []string
	// NewGroup creates a cgroup with the limits Memory, CPUs and PIDs.
	NewGroup func() (Group, error)
}

// Task is one call of Run.
type Task struct {
	Job string
	// Args become the arguments, as JSON.
	Args any
	// Read and Write are the files and folders that the child may read, and those that it may also
	// change. It can read the system's programs too.
	Read, Write []string
	// In is the input; nil means none. A Read that waits must end when the caller has given up.
	In io.Reader
}

// answer is the child's last message.
type answer struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *fault.Public   `json:"error,omitempty"`
	// Detail is the error's whole text, for the log of the node.
	Detail string `json:"detail,omitempty"`
}

// folders are the paths that a child may open.
type folders struct {
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
}
