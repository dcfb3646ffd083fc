// Package fastgpt is the surface for FastGPT: the API of its code sandbox below /fastgpt. The code
// nodes of its workflows define a function main, which is called in a sandbox of its own.
package fastgpt

import (
	"context"
	_ "embed"
	"net/http"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
)

// Prefix begins the paths of all routes.
const Prefix = "/fastgpt"

// The limits of requests and answers.
const (
	maxBody   = 16 << 20
	maxOutput = 8 << 20 // bytes of the log, of which main's wrapper admits 1 MiB, and of the value
)

//go:embed helpers.py
var helpersPython string

//go:embed helpers.js
var helpersJavaScript string

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

// Surface serves FastGPT.
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
		s.route(http.MethodPost, "/python", maxBody, s.run(oneshot.Python, helpersPython)),
		s.route(http.MethodPost, "/js", maxBody, s.run(oneshot.JavaScript, helpersJavaScript)),
		s.route(http.MethodGet, "/modules", 0, s.modules),
	}
}

func (s *Surface) route(method, path string, body int64, h surface.HandlerFunc) surface.Route {
	return surface.Route{
		Method: method, Path: Prefix + "/sandbox" + path, Access: protocol.ScopeRun, MaxBody: body,
		Authenticate: surface.ByKey(s.cfg.Keys), WriteError: writeError, Handler: h,
	}
}

func health(w http.ResponseWriter, _ *http.Request) {
	_ = surface.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// run returns the handler of programs of one language. The status of the response is 200 however a
// program ends.
func (s *Surface) run(language, helpers string) surface.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		q, err := readRequest(r)
		if err != nil {
			return err
		}
		o, err := s.cfg.Programs.Run(r.Context(), oneshot.Program{
			Who: surface.CallOf(r).Who, Surface: surfaces.FastGPT, Settings: s.cfg.Settings,
			Language: language, Code: q.Code, MaxOutput: maxOutput,
			Call: &oneshot.Call{Arguments: q.Variables, Helpers: helpers},
		})
		if err != nil {
			return err
		}
		return surface.WriteJSON(w, http.StatusOK, answerOf(o))
	}
}

// modules lists what programs can import, and the names that they can use without an import.
func (s *Surface) modules(w http.ResponseWriter, r *http.Request) error {
	all, err := s.cfg.Programs.Packages(r.Context(), oneshot.Program{
		Who: surface.CallOf(r).Who, Surface: surfaces.FastGPT, Settings: s.cfg.Settings,
	})
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, answer{Success: true, Data: modules{
		JS: []string{
			"assert", "buffer", "crypto", "events", "fs", "http", "https", "os", "path",
			"querystring", "stream", "string_decoder", "timers", "url", "util", "zlib",
		},
		Python:  all.Modules,
		Globals: []string{"SystemHelper.httpRequest"},
	}})
}
