package client

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// Execution is the result of running code.
type Execution struct {
	// Results are the values and displays, in order.
	Results []*Result
	// Logs are the texts that the code printed, in order.
	Logs Logs
	// Error is the exception that ended the code, or nil.
	Error *ExecutionError
	// Status is ok, error, timeout, aborted, lost or failed.
	Status string
	// ExecutionCount is the number in the kernel's history; 0 means none.
	ExecutionCount int
	// ExitCode is the exit status of a program, or nil.
	ExitCode *int
	// Elapsed is the time that the kernel worked.
	Elapsed time.Duration
	// Files are the files that the run created, changed or removed.
	Files []protocol.CreatedFile
	// Truncated is the number of bytes of output that were above the limit and are left out.
	Truncated int64
	// Missing is the number of bytes of output that were lost because nobody read them in time.
	Missing int64
	// Language is the language of the kernel.
	Language string

	limit int
	clear bool
}

// Logs are texts that code wrote.
type Logs struct {
	// Stdout and Stderr are parts of standard output and of standard error.
	Stdout []string
	Stderr []string
}

// ExecutionError is the exception that ended code.
type ExecutionError struct {
	// Name is the class, for example ZeroDivisionError. Value is the message.
	Name  string
	Value string
	// Traceback is the traceback as text, without colours. TracebackLines are the lines as the
	// kernel sent them, with ANSI colours.
	Traceback      string
	TracebackLines []string
}

// Error returns the class and the message.
func (e *ExecutionError) Error() string {
	if e.Value == "" {
		return e.Name
	}
	return e.Name + ": " + e.Value
}

func executionError(name, value string, lines []string) *ExecutionError {
	colours := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	return &ExecutionError{
		Name: name, Value: value, TracebackLines: lines,
		Traceback: colours.ReplaceAllString(strings.Join(lines, "\n"), ""),
	}
}

// Stdout returns everything that was written to standard output.
func (e *Execution) Stdout() string { return strings.Join(e.Logs.Stdout, "") }

// Stderr returns everything that was written to standard error.
func (e *Execution) Stderr() string { return strings.Join(e.Logs.Stderr, "") }

// OK reports whether the code ended without an error.
func (e *Execution) OK() bool { return e.Status == "ok" }

// main returns the value of the last expression, or nil.
func (e *Execution) main() *Result {
	for _, r := range slices.Backward(e.Results) {
		if r.IsMain {
			return r
		}
	}
	return nil
}

// in returns the value first, and then the displays.
func (e *Execution) in() []*Result {
	main := e.main()
	if main == nil {
		return e.Results
	}
	ordered := []*Result{main}
	for _, r := range e.Results {
		if r != main {
			ordered = append(ordered, r)
		}
	}
	return ordered
}

// Text returns the value of the last expression as plain text; empty if there is none.
func (e *Execution) Text() string {
	if main := e.main(); main != nil {
		return main.Text()
	}
	return ""
}

// HTML returns the first HTML among the value and the displays.
func (e *Execution) HTML() string { return firstOf(e.in(), (*Result).HTML) }

// SVG returns the first picture as SVG among the value and the displays.
func (e *Execution) SVG() string { return firstOf(e.in(), (*Result).SVG) }

// PNG returns the first picture as PNG among the value and the displays.
func (e *Execution) PNG() []byte {
	for _, r := range e.in() {
		if b := r.PNG(); b != nil {
			return b
		}
	}
	return nil
}

// JSON returns the first JSON value among the value and the displays.
func (e *Execution) JSON() json.RawMessage {
	for _, r := range e.in() {
		if b := r.JSON(); b != nil {
			return b
		}
	}
	return nil
}

func firstOf(results []*Result, format func(*Result) string) string {
	for _, r := range results {
		if s := format(r); s != "" {
			return s
		}
	}
	return ""
}

// Result is a value or a display, in all formats that the code gave it.
type Result struct {
	// Data are the formats by MIME type, as in Jupyter. Binary formats are in base64.
	Data     map[string]json.RawMessage
	Metadata map[string]json.RawMessage
	// IsMain is true for the value of the last expression.
	IsMain bool
	// DisplayID is the id with which code updates this display; empty means none.
	DisplayID string
}

func (r *Result) as(mime string) string {
	raw, ok := r.Data[mime]
	if !ok {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var lines []string
	if json.Unmarshal(raw, &lines) == nil {
		return strings.Join(lines, "")
	}
	return string(raw)
}

func (r *Result) bytes(mime string) []byte {
	text := r.as(mime)
	if text == "" {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, "\n", ""))
	if err != nil {
		return nil
	}
	return b
}

// Text returns the value as plain text.
func (r *Result) Text() string { return r.as("text/plain") }

// HTML returns the value as HTML, for example a table of pandas.
func (r *Result) HTML() string { return r.as("text/html") }

// Markdown returns the value as Markdown.
func (r *Result) Markdown() string { return r.as("text/markdown") }

// SVG returns the picture as SVG.
func (r *Result) SVG() string { return r.as("image/svg+xml") }

