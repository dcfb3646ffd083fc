// Package agent is the first process of a sandbox and the host's end of its
// wire. The agent starts kernels and processes, passes their input and output
// as frames over its own standard input and output, delivers signals, reaps
// what dies, and touches users' files, so that the host never does.
package agent

import "encoding/json"

// Version is the wire's. Host and agent come from one build; a snapshot from
// another build is never used, so they must be equal.
const Version = 1

// Window is how many bytes of a channel's output the agent sends ahead of the
// host's Ack, so that one flooding channel holds no other up.
const Window = 1 << 20

// Request is a Control frame from the host. Each has exactly one Response.
type Request struct {
	ID uint64 `json:"id"`
	// Op is one of the Op constants.
	Op      string          `json:"op"`
	Channel uint32          `json:"channel,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// The agent's operations, with their parameters and results.
const (
	OpKernelStart   = "kernel.start"   // StartKernel → kernel.Info, once the driver is ready
	OpKernelRequest = "kernel.request" // kernel.Request → kernel.Reply
	OpProcessStart  = "process.start"  // StartProcess → Started
	OpInterrupt     = "interrupt"      // → {}: SIGINT to the process group, or the driver's message
	OpSignal        = "signal"         // Signal → {}: to the channel's process group
	OpClose         = "close"          // → {}: SIGHUP, SIGTERM, after 2 s SIGKILL, for the whole process tree
	OpFileWrite     = "file.write"     // FileWrite, then Data frames on Channel until FlagEnd → FileStat; atomic
	OpFileRead      = "file.read"      // FileRead → FileStat, then Data frames on Channel until FlagEnd
	OpFileStat      = "file.stat"      // FileRead → FileStat
	OpReseed        = "reseed"         // Reseed → {}: after a restore, before any user code
	OpPing          = "ping"           // → {}
)

// Response answers a Request, or, with ID 0, tells of an Event.
type Response struct {
	ID     uint64          `json:"id,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"` // fault.Public
	// Event is hello or exit.
	Event   string `json:"event,omitempty"`
	Channel uint32 `json:"channel,omitempty"`
	Exit    *Exit  `json:"exit,omitempty"`
	Version int    `json:"version,omitempty"`
}

// Exit is how a channel's process ended. The event comes after its last output.
type Exit struct {
	// Code is the exit status, 128+n after signal n.
	Code int `json:"code"`
	// Signal is the signal's name, such as SIGKILL, or empty.
	Signal string `json:"signal,omitempty"`
	// Reason is exited, signaled, killed (by request) or memory.
	Reason string `json:"reason,omitempty"`
}

// StartKernel starts a driver.
type StartKernel struct {
	Language string            `json:"language"`
	Env      map[string]string `json:"env,omitempty"`
	Cwd      string            `json:"cwd,omitempty"`
}

// StartProcess starts a program with pipes.
type StartProcess struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env,omitempty"`
	// Cwd is relative to the user's home.
	Cwd string `json:"cwd,omitempty"`
	// Stdin keeps the standard input open for Input frames; otherwise it is
	// /dev/null.
	Stdin bool `json:"stdin,omitempty"`
}

// Started is a process that runs.
type Started struct {
	PID int `json:"pid"`
}

// Signal names a signal: SIGINT, SIGTERM, SIGKILL, SIGHUP, SIGQUIT, SIGUSR1,
// SIGUSR2, SIGSTOP or SIGCONT.
type Signal struct {
	Signal string `json:"signal"`
}

// FileWrite writes a file as the user, by a temporary name and a rename.
// Parents are made. Paths are relative to the user's home unless absolute.
type FileWrite struct {
	Path string `json:"path"`
	// Mode is the file's permission bits; 0 means 0644.
	Mode uint32 `json:"mode,omitempty"`
}

// FileRead names a file.
type FileRead struct {
	Path string `json:"path"`
}

// FileStat describes a file.
type FileStat struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	Mode uint32 `json:"mode"`
	// Modified is in milliseconds since 1970 UTC.
	Modified int64 `json:"modified_ms"`
	Dir      bool  `json:"dir"`
}

// Reseed makes a restored sandbox a machine of its own.
type Reseed struct {
	// Seed is 64 hexadecimal digits of fresh randomness.
	Seed     string            `json:"seed"`
	Hostname string            `json:"hostname"`
	Env      map[string]string `json:"env,omitempty"`
}
