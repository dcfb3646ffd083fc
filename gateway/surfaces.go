package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/applications"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/docs"
	"github.com/sandgate/sandgate/gateway/e2b"
	"github.com/sandgate/sandgate/gateway/exec"
	"github.com/sandgate/sandgate/gateway/files"
	"github.com/sandgate/sandgate/gateway/health"
	"github.com/sandgate/sandgate/gateway/jupyter"
	"github.com/sandgate/sandgate/gateway/librechat"
	"github.com/sandgate/sandgate/gateway/librechat/usertoken"
	"github.com/sandgate/sandgate/gateway/mcp"
	"github.com/sandgate/sandgate/gateway/openterminal"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/gateway/recording"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/site"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/gateway/webhook"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// surfaces is the registry of protocol surfaces: one line for each.
func (g *Gateway) surfaces() []surface.Surface {
	commands := exec.New(g.execConfig())
	return append([]surface.Surface{
		run.New(g.runConfig()),
		commands,
		g.portSurface,
		g.health,
		g.files,
		recording.New(recording.Config{Node: surfaceNode{g}, Base: g.base, Call: g.cfg.Times.Call}),
		docs.Surface{OpenAPI: g.openAPIDocument},
		site.New(site.Config{
			Files: g.cfg.Static, Framing: g.framing, Previews: g.ports.Source,
		}),
		g.e2b,
		newJupyter(g),
		newMCP(g, commands),
		newOpenTerminal(g, commands),
		g.libreChat,
		g.onlyboxes,
		newOpenSandbox(g, commands),
	}, append(applications.New(applications.Config{
		Keys: g.auth, Node: surfaceNode{g}, Runs: g.runs, Commands: commands,
		Settings: g.cfg.settings, Go: g.start, Call: g.cfg.Times.Call,
	}), g.cfg.Surfaces...)...)
}

func (g *Gateway) runConfig() run.Config {
	return run.Config{
		Runner: g.runs, MaxBody: g.cfg.Limits.RunBody, KeepAlive: g.cfg.Times.KeepAlive,
		Languages: g.health.Languages, Link: g.files.LinkFile,
		Begin: func(_ context.Context, t *auth.RunToken, life time.Duration) (func(), error) {
			place, err := g.auth.RunTokens.Begin(g.base, t, life)
			if err != nil {
				if !fault.Is(err, fault.Unavailable) {
					g.full(limitRuns)
				}
				return nil, err
			}
			return place.Leave, nil
		},
		Go: func(f func()) bool {
			started := g.start(f)
			if started {
				g.stats.runs.Add(1)
			}
			return started
		},
	}
}

func filesConfig(g *Gateway) files.Config {
	return files.Config{
		Node: surfaceNode{g}, Base: g.base, Call: g.cfg.Times.Call,
		MaxFile: g.cfg.Limits.File, Links: g.auth,
	}
}

func (g *Gateway) execConfig() exec.Config {
	return exec.Config{
		Node: surfaceNode{g}, Log: g.log, Base: g.base, Call: g.cfg.Times.Call,
		MaxBody: g.cfg.Limits.RunBody, KeepAlive: g.cfg.Times.KeepAlive, Go: g.start,
		Link: g.files.LinkFile,
	}
}

func (g *Gateway) healthConfig() health.Config {
	return health.Config{
		Node: g.node, Who: gatewayItself(), Runner: g.runs, Interval: g.cfg.Times.SelfCheck,
		Go: g.start,
		Keys: func() error {
			_, err := g.auth.Keys.Index()
			return err
		},
		Checked: func(err error) {
			result := "ok"
			if err != nil {
				result = "failed"
				g.log.Error("the self-check failed", "error", err)
			}
			g.stats.checks.WithLabelValues(result).Inc()
		},
	}
}

// start calls f in a goroutine that a shutdown waits for. A panic ends only f. It returns false if a
// shutdown already waits.
func (g *Gateway) start(f func()) bool {
	if !g.trackRequest() {
		return false
	}
	go func() {
		defer g.wg.Done()
		defer func() {
			if p := recover(); p != nil {
				_ = g.panicked(p) // logs it
			}
		}()
		f()
	}()
	return true
}

func (g *Gateway) portsConfig(d ports.Domain) ports.Config {
	return ports.Config{
		Domain: d, Node: surfaceNode{g}, Call: g.cfg.Times.Call, Leaving: g.leaving,
		MaxBody: g.cfg.Limits.File, Cookie: g.portCookieName,
		MaxVisits: max(1, g.cfg.Limits.InFlight/2), Full: func() { g.full(limitVisits) },
	}
}

func newWebhooks(g *Gateway) *webhook.Worker {
	return webhook.New(webhook.Config{
		Node: g.node, Who: gatewayItself(), Log: g.log, Version: g.cfg.Version,
		Allow: g.cfg.WebhookAllow,
	})
}

