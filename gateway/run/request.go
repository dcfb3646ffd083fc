package run

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The limits of a run.
const (
	DefaultTimeout = 30 * time.Second
	MaxTimeout     = 10 * time.Minute
	DefaultOutput  = 1 << 20
	MaxOutput      = 64 << 20
	DefaultContent = 8 << 20 // bytes of created files
	MaxContent     = 64 << 20
	MaxKeep        = time.Hour

	maxFiles    = 64
	maxLanguage = 64 // bytes
	// grace is how long after its timeout a run that cannot be interrupted is abandoned.
	grace = 10 * time.Second
)

// Request is the body of POST /v1/run.
type Request = protocol.RunRequest

// check validates a request, decodes its files and sets defaults.
func check(p *Request) error {
	const op = "run.request"
	switch {
	case p.Code == "":
		return fault.Invalid(op, "code", "there is no code")
	case len(p.Code) > protocol.MaxCode:
		return fault.New(fault.TooLarge, op, "the code has %d bytes, the limit is %d",
			len(p.Code), protocol.MaxCode)
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
	case p.MaxFileBytes < 0 || p.MaxFileBytes > MaxContent:
		return fault.Invalid(op, "max_file_bytes", "a limit of files is from 1 to %d bytes",
			MaxContent)
	case p.KeepSeconds < 0 || p.KeepSeconds > int64(MaxKeep/time.Second):
		return fault.Invalid(op, "keep_seconds", "a session is kept up to %d seconds",
			int64(MaxKeep/time.Second))
	case p.Session != "" && createdField(p) != "":
		return fault.Invalid(op, createdField(p), "this is for a session that the run creates")
	case len(p.Files) > maxFiles:
		return fault.Invalid(op, "files", "at most %d files", maxFiles)
	}
	for key := range p.Labels {
		if strings.HasPrefix(key, protocol.ReservedLabels) {
			return fault.Invalid(op, "labels", "keys that begin with %s are the server's",
				protocol.ReservedLabels)
		}
	}
	for i := range p.Files {
		if err := checkFile(&p.Files[i]); err != nil {
			return err
		}
	}
	if p.TimeoutMS == 0 {
		p.TimeoutMS = DefaultTimeout.Milliseconds()
	}
	if p.MaxOutputBytes == 0 {
		p.MaxOutputBytes = DefaultOutput
	}
	if p.MaxFileBytes == 0 {
		p.MaxFileBytes = DefaultContent
	}
	return nil
}

// createdField returns the first field that describes the session that a run creates; "" for none.
func createdField(p *Request) string {
	switch {
	case p.Template != "":
		return "template"
	case len(p.Env) > 0:
		return "env"
	case len(p.Labels) > 0:
		return "labels"
	}
	return managedField(p)
}

// managedField returns the first field that needs the scope sessions:manage; "" for none.
func managedField(p *Request) string {
	switch {
	case p.Limits != nil:
		return "limits"
	case p.Network != nil:
		return "network"
	case len(p.Volumes) > 0:
		return "volumes"
	case p.KeepSeconds > 0:
		return "keep_seconds"
	}
	return ""
}

func checkFile(f *protocol.RunFile) error {
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
func timeout(p Request) time.Duration { return time.Duration(p.TimeoutMS) * time.Millisecond }
