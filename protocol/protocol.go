// Package protocol is the public protocol sandgate.v1: its operations, their parameters and
// results. Gateway and node use the same messages. docs/protocol.md describes the protocol for
// people.
//
// A control message is a JSON object, in a text message of the WebSocket or a Control frame of a
// link. Everything else is binary frames of package frame.
package protocol

import (
	"encoding/json"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Subprotocol is the value that a client offers in Sec-WebSocket-Protocol.
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

// Request is a request of a client. The client chooses the ID: above 0 and not in use. The reply
// repeats it. A request without an ID gets no reply.
type Request struct {
	ID uint64 `json:"id,omitempty"`
	Op string `json:"op"`
	// Ch is a number that the client chose in attach.
	Ch     uint32          `json:"ch,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	// Trace is the W3C traceparent of the caller; empty if the request is not traced.
	Trace string `json:"traceparent,omitempty"`
	// IdempotencyKey names a request that creates something. A repeat with the same key has no second
	// effect and gets the same reply. Operations that create nothing ignore it.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// Reply answers a Request with a result or an error.
type Reply struct {
	ID     uint64          `json:"id,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *fault.Public   `json:"error,omitempty"`
	// Replayed is true if an earlier request with the same idempotency key has got this reply.
	Replayed bool `json:"replayed,omitempty"`
	// Event, with Ch and Params, is a message that answers no request.
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
	OpSessionEnsure = "session.ensure"
	OpSessionFind   = "session.find"
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
	OpNodeList      = "node.list"
	OpNodeUpdate    = "node.update"
	OpMetrics       = "metrics"
	OpAudit         = "audit"
)

// The events.
const (
	// EventLost reports that an attached channel's sandbox has ended. Params is Lost.
	EventLost = "lost"
	// EventState reports that the session of an attached channel was hibernated, begins to resume,
	// or has resumed. Params is StateChange.
	EventState = "state"
	// EventError reports that a frame from the client could not be accepted. Params is a
	// fault.Public. After an error for an Input frame the attachment accepts no more input, because
	// bytes would be missing.
	EventError = "error"
	// EventDetached reports that the connection to a node of the cluster has ended, and with it what
	// this connection had there. Params is Detached. A client that has not asked for it in Hello is
	// disconnected instead.
	EventDetached = "detached"
)

// Hello opens a connection.
type Hello struct {
	Client string `json:"client,omitempty"`
	// Events are events that the client handles and that the server otherwise does not send: detached.
	Events []string `json:"events,omitempty"`
}

// Welcome answers Hello.
type Welcome struct {
	Protocol string `json:"protocol"`
	Server   string `json:"server"`
}

// SessionCreate asks for a session.
type SessionCreate struct {
	// Language is the language that is warm in the sandbox; empty means python.
	Language string `json:"language,omitempty"`
	// Name is chosen by the user, at most 128 bytes.
	Name string `json:"name,omitempty"`
	// Env is the environment of kernels and processes: at most 128 variables, 64 KiB.
	Env map[string]string `json:"env,omitempty"`
	// LifetimeSeconds is the time until the session ends, also if it works; 0 means the server's
	// default, -1 (Never) means never.
	LifetimeSeconds int64 `json:"lifetime_seconds,omitempty"`
	// OnExpiry is what happens at the end of the lifetime: delete (also when empty), hibernate or
	// suspend. A session that is hibernated or suspended then has its lifetime again from the next
	// resume, unless SessionUpdate sets another one.
	OnExpiry string `json:"on_expiry,omitempty"`
	// Template is the name of the template that the sandbox is made from; empty means the
	// language's own template.
	Template string `json:"template,omitempty"`
	// Limits bound its resources, within the server's bounds.
	Limits *Limits `json:"limits,omitempty"`
	// IdlePauseSeconds is how long the session runs without work before it is paused,
	// IdleHibernateSeconds how long before it is hibernated, both counted from the last work. 0
	// means the server's default, -1 (Never) means never.
	IdlePauseSeconds     int64 `json:"idle_pause_seconds,omitempty"`
	IdleHibernateSeconds int64 `json:"idle_hibernate_seconds,omitempty"`
	// IdleDeleteSeconds is how long the session is without work before it is deleted; 0 means the
	// server's default, which is normally never, -1 (Never) means never.
	IdleDeleteSeconds int64 `json:"idle_delete_seconds,omitempty"`
	// KeepAlive means that the session is never paused, hibernated or evicted because it is idle.
	KeepAlive bool `json:"keep_alive,omitempty"`
	// Snapshot is the id or the name of a snapshot that the session starts from. The language is
	// then the snapshot's, and Env is added to its environment.
	Snapshot string `json:"snapshot,omitempty"`
	// Durable means that the session is saved to disk whenever it becomes idle after work; nil
	// means the server's default.
	Durable *bool `json:"durable,omitempty"`
	// Volumes are the volumes of the session, at most MaxMounts. A session that starts from a
	// snapshot, and a fork, have the volumes of the original.
	Volumes []Mount `json:"volumes,omitempty"`
	// Network bounds the session's network access. nil means none, or, for a session that starts
	// from a snapshot, the same as the original.
	Network *Network `json:"network,omitempty"`
	// Services are long-running commands that the node starts in the session, at most MaxServices.
	// They replace those of the template or snapshot with the same names.
	Services []Service `json:"services,omitempty"`
	// WaitReady delays the reply until all services are ready. If one is not, the session is
	// deleted again.
	WaitReady bool `json:"wait_ready,omitempty"`
	// Labels are keys and values chosen by the user: at most MaxLabels. Keys that begin with
	// sandgate. are set by the server.
	Labels map[string]string `json:"labels,omitempty"`
}

// Session is a session as clients see it.
type Session struct {
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	Language string `json:"language"`
	// State is running, paused, hibernated, resuming or lost.
	State string `json:"state"`
	// Suspended is true for a hibernated session that only session.resume resumes.
	Suspended bool `json:"suspended,omitempty"`
	// Reason is why the session was lost: memory, killed, crashed, exited, host, expired, upgraded
	// or moved.
	Reason string `json:"reason,omitempty"`
	// Reached is the limit that caused the loss of the session.
	Reached   *Reached `json:"reached,omitempty"`
	CreatedMS int64    `json:"created_ms"`
	// ExpiresMS is when the session ends; absent means never. ExpiresReason is lifetime, or idle
	// if it ends then without further work. OnExpiry is hibernate or suspend for a session that does
	// not end with its lifetime.
	ExpiresMS     int64  `json:"expires_ms,omitempty"`
	ExpiresReason string `json:"expires_reason,omitempty"`
	OnExpiry      string `json:"on_expiry,omitempty"`
	// ActiveMS is the time of the session's last work or request.
	ActiveMS int64  `json:"active_ms"`
	Template string `json:"template,omitempty"`
	// Limits are the limits in force. The idle times are as in SessionCreate, but never 0.
	Limits               *Limits `json:"limits,omitempty"`
	IdlePauseSeconds     int64   `json:"idle_pause_seconds,omitempty"`
	IdleHibernateSeconds int64   `json:"idle_hibernate_seconds,omitempty"`
	IdleDeleteSeconds    int64   `json:"idle_delete_seconds,omitempty"`
	KeepAlive            bool    `json:"keep_alive,omitempty"`
	// Usage is set in the reply about a single session that has a sandbox, not in lists.
	Usage *Usage `json:"usage,omitempty"`
	// Origin is the session or the snapshot that this one is a copy of.
	Origin string `json:"origin,omitempty"`
	// Edition names the runtime and the image of its last sandbox: see nodes.Edition.
	Edition string `json:"edition,omitempty"`
	// Durable is true when the session survives a killed server. KeptMS is the time of the last
	// state on disk. RecoveredMS is set once the session was recovered: the time of the state that
	// it was recovered from.
	Durable     bool    `json:"durable,omitempty"`
	KeptMS      int64   `json:"kept_ms,omitempty"`
	RecoveredMS int64   `json:"recovered_ms,omitempty"`
	Volumes     []Mount `json:"volumes,omitempty"`
	// Network bounds the session's network access; nil means none.
	Network  *Network          `json:"network,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Channels []Channel         `json:"channels"`
}

// SessionRef names a session.
type SessionRef struct {
	Session string `json:"session"`
}

// SessionFork asks for copies of a live session. The original continues.
type SessionFork struct {
	Session string `json:"session"`
	// Count is the number of copies, 1 to MaxForks; 0 means 1. Either all copies are made, or none.
	Count int `json:"count,omitempty"`
	// Name and LifetimeSeconds apply to each copy; 0 means the server's default.
	Name            string `json:"name,omitempty"`
	LifetimeSeconds int64  `json:"lifetime_seconds,omitempty"`
	// Labels are added to those of the original, and replace those with the same keys.
	Labels map[string]string `json:"labels,omitempty"`
}

// Forks are the copies.
type Forks struct {
	Sessions []Session `json:"sessions"`
	// PauseMS is how long the original was paused, in milliseconds.
	PauseMS float64 `json:"pause_ms"`
}

// SnapshotCreate saves the present state of a live session, so that other sessions can start from
// it.
type SnapshotCreate struct {
	Session string `json:"session"`
	// Name is chosen by the user, unique among the caller's snapshots, at most 128 bytes; empty
	// means no name.
	Name string `json:"name,omitempty"`
	// ExpiresSeconds is the time until the snapshot is removed; 0 means never.
	ExpiresSeconds int64 `json:"expires_seconds,omitempty"`
}

// Snapshot is a snapshot as clients see it.
type Snapshot struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Session is the session that the snapshot was taken from.
	Session   string `json:"session"`
	Language  string `json:"language"`
	CreatedMS int64  `json:"created_ms"`
	ExpiresMS int64  `json:"expires_ms,omitempty"`
	// Bytes is its size on disk.
	Bytes int64 `json:"bytes"`
	// PauseMS is how long the session was paused, in milliseconds.
	PauseMS float64 `json:"pause_ms"`
	// State is stored, uploading, or local if only one node can use it; empty without a blob store.
	State string `json:"state,omitempty"`
	// Edition is as in Session. UpgradedMS is when it was carried over, after an upgrade.
	Edition    string `json:"edition,omitempty"`
	UpgradedMS int64  `json:"upgraded_ms,omitempty"`
}

// SnapshotRef names a snapshot by its id or its name.
type SnapshotRef struct {
	Snapshot string `json:"snapshot"`
}

// SnapshotList is the caller's snapshots, newest first.
type SnapshotList struct {
	Snapshots []Snapshot `json:"snapshots"`
	Missing   []string   `json:"missing,omitempty"`
}

// ChannelOpen opens a kernel or starts a process or a terminal.
type ChannelOpen struct {
	Session string `json:"session"`
	// Kind is kernel, process or terminal.
	Kind string `json:"kind"`
	// Key is an idempotency key: a repeated open with the same key returns the first one's channel.
	// A kernel without a key is the default kernel of its language, which all clients share.
	Key string `json:"key,omitempty"`
	// Language is the language of a kernel, by name or alias; empty means the session's.
	Language string `json:"language,omitempty"`
	// Argv and Cwd are for a process or terminal, Stdin is for a process. File instead of Argv runs
	// that file with the session's language, and Args follow it. A terminal without Argv and File
	// runs a shell.
	Argv []string `json:"argv,omitempty"`
	File string   `json:"file,omitempty"`
	// Content is the content of File, for a process: the file is written before the program starts,
	// and must not exist. It is not among the changes of files.
	Content string            `json:"content,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Stdin   bool              `json:"stdin,omitempty"`
	// Cols and Rows are a terminal's size; 0 means 80 and 24.
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
	// Tag is a name under which clients find the channel of a process or terminal, at most MaxKey
	// bytes. Several channels can have the same tag.
	Tag string `json:"tag,omitempty"`
}

// Channel is a channel as clients see it.
type Channel struct {
	// ID is unique in its session: k1, k2, p3, t4, …
	ID       string   `json:"id"`
	Kind     string   `json:"kind"`
	Language string   `json:"language,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	// Cwd is the folder that it was opened with; empty means the home folder.
	Cwd string `json:"cwd,omitempty"`
	// Tag is the tag that it was opened with.
	Tag string `json:"tag,omitempty"`
	// Env is the environment that it was opened with, in a list with ChannelsWanted.Env only.
	Env map[string]string `json:"env,omitempty"`
	// PID is the process number of a process or terminal in the sandbox; 0 means that it is not
	// known.
	PID int `json:"pid,omitempty"`
	// InputEnded is true for a process that has no standard input, or whose input has ended.
	InputEnded bool `json:"input_ended,omitempty"`
	// State is starting, idle, busy, running, exited or dead.
	State string `json:"state"`
	// Exit is set once a process or terminal has ended.
	Exit *Exit `json:"exit,omitempty"`
	// Cols and Rows are a terminal's size. Title is the window title that its program has set, as
	// plain text.
	Cols  int    `json:"cols,omitempty"`
	Rows  int    `json:"rows,omitempty"`
	Title string `json:"title,omitempty"`
	// Info is the kernel's description of itself.
	Info json.RawMessage `json:"info,omitempty"`
	// Queued is the number of waiting executions.
	Queued int `json:"queued,omitempty"`
	// Separate is true for a kernel that was opened with a key of its own. The default kernel of a
	// language is the oldest one that is not separate.
	Separate bool   `json:"separate,omitempty"`
	Epoch    uint64 `json:"epoch"`
	// Oldest and End are the offsets of the log's first byte and of its end.
	Oldest int64 `json:"oldest"`
	End    int64 `json:"end"`
}

// ChannelsWanted asks for a session's channels.
type ChannelsWanted struct {
	Session string `json:"session"`
	// Env asks for the variables that each channel was opened with: of the oldest channels, up to
	// 1 MiB. It needs the scope sessions:write, because variables may be secrets of those who use
	// the session.
	Env bool `json:"env,omitempty"`
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

// Exit describes how a process ended. It is also the payload of a KindExit record.
type Exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Attach makes the connection a viewer of a channel, under the number ch.
type Attach struct {
	Session string `json:"session"`
	Channel string `json:"channel"`
	// Epoch and Offset are the position that the viewer has received; it gets the output that
	// follows. Epoch 0 means Offset in the current epoch, whichever that is. The offset -1 means
	// the end; -n means at most the last n bytes.
	Epoch  uint64 `json:"epoch,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	// Window is how many bytes may be sent ahead of the viewer's Ack; 0 means DefaultWindow.
	Window int64 `json:"window,omitempty"`
	// ReadOnly makes a viewer that cannot change anything.
	ReadOnly bool `json:"read_only,omitempty"`
	// Writer names a stream of input that survives lost connections. Its Input frames are numbered
	// from 1, and each is accepted once. A later attachment with the same name takes the stream
	// over.
	Writer string `json:"writer,omitempty"`
	// Cols and Rows are the size of the viewer's terminal.
	Cols int `json:"cols,omitempty"`
	Rows int `json:"rows,omitempty"`
}

// Follow sets how a viewer keeps up with a channel that prints faster than the viewer reads.
type Follow struct {
	// Behind is the largest distance, in bytes, between the viewer and the log's end. Beyond it the
	// viewer skips ahead and gets a gap. 0 means that the viewer gets everything that the log has.
	Behind int64 `json:"behind,omitempty"`
	// Before is the distance from the log's end at which the viewer continues after a gap, at most
	// Behind.
	Before int64 `json:"before,omitempty"`
	// Window replaces the window of Attach from now on.
	Window int64 `json:"window,omitempty"`
}

// Attached is the position where the stream begins.
type Attached struct {
	Epoch   uint64  `json:"epoch"`
	Offset  int64   `json:"offset"`
	Channel Channel `json:"channel"`
	// Input is the number of the writer's last accepted Input frame. The writer sends the later
	// ones again.
	Input uint64 `json:"input,omitempty"`
}

// Execute queues code in a kernel. The reply comes when the code is queued. The end of the cell is
// an execute_reply in the log.
type Execute struct {
	// Key is an idempotency key: a repeated execute with the same key returns the first one's
	// result.
	Key  string `json:"key"`
	Code string `json:"code"`
	// Silent runs the code without a result, an execution count or a history entry.
	Silent bool `json:"silent,omitempty"`
	// KeepGoing means that the executions queued after this one run even when it fails; otherwise
	// they are aborted.
	KeepGoing bool `json:"keep_going,omitempty"`
	// NoInput makes the language's input functions fail at once.
	NoInput bool `json:"no_input,omitempty"`
	// Program means that the cell ends only when a program would end; see kernel.Request.
	Program bool `json:"program,omitempty"`
	// TimeoutMS is the time in milliseconds after which the cell is interrupted; 0 means never.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// NoHistory keeps the code out of the history. Its results are shown, unlike those of Silent.
	NoHistory bool `json:"no_history,omitempty"`
	// Expressions are evaluated after the code, if it succeeds. The execute_reply has their values
	// by the same names. Only Python and Jupyter kernels evaluate them. At most 64 with 64 KiB.
	Expressions map[string]string `json:"user_expressions,omitempty"`
}

// Queued answers Execute.
type Queued struct {
	Cell uint32 `json:"cell"`
	// Repeated is true when the key was known and nothing new was queued.
	Repeated bool `json:"repeated,omitempty"`
}

// History is the code that a kernel channel has run, oldest first, also code that ran before a
// restart of the kernel. It has no silent or aborted executions.
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
	Cell uint32 `json:"cell"`
	// Request is the number of the request that is answered. 0 answers the one that is open.
	Request uint32 `json:"request,omitempty"`
	Value   string `json:"value"`
	EOF     bool   `json:"eof,omitempty"`
}

