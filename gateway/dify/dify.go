// Package dify is the surface for Dify: the API of its code sandbox below /dify. Code nodes and
// template nodes of workflows run there, each in a sandbox of its own.
package dify

import (
	"context"
	"net/http"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Prefix begins the paths of all routes.
const Prefix = "/dify"

// The limits of requests and answers.
const (
	maxBody   = 16 << 20
	maxOutput = 4 << 20 // bytes of stdout and stderr together
)

// Programs runs programs.
type Programs interface {
	Run(ctx context.Context, p oneshot.Program) (oneshot.Outcome, error)
	// Packages lists the packages of Python.
	Packages(ctx context.Context, p oneshot.Program) (oneshot.Packages, error)
}

// Config configures a Surface. Every field is required.
type Config struct {
	Keys     surface.Keys
	Programs Programs
	Settings surfaces.Settings
}

// Surface serves Dify.
type Surface struct{ cfg Config }

// New returns a Surface.
func New(cfg Config) *Surface { return &Surface{cfg} }

// Routes returns the routes.
func (s *Surface) Routes() []surface.Route {
	return []surface.Route{
		{
			Method: http.MethodGet, Path: Prefix + "/health", Access: protocol.ScopeOpen,
			WriteError: writeError, Handler: http.HandlerFunc(health),
		},
		s.route(http.MethodPost, "/v1/sandbox/run", maxBody, s.run),
		s.route(http.MethodGet, "/v1/sandbox/dependencies", 0, s.dependencies),
	}
}

func (s *Surface) route(method, path string, body int64, h surface.HandlerFunc) surface.Route {
	return surface.Route{
		Method: method, Path: Prefix + path, Access: protocol.ScopeRun, MaxBody: body,
		Authenticate: surface.ByKey(s.cfg.Keys, "X-Api-Key"), WriteError: writeError, Handler: h,
	}
}

func health(w http.ResponseWriter, _ *http.Request) {
	_ = surface.WriteJSON(w, http.StatusOK, "ok")
}

// request is the body of a run. Clients send more fields; they have no effect.
type request struct {
	Language      string `json:"language"`
	Code          string `json:"code"`
	EnableNetwork bool   `json:"enable_network"`
}

// result is the data of the answer to a run.
type result struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// Error must be empty for a program that has ended with the status 0: any text fails the node.
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

// run runs a program. The status of the response is 200 however the program ends.
func (s *Surface) run(w http.ResponseWriter, r *http.Request) error {
	q, err := readRequest(r)
	if err != nil {
		return err
	}
	language, err := languageOf(q.Language)
	if err != nil {
		return err
	}
	o, err := s.cfg.Programs.Run(r.Context(), oneshot.Program{
		Who: surface.CallOf(r).Who, Surface: surfaces.Dify, Settings: s.cfg.Settings,
		Offline: !q.EnableNetwork, Language: language, Code: q.Code, MaxOutput: maxOutput,
	})
	if err != nil {
		return err
	}
	if o.Status == oneshot.Flooded {
		return fault.New(fault.TooLarge, "dify.run", "%s of %d bytes", o.Message, maxOutput)
	}
	return surface.WriteJSON(w, http.StatusOK, answer{
		Message: messageSuccess, Data: resultOf(o),
	})
}

func resultOf(o oneshot.Outcome) result {
	d := result{Stdout: o.Stdout, Stderr: o.Stderr, ExitCode: o.ExitCode}
	switch {
	case o.Status == oneshot.OK:
	case o.Traceback != "":
		d.Error = o.Traceback
	case o.Status == oneshot.Failed && o.Stderr != "":
		d.Error = o.Message + "\n" + o.Stderr
	default:
		d.Error = o.Message
	}
	return d
}

// readRequest reads the request of a run. Errors: InvalidArgument for everything that Dify's server
// refuses with -400.
func readRequest(r *http.Request) (*request, error) {
	const op = "dify.run"
	var q request
	if err := decode(r, &q); err != nil {
		return nil, err
	}
	switch {
	case q.Language == "":
		return nil, fault.Invalid(op, "language", "a language is required")
	case q.Code == "":
		return nil, fault.Invalid(op, "code", "code is required")
	}
	return &q, nil
}
