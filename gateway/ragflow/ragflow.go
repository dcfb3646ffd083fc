// Package ragflow is the surface for RAGFlow: the API of its executor manager below /ragflow. The
// code components of its agents define a function main, which is called in a sandbox of its own.
package ragflow

import (
	"context"
	"net/http"

	"github.com/sandgate/sandgate/gateway/oneshot"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
)

// Prefix begins the paths of all routes.
const Prefix = "/ragflow"

// The limits of requests and answers.
const (
	maxBody      = 16 << 20
	maxOutput    = 4 << 20  // bytes of stdout, stderr and the result together
	maxArtifacts = 10       // files
	maxArtifact  = 10 << 20 // bytes of one of them
	maxContent   = 32 << 20 // bytes of all
)

// Programs runs programs.
type Programs interface {
	Run(ctx context.Context, p oneshot.Program) (oneshot.Outcome, error)
}

// Config configures a Surface. Every field is required.
type Config struct {
	Keys     surface.Keys
	Programs Programs
	Settings surfaces.Settings
}

// Surface serves RAGFlow.
type Surface struct{ cfg Config }

// New returns a Surface.
func New(cfg Config) *Surface { return &Surface{cfg} }

// Routes returns the routes.
func (s *Surface) Routes() []surface.Route {
	return []surface.Route{
		{
			Method: http.MethodGet, Path: Prefix + "/healthz", Access: protocol.ScopeOpen,
			WriteError: writeError, Handler: http.HandlerFunc(health),
		},
		{
			Method: http.MethodPost, Path: Prefix + "/run", Access: protocol.ScopeRun,
			MaxBody: maxBody, Authenticate: surface.ByKey(s.cfg.Keys, "X-Sandbox-Token"),
			WriteError: writeError, Handler: surface.HandlerFunc(s.run),
		},
	}
}

func health(w http.ResponseWriter, _ *http.Request) {
	_ = surface.WriteJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// run calls the function main of a program. The status of the response is 200 however it ends.
func (s *Surface) run(w http.ResponseWriter, r *http.Request) error {
	p, err := readProgram(r)
	if err != nil {
		return err
	}
	p.Who, p.Surface, p.Settings = surface.CallOf(r).Who, surfaces.RAGFlow, s.cfg.Settings
	p.MaxOutput, p.MaxFiles, p.Files = maxOutput, maxContent, chooser()
	o, err := s.cfg.Programs.Run(r.Context(), p)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, answerOf(o))
}
