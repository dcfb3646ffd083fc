// Package message defines the messages of language kernels, in Jupyter's format, and the replies of
// a kernel to requests.
package message

import "encoding/json"

// The types of a kernel's messages. Text on the two standard streams is not sent as messages, but
// as plain bytes.
const (
	ExecuteInputType  = "execute_input"
	ExecuteReplyType  = "execute_reply"
	DisplayDataType   = "display_data"
	UpdateDisplayType = "update_display_data"
	ExecuteResultType = "execute_result"
	ErrorType         = "error"
	ClearOutputType   = "clear_output"
	InputRequestType  = "input_request"
	StatusType        = "status"
	KernelEventType   = "kernel_event"
	CommOpenType      = "comm_open"
	CommMsgType       = "comm_msg"
	CommCloseType     = "comm_close"
)

// Message is the payload of a KindMessage record.
type Message struct {
	Type    string          `json:"msg_type"`
	Content json.RawMessage `json:"content"`
}

// ExecuteInput begins a cell: all records with its cell number follow.
type ExecuteInput struct {
	// Key is the client's idempotency key, unchanged.
	Key   string `json:"key"`
	Code  string `json:"code"`
	Count int    `json:"execution_count"`
}

// ExecuteReply ends a cell. It comes after the cell's last output.
type ExecuteReply struct {
	Key string `json:"key"`
	// Status is ok, error or aborted. Aborted cells never ran.
	Status string `json:"status"`
	Count  int    `json:"execution_count"`
	// EName and EValue repeat the error of a failed cell.
	EName  string `json:"ename,omitempty"`
	EValue string `json:"evalue,omitempty"`
	// ExitCode is set when the code asked to exit, for example with sys.exit.
	ExitCode *int `json:"exit_code,omitempty"`
	// Millis is how long the cell ran, in milliseconds, without its time in the queue.
	Millis float64 `json:"elapsed_ms"`
	// Payload holds output for a separate view, such as pager text.
	Payload json.RawMessage `json:"payload,omitempty"`
	// Expressions has the values of the request's expressions, by their names, as Jupyter has them.
	Expressions json.RawMessage `json:"user_expressions,omitempty"`
}

// Bundle is the content of display_data, update_display_data and
// execute_result: one value in several MIME types.
type Bundle struct {
	Data      map[string]json.RawMessage `json:"data"`
	Metadata  map[string]json.RawMessage `json:"metadata"`
	Transient map[string]json.RawMessage `json:"transient,omitempty"`
	Count     int                        `json:"execution_count,omitempty"`
}

// Error is the content of error.
type Error struct {
	EName     string   `json:"ename"`
	EValue    string   `json:"evalue"`
	Traceback []string `json:"traceback"`
}

// ClearOutput is the content of clear_output.
type ClearOutput struct {
	Wait bool `json:"wait"`
}

// InputRequest is the content of input_request: the cell waits for a line.
type InputRequest struct {
	Prompt   string `json:"prompt"`
	Password bool   `json:"password"`
	// Stream is true if a program reads its standard input: an answer may have several lines, and
	// EOF may follow them in the same answer.
	Stream bool `json:"stream,omitempty"`
	// Request counts the requests of the cell from 1. The queue sets it. An answer names it.
	Request uint32 `json:"request,omitempty"`
}

// KernelEvent is the content of kernel_event: the kernel reports a change of its own state, such as
// a loss of variables after a fatal error.
type KernelEvent struct {
	// Event is restored, state_lost or notice.
	Event string `json:"event"`
	// Message is a sentence for people.
	Message string `json:"message"`
}

// Status is the content of status.
type Status struct {
	// State is starting, busy, idle, restarting or dead.
	State string `json:"execution_state"`
}

// Comm is the content of comm_open, comm_msg and comm_close, which the two ends of a widget send
// each other. The kernel or the client opens a comm and names its target. Either may close it.
type Comm struct {
	ID       string          `json:"comm_id"`
	Data     json.RawMessage `json:"data,omitempty"`
	Target   string          `json:"target_name,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Buffers are bytes that Data refers to.
	Buffers [][]byte `json:"buffers,omitempty"`
}
