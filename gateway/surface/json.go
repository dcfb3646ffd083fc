package surface

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/internal/strictjson"
	"github.com/sandgate/sandgate/protocol/fault"
)

// PublicOf returns the part of err that a client may see. It adds a retry time to the kinds of
// temporary errors, so that no client retries in a tight loop.
func PublicOf(err error) fault.Public {
	p := fault.PublicOf(err)
	if p.RetryAfter == 0 {
		switch p.Kind {
		case fault.Exhausted, fault.Unavailable, fault.Restarting:
			p.RetryAfter = 1
		}
	}
	return p
}

// errorBody is the body of every response that is an error.
type errorBody struct {
	Error fault.Public `json:"error"`
}

// ErrorBody returns the body of the response for err. trace is the id of the
// request's trace; empty without one.
func ErrorBody(err error, trace string) (body []byte, p fault.Public) {
	p = PublicOf(err)
	p.Trace = trace
	body, merr := json.Marshal(errorBody{p})
	if merr != nil {
		body = []byte(`{"error":{"kind":"internal","message":""}}`)
	}
	return body, p
}

// SetErrorHeader sets the headers of the response for an error.
func SetErrorHeader(set func(name, value string), p fault.Public) {
	if p.RetryAfter > 0 {
		set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Kind == fault.Unauthenticated {
		set("Www-Authenticate", `Bearer realm="sandgate"`)
	}
	set("Content-Type", "application/json")
	set("Cache-Control", "no-store")
}

// WriteError answers with err. The status is that of the error's kind.
func WriteError(w http.ResponseWriter, err error, trace string) {
	body, p := ErrorBody(err, trace)
	h := w.Header()
	h.Del("Content-Length")
	SetErrorHeader(h.Set, p)
	w.WriteHeader(p.Kind.Row().HTTP)
	_, _ = w.Write(body) // a client that has disconnected needs no answer
}

// Fail answers a request with err and passes it to the gateway's log and metrics. If a part of the
// response has already been written, Fail cuts the connection instead, so that the client does not
// mistake that part for the whole response.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	c := CallOf(r)
	c.Err = err
	if s, ok := w.(interface{ Started() bool }); ok && s.Started() {
		panic(http.ErrAbortHandler) // the gateway recovers and closes the connection
	}
	c.Answer(w, err)
}

// Answer answers with err in the form that the route's protocol has.
func (c *Call) Answer(w http.ResponseWriter, err error) {
	if c.WriteError != nil {
		c.WriteError(w, err, c.Trace)
		return
	}
	WriteError(w, err, c.Trace)
}

// HandlerFunc is a handler that may return an error instead of a response, or instead of the rest of
// one. Fail describes the answer.
type HandlerFunc func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP answers with the error if there is one.
func (f HandlerFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := f(w, r); err != nil {
		Fail(w, r, err)
	}
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, "surface.json", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone needs no answer
	return nil
}

// DecodeJSON reads one JSON value from body into v. It rejects fields that v does not have. An
// error of the body itself is returned unchanged.
func DecodeJSON(body io.Reader, v any) error { return strictjson.Decode("surface.decode", body, v) }
