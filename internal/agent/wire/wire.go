// Package wire defines the protocol between the agent in a sandbox and the host:
// operations, parameters, results, events and limits that both ends share.
package wire

import (
	"encoding/json"

	"github.com/sandgate/sandgate/pty"
)

// Version is the version of the wire. It must be equal at both ends.
const Version = 1

// Window is the number of bytes of a channel's output that the agent sends ahead of the host's Ack,
// so that a channel with much output does not delay others. It also holds for the Data of files and
// for Input. The agent acknowledges Data and Input with Ack frames. A frame counts for at most half
// of the window, so a frame larger than the window passes once half of it is free.
const Window = 1 << 20

// FlagAbort, with stream.FlagEnd, marks a Data frame that aborts a transfer.
// From the host it stops the transfer in either direction; an aborted write
// leaves no file. From the agent it has a fault.Public as its body. The numbers
// of transfers are never used twice on one wire.
const FlagAbort uint8 = 1 << 2

// Request is a Control frame from the host. It has exactly one Response, or
// none if its ID is 0.
type Request struct {
	ID uint64 `json:"id"`
	// Op is one of the Op constants.
	Op      string          `json:"op"`
	Channel uint32          `json:"channel,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
}

// The agent's operations, with their parameters and results. Data frames have the
// request's Channel. OpClose sends SIGHUP and SIGTERM, and after 2 s SIGKILL.
const (
	OpKernelStart   = "kernel.start"   // StartKernel → message.Info, once the driver is ready
	OpKernelRequest = "kernel.request" // kernel.Request → message.Reply
	OpProcessStart  = "process.start"  // StartProcess → Started
	OpTerminalStart = "terminal.start" // StartTerminal → Started
	OpResize        = "resize"         // Resize → {}: of a terminal
	OpRunning       = "running"        // → Running: besides the channel's first process
	OpInterrupt     = "interrupt"      // → {}: by SIGINT, a key or a message
	OpSignal        = "signal"         // Signal → {}: to the process group or the terminal
	OpClose         = "close"          // → {}: ends the whole process tree
	OpFileWrite     = "file.write"     // FileWrite, then Data until FlagEnd → FileStat; atomic
	OpFileRead      = "file.read"      // FileRead → FileOpened, then Data until FlagEnd
	OpFileStat      = "file.stat"      // FileDescribe → FileStat
	OpFileList      = "file.list"      // FileList → FileListing
	OpFileMkdir     = "file.mkdir"     // FileRead → FileStat; with its parents
	OpFileMove      = "file.move"      // FileMove → FileStat
	OpFileCopy      = "file.copy"      // FileMove → FileStat
	OpFileRemove    = "file.remove"    // FileRemove → {}
	OpFileLink      = "file.link"      // FileLink → {}; as the user in the home, as root elsewhere
	OpFileWatch     = "file.watch"     // FileWatch → FileStat, then lines of FileChanges
	OpFileChanges   = "file.changes"   // ChangesSince → ChangedFiles
	OpTreeRead      = "tree.read"      // TreeRead → FileStat, then Data until FlagEnd
	OpTreeWrite     = "tree.write"     // TreeWrite, then Data until FlagEnd → TreeStat
	OpReseed        = "reseed"         // Reseed → {}: after a restore, before any user code
	OpPing          = "ping"           // → {}
	OpStats         = "stats"          // → Stats
)

// Response answers a Request, or reports an Event if its ID is 0.
type Response struct {
	ID     uint64          `json:"id,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"` // fault.Public
	// TookUS is how many microseconds a driver took for a request with Timed.
	TookUS int64 `json:"took_us,omitempty"`
	// Event is hello, exit or dial.
	Event   string `json:"event,omitempty"`
	Channel uint32 `json:"channel,omitempty"`
	Exit    *Exit  `json:"exit,omitempty"`
	// Dial is the destination of a new connection, which has the number Channel.
	Dial    *EgressTarget `json:"dial,omitempty"`
	Version int           `json:"version,omitempty"`
	// Revision is the agent's Revision. An agent without one has revision 0.
	Revision int `json:"revision,omitempty"`
}

// The reasons of an Exit.
const (
	ReasonExited   = "exited"
	ReasonSignaled = "signaled"
	ReasonKilled   = "killed"   // by a close or a signal from the host
	ReasonMemory   = "memory"   // by SIGKILL, because memory had run out
	ReasonProtocol = "protocol" // a driver broke the driver protocol and was killed
)

// Exit describes the end of a channel's process. The event comes after its last
// output. A channel whose start failed has no exit event.
type Exit struct {
	// Code is the exit status, 128+n after signal n.
	Code int `json:"code"`
	// Signal is the signal's name, such as SIGKILL, or empty.
	Signal string `json:"signal,omitempty"`
	// Reason is one of the Reason constants.
	Reason string `json:"reason,omitempty"`
	// Message is a sentence for people. It is empty for a plain exit.
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
	// Source is a file that is written before the program starts. It is a Conflict if the file
	// exists.
	Source *Source `json:"source,omitempty"`
}

// Source is a file of a program. The records of changes leave out that it was written.
type Source struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// StartTerminal starts a program in a new terminal, which is the controlling
// terminal of the program's new session. Input frames carry typed keys and have
// no end.
type StartTerminal struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env,omitempty"`
	// Cwd is relative to the user's home.
	Cwd  string   `json:"cwd,omitempty"`
	Size pty.Size `json:"size"`
}

// Resize changes the size of a terminal. Redraw makes the program redraw its
// screen even if the size is the same.
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

// Reseed gives a restored sandbox an identity of its own.
type Reseed struct {
	// Seed is 64 hexadecimal digits of fresh randomness.
	Seed     string            `json:"seed"`
	Hostname string            `json:"hostname"`
	Env      map[string]string `json:"env,omitempty"`
	// Proxy is the loopback port of the egress proxy. 0 changes nothing, and
	// NoProxy closes it.
	Proxy int `json:"proxy,omitempty"`
}

// Stats counts what happened in the sandbox since the agent started.
type Stats struct {
	// Channels and Transfers are the current ones.
	Channels  int `json:"channels"`
	Transfers int `json:"transfers"`
	// Reaped counts the processes whose end the agent collected. Orphans counts
	// those of them that it had not started.
	Reaped  uint64 `json:"reaped"`
	Orphans uint64 `json:"orphans"`
	// Stalls counts how often a channel's output waited for the host's Ack.
	Stalls uint64 `json:"stalls"`
	// Malformed counts invalid frames from the host. Stray counts frames for
	// channels that have ended.
	Malformed uint64 `json:"malformed"`
	Stray     uint64 `json:"stray"`
	// Garbage counts drivers that were killed for violating the protocol.
	Garbage uint64 `json:"garbage"`
	// Refused counts requests over a limit.
	Refused uint64 `json:"refused"`
}
