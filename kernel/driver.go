// Package kernel defines the protocol between the agent and a language driver, and the manifest
// that describes a driver.
package kernel

import (
	"encoding/json"
	"time"
)

// The driver protocol. A driver is the process in the sandbox that holds a language's engine. It
// reads requests from descriptor 3 and writes to descriptor 4, both as frames of package frame
// with channel 0:
//
//	requests   Control frames with a Request
//	replies    Control frames with a message.Reply, one for each request with an id;
//	           the first reply is Ready, with id 0
//	output     Stdout and Stderr frames with text as the language wrote it;
//	           Message frames with a Message of the types display_data,
//	           update_display_data, execute_result, error, clear_output,
//	           input_request, kernel_event and comm_*
//
// Each output frame carries the number of its cell, also after that cell's reply; the session keeps
// such output. Child processes inherit neither descriptor. Descriptors 1 and 2 are pipes that carry
// the output of C code and child processes. The agent empties them before it forwards a reply.

// Request is a request to a driver.
type Request struct {
	// Op is execute, complete, inspect, is_complete, variables, input,
	// interrupt, reseed, comm, keep or restore. input, interrupt and comm have no reply.
	Op string `json:"op"`
	ID uint64 `json:"id,omitempty"`
	// Cell is the number that the output of an execute carries. An interrupt names the execute that
	// it should stop. That execute was sent before and may not have started. 0 means that no cell
	// runs.
	Cell uint32 `json:"cell,omitempty"`
	Code string `json:"code,omitempty"`
	// Cursor is a position in Code in Unicode code points.
	Cursor int `json:"cursor,omitempty"`
	// Detail is 0 or 1: the level of detail of inspect.
	Detail int `json:"detail,omitempty"`
	// About is what inspect describes in place of the name at the cursor: docs/protocol.md.
	// Drivers that do not know its kind answer that they have found nothing.
	About json.RawMessage `json:"about,omitempty"`
	// Silent runs the code without a result, an execution count or a history entry.
	Silent bool `json:"silent,omitempty"`
	// NoInput makes the language's input functions fail at once.
	NoInput bool `json:"no_input,omitempty"`
	// NoHistory runs the code without an execution count or a history entry. Drivers may ignore it.
	NoHistory bool `json:"no_history,omitempty"`
	// Expressions are evaluated after the code, if it succeeds; the reply has their values. Drivers
	// of languages without such expressions ignore it.
	Expressions map[string]string `json:"expressions,omitempty"`
	// Program executes code as a whole program. The cell ends when a program of the language would
	// end: in JavaScript when the event loop is empty, in Python and Java when all threads except
	// daemons have ended. An uncaught error ends the cell as it ends a program. Drivers of
	// languages whose programs end with their last statement may ignore it.
	Program bool `json:"program,omitempty"`
	// Value answers an input_request. EOF true answers it with end of file.
	Value string `json:"value,omitempty"`
	EOF   bool   `json:"eof,omitempty"`
	// Env and Seed are set for reseed. Env has variables to add to the environment. Seed is fresh
	// randomness in hexadecimal, 64 digits.
	Env  map[string]string `json:"env,omitempty"`
	Seed string            `json:"seed,omitempty"`
	// Keep is set for keep and restore.
	Keep *Keep `json:"keep,omitempty"`
	// Comm is a message for the kernel's end of a widget.
	Comm json.RawMessage `json:"comm,omitempty"`
	// Timed asks the agent to measure how long the driver takes. Took, unless nil,
	// is called with the time. The driver does not get this field.
	Timed bool                `json:"timed,omitempty"`
	Took  func(time.Duration) `json:"-"`
	// Sent, unless nil, is called once the request has been sent: every later
	// request arrives after it.
	Sent func() `json:"-"`
}

// Manifest describes a driver. It is the content of langs/<language>/manifest.json.
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
	// Interrupt is one of three ways to interrupt a cell. signal: SIGINT to the process group.
	// message: a request. announced: a request that names the interrupted cell, then SIGINT. A
	// driver that handles signals at once and requests in order needs the name: a signal between
	// two cells may be late for the first or early for the second.
	Interrupt string `json:"interrupt"`
	// Warm is code that the kernel executes before the snapshot is taken.
	Warm string `json:"warm"`
	// Prime is code that the kernel executes silently after each restore, before
	// a session gets the sandbox, so that the pages that every cell needs are in
	// memory. Its output is dropped, and it must leave no state.
	Prime string `json:"prime,omitempty"`
	// Needs are patterns of paths in an image, without a slash at the beginning. The language runs
	// in a user's image that has a match for one of them. Without patterns it runs in every image.
	Needs []string `json:"needs,omitempty"`
	// Packages describes how templates install packages; nil if they cannot.
	Packages *Packages `json:"packages,omitempty"`
	// Editor describes how other tools name and show the language.
	Editor *Editor `json:"editor,omitempty"`
}

// Packages describes how templates install a language's packages.
type Packages struct {
	// Form describes a package's name to users.
	Form string `json:"form"`
	// Pattern is a regular expression that matches the whole name of a package.
	// No name that it matches may be an option of a command, or mean something
	// to a shell or as a path.
	Pattern string `json:"pattern"`
	// Install is a file in the language's folder: a script for sh that installs packages for the
	// user. Its $0 is the folder with the template's files, which may not exist. Its arguments are
	// the packages. SANDGATE_INDEX is not empty if it may ask a package index.
	Install string `json:"install"`
	// Script is the text of Install. Load reads it.
	Script string `json:"-"`
}

// Editor describes how other tools name and show a language.
type Editor struct {
	// Jupyter is the name of a kernelspec, VSCode that of a language mode.
	Jupyter string `json:"jupyter,omitempty"`
	VSCode  string `json:"vscode,omitempty"`
	// Comment begins a comment that ends with the line.
	Comment string `json:"comment,omitempty"`
	// Color is #RRGGBB. Short is a label of at most 4 letters.
	Color string `json:"color,omitempty"`
	Short string `json:"short,omitempty"`
	// Logo is a data URI with a picture.
	Logo string `json:"logo,omitempty"`
}
