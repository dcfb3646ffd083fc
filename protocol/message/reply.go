package message

import "encoding/json"

// Reply is a driver's reply.
type Reply struct {
	// Op is ready or reply.
	Op string `json:"op"`
	ID uint64 `json:"id"`
	// Status is ok or error.
	Status string `json:"status"`
	// The fields of the reply to execute.
	Count    int             `json:"execution_count,omitempty"`
	EName    string          `json:"ename,omitempty"`
	EValue   string          `json:"evalue,omitempty"`
	ExitCode *int            `json:"exit_code,omitempty"`
	Payload  json.RawMessage `json:"payload,omitempty"`
	// Expressions has the values of the request's expressions, by their names.
	Expressions json.RawMessage `json:"user_expressions,omitempty"`
	// The fields of the reply to complete: the texts that may replace the code between Start and
	// End.
	Matches []Match `json:"matches,omitempty"`
	Start   int     `json:"cursor_start,omitempty"`
	End     int     `json:"cursor_end,omitempty"`
	// The fields of the reply to inspect.
	Found bool                       `json:"found,omitempty"`
	Data  map[string]json.RawMessage `json:"data,omitempty"`
	// IsComplete is complete, incomplete, invalid or unknown.
	IsComplete string `json:"is_complete,omitempty"`
	Indent     string `json:"indent,omitempty"`
	// Variables is the reply to variables: at most MaxVariables, the most useful first.
	Variables []Variable `json:"variables,omitzero"`
	// Info is set in the reply ready.
	Info *Info `json:"info,omitempty"`
}

// Match is one completion.
type Match struct {
	Text string `json:"text"`
	Type string `json:"type,omitempty"`
}

// Limits of the reply to variables.
const (
	MaxVariables     = 500
	MaxVariableValue = 200 // characters, on one line
)

// Variable is a variable that the user has set. Listing variables runs no code of the user.
type Variable struct {
	Name string `json:"name"`
	// Type is the language's name of its type.
	Type string `json:"type"`
	// Size is the size in the form that is usual in the language: a length, a shape, bytes. It may
	// be empty.
	Size string `json:"size,omitempty"`
	// Value is an abbreviated form of its value.
	Value string `json:"value"`
}

// Info describes a kernel that is ready.
type Info struct {
	// Language is the manifest's name: python, javascript, …
	Language string `json:"language"`
	// Version is the version of the language.
	Version string `json:"version"`
	// Implementation is the engine's name and version.
	Implementation string `json:"implementation"`
	FileExtension  string `json:"file_extension"`
	MIMEType       string `json:"mimetype"`
	Banner         string `json:"banner,omitempty"`
	PID            int    `json:"pid,omitempty"`
}
