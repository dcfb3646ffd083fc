package e2b

import (
	"context"
	"crypto/subtle"
	"net"
	"net/http"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The headers with the tokens of a sandbox.
const (
	headerAccess  = "X-Access-Token"
	headerTraffic = "E2b-Traffic-Access-Token"
)

// authenticateControl finds the principal of a request to the control plane: by a key in X-API-KEY,
// or by a bearer token.
func (s *Surface) authenticateControl(r *http.Request) (
	context.Context, noderpc.Principal, error,
) {
	secret := r.Header.Get("X-Api-Key")
	if secret == "" {
		secret, _ = auth.BearerToken(r.Header.Get("Authorization"))
	}
	if secret == "" {
		return nil, noderpc.Principal{}, fault.New(fault.Unauthenticated, "e2b.authenticate",
			"the header X-API-KEY with a key is needed; see sandgate key create --e2b")
	}
	who, err := s.cfg.Auth.Bearer(secret)
	return r.Context(), who, err
}

// authenticateData finds the sandbox of a request to the data plane, and the principal: the owner
// of its session.
func (s *Surface) authenticateData(r *http.Request) (context.Context, noderpc.Principal, error) {
	var nobody noderpc.Principal
	t, err := s.domain.Target(r)
	if fault.Is(err, fault.NotFound) {
		return nil, nobody, sandbox.Unavailable(t.ID,
			"The sandbox was not found: there is none with this id")
	}
	if err != nil {
		return nil, nobody, err
	}
	if err := s.readToken(r, t); err != nil {
		return nil, nobody, err
	}
	if err := s.resolve(r, t, t.Token && runs(r, t)); err != nil {
		return nil, nobody, err
	}
	if err := s.checkToken(r, t); err != nil {
		return nil, nobody, err
	}
	return sandbox.WithTarget(r.Context(), t), t.Who, nil
}

// runs reports whether a request begins a command or code. These requests are the most frequent ones,
// and wait for operations that fail if the sandbox has ended.
func runs(r *http.Request, t *sandbox.Target) bool {
	return r.Method == http.MethodPost &&
		(t.Port == sandbox.EnvdPort && r.URL.Path == "/process.Process/Start" ||
			t.Port == sandbox.InterpreterPort && r.URL.Path == "/execute")
}

// resolve finds the owner and the options of a sandbox.
func (s *Surface) resolve(r *http.Request, t *sandbox.Target, recent bool) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Call)
	defer cancel()
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr // a socket without an address
	}
	return t.Resolve(ctx, s.lookup, address, recent)
}

// explain answers a request that would be cut because its sandbox has ended since it was looked up
// for an earlier request. The answer has the reason. Callers defer it.
func (s *Surface) explain(w http.ResponseWriter, r *http.Request, t *sandbox.Target) {
	p := recover()
	if p == nil {
		return
	}
	begun, ok := w.(interface{ Started() bool })
	if p == http.ErrAbortHandler && t.Recent && ok && !begun.Started() {
		if err := s.resolve(r, t, false); err != nil {
			call := surface.CallOf(r)
			call.Err = err
			sandbox.WriteError(w, err, call.Trace)
			return
		}
	}
	panic(p)
}

// readToken reads the access token of a request. It needs no node.
func (s *Surface) readToken(r *http.Request, t *sandbox.Target) error {
	access, err := s.cfg.Auth.SandboxToken(auth.SandboxAccess, t.Session)
	if err != nil {
		return err
	}
	t.AccessToken = access
	t.Token = equal(r.Header.Get(headerAccess), access)
	return nil
}

// checkToken checks the tokens that the port of a request needs.
func (s *Surface) checkToken(r *http.Request, t *sandbox.Target) error {
	const op = "e2b.token"
	if isPreflight(r) {
		return nil // a browser sends it without credentials; nothing is done
	}
	switch {
	case t.Port == sandbox.EnvdPort:
		open := r.URL.Path == "/health" || r.URL.Path == "/files" && len(r.Header[headerAccess]) == 0
		if !open && !t.Token {
			return fault.New(fault.Unauthenticated, op,
				"the header %s with the sandbox's access token is needed", headerAccess)
		}
		return nil
	case t.Port != sandbox.InterpreterPort && !t.Options.PrivatePorts:
		return nil
	}
	traffic, err := s.cfg.Auth.SandboxToken(auth.SandboxTraffic, t.Session)
	if err != nil {
		return err
	}
	if t.Token && t.Port == sandbox.InterpreterPort || equal(r.Header.Get(headerTraffic), traffic) {
		return nil
	}
	if s.cfg.OpenInterpreter && withoutToken(r, t) {
		return nil
	}
	return fault.New(fault.PermissionDenied, op,
		"the header %s with the sandbox's traffic token is needed", headerTraffic)
}

// withoutToken reports whether a request to the interpreter comes from a client that knows no tokens,
// to a sandbox that such a client has created. A wrong token is no missing one, and a page of a
// browser is no such client.
func withoutToken(r *http.Request, t *sandbox.Target) bool {
	return t.Port == sandbox.InterpreterPort && t.Options.Insecure && !t.Options.PrivatePorts &&
		len(r.Header[headerAccess]) == 0 && len(r.Header[headerTraffic]) == 0 &&
		len(r.Header["Origin"]) == 0
}

func equal(given, want string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(want)) == 1
}

// isPreflight reports whether a request is a browser's CORS preflight.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// serveData answers a request to a port of a sandbox.
func (s *Surface) serveData(w http.ResponseWriter, r *http.Request) error {
	t := sandbox.TargetOf(r.Context())
	defer s.explain(w, r, t)
	own := t.Port == sandbox.EnvdPort || t.Port == sandbox.InterpreterPort
	switch {
	case own && isPreflight(r):
		preflight(w, r)
	case t.Port == sandbox.EnvdPort:
		s.envd.ServeHTTP(w, r)
	case t.Port == sandbox.InterpreterPort:
		s.interpreter.ServeHTTP(w, r)
	default:
		for _, name := range []string{headerAccess, headerTraffic} {
			r.Header.Del(name)
		}
		s.forward(w, r, t)
	}
	return nil
}
