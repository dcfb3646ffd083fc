// Package protocol is the public protocol sandgate.v1, which the gateway and
// the node speak among themselves too: its operations, their parameters and
// results. docs/protocol.md describes it for people.
//
// A control message is a JSON object, in a text message of the WebSocket or a
// Control frame of a link. All else is binary frames of package stream.
package protocol

import (
	"encoding/json"

	"github.com/sandgate/sandgate/fault"
)

// Subprotocol is what a client offers in Sec-WebSocket-Protocol.
const Subprotocol = "sandgate.v1"

// Limits of the protocol.
const (
	MaxControl    = 2 << 20   // bytes of a control message
	MaxCode       = 1 << 20   // bytes of an execute's code
	MaxKey        = 128       // bytes of an idempotency key
	MaxInput      = 256 << 10 // bytes of one Input frame's data
	MaxChannels   = 64        // channels of a session
	MaxAttached   = 256       // channels attached over one connection
	DefaultWindow = 256 << 10 // bytes a viewer is sent ahead of its Ack
	MaxWindow     = 4 << 20
	MaxQueue      = 1000 // executions waiting in one kernel
	MaxWriter     = 128  // bytes of a writer's name
	MaxWriters    = 256  // writers that a channel remembers
	MaxForks      = 32   // copies that one session.fork makes
)

