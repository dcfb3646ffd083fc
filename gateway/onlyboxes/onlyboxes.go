// Package onlyboxes is the surface for LobeHub: the part of the API of Onlyboxes that its sandbox uses,
// below /onlyboxes.
//
// A command is a process of the session that the request names. A task is such a process too: its id
// names the session and the process, and the log of the process has its result. So the gateway keeps
// nothing, and any gateway answers about any task.
package onlyboxes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/onlyboxes/export"
	"github.com/sandgate/sandgate/gateway/onlyboxes/jittoken"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/gateway/turn"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Prefix begins the paths of all routes.
const Prefix = "/onlyboxes"

// The limits of requests.
const (
	maxBody    = 1 << 20
	maxCommand = 120 << 10
	maxOutput  = 4 << 20 // bytes of each stream of output
)

// Node is the part of a node that the surface needs.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Options are the operator's settings of tokens and exports.
type Options struct {
	// Tokens says which tokens are accepted. Without a key there are none.
	Tokens jittoken.Config
	// Tenant is the tenant of the users that tokens state.
	Tenant string
	// Export says where files may go.
	Export export.Config
}

// Config configures a Surface. Every field is required.
type Config struct {
	Options
	Settings surfaces.Settings
	Node     Node
	Keys     surface.Keys
	Log      *slog.Logger
	// Call is how long a request to the node may take.
	Call time.Duration
}

// Surface serves LobeHub.
type Surface struct {
	cfg      Config
	turns    turn.Turns
	exporter *export.Exporter
	tokens   *jittoken.Verifier // nil if the server accepts none
}

// New returns a Surface. Errors: InvalidArgument for a key, a tenant or a host that is not valid.
func New(cfg Config) (*Surface, error) {
	s := &Surface{cfg: cfg, turns: turn.Turns{Node: cfg.Node, Log: cfg.Log, Call: cfg.Call}}
	var err error
	if s.exporter, err = export.New(cfg.Export); err != nil {
		return nil, err
	}
	if len(cfg.Tokens.Key) == 0 {
		return s, nil
	}
	const op = "onlyboxes.tenant"
	if err := tenant.CheckName(op, cfg.Tenant); err != nil || cfg.Tenant == auth.OperatorTenant {
		return nil, fault.Invalid(op, "onlyboxes.jit_tenant",
			"%.80q cannot be the tenant of LobeHub's users", cfg.Tenant)
	}
	s.tokens, err = jittoken.New(cfg.Tokens)
	return s, err
}

// Routes returns the routes.
func (s *Surface) Routes() []surface.Route {
	var routes []surface.Route
	for _, r := range []struct {
		method, path string
		body         int64
		handler      surface.HandlerFunc
	}{
		{http.MethodPost, "/api/v1/commands/terminal", maxBody, s.terminal},
		{http.MethodPost, "/api/v1/tasks", maxBody, s.submit},
		{http.MethodGet, "/api/v1/tasks/:id", 0, s.task},
		{http.MethodPost, "/api/v1/tasks/:id/cancel", maxBody, s.cancel},
	} {
		routes = append(routes, surface.Route{
			Method: r.method, Path: Prefix + r.path, Access: protocol.ScopeManage,
			MaxBody: r.body, Authenticate: s.authenticate, WriteError: writeError,
			Handler: r.handler,
		})
	}
	return routes
}

// authenticate finds the user of a request: by a token, or by a key, which is one user.
func (s *Surface) authenticate(r *http.Request) (context.Context, noderpc.Principal, error) {
	secret := surface.Secret(r)
	if !jittoken.Is(secret) || s.tokens == nil {
		return surface.ByKey(s.cfg.Keys)(r)
	}
	u, err := s.tokens.Verify(secret, time.Now())
	if err != nil {
		return nil, noderpc.Principal{}, err
	}
	// A hash, because both names together are longer than a subject may be.
	sum := sha256.Sum256([]byte(u.Issuer + "\x00" + u.Subject))
	return r.Context(), noderpc.Principal{
		Tenant: s.cfg.Tenant, Subject: "onlyboxes:" + hex.EncodeToString(sum[:16]), Until: u.Until,
		Scopes: []string{
			string(protocol.ScopeRead), string(protocol.ScopeWrite), string(protocol.ScopeManage),
		},
	}, nil
}

// place is the place of a session of clients. Its name has the principal, so that no other user finds
// the session.
func place(session string) conversation.Place {
	return conversation.Place{Surface: surfaces.Onlyboxes, Session: session}
}

// errorBody is the body of a response that is an error.
type errorBody struct {
	Error string `json:"error"`
	Code  string `json:"code"`
	Trace string `json:"trace,omitempty"`
}

// The values of Code, beside the kinds of errors.
const (
	codeBusy    = "session_busy"
	codeMissing = "session_not_found"
)

const fieldSession = "session_id"

// codeOf returns the code of an error.
func codeOf(p fault.Public) string {
	switch {
	case p.Kind == fault.Conflict && p.Field == "session":
		return codeBusy
	case p.Kind == fault.NotFound && p.Field == fieldSession:
		return codeMissing
	}
	return string(p.Kind)
}

func writeError(w http.ResponseWriter, err error, trace string) {
	p := surface.PublicOf(err)
	surface.SetErrorHeader(w.Header().Set, p)
	_ = surface.WriteJSON(w, p.Kind.Row().HTTP, errorBody{p.Message, codeOf(p), trace})
}

// call performs one operation for a user.
func (s *Surface) call(ctx context.Context, who noderpc.Principal, op string, params, result any,
) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	return s.cfg.Node.Call(ctx, who, op, params, result)
}
