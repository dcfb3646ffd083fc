// Package sandbox has the parts of E2B's interface that all its ports share: the target of a request,
// its credentials, and errors.
package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol/fault"
)

// errorBody is the body of an error. Clients compare Code with the status.
type errorBody struct {
	SandboxID string     `json:"sandboxId,omitempty"`
	Port      int        `json:"port,omitempty"`
	Code      int        `json:"code"`
	Message   string     `json:"message"`
	Kind      fault.Kind `json:"kind,omitempty"`
	Field     string     `json:"field,omitempty"`
	Advice    string     `json:"advice,omitempty"`
	Trace     string     `json:"trace,omitempty"`
}

// WriteError answers with err in the form of E2B.
func WriteError(w http.ResponseWriter, err error, trace string) {
	p := surface.PublicOf(err)
	body := errorBody{
		Code: p.Kind.Row().HTTP, Message: p.Message, Kind: p.Kind, Field: p.Field,
		Advice: p.Advice, Trace: trace,
	}
	if p.Field != "" {
		body.Message = p.Field + ": " + p.Message
	}
	if gone, ok := errors.AsType[*goneError](err); ok {
		body.SandboxID, body.Port, body.Code = gone.id, gone.port, http.StatusBadGateway
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		body.Code = status.code
	}
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 && body.Code != http.StatusBadGateway {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if trace != "" {
		h.Set("X-E2B-Trace-ID", trace)
	}
	text, merr := json.Marshal(body)
	if merr != nil {
		text = []byte(`{"code":500,"message":"internal error"}`)
		body.Code = http.StatusInternalServerError
	}
	w.WriteHeader(body.Code)
	_, _ = w.Write(text) // a client that has disconnected needs no answer
}

// goneError is the error for a sandbox that does not run, or for a port of it that no program has.
// Clients recognise it by the status 502.
type goneError struct {
	id   string
	port int // 0 for the sandbox
	err  error
}

func (e *goneError) Error() string { return e.err.Error() }
func (e *goneError) Unwrap() error { return e.err }

// Unavailable returns the error for requests to a sandbox that does not run. It has the status 502.
func Unavailable(id, message string) error {
	return &goneError{id: id, err: fault.New(fault.NotFound, "sandbox.reach", "%s", message)}
}

// Closed returns the error for a port on which no program answers. It has the status 502.
func (t *Target) Closed(err error) error { return &goneError{id: t.ID, port: t.Port, err: err} }

// statusError is an error whose status is not that of its kind.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// WithStatus returns err with another status, for the cases in which clients expect it.
func WithStatus(code int, err error) error { return &statusError{code: code, err: err} }