// Request is what a client asks. ID is the client's own, above 0 and not in
// use; the reply repeats it. A request without an ID has no reply.
type Request struct {
	ID uint64 `json:"id,omitempty"`
	Op string `json:"op"`
	// Ch is a number that the client chose in attach.
	Ch     uint32          `json:"ch,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	// Trace is the W3C traceparent of what asks; empty where nothing is traced.
	Trace string `json:"traceparent,omitempty"`
}

// Reply answers a Request with a result or an error.
type Reply struct {
	ID     uint64          `json:"id,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *fault.Public   `json:"error,omitempty"`
	// Event, with Ch and Params, is news that nobody asked for.
	Event  string          `json:"event,omitempty"`
	Ch     uint32          `json:"ch,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
}

// The operations.
const (
	OpHello         = "hello"
	OpSessionCreate = "session.create"
	OpSessionGet    = "session.get"
	OpSessionList   = "session.list"
	OpSessionDelete = "session.delete"
	OpHibernate     = "session.hibernate"
	OpResume        = "session.resume"
	OpFork          = "session.fork"
	OpSnapshot      = "session.snapshot"
	OpSnapshotList  = "snapshot.list"
	OpSnapshotGet   = "snapshot.get"
	OpSnapshotDel   = "snapshot.delete"
	OpChannelOpen   = "channel.open"
	OpChannelList   = "channel.list"
	OpChannelClose  = "channel.close"
	OpAttach        = "attach"
	OpDetach        = "detach"
	OpFollow        = "follow"
	OpExecute       = "execute"
	OpComplete      = "complete"
	OpInspect       = "inspect"
	OpIsComplete    = "is_complete"
	OpVariables     = "variables"
	OpHistory       = "history"
	OpComm          = "comm"
	OpInput         = "input"
	OpInterrupt     = "interrupt"
	OpRestart       = "restart"
	OpSignal        = "signal"
	OpResize        = "resize"
	OpStatus        = "status"
	OpMetrics       = "metrics"
	OpAudit         = "audit"
)

// The events.
const (
	// EventChannelLost: an attached channel's sandbox has ended; Params is Lost.
	EventLost = "lost"
	// EventState: the session of an attached channel was hibernated, begins to
	// wake, or has woken; Params is StateChange.
	EventState = "state"
	// EventError: a frame from the client could not be taken; Params is a
	// fault.Public. After one for an Input frame no more input is taken on that
	// attachment, since it would have a hole.
	EventError = "error"
)

// Hello opens a connection.
type Hello struct {
	Client string `json:"client,omitempty"`
}

// Welcome answers Hello.
type Welcome struct {
	Protocol string `json:"protocol"`
	Server   string `json:"server"`
}

// SessionCreate asks for a session.
type SessionCreate struct {
	// Language is warm in the sandbox; empty means python.
	Language string `json:"language,omitempty"`
	// Name is the user's, at most 128 bytes.
	Name string `json:"name,omitempty"`
	// Env is set for kernels and processes: at most 128 variables, 64 KiB.
	Env map[string]string `json:"env,omitempty"`
	// LifetimeSeconds ends the session after that time; 0 means the server's
	// default.
	LifetimeSeconds int64 `json:"lifetime_seconds,omitempty"`
	// Template is what the sandbox is made from, by name; empty means the
	// language's own.
	Template string `json:"template,omitempty"`
	// Limits are what it may use, within the server's bounds.
	Limits *Limits `json:"limits,omitempty"`
	// IdlePauseSeconds is how long it runs on without work before it is
	// paused, IdleHibernateSeconds how long before it is hibernated, counted
	// from the last work. 0 means the server's default, Never never.
	IdlePauseSeconds     int64 `json:"idle_pause_seconds,omitempty"`
	IdleHibernateSeconds int64 `json:"idle_hibernate_seconds,omitempty"`
	// KeepAlive means that being idle is no reason for anything.
	KeepAlive bool `json:"keep_alive,omitempty"`
	// Snapshot is the id or the name of one that the session is to go on from.
	// The language is then the snapshot's, and Env is added to its environment.
	Snapshot string `json:"snapshot,omitempty"`
	// Durable has the session kept on disk whenever it falls idle after work;
	// nil means the server's default.
	Durable *bool `json:"durable,omitempty"`
	// Volumes are those that the session has, at most MaxMounts. A session that
	// goes on from a snapshot, and a fork, have those of the original.
	Volumes []Mount `json:"volumes,omitempty"`
	// Network is what it may reach outside; nil means nothing, or, for a
	// session that goes on from a snapshot, what the original may.
	Network *Network `json:"network,omitempty"`
}

// Session is a session as clients see it.
type Session struct {
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	Language string `json:"language"`
	// State is running, paused, hibernated, resuming or lost.
	State string `json:"state"`
	// Reason says why a session is lost: memory, killed, crashed, exited,
	// host, expired, upgraded or moved.
	Reason string `json:"reason,omitempty"`
	// Reached is the limit that a session was lost by.
	Reached   *Reached `json:"reached,omitempty"`
	CreatedMS int64    `json:"created_ms"`
	ExpiresMS int64    `json:"expires_ms,omitempty"`
	// ActiveMS is when it last did work or was asked to.
	ActiveMS int64  `json:"active_ms"`
	Template string `json:"template,omitempty"`
	// Limits are those in force. The times are as in SessionCreate, never 0.
	Limits               *Limits `json:"limits,omitempty"`
	IdlePauseSeconds     int64   `json:"idle_pause_seconds,omitempty"`
	IdleHibernateSeconds int64   `json:"idle_hibernate_seconds,omitempty"`
	KeepAlive            bool    `json:"keep_alive,omitempty"`
	// Usage is given for one session that has a sandbox, not in lists.
	Usage *Usage `json:"usage,omitempty"`
	// Origin is the session or the snapshot that this one is a copy of.
	Origin string `json:"origin,omitempty"`
	// Durable is true when it comes back after the server was killed. RecoveredMS
	// is then, once it has, the time as of which it did, KeptMS that of the
	// last state on disk.
	Durable     bool    `json:"durable,omitempty"`
	KeptMS      int64   `json:"kept_ms,omitempty"`
	RecoveredMS int64   `json:"recovered_ms,omitempty"`
	Volumes     []Mount `json:"volumes,omitempty"`
	// Network is what it may reach outside; without it, nothing.
	Network  *Network  `json:"network,omitempty"`
	Channels []Channel `json:"channels"`
}

// SessionRef names a session.
type SessionRef struct {
	Session string `json:"session"`
}

// SessionList is the caller's sessions, newest first.
type SessionList struct {
	Sessions []Session `json:"sessions"`
}

// SessionFork asks for copies of a live session, which goes on.
type SessionFork struct {
	Session string `json:"session"`
	// Count is how many, 1 to MaxForks; 0 means 1. All are made, or none.
	Count int `json:"count,omitempty"`
	// Name is theirs, and LifetimeSeconds; 0 means the server's default.
	Name            string `json:"name,omitempty"`
	LifetimeSeconds int64  `json:"lifetime_seconds,omitempty"`
}

// Forks are the copies.
type Forks struct {
	Sessions []Session `json:"sessions"`
	// PauseMS is for how long the original stood still.
	PauseMS float64 `json:"pause_ms"`
}

// SnapshotCreate keeps a live session as it is now, for other sessions to go
// on from.
type SnapshotCreate struct {
	Session string `json:"session"`
	// Name is the user's, unique among the caller's snapshots, at most 128
	// bytes; empty for none.
	Name string `json:"name,omitempty"`
	// ExpiresSeconds removes it after that time; 0 means never.
	ExpiresSeconds int64 `json:"expires_seconds,omitempty"`
}

// Snapshot is a snapshot as clients see it.
type Snapshot struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Session is the one that it was taken of.
	Session   string `json:"session"`
	Language  string `json:"language"`
	CreatedMS int64  `json:"created_ms"`
	ExpiresMS int64  `json:"expires_ms,omitempty"`
	// Bytes is what it takes on disk.
	Bytes int64 `json:"bytes"`
	// PauseMS is for how long the session stood still.
	PauseMS float64 `json:"pause_ms"`
}

// SnapshotRef names a snapshot by its id or its name.
type SnapshotRef struct {
	Snapshot string `json:"snapshot"`
}

// SnapshotList is the caller's snapshots, newest first.
type SnapshotList struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// ChannelOpen opens a kernel or starts a process or a terminal.
type ChannelOpen struct {
	Session string `json:"session"`
	// Kind is kernel, process or terminal.
	Kind string `json:"kind"`
	// Key makes a repeated open return the channel that the first one made.
	Key string `json:"key,omitempty"`
	// Language is a kernel's; empty means the session's.
	Language string `json:"language,omitempty"`
	// Argv and Cwd are a process's or terminal's, Stdin a process's. With File
	// in place of Argv the language's own way to run that file is taken, and
	// Args follow it. A terminal without either has a shell.
	Argv  []string          `json:"argv,omitempty"`
	File  string            `json:"file,omitempty"`
	Args  []string          `json:"args,omitempty"`
	Cwd   string            `json:"cwd,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Stdin bool              `json:"stdin,omitempty"`
	// Cols and Rows are a terminal's size; 0 means 80 and 24.
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
}