// newE2B returns the surface for clients of E2B.
func newE2B(g *Gateway) (*e2b.Surface, error) {
	return e2b.New(e2b.Config{
		Domain: g.cfg.E2BDomain, OpenInterpreter: g.cfg.E2BOpenInterpreter,
		Node: surfaceNode{g}, Auth: g.auth, Owners: owners{g.node},
		Ports: g.portSurface.Handler(), Log: g.log, Base: g.base, Call: g.cfg.Times.Call,
		MaxBody: g.cfg.Limits.File, Go: g.start, Full: func() { g.full(limitSandboxes) },
		Upload: func(ctx context.Context, who noderpc.Principal, op string, params any, r io.Reader,
			result any,
		) error {
			return g.files.Upload(ctx, who, op, params, r, result)
		},
	})
}

// newJupyter returns the surface for clients of Jupyter.
func newJupyter(g *Gateway) *jupyter.Surface {
	return jupyter.New(jupyter.Config{
		Node: surfaceNode{g}, Auth: g.auth, Languages: g.health.Languages, Log: g.log,
		Full: func() { g.full(limitJupyter) }, Leaving: g.leaving, Go: g.start,
		Call: g.cfg.Times.Call, Relay: g.cfg.Relay,
		Start: 2 * g.cfg.Times.Call, Write: 3 * g.cfg.Times.Write, Ping: g.cfg.Times.Ping,
		Pong: g.cfg.Times.Pong,
	})
}

// newMCP returns the surface for hosts of language models.
func newMCP(g *Gateway, commands *exec.Surface) *mcp.Surface {
	return mcp.New(mcp.Config{
		Settings: g.cfg.settings(surfaces.MCP), Keys: g.auth, Tokens: g.auth.AccessTokens(),
		Node: surfaceNode{g}, Runner: g.runs, Commands: commands, Link: g.files.LinkFile,
		Preview: previews{g}.linkPort, Upload: g.files.Upload, Log: g.log,
		Full: func() { g.full(limitMCP) }, Go: g.start, Version: g.cfg.Version, Base: g.base,
		Call: g.cfg.Times.Call, KeepAlive: g.cfg.Times.KeepAlive,
	})
}

// newOpenTerminal returns the surface for Open Terminal.
func newOpenTerminal(g *Gateway, commands *exec.Surface) *openterminal.Surface {
	return openterminal.New(openterminal.Config{
		Settings: g.cfg.settings(surfaces.OpenTerminal), Node: surfaceNode{g}, Auth: g.auth,
		Commands: commands, Ports: g.portSurface.Handler(), Upload: g.files.Upload, Log: g.log,
		Full: func() { g.full(limitTerminals) }, Leaving: g.leaving, Base: g.base,
		Version: g.cfg.Version, MaxFile: g.cfg.Limits.File, Call: g.cfg.Times.Call,
		Write: 3 * g.cfg.Times.Write, Ping: g.cfg.Times.Ping, Pong: g.cfg.Times.Pong,
	})
}

// newLibreChat returns the surface for LibreChat.
func newLibreChat(g *Gateway) (*librechat.Surface, error) {
	c := librechat.Config{
		Settings: g.cfg.LibreChat.Settings, Policy: g.cfg.settings(surfaces.LibreChat),
		Node: surfaceNode{g}, Auth: g.auth, Log: g.log,
		Base: g.base, Call: g.cfg.Times.Call, Go: g.start, Full: func() { g.full(limitLibreChat) },
	}
	if len(g.cfg.LibreChat.Tokens.Keys) > 0 {
		const op = "gateway.librechat"
		if err := tenant.CheckName(op, c.Tenant); err != nil || c.Tenant == auth.OperatorTenant {
			return nil, fault.Invalid(op, "librechat.jwt_tenant",
				"%.80q cannot be the tenant of LibreChat's users", c.Tenant)
		}
		var err error
		if c.Tokens, err = usertoken.New(g.cfg.LibreChat.Tokens); err != nil {
			return nil, err
		}
	}
	return librechat.New(c), nil
}

// owners finds the owners of sessions for surfaces whose credentials name a session alone.
type owners struct{ node Node }

func (o owners) Owner(ctx context.Context, session string,
) (nodes.SessionOwner, error) {
	var out nodes.SessionOwner
	err := o.node.Call(ctx, gatewayItself(), protocol.OpSessionOwner,
		protocol.SessionRef{Session: session}, &out)
	return out, err
}

// framing returns the origins whose pages may show the run button in a frame.
func (g *Gateway) framing() ([]string, error) {
	all, err := g.auth.RunTokens.Framing(g.base)
	if err != nil {
		return nil, err
	}
	for origin := range *g.origins.Load() {
		all = append(all, origin)
	}
	return all, nil
}

// surfaceNode is the gateway's node in the form that surfaces use.
type surfaceNode struct{ g *Gateway }

func (n surfaceNode) Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error) {
	return n.g.open(ctx, who)
}

func (n surfaceNode) Call(ctx context.Context, who noderpc.Principal, op string,
	params, result any,
) error {
	return n.g.node.Call(ctx, who, op, params, result)
}