// Interrupt stops the running cell and keeps the state. Queued cells are aborted.
type Interrupt struct {
	// GraceMS is how long the kernel may take, in milliseconds. Then it is killed and restarted,
	// which loses its variables. 0 means never.
	GraceMS int64 `json:"grace_ms,omitempty"`
	// Cell limits the interrupt to one cell of a kernel: it is aborted if it waits, interrupted if
	// it runs, and nothing happens if it has ended. 0 means the running cell, and aborts all
	// waiting ones.
	Cell uint32 `json:"cell,omitempty"`
}

// Signal names a signal for a process.
type Signal struct {
	Signal string `json:"signal"`
}

// Resize is the new size of the viewer's terminal.
type Resize struct {
	Cols int `json:"cols"`
	Rows int `json:"rows"`
}

// Lost is the reason why a session's sandbox has ended.
type Lost struct {
	Session string `json:"session"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Reached is set when a limit was the reason.
	Reached *Reached `json:"reached,omitempty"`
}

// Detached is the end of the connection to a node. The client may attach the channels and send the
// requests again at once.
type Detached struct {
	// Channels are the numbers that were attached there. They are free.
	Channels []uint32 `json:"channels,omitempty"`
	// Requests are the ids of the requests that get no reply. The node may have performed them.
	Requests []uint64 `json:"requests,omitempty"`
	// Error is the reason.
	Error fault.Public `json:"error"`
}

// StateChange reports the state of a session: hibernated, resuming or running.
type StateChange struct {
	Session string `json:"session"`
	State   string `json:"state"`
	// Phase and Percent report the progress of a session that is resuming, once for each phase. The
	// percentages refer to the usual time.
	Phase   string `json:"phase,omitempty"`
	Percent int    `json:"percent,omitempty"`
}

// The phases of a session that is resuming.
const (
	PhaseRoom    = "room"    // other sessions have to make room first; left out if there is room
	PhaseMemory  = "memory"  // its sandbox is restored
	PhaseKernels = "kernels" // its programs continue, and their kernels are checked
)

// NodeStatus is an operator's view of a node.
type NodeStatus struct {
	Version   string     `json:"version"`
	Languages []Language `json:"languages"`
	Pool      Pool       `json:"pool"`
	// Sessions is the number of sessions with a sandbox. Hibernated is the number on disk.
	Sessions   int `json:"sessions"`
	Hibernated int `json:"hibernated"`
	// Snapshots is the number of snapshots that users keep, SnapshotBytes their size on disk.
	Snapshots     int   `json:"snapshots"`
	SnapshotBytes int64 `json:"snapshot_bytes"`
	// Counters count since the start. Package session defines their names.
	Counters map[string]int64 `json:"counters,omitempty"`
}

// Metrics has metrics in Prometheus' text format.
type Metrics struct {
	Text string `json:"text"`
	// Nodes has the nodes of a cluster, and whether each has sent its metrics.
	Nodes map[string]bool `json:"nodes,omitempty"`
}

// Language is a kernel that the server offers.
type Language struct {
	Name       string   `json:"name"`
	Display    string   `json:"display_name"`
	Aliases    []string `json:"aliases,omitempty"`
	Extensions []string `json:"extensions,omitempty"`
	// Kernelspec is the name of the kernelspec of a Jupyter kernel. Logo is its picture as a data
	// URI.
	Kernelspec string `json:"kernelspec,omitempty"`
	Logo       string `json:"logo,omitempty"`
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
