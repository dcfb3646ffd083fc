package protocol

import (
	"encoding/json"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The operations that run code once. The gateway performs them by other operations.
const (
	OpRunOnce      = "run.once"
	OpRunInput     = "run.input"
	OpRunInterrupt = "run.interrupt"
	OpSessionRun   = "session.run"
)

// RunRequest runs code.
type RunRequest struct {
	// Language is the kernel's; empty means python, or the session's.
	Language string `json:"language,omitempty"`
	// Code has at most 1 MiB.
	Code string `json:"code"`
	// Stdin answers the code's requests for input, line by line. Without it they fail at once.
	Stdin *string `json:"stdin,omitempty"`
	// Interactive turns input requests into input_request events, which POST /v1/run/{id}/input
	// answers. The time until the answer counts towards the timeout.
	Interactive bool `json:"interactive,omitempty"`
	// Files are written before the code runs, at most 64.
	Files []RunFile `json:"files,omitempty"`
	// TimeoutMS is the time after which the code is interrupted; 0 means 30 s, at most 10 min.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// Session is an existing session, whose state the code uses. Without it the run creates a
	// session and deletes it afterwards. It needs the scope sessions:write.
	Session string `json:"session,omitempty"`
	// MaxOutputBytes bounds the output that is sent; 0 means 1 MiB, at most 64 MiB.
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
	// Template, Env, Limits, Network and Volumes are those of the session that the run creates: see
	// SessionCreate. Limits, Network and Volumes need the scope sessions:manage. Session excludes
	// all of them.
	Template string            `json:"template,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Limits   *Limits           `json:"limits,omitempty"`
	Network  *Network          `json:"network,omitempty"`
	Volumes  []Mount           `json:"volumes,omitempty"`
	// Labels are those of the session that the run creates. The records of use have them.
	Labels map[string]string `json:"labels,omitempty"`
	// MaxFileBytes bounds the sum of the content of created files in the answer; 0 means 8 MiB, at
	// most 64 MiB.
	MaxFileBytes int64 `json:"max_file_bytes,omitempty"`
	// KeepSeconds is how long the session that the run creates stays, at most 3,600; 0 means that it
	// is deleted. It needs the scope sessions:manage. The answer then has no content of files.
	KeepSeconds int64 `json:"keep_seconds,omitempty"`
}

// SessionRun runs code in a session, in the default kernel of its language. The variables stay.
type SessionRun struct {
	Session string `json:"session"`
	Code    string `json:"code"`
	// Language is the kernel's; empty means the session's.
	Language string `json:"language,omitempty"`
	// Kernel is the key of a separate kernel, which is opened with the first use of the key; empty
	// means the default kernel of the language.
	Kernel string `json:"kernel,omitempty"`
	// Stdin to MaxOutputBytes are as in RunRequest.
	Stdin          *string   `json:"stdin,omitempty"`
	Interactive    bool      `json:"interactive,omitempty"`
	Files          []RunFile `json:"files,omitempty"`
	TimeoutMS      int64     `json:"timeout_ms,omitempty"`
	MaxOutputBytes int64     `json:"max_output_bytes,omitempty"`
	// OnDisconnect is cancel, the default, or detach. It says what happens to the code if the client
	// disconnects: cancel interrupts it.
	OnDisconnect string `json:"on_disconnect,omitempty"`
}

// RunFile is a file that is written before the code runs.
type RunFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	// Encoding is utf-8, the default, or base64.
	Encoding string `json:"encoding,omitempty"`
}

// RunEvent is one event of a run. Type says which fields are used: start, stdout, stderr, display,
// result, clear, input_request, error, truncated, files, done or keepalive.
type RunEvent struct {
	Type string `json:"type"`
	// Session, Channel and Cell are in start.
	Session string `json:"session,omitempty"`
	Channel string `json:"channel,omitempty"`
	Cell    uint32 `json:"cell,omitempty"`
	// Prompt, Password and Request are in input_request. An answer names the number in Request.
	Prompt   string `json:"prompt,omitempty"`
	Password bool   `json:"password,omitempty"`
	Request  uint32 `json:"request,omitempty"`
	// Text is in stdout and stderr.
	Text string `json:"text,omitempty"`
	// Data to Update are in display and result: one value in several formats, by MIME type.
	Data      map[string]json.RawMessage `json:"data,omitempty"`
	Metadata  map[string]json.RawMessage `json:"metadata,omitempty"`
	DisplayID json.RawMessage            `json:"display_id,omitempty"`
	Update    bool                       `json:"update,omitempty"`
	// Count is in result and done.
	Count int `json:"execution_count,omitempty"`
	// Wait is in clear.
	Wait bool `json:"wait,omitempty"`
	// EName, EValue and Traceback are in error.
	EName     string   `json:"ename,omitempty"`
	EValue    string   `json:"evalue,omitempty"`
	Traceback []string `json:"traceback,omitempty"`
	// Bytes is in truncated: how many bytes of output were not sent.
	Bytes int64 `json:"bytes,omitempty"`
	// Files and FilesTruncated are in files: see RunResult.
	Files          []CreatedFile `json:"files,omitempty"`
	FilesTruncated bool          `json:"files_truncated,omitempty"`
	// Status is in done: ok, error, aborted, timeout, lost or failed. So are the fields after it.
	Status    string        `json:"status,omitempty"`
	ExitCode  *int          `json:"exit_code,omitempty"`
	ElapsedMS float64       `json:"elapsed_ms,omitempty"`
	Fault     *fault.Public `json:"fault,omitempty"`
}

// RunResult is a run as one object.
type RunResult struct {
	Session string `json:"session"`
	Cell    uint32 `json:"cell"`
	// Status is ok, error, aborted, timeout, lost or failed.
	Status    string  `json:"status"`
	ExitCode  *int    `json:"exit_code,omitempty"`
	ElapsedMS float64 `json:"elapsed_ms"`
	Stdout    string  `json:"stdout"`
	Stderr    string  `json:"stderr"`
	// Results are the display and result events, in order.
	Results []RunEvent `json:"results"`
	// Data is the value of the last expression in several formats, by MIME type.
	Data map[string]json.RawMessage `json:"data,omitempty"`
	// Count is the number of the cell in its kernel, as languages count.
	Count int `json:"execution_count,omitempty"`
	// Error is the error event of failed code.
	Error          *RunEvent `json:"error,omitempty"`
	TruncatedBytes int64     `json:"truncated_bytes,omitempty"`
	// Files are the files in the user's home that were created or changed meanwhile, at most 200.
	// FilesTruncated is true if there may be others. If the run's session is deleted afterwards,
	// they have their content.
	Files          []CreatedFile `json:"files,omitempty"`
	FilesTruncated bool          `json:"files_truncated,omitempty"`
	Fault          *fault.Public `json:"fault,omitempty"`
}

// RunInput answers an input_request of an interactive run. Session, Channel and Cell are those of
// the run's start event.
type RunInput struct {
	Session string `json:"session"`
	Channel string `json:"channel"`
	Cell    uint32 `json:"cell"`
	// Request is the number in the input_request event. 0 answers the request that is open.
	Request uint32 `json:"request,omitempty"`
	Value   string `json:"value,omitempty"`
	EOF     bool   `json:"eof,omitempty"`
}

// RunInterrupt stops a run; its last output and its done event follow.
type RunInterrupt struct {
	Session string `json:"session"`
	Channel string `json:"channel"`
	// Cell is the cell of the run; 0 means the one that runs.
	Cell uint32 `json:"cell,omitempty"`
}