func (n surfaceNode) WriteFile(ctx context.Context, who noderpc.Principal, file protocol.FileRef,
	content string,
) error {
	return n.g.files.WriteText(ctx, who, file, content)
}

// routeOf converts a surface's route to a row of the route table. It rejects a route that lacks a
// part that the contract requires.
func routeOf(r surface.Route) (route, error) {
	found := r.Match != nil && r.Method == "" && r.Path != "" ||
		r.Match == nil && r.Method != "" && strings.HasPrefix(r.Path, "/")
	if r.Access == "" || !found || r.Handler == nil {
		return route{}, fault.New(fault.Internal, "gateway.surface",
			"the route %q %q lacks a method, a path, a handler or a scope", r.Method, r.Path)
	}
	if r.Public && r.Access != protocol.ScopeOpen || r.Access != protocol.ScopeOpen &&
		r.Access != protocol.ScopeAny && !r.Access.Grantable() {
		return route{}, fault.New(fault.Internal, "gateway.surface",
			"the route %s %s has a scope that it cannot have", r.Method, r.Path)
	}
	return route{
		Method: r.Method, Path: r.Path, Access: r.Access, Body: r.MaxBody,
		Run: r.RunTokens, Port: r.Port, Upgrade: r.Upgrade, Public: r.Public, standard: r.Handler,
		foreign: foreign{
			match: r.Match, ownHost: r.OwnHost, anyOrigin: r.AnyOrigin,
			closesItself: r.ClosesItself,
			authenticate: r.Authenticate, writeError: r.WriteError,
		},
	}, nil
}

// response is the http.ResponseWriter of a standard handler. It records the status and size for the
// access log.
type response struct {
	http.ResponseWriter
	q      *request
	status int
	sent   int64
	// release is set once the handler has taken over the connection.
	release func() bool
}

func (w *response) WriteHeader(status int) {
	if status >= http.StatusOK && w.status == 0 {
		w.status = status
		if !w.q.body.whole() && w.q.x.stream == nil {
			// The rest of the body would be parsed as the next request.
			w.Header().Set("Connection", "close")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	_, _ = w.q.capture.Write(p) // never fails
	w.sent += int64(n)
	return n, err
}

// Started reports whether the handler has written a part of the response.
func (w *response) Started() bool { return w.status != 0 }

// Flush sends the bytes written so far.
func (w *response) Flush() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush() // the next write fails as well
}

// Hijack takes the connection over. A shutdown closes the connection when it begins, and waits
// until the handler returns.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	g := w.q.g
	if !g.trackRequest() {
		return nil, nil, &fault.Error{Kind: fault.Restarting, Op: "gateway.hijack", RetryAfter: 1}
	}
	c, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		g.wg.Done()
		return nil, nil, err
	}
	w.release = func() bool { return true }
	if !w.q.route.closesItself {
		w.release = context.AfterFunc(g.leaving, func() { _ = c.Close() })
	}
	w.q.finish(http.StatusSwitchingProtocols, 0, nil)
	return c, buffered, nil
}

// Unwrap implements the interface of http.ResponseController.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serveStandard lets a standard handler answer. It returns once the response is
// complete.
func (q *request) serveStandard(h http.Handler) {
	x := q.x
	x.answered = true
	q.streams = true
	copyHeader(x.w.Header(), &q.Response().Header)
	call := &surface.Call{
		Who: q.who, RunToken: q.runToken, Trace: q.span.ID(), WriteError: q.route.writeError,
	}
	ctx := surface.WithCall(trace.With(x.r.Context(), q.base()), call)
	if q.port != nil {
		ctx = ports.WithTarget(ctx, q.port)
	}
	r := x.r.WithContext(ctx)
	r.Body = q.body
	for _, name := range q.Route().Params {
		r.SetPathValue(pathValueName(name), q.Params(name))
	}
	w := &response{ResponseWriter: x.w, q: q}
	_ = http.NewResponseController(x.w).EnableFullDuplex() // HTTP/1 supports it
	defer func() {
		_ = q.body.Close()
		if w.release != nil {
			w.release()
			q.g.wg.Done()
			return
		}
		p := recover()
		switch {
		case p == nil:
		case p == http.ErrAbortHandler:
			if call.Err == nil {
				call.Err = fault.New(fault.Canceled, "gateway.surface", "the response was cut")
			}
		default:
			call.Err = q.g.panicked(p)
			if w.status == 0 {
				call.Answer(w, call.Err)
				p = nil
			}
		}
		q.finishStandard(w, call.Err)
		if p != nil {
			panic(http.ErrAbortHandler) // cut the response that has begun
		}
	}()
	h.ServeHTTP(w, r)
}

func (q *request) finishStandard(w *response, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	q.capture.End(w.status, w.Header().Get("Content-Type"), err)
	q.finish(w.status, w.sent, err)
}

// pathValueName returns the name of a path parameter for http.Request.PathValue. Fiber numbers the
// "*".
func pathValueName(param string) string {
	if param != "" && param[0] == '*' {
		return "*"
	}
	return param
}
