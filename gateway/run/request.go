package run

import (
	"encoding/base64"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
)

// The limits of a run.
const (
	DefaultTimeout = 30 * time.Second
	MaxTimeout     = 10 * time.Minute
	DefaultOutput  = 1 << 20
	MaxOutput      = 64 << 20

	maxFiles    = 64
	maxLanguage = 64 // bytes
	// grace is how long after its timeout a run that cannot be interrupted is abandoned.
	grace = 10 * time.Second
)

// SessionName is the name of the sessions that runs create. If the run used a run token, the id of
// the token follows.
const SessionName = "run"

// Request is the body of POST /v1/run.
type Request struct {
	// Language is the kernel's; empty means python, or the session's.
	Language string `json:"language"`
	Code     string `json:"code"`
	// Stdin answers the code's requests for input, line by line. Without it
	// they fail at once.
	Stdin *string `json:"stdin"`
	// Interactive turns input requests into input_request events, which POST /v1/run/{id}/input
	// answers. The time until the answer counts towards the timeout.
	Interactive bool `json:"interactive"`
	// Files are written before the code runs, at most 64.
	Files []File `json:"files"`
	// TimeoutMS is the time after which the code is interrupted; 0 means 30 s, at most 10 min.
	TimeoutMS int64 `json:"timeout_ms"`
	// Session is an existing session, whose state the code uses. Without it the run creates a
	// session and deletes it afterwards.
	Session string `json:"session"`
	// MaxOutputBytes bounds the output that is sent; 0 means 1 MiB, at most 64 MiB.
	MaxOutputBytes int64 `json:"max_output_bytes"`
}

// File is a file that is written before the code runs.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	// Encoding is utf-8, the default, or base64.
	Encoding string `json:"encoding"`
}

// Check validates the request, decodes its files and sets defaults.
func (p *Request) Check() error {
	const op = "run.request"
	switch {
	case p.Code == "":
		return fault.Invalid(op, "code", "there is no code")
	case len(p.Code) > protocol.MaxCode:
		return fault.Invalid(op, "code", "the code has %d bytes, the limit is %d", len(p.Code),
			protocol.MaxCode)
	case len(p.Language) > maxLanguage:
		return fault.Invalid(op, "language", "a language's name has at most %d bytes", maxLanguage)
	case p.TimeoutMS < 0 || p.TimeoutMS > MaxTimeout.Milliseconds():
		return fault.Invalid(op, "timeout_ms", "a timeout is from 1 to %d ms",
			MaxTimeout.Milliseconds())
	case p.MaxOutputBytes < 0 || p.MaxOutputBytes > MaxOutput:
		return fault.Invalid(op, "max_output_bytes", "an output limit is from 1 to %d bytes",
			MaxOutput)
	case p.Session != "" && !surface.ValidID(p.Session):
		return fault.New(fault.NotFound, op, "there is no such session")
	case p.Interactive && p.Stdin != nil:
		return fault.Invalid(op, "interactive", "input comes from stdin or from requests, not both")
	case len(p.Files) > maxFiles:
		return fault.Invalid(op, "files", "at most %d files", maxFiles)
	}
	for i := range p.Files {
		if err := p.Files[i].check(); err != nil {
			return err
		}
	}
	if p.TimeoutMS == 0 {
		p.TimeoutMS = DefaultTimeout.Milliseconds()
	}
	if p.MaxOutputBytes == 0 {
		p.MaxOutputBytes = DefaultOutput
	}
	return nil
}

func (f *File) check() error {
	const op = "run.file"
	if err := surface.CheckPath("run.file", f.Path); err != nil {
		return err
	}
	switch f.Encoding {
	case "", "utf-8":
	case "base64":
		raw, err := base64.StdEncoding.DecodeString(f.Content)
		if err != nil {
			return fault.Invalid(op, "files", "the content of %q is not base64", f.Path)
		}
		f.Content = string(raw)
	default:
		return fault.Invalid(op, "files", "an encoding is utf-8 or base64")
	}
	return nil
}

// timeout is how long the code may take.
func (p *Request) timeout() time.Duration { return time.Duration(p.TimeoutMS) * time.Millisecond }
