package oneshot

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
)

// Status is how a program ended.
type Status string

// The values of Status.
const (
	// OK means that the program, and main, have ended without an error and with the status 0.
	OK Status = "ok"
	// Failed means that the program has raised an error, or has ended with another status.
	Failed Status = "failed"
	// TimedOut means that the program was interrupted after its time.
	TimedOut Status = "timeout"
	// Killed means that the sandbox or the kernel has ended with the program: memory ran out, or the
	// program has killed it.
	Killed Status = "killed"
	// Flooded means that output was left out because of its limit.
	Flooded Status = "flooded"
)

// Outcome is the end of a program.
type Outcome struct {
	Status         Status
	Stdout, Stderr string
	// ExitCode is that of a process which would run the program.
	ExitCode int
	// Value is what main has returned, as JSON; nil without a value.
	Value json.RawMessage
	// Name and Message are those of the error, and Traceback is its text with lines of code. They are
	// empty for OK.
	Name, Message, Traceback string
	// Elapsed is the time of the program.
	Elapsed time.Duration
	// MemoryKB is the most memory that the kernel of the program has used; 0 means unknown.
	MemoryKB int64
	// Dropped is the number of bytes of output that were left out.
	Dropped int64
	// Files are the created files.
	Files []protocol.CreatedFile
}

// The exit codes of a process that ends by an error, after a time limit, and by a kill.
const (
	codeFailed   = 1
	codeTimedOut = 124
	codeKilled   = 137
)

// The names of the errors of a cell whose kernel or sandbox has ended.
const (
	kernelDied  = "KernelDied"
	sandboxLost = "SandboxLost"
)

// sent is the outcome as a wrapper sends it.
type sent struct {
	Value    *string `json:"value"`
	MemoryKB int64   `json:"memory_kb"`
	Error    *struct {
		Name      string `json:"name"`
		Message   string `json:"message"`
		Traceback string `json:"traceback"`
	} `json:"error"`
}

// outcomeOf returns the outcome of a run. Errors: that of a run which failed because of the server.
func outcomeOf(r protocol.RunResult, timeout time.Duration) (Outcome, error) {
	o := Outcome{
		Status: OK, Stdout: r.Stdout, Stderr: r.Stderr, Dropped: r.TruncatedBytes, Files: r.Files,
		Elapsed: time.Duration(r.ElapsedMS * float64(time.Millisecond)),
	}
	for _, e := range r.Results {
		o.add(e.Data[mimeOutcome])
	}
	if r.ExitCode != nil {
		o.ExitCode = *r.ExitCode
	}
	switch {
	case r.Status == "timeout":
		o.conclude(TimedOut, codeTimedOut, fmt.Sprintf("the program ran for over %s", timeout))
	case r.Status == "lost":
		o.conclude(Killed, codeKilled, "the sandbox of the program ended: memory or another limit was reached")
	case r.Fault != nil:
		return o, r.Fault.Err("oneshot.run")
	case r.Error != nil && (r.Error.EName == kernelDied || r.Error.EName == sandboxLost):
		message, _, _ := strings.Cut(r.Error.EValue, ";") // the rest is for sessions that stay
		o.conclude(Killed, codeKilled, message)
	case r.Error != nil && r.Error.EName != "SystemExit" && o.Status == OK:
		o.Status, o.Name, o.Message = Failed, r.Error.EName, r.Error.EValue
		o.Traceback = kernelclient.Plain(strings.Join(r.Error.Traceback, "\n"))
	case o.Status == OK && o.ExitCode != 0:
		o.Status, o.Message = Failed, fmt.Sprintf("the program exited with the status %d", o.ExitCode)
	}
	if o.Status == Failed && o.ExitCode == 0 {
		o.ExitCode = codeFailed
	}
	if o.Dropped > 0 && o.Status == OK {
		o.conclude(Flooded, codeFailed, fmt.Sprintf("%d bytes of output were over the limit", o.Dropped))
	}
	return o, nil
}

// add adds the outcome that a wrapper has sent.
func (o *Outcome) add(data json.RawMessage) {
	var s sent
	if len(data) == 0 || json.Unmarshal(data, &s) != nil {
		return // the program has displayed a value with our type
	}
	o.MemoryKB = s.MemoryKB
	if s.Value != nil && json.Valid([]byte(*s.Value)) {
		o.Value = json.RawMessage(*s.Value)
	}
	if e := s.Error; e != nil {
		o.Status, o.Name, o.Message, o.Traceback = Failed, e.Name, e.Message, e.Traceback
	}
}

// conclude sets an end that the program did not choose.
func (o *Outcome) conclude(s Status, code int, message string) {
	o.Status, o.ExitCode, o.Value = s, code, nil
	o.Name, o.Message, o.Traceback = "", message, ""
}
