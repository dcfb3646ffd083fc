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

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/onlyboxes/export"
	"github.com/sandgate/sandgate/gateway/onlyboxes/jittoken"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/gateway/turn"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
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

// Config configures a Surface. Every field except Tokens is required.
type Config struct {
	Settings surfaces.Settings
	Node     Node
	Keys     surface.Keys
	// Tokens verifies the tokens of users; nil means that the server accepts none.
	Tokens *jittoken.Verifier
	// Tenant is the tenant of the users that tokens state.
	Tenant string
	Export *export.Exporter
	Log    *slog.Logger
	// Call is how long a request to the node may take.
	Call time.Duration
}

// Surface serves LobeHub.
type Surface struct {
	cfg   Config
	turns turn.Turns
}

// New returns a Surface.
func New(cfg Config) *Surface {
	return &Surface{cfg, turn.Turns{Node: cfg.Node, Log: cfg.Log, Call: cfg.Call}}
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
	if !jittoken.Is(secret) || s.cfg.Tokens == nil {
		return surface.ByKey(s.cfg.Keys)(r)
	}
	u, err := s.cfg.Tokens.Verify(secret, time.Now())
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
