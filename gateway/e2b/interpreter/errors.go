package interpreter

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// answer is an error with a status of its own. Its text is the body.
type answer struct {
	status int
	err    error
}

func (a *answer) Error() string { return a.err.Error() }
func (a *answer) Unwrap() error { return a.err }

// noContext returns the error for a context that does not exist.
func noContext(id string) error {
	return &answer{http.StatusNotFound, fault.New(fault.NotFound, "interpreter.context",
		"the context %.64q does not exist", id)}
}

// noKernel returns the error for a language without a kernel. Clients know it by the status 500.
func noKernel(language string, cause error) error {
	return &answer{http.StatusInternalServerError, &fault.Error{
		Kind: fault.InvalidArgument, Op: "interpreter.language", Field: "language",
		Message: "unknown kernel " + strconv.Quote(clip(language)), Err: cause,
	}}
}

func clip(s string) string { return s[:min(len(s), 64)] }

// known returns the error of a request to the node for a context in the form for clients.
func known(id kernelID, err error) error {
	switch {
	case err == nil:
		return nil
	case fault.Is(err, fault.InvalidArgument) && id.channel == "":
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Field == "language" {
			if id.other {
				return noContext(id.name)
			}
			return noKernel(id.name, err)
		}
	case fault.Is(err, fault.NotFound) && id.channel != "":
		if f, ok := errors.AsType[*fault.Error](err); ok && f.Field == "channel" {
			return noContext(id.name)
		}
	}
	return err
}

// writeError answers with err: as JSON with the status 502 if the sandbox does not run, as text
// otherwise.
func writeError(w http.ResponseWriter, err error, id, trace string) {
	p := surface.PublicOf(err)
	status, text := p.Kind.Row().HTTP, p.Message
	own, isOwn := errors.AsType[*answer](err)
	switch {
	case isOwn:
		status = own.status
	case p.Kind == fault.NotFound, p.Kind == fault.SandboxLost:
		sandbox.WriteError(w, sandbox.Unavailable(id,
			"The sandbox was not found: it has ended"), trace)
		return
	case p.Field != "":
		text = p.Field + ": " + p.Message
	}
	if text == "" {
		text = http.StatusText(status)
	}
	h := w.Header()
	h.Del("Content-Length")
	surface.SetErrorHeader(h.Set, p)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	if trace != "" {
		h.Set("X-E2B-Trace-ID", trace)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // a client that has disconnected needs no answer
}