// LaTeX returns the value as LaTeX.
func (r *Result) LaTeX() string { return r.as("text/latex") }

// JavaScript returns JavaScript that shows the value in a page.
func (r *Result) JavaScript() string { return r.as("application/javascript") }

// JSON returns the value as JSON, or nil.
func (r *Result) JSON() json.RawMessage { return r.Data["application/json"] }

// PNG returns the picture as the bytes of a PNG file, or nil.
func (r *Result) PNG() []byte { return r.bytes("image/png") }

// JPEG returns the picture as the bytes of a JPEG file, or nil.
func (r *Result) JPEG() []byte { return r.bytes("image/jpeg") }

// PDF returns the document as the bytes of a PDF file, or nil.
func (r *Result) PDF() []byte { return r.bytes("application/pdf") }

// Formats returns the names of the formats that the result has, sorted: text, png, or a MIME type
// that has no name.
func (r *Result) Formats() []string {
	names := map[string]string{
		"text/plain": "text", "text/html": "html", "text/markdown": "markdown",
		"image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg",
		"application/pdf": "pdf", "text/latex": "latex", "application/json": "json",
		"application/javascript": "javascript",
	}
	var all []string
	for mime := range r.Data {
		name := names[mime]
		if name == "" {
			name = mime
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Output is a part of the output of code, or of a program. Type says which fields are used.
type Output struct {
	// Type is stdout, stderr, result, display, update, clear, input, error, gap, other or done for
	// code; stdout, stderr, gap, restore or exit for a program.
	Type string
	// Text is in stdout and stderr. In input it is the prompt.
	Text string
	// Bytes are the bytes of stdout, stderr and restore.
	Bytes []byte
	// Result is in result, display and update. An update replaces the display with its DisplayID.
	Result *Result
	// Wait is in clear: the output is cleared when more arrives.
	Wait bool
	// Password is in input: the answer is not to be shown. Request is the number that the answer
	// names.
	Password bool
	Request  uint32
	// Error is in error.
	Error *ExecutionError
	// Missing is in gap: the number of bytes of output that the server no longer has.
	Missing int64
	// Status, ExecutionCount, ExitCode and Elapsed are in done.
	Status         string
	ExecutionCount int
	ExitCode       *int
	Elapsed        time.Duration
	// Exit is in exit.
	Exit *protocol.Exit
	// Message is in other: a message of the kernel, or an event, as JSON.
	Message json.RawMessage
}

// The types of Output.
const (
	OutputStdout  = "stdout"
	OutputStderr  = "stderr"
	OutputResult  = "result"
	OutputDisplay = "display"
	OutputUpdate  = "update"
	OutputClear   = "clear"
	OutputInput   = "input"
	OutputError   = "error"
	OutputGap     = "gap"
	OutputDone    = "done"
	OutputExit    = "exit"
	OutputRestore = "restore"
	OutputOther   = "other"
)

// timeoutEvent is the beginning of the event of a cell that has reached its time limit.
type timeoutEvent struct {
	Event string `json:"event"`
	Limit string `json:"limit"`
}

// add adds a part of the output.
func (e *Execution) add(o Output) {
	switch o.Type {
	case OutputStdout, OutputStderr, OutputResult, OutputDisplay:
		if e.clear {
			e.empty()
		}
	}
	switch o.Type {
	case OutputStdout:
		e.Logs.Stdout = e.keep(e.Logs.Stdout, o.Text)
	case OutputStderr:
		e.Logs.Stderr = e.keep(e.Logs.Stderr, o.Text)
	case OutputResult, OutputDisplay:
		e.Results = append(e.Results, o.Result)
	case OutputUpdate:
		for _, r := range e.Results {
			if r.DisplayID != "" && r.DisplayID == o.Result.DisplayID {
				r.Data, r.Metadata = o.Result.Data, o.Result.Metadata
			}
		}
	case OutputClear:
		if e.clear = o.Wait; !o.Wait {
			e.empty()
		}
	case OutputError:
		e.Error = o.Error
	case OutputGap:
		e.Missing += o.Missing
	case OutputOther:
		var event timeoutEvent
		if json.Unmarshal(o.Message, &event) == nil && event.Limit == "cell_seconds" {
			e.Status = "timeout"
		}
	case OutputDone:
		if e.Status != "timeout" {
			e.Status = o.Status
		}
		e.ExecutionCount, e.ExitCode, e.Elapsed = o.ExecutionCount, o.ExitCode, o.Elapsed
		if e.Error == nil && o.Error != nil {
			e.Error = o.Error
		}
	}
}

func (e *Execution) empty() {
	e.clear, e.Logs, e.Results = false, Logs{}, nil
}

// keep appends the part of a text that is within the limit.
func (e *Execution) keep(to []string, text string) []string {
	kept := text
	if len(kept) > e.limit {
		kept = strings.ToValidUTF8(kept[:e.limit], "")
	}
	e.limit -= len(kept)
	e.Truncated += int64(len(text) - len(kept))
	if kept != "" {
		to = append(to, kept)
	}
	return to
}
