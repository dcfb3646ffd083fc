// Package toolcalls runs programs that call tools of their client. Such a program waits in its
// session for the results of its calls, and nobody else waits: the steps of a program are files of
// the session, so that any gateway can make the next one.
//
// A supervisor in the session starts the program. It passes one step at a time: the calls that the
// program makes at the same time, or its end.
package toolcalls

import (
	_ "embed"
	"encoding/json"
	"strconv"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Folder is the folder of the supervisor in a session.
const Folder = "/tmp/.librechat-tools"

// Tag is the tag of the supervisor's channel.
const Tag = "librechat-tools"

// MaxSteps is the most times that a program can wait for results.
const MaxSteps = 20

// MaxEvent is the largest file of an event, in bytes.
const MaxEvent = 32 << 20

// How long calls that a program makes at the same time are collected after each call, in seconds. A
// call of Bash starts an interpreter of its own.
const (
	gather     = 0.02
	gatherBash = 0.15
)

//go:embed supervisor.py
var supervisor string

//go:embed program.py
var program string

//go:embed call.py
var call string

// Program is a program with tools.
type Program struct {
	// Language is the language, Python or Bash.
	Language string
	// File is the path of the code in the session.
	File string
	// Tools are the names of tools by the names of their functions.
	Tools map[string]string
	// MaxOutput is how many bytes of each stream of output are kept.
	MaxOutput int
}

// Files returns the content of the files that the session of a program needs, by path.
func (p Program) Files() (map[string]string, error) {
	config := struct {
		Argv      []string          `json:"argv"`
		Env       map[string]string `json:"env"`
		Tools     map[string]string `json:"tools"`
		MaxOutput int               `json:"max_output"`
		Gather    float64           `json:"gather"`
	}{
		Argv: []string{"python3", Folder + "/program.py", p.File}, Env: map[string]string{},
		Tools: p.Tools, MaxOutput: p.MaxOutput, Gather: gather,
	}
	files := map[string]string{
		Folder + "/supervisor.py": supervisor, Folder + "/program.py": program,
	}
	if p.Language == Bash {
		delete(files, Folder+"/program.py")
		files[Folder+"/call.py"] = call
		files[Folder+"/functions.sh"] = functions(p.Tools)
		config.Argv, config.Gather = []string{"bash", p.File}, gatherBash
		config.Env["BASH_ENV"] = Folder + "/functions.sh"
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "toolcalls.files", err)
	}
	files[Folder+"/program.json"] = string(text)
	return files, nil
}

// Argv returns the command of the supervisor. Its standard input stays open.
func Argv() []string { return []string{"python3", "-u", Folder + "/supervisor.py"} }

// EventPath returns the path of the event of a step.
func EventPath(step int) string { return Folder + "/event-" + strconv.Itoa(step) + ".json" }

// ResultsPath returns the path of the results with which a step begins.
func ResultsPath(step int) string { return Folder + "/results-" + strconv.Itoa(step) + ".json" }

// Call is a call of a tool.
type Call struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Result is the result of a call.
type Result struct {
	Call    string          `json:"call_id"`
	Result  json.RawMessage `json:"result,omitempty"`
	IsError bool            `json:"is_error"`
	Message string          `json:"error_message,omitempty"`
}

// Event is the end of a step: calls, or the end of the program.
type Event struct {
	Calls []Call `json:"calls"`
	Ended bool   `json:"ended"`
	// Code is the exit status, or the negative number of the signal that ended the program.
	Code int `json:"code"`
	// Expired is true if the program was ended because its time was over.
	Expired bool `json:"expired"`
	// Stdout and Stderr are the whole output until now, Dropped the bytes that were left out.
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Dropped int64  `json:"dropped"`
}
