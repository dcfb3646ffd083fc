// Package wire defines the protocol between the agent in a sandbox and the host:
// operations, parameters, results, events and limits that both ends share.
package wire

import (
	"encoding/json"

	"github.com/sandgate/sandgate/pty"
)

// Version is the wire's. Host and agent come from one build; a snapshot from
// another build is never used, so they must be equal.
const Version = 1

// Window is how many bytes of a channel's output the agent sends ahead of the
// host's Ack, so that one flooding channel holds no other up.
const Window = 1 << 20

// FlagAbort, with stream.FlagEnd, marks a Data frame that gives a file transfer
// up. The host's stops the transfer in either direction and leaves nothing
// behind; the agent's has a fault.Public as its body. The channel numbers of
// transfers are never used twice on one wire.
const FlagAbort uint8 = 1 << 2

// Window holds in all directions: for output, for the Data of files, and for
// Input. For what the host sends, the agent's Ack frames say how many bytes it
// has taken. A frame counts for at most half of the window, so that one larger
// than the window passes once half of it is free.

// Request is a Control frame from the host. Each has exactly one Response,
// unless its ID is 0: then it has none.
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
	OpTerminalStart = "terminal.start" // StartTerminal → Started
	OpResize        = "resize"         // Resize → {}: of a terminal
	OpRunning       = "running"        // → Running: beside the channel's first process
	OpInterrupt     = "interrupt"      // → {}: SIGINT to the process group or through the terminal, or the driver's message
	OpSignal        = "signal"         // Signal → {}: to the channel's process group, or see signalTerminal
	OpClose         = "close"          // → {}: SIGHUP, SIGTERM, after 2 s SIGKILL, for the whole process tree
	OpFileWrite     = "file.write"     // FileWrite, then Data frames on Channel until FlagEnd → FileStat; atomic
	OpFileRead      = "file.read"      // FileRead → FileOpened, then Data frames on Channel until FlagEnd
	OpFileStat      = "file.stat"      // FileRead → FileStat
	OpFileList      = "file.list"      // FileList → FileListing
	OpFileMkdir     = "file.mkdir"     // FileRead → FileStat; with its parents
	OpFileMove      = "file.move"      // FileMove → FileStat
	OpFileCopy      = "file.copy"      // FileMove → FileStat
	OpFileRemove    = "file.remove"    // FileRemove → {}
	OpFileLink      = "file.link"      // FileLink → {}; as the user in the home, as root elsewhere
	OpFileWatch     = "file.watch"     // FileWatch → FileStat, then Data with lines of FileChanges on Channel until it is given up
	OpTreeRead      = "tree.read"      // TreeRead → FileStat, then Data frames on Channel until FlagEnd
	OpTreeWrite     = "tree.write"     // FileRead, then Data frames on Channel until FlagEnd → TreeStat
	OpReseed        = "reseed"         // Reseed → {}: after a restore, before any user code
	OpPing          = "ping"           // → {}
	OpStats         = "stats"          // → Stats
)

// Response answers a Request, or, with ID 0, tells of an Event.
type Response struct {
	ID     uint64          `json:"id,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"` // fault.Public
	// TookUS is how many microseconds a driver took for a request that is timed.
	TookUS int64 `json:"took_us,omitempty"`
	// Event is hello, exit or dial.
	Event   string `json:"event,omitempty"`
	Channel uint32 `json:"channel,omitempty"`
	Exit    *Exit  `json:"exit,omitempty"`
	// Dial is where a program wants to go, on the new number Channel.
	Dial    *EgressTarget `json:"dial,omitempty"`
	Version int           `json:"version,omitempty"`
}

// The reasons of an Exit.
const (
	ReasonExited   = "exited"
	ReasonSignaled = "signaled"
	ReasonKilled   = "killed"   // by a close or a signal that the host asked for
	ReasonMemory   = "memory"   // SIGKILL, and memory had run out
	ReasonProtocol = "protocol" // a driver broke the driver protocol and was killed
)

// Exit is how a channel's process ended. The event comes after its last output.
// A channel whose start failed has no exit event.
type Exit struct {
	// Code is the exit status, 128+n after signal n.
	Code int `json:"code"`
	// Signal is the signal's name, such as SIGKILL, or empty.
	Signal string `json:"signal,omitempty"`
	// Reason is one of the Reason constants.
	Reason string `json:"reason,omitempty"`
	// Message says more, for people. It is empty for a plain exit.
	Message string `json:"message,omitempty"`
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

// StartTerminal starts a program in a terminal of its own, in a session of
// its own with that as its controlling terminal. Input frames are what is
// typed; they have no end.
type StartTerminal struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env,omitempty"`
	// Cwd is relative to the user's home.
	Cwd  string   `json:"cwd,omitempty"`
	Size pty.Size `json:"size"`
}

// Resize gives a terminal another size. With Redraw the program is made to
// draw its screen anew even if the size is the same.
type Resize struct {
	Size   pty.Size `json:"size"`
	Redraw bool     `json:"redraw,omitempty"`
}

// Running counts processes.
type Running struct {
	Processes int `json:"processes"`
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

// Reseed makes a restored sandbox a machine of its own.
type Reseed struct {
	// Seed is 64 hexadecimal digits of fresh randomness.
	Seed     string            `json:"seed"`
	Hostname string            `json:"hostname"`
	Env      map[string]string `json:"env,omitempty"`
	// Proxy is the loopback port on which programs find the way out; 0 opens
	// none, and NoProxy closes it.
	Proxy int `json:"proxy,omitempty"`
}

// Stats counts what happened in the sandbox since the agent started.
type Stats struct {
	// Channels and Transfers are those that live now.
	Channels  int `json:"channels"`
	Transfers int `json:"transfers"`
	// Reaped are the processes whose end the agent collected; Orphans are
	// those among them that it had not started.
	Reaped  uint64 `json:"reaped"`
	Orphans uint64 `json:"orphans"`
	// Stalls is how often a channel's output waited for the host's Ack.
	Stalls uint64 `json:"stalls"`
	// Malformed are frames from the host that made no sense; Stray are those
	// for channels that have ended.
	Malformed uint64 `json:"malformed"`
	Stray     uint64 `json:"stray"`
	// Garbage are drivers that were killed for breaking the protocol.
	Garbage uint64 `json:"garbage"`
	// Refused are requests that met a limit.
	Refused uint64 `json:"refused"`
}
