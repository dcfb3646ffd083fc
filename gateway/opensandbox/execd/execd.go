// Package execd is the API that OpenSandbox has inside of each sandbox: commands, code, files,
// folders and metrics. The session of a request is in its context; the caller has checked the token.
package execd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/exec"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Port is the port of execd.
const Port = 44772

// The limits of requests, in bytes and numbers.
const (
	maxJSON    = 4 << 20
	maxOutput  = 16 << 20 // output of a command or of code
	maxReplace = 16 << 20 // a file in which text is replaced
	maxPaths   = 100      // paths of a request
	maxFound   = 1000     // files of an answer
)

// Node is the part of a node that execd needs.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Config configures execd. Every field is required.
type Config struct {
	Node     Node
	Runner   *run.Runner
	Commands *exec.Surface
	// Call is how long a request to the node may take, KeepAlive the time between two events.
	Call, KeepAlive time.Duration
	// Timeout is the longest time of a command and of code; 0 means no limit.
	Timeout time.Duration
	// Go calls a function in a goroutine that a shutdown waits for. It returns false after a
	// shutdown has begun.
	Go func(func()) bool
}

type handler struct{ cfg Config }

// New returns the handler of paths without a prefix. WithSession sets the session.
func New(cfg Config) http.Handler {
	h := handler{cfg}
	mux := http.NewServeMux()
	for pattern, f := range map[string]surface.HandlerFunc{
		"GET /ping":                  ping,
		"GET /metrics":               h.metrics,
		"POST /command":              h.command,
		"DELETE /command":            h.endCommand,
		"GET /command/{a}/{b}":       h.readCommand,
		"POST /code":                 h.code,
		"DELETE /code":               h.interrupt,
		"POST /code/context":         h.createContext,
		"GET /code/contexts":         h.listContexts,
		"DELETE /code/contexts":      h.removeContexts,
		"GET /code/contexts/{id}":    h.getContext,
		"DELETE /code/contexts/{id}": h.removeContext,
		"POST /session":              shells{h}.open,
		"POST /session/{id}/run":     shells{h}.run,
		"DELETE /session/{id}":       h.removeContext,
		"GET /files/info":            h.info,
		"DELETE /files":              h.removeFiles,
		"POST /files/mv":             h.move,
		"POST /files/permissions":    h.permissions,
		"GET /files/search":          h.search,
		"POST /files/replace":        h.replace,
		"POST /files/upload":         h.upload,
		"GET /files/download":        h.download,
		"POST /directories":          h.makeFolders,
		"DELETE /directories":        h.removeFolders,
		"GET /directories/list":      h.listFolder,
	} {
		mux.Handle(pattern, f)
	}
	mux.Handle("/", surface.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
		return fault.New(fault.NotFound, "execd.route", "this server has no such route of execd")
	}))
	return mux
}

type sessionKey struct{}

// WithSession returns a request with its session.
func WithSession(r *http.Request, session string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), sessionKey{}, session))
}

// sessionOf returns the session of a request.
func sessionOf(r *http.Request) string {
	s, _ := r.Context().Value(sessionKey{}).(string)
	return s
}

func whoOf(r *http.Request) noderpc.Principal { return surface.CallOf(r).Who }

// errorBody is the body of a response that is an error.
type errorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
	Trace   string `json:"trace,omitempty"`
}

// WriteError answers with an error in OpenSandbox's form.
func WriteError(w http.ResponseWriter, err error, trace string) {
	p := surface.PublicOf(err)
	surface.SetErrorHeader(w.Header().Set, p)
	body := errorBody{string(p.Kind), p.Message, p.Field, trace}
	_ = surface.WriteJSON(w, p.Kind.Row().HTTP, body)
}

func ping(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusOK)
	return nil
}

// decode reads the JSON body of a request. It ignores unknown fields. An empty body leaves v as it
// is.
func decode(r *http.Request, v any) error {
	err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxJSON)).Decode(v)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return fault.New(fault.TooLarge, "execd.decode", "a JSON body has at most %d bytes", maxJSON)
	}
	if err == nil || errors.Is(err, io.EOF) || fault.Is(err, fault.TooLarge) {
		return nil
	}
	return &fault.Error{
		Kind: fault.Malformed, Op: "execd.decode",
		Message: "the body is not a JSON value of this request", Err: err,
	}
}

// call performs one operation for the principal of a request.
func (h handler) call(r *http.Request, op string, params, result any) error {
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.Call)
	defer cancel()
	return h.cfg.Node.Call(ctx, whoOf(r), op, params, result)
}

// timeout returns the time of a request that asks for some milliseconds; usual if it does not ask.
func (h handler) timeout(milliseconds int64, usual time.Duration) time.Duration {
	asked := usual
	if milliseconds > 0 {
		asked = time.Duration(min(milliseconds, exec.MaxTimeout.Milliseconds())) * time.Millisecond
	}
	if h.cfg.Timeout > 0 {
		asked = min(asked, h.cfg.Timeout)
	}
	return asked
}

// metrics answers with the use of the sandbox.
func (h handler) metrics(w http.ResponseWriter, r *http.Request) error {
	var v protocol.Session
	err := h.call(r, protocol.OpSessionGet, protocol.SessionRef{Session: sessionOf(r)}, &v)
	if err != nil {
		return err
	}
	var limits protocol.Limits
	if v.Limits != nil {
		limits = *v.Limits
	}
	now := time.Now().UnixMilli()
	m := map[string]float64{
		"cpu_count": limits.CPUs, "cpu_used_pct": 0, "timestamp": float64(now),
		"mem_total_mib": float64(limits.MemoryBytes >> 20), "mem_used_mib": 0,
	}
	if v.Usage != nil {
		m["mem_used_mib"] = float64(v.Usage.MemoryBytes >> 20)
		used := float64(v.Usage.CPUMS) / float64(max(1, now-v.CreatedMS))
		m["cpu_used_pct"] = min(100, 100*used/max(limits.CPUs, 1))
	}
	return surface.WriteJSON(w, http.StatusOK, m)
}
