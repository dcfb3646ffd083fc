package kernel

import (
	"encoding/json"
	"time"
)

// The driver protocol. A driver is the process in the sandbox that holds a
// language's engine. It reads requests from descriptor 3 and writes to
// descriptor 4, both as frames of package stream with channel 0:
//
//	requests   Control frames with a Request
//	replies    Control frames with a Reply, one for each request with an id;
//	           the first reply is Ready, with id 0
//	output     Stdout and Stderr frames with text as the language wrote it;
//	           Message frames with a Message of the types display_data,
//	           update_display_data, execute_result, error, clear_output,
//	           input_request, kernel_event and comm_*
//
// Each output frame carries the cell it is from, also when it comes after that
// cell's reply: it belongs to the session and is never dropped. Neither descriptor is
// inherited by child processes. Descriptors 1 and 2 are pipes that the agent
// reads: what C code and child processes print. The agent empties them before
// it passes a reply on.

// Request is what a driver is asked.
type Request struct {
	// Op is execute, complete, inspect, is_complete, variables, input,
	// interrupt, reseed or comm. input, interrupt and comm have no reply.
	Op string `json:"op"`
	ID uint64 `json:"id,omitempty"`
	// Cell is the number that the output of an execute carries. An interrupt
	// names the execute that it is for, which comes before it and may not have
	// begun; 0 where none is at work.
	Cell uint32 `json:"cell,omitempty"`
	Code string `json:"code,omitempty"`
	// Cursor is a position in Code in Unicode code points.
	Cursor int `json:"cursor,omitempty"`
	// Detail is 0 or 1: how much inspect tells.
	Detail int `json:"detail,omitempty"`
	// Silent executes without result, count or history.
	Silent bool `json:"silent,omitempty"`
	// NoInput makes the language's input functions fail at once.
	NoInput bool `json:"no_input,omitempty"`
	// Program executes code that is all that is to run. The cell ends where a
	// program of the language would: JavaScript's when its event loop is empty,
	// Python's and Java's when their threads have ended that are no daemons;
	// and what is uncaught ends it as it ends a program. Languages whose
	// programs end with their last statement need not look at it.
	Program bool `json:"program,omitempty"`
	// Value answers an input_request. EOF true answers it with end of file.
	Value string `json:"value,omitempty"`
	EOF   bool   `json:"eof,omitempty"`
	// Env is set at reseed: variables to add to the environment; Seed is
	// fresh randomness in hexadecimal, 64 digits.
	Env  map[string]string `json:"env,omitempty"`
	Seed string            `json:"seed,omitempty"`
	// Comm is a message for the kernel's end of a widget.
	Comm json.RawMessage `json:"comm,omitempty"`
	// Timed has the agent say how long the driver took, which Took, unless nil,
	// is called with. No driver is told.
	Timed bool                `json:"timed,omitempty"`
	Took  func(time.Duration) `json:"-"`
	// Sent, unless nil, is called once the request is on its way: what is sent
	// from then on comes behind it.
	Sent func() `json:"-"`
}

// Reply is what a driver answers.
type Reply struct {
	// Op is ready or reply.
	Op string `json:"op"`
	ID uint64 `json:"id"`
	// Status is ok or error.
	Status string `json:"status"`
	// Execute.
	Count    int             `json:"execution_count,omitempty"`
	EName    string          `json:"ename,omitempty"`
	EValue   string          `json:"evalue,omitempty"`
	ExitCode *int            `json:"exit_code,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	// Complete: what may stand in place of the code between Start and End.
	Matches []Match `json:"matches,omitempty"`
	Start   int     `json:"cursor_start,omitempty"`
	End     int     `json:"cursor_end,omitempty"`
	// Inspect.
	Found bool                       `json:"found,omitempty"`
	Data  map[string]json.RawMessage `json:"data,omitempty"`
	// IsComplete is complete, incomplete, invalid or unknown.
	IsComplete string `json:"is_complete,omitempty"`
	Indent     string `json:"indent,omitempty"`
	// Variables, at most MaxVariables, in the order that helps most.
	Variables []Variable `json:"variables,omitzero"`
	// Ready.
	Info *Info `json:"info,omitempty"`
}

// Match is one completion.
type Match struct {
	Text string `json:"text"`
	Type string `json:"type,omitempty"`
}

// Limits of the answer to variables.
const (
	MaxVariables     = 500
	MaxVariableValue = 200 // characters, on one line
)

// Variable is a name that the user has given something. Listing it runs none
// of the user's code.
type Variable struct {
	Name string `json:"name"`
	// Type is its type as the language calls it.
	Type string `json:"type"`
	// Size is what people of the language look for: a length, a shape, bytes.
	// It may be empty.
	Size string `json:"size,omitempty"`
	// Value is its value in short.
	Value string `json:"value"`
}

// Info describes a kernel that is ready.
type Info struct {
	// Language is the manifest's name: python, javascript, …
	Language string `json:"language"`
	// Version is the language's, as it calls itself.
	Version string `json:"version"`
	// Implementation is the engine's name and version.
	Implementation string `json:"implementation"`
	FileExtension  string `json:"file_extension"`
	MIMEType       string `json:"mimetype"`
	Banner         string `json:"banner,omitempty"`
	PID            int    `json:"pid,omitempty"`
}

// Manifest is what langs/<language>/manifest.json says of a driver.
type Manifest struct {
	Name    string   `json:"name"`
	Display string   `json:"display_name"`
	Aliases []string `json:"aliases"`
	// Extensions are file endings with their dot.
	Extensions []string `json:"extensions"`
	// Argv starts the driver in the sandbox.
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env"`
	// Program starts a file of this language as a program; {file} stands for
	// its path.
	Program []string `json:"program"`
	// Interrupt is signal: SIGINT to the process group; message: a request; or
	// announced: a request that names the cell which is meant, then SIGINT. A
	// driver that takes signals at once and requests in their turn needs the
	// name to know whether a signal that comes between two cells is for the
	// first, and late, or for the second, and early.
	Interrupt string `json:"interrupt"`
	// Warm is code that is executed before the snapshot is taken.
	Warm string `json:"warm"`
	// Prime is code that is executed silently after each restore, before the
	// sandbox is handed out, so that the pages that every cell needs are in
	// memory when the first one comes. What it prints is dropped; it must
	// leave nothing behind.
	Prime string `json:"prime,omitempty"`
}