// Channel is a channel as clients see it.
type Channel struct {
	// ID is unique in its session: k1, k2, p3, t4, …
	ID       string   `json:"id"`
	Kind     string   `json:"kind"`
	Language string   `json:"language,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	// State is starting, idle, busy, running, exited or dead.
	State string `json:"state"`
	// Exit is set once a process or terminal has ended.
	Exit *Exit `json:"exit,omitempty"`
	// Cols and Rows are a terminal's size, and Title what the program in it
	// has called its window, as plain text.
	Cols  int    `json:"cols,omitempty"`
	Rows  int    `json:"rows,omitempty"`
	Title string `json:"title,omitempty"`
	// Info is the kernel's.
	Info json.RawMessage `json:"info,omitempty"`
	// Queued is how many executions wait.
	Queued int    `json:"queued,omitempty"`
	Epoch  uint64 `json:"epoch"`
	// Oldest and End bound what the log holds.
	Oldest int64 `json:"oldest"`
	End    int64 `json:"end"`
}

// ChannelList is a session's channels, oldest first.
type ChannelList struct {
	Channels []Channel `json:"channels"`
}

// ChannelRef names a channel.
type ChannelRef struct {
	Session string `json:"session"`
	Channel string `json:"channel"`
}

// Exit is how a process ended, and the payload of a KindExit record.
type Exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Attach makes the connection a viewer of a channel, under the number ch.
type Attach struct {
	Session string `json:"session"`
	Channel string `json:"channel"`
	// Epoch and Offset are what the viewer has received: it gets what follows.
	// Epoch 0 means from Offset in whatever epoch there is. An Offset of -1
	// means from the end, -n from the last n bytes at most.
	Epoch  uint64 `json:"epoch,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	// Window is how many bytes may be sent ahead of the viewer's Ack; 0 means
	// DefaultWindow.
	Window int64 `json:"window,omitempty"`
	// ReadOnly makes a viewer that can change nothing.
	ReadOnly bool `json:"read_only,omitempty"`
	// Writer names a stream of input that goes on over lost connections: its
	// Input frames are numbered from 1, and each is taken once. A later
	// attachment with the name takes it over.
	Writer string `json:"writer,omitempty"`
	// Cols and Rows are the size of the viewer's terminal.
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
}

// Follow says how a viewer keeps up with a channel that is faster than it.
type Follow struct {
	// Behind is how many bytes may lie between what was sent and the log's
	// end. Beyond it the viewer goes on near the end, behind a gap. 0 means
	// that it gets all that the log has.
	Behind int64 `json:"behind,omitempty"`
	// Before is how far from the end it goes on, at most Behind.
	Before int64 `json:"before,omitempty"`
	// Window is Attach's, from now on.
	Window int64 `json:"window,omitempty"`
}

// Attached says where the stream begins.
type Attached struct {
	Epoch   uint64  `json:"epoch"`
	Offset  int64   `json:"offset"`
	Channel Channel `json:"channel"`
	// Input is the number of the writer's last Input that was taken: it sends
	// again what came after it.
	Input uint64 `json:"input,omitempty"`
}

// Execute queues code in a kernel. The reply comes when it is queued; the end
// of the cell is an execute_reply in the log.
type Execute struct {
	// Key makes a repeated execute return what the first one did.
	Key  string `json:"key"`
	Code string `json:"code"`
	// Silent executes without result, count or history.
	Silent bool `json:"silent,omitempty"`
	// KeepGoing lets the executions queued behind this one run even when it
	// fails; otherwise they are aborted.
	KeepGoing bool `json:"keep_going,omitempty"`
	// NoInput makes the language's input functions fail at once.
	NoInput bool `json:"no_input,omitempty"`
	// Program lets the cell end when a program would: see kernel.Request.
	Program bool `json:"program,omitempty"`
	// TimeoutMS interrupts the cell after that time; 0 means never.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
}

// Queued answers Execute.
type Queued struct {
	Cell uint32 `json:"cell"`
	// Repeated is true when the key was known and nothing new was queued.
	Repeated bool `json:"repeated,omitempty"`
}

// Complete asks about code at a cursor, in Unicode code points.
type Complete struct {
	Code   string `json:"code"`
	Cursor int    `json:"cursor"`
	Detail int    `json:"detail,omitempty"`
}

// History is what a kernel channel has run, oldest first, also before the
// kernel was restarted. Silent executions and aborted ones are not in it.
type History struct {
	Entries []HistoryEntry `json:"entries"`
}

// HistoryEntry is one execution.
type HistoryEntry struct {
	Cell  uint32 `json:"cell"`
	Count int    `json:"execution_count"`
	Code  string `json:"code"`
	// Status is running, ok or error.
	Status string `json:"status"`
}

// InputReply answers an input_request.
type InputReply struct {
	Cell  uint32 `json:"cell"`
	Value string `json:"value"`
	EOF   bool   `json:"eof,omitempty"`
}

// Interrupt stops the running cell and keeps the state. Queued cells are
// aborted.
type Interrupt struct {
	// GraceMS is how long the kernel may take before it is killed and started
	// anew, which loses its variables; 0 means never.
	GraceMS int64 `json:"grace_ms,omitempty"`
}

// Signal names a signal for a process.
type Signal struct {
	Signal string `json:"signal"`
}

// Resize says how large the viewer's terminal is.
type Resize struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// Lost says why a session's sandbox has ended.
type Lost struct {
	Session string `json:"session"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Reached is set when a limit was the reason.
	Reached *Reached `json:"reached,omitempty"`
}

// StateChange tells of a session's state: hibernated, resuming or running.
type StateChange struct {
	Session string `json:"session"`
	State   string `json:"state"`
	// Phase and Percent say how far a session has come that is resuming: it is
	// told once for each phase. The percentages are of the time that is usual.
	Phase   string `json:"phase,omitempty"`
	Percent int    `json:"percent,omitempty"`
}

// The phases of a session that is resuming.
const (
	PhaseRoom    = "room"    // others have to make room first; left out where there is some
	PhaseMemory  = "memory"  // its sandbox is restored
	PhaseKernels = "kernels" // what runs in it goes on, and is asked whether it answers
)

// NodeStatus is what an operator sees of a node.
type NodeStatus struct {
	Version   string     `json:"version"`
	Languages []Language `json:"languages"`
	Pool      Pool       `json:"pool"`
	// Sessions are those that have a sandbox; Hibernated are on disk.
	Sessions   int `json:"sessions"`
	Hibernated int `json:"hibernated"`
	// Snapshots are those that users keep, SnapshotBytes what they take on disk.
	Snapshots     int   `json:"snapshots"`
	SnapshotBytes int64 `json:"snapshot_bytes"`
	// Counters count since the start; their names are session's.
	Counters map[string]int64 `json:"counters,omitempty"`
}

// Metrics is what Prometheus reads, in its text format.
type Metrics struct {
	Text string `json:"text"`
}

// Language is a kernel that the server offers.
type Language struct {
	Name       string   `json:"name"`
	Display    string   `json:"display_name"`
	Aliases    []string `json:"aliases,omitempty"`
	Extensions []string `json:"extensions,omitempty"`
}

// Pool is the state of the pool of warm sandboxes.
type Pool struct {
	Size  int `json:"size"`
	Ready int `json:"ready"`
	// Claims, Waits and Refusals count since the start.
	Claims    int64  `json:"claims"`
	Waits     int64  `json:"waits"`
	Refusals  int64  `json:"refusals"`
	LastError string `json:"last_error,omitempty"`
}
