// Package gateway is the edge: it speaks HTTP and WebSocket to clients, authenticates them, and
// relays to the node that owns their sessions. It runs unprivileged and holds no state of a
// session, so it can be restarted while sandboxes run.
//
// net/http serves the connections, Fiber routes the requests and answers those of the native REST
// API, and package relay serves the WebSockets. No type of Fiber leaves this package. Other
// protocols are packages of their own; see package surface.
package gateway

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/e2b"
	"github.com/sandgate/sandgate/gateway/edge"
	"github.com/sandgate/sandgate/gateway/files"
	"github.com/sandgate/sandgate/gateway/health"
	"github.com/sandgate/sandgate/gateway/librechat"
	"github.com/sandgate/sandgate/gateway/native"
	"github.com/sandgate/sandgate/gateway/onlyboxes"
	"github.com/sandgate/sandgate/gateway/places"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/gateway/relay"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/webhook"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Gateway serves clients. Create one with New.
type Gateway struct {
	cfg    Config
	node   Node
	log    *slog.Logger
	routes []route
	// openAPIDocument describes the routes.
	openAPIDocument []byte
	server          *http.Server
	// fiber routes all requests. contexts holds its reusable contexts.
	fiber    fasthttp.RequestHandler
	contexts sync.Pool
	auth     *auth.Authenticator
	runs     *run.Runner
	// sockets are the WebSockets.
	sockets *relay.Server
	// origins are those that Config.AllowedOrigins lists.
	origins atomic.Pointer[map[string]bool]
	// tls is the configuration of the next TLS handshakes.
	tls atomic.Pointer[tls.Config]
	// ports is the domain below which ports have host names. portHost is the route of requests to
	// such a name, and linkHost that of requests to the name of a preview link.
	ports       ports.Domain
	portSurface *ports.Surface
	portHost    *route
	linkHost    *route
	health      *health.Surface
	e2b         *e2b.Surface
	libreChat   *librechat.Surface
	onlyboxes   *onlyboxes.Surface
	stats       *counters
	audit       *auditLog
	credentials *credentialAPI
	files       *files.Surface
	webhooks    *webhook.Worker
	metrics     *metrics
	places      places.Places
	// base ends when requests that still run are abandoned.
	base   context.Context
	giveUp context.CancelFunc
	// leaving ends when a shutdown begins.
	leaving context.Context
	setOut  context.CancelFunc
	// serving ends once every connection is closed. Every request's context
	// comes from it.
	serving context.Context
	served  context.CancelFunc
	// draining is set before anything is closed.
	draining atomic.Bool
	wg       sync.WaitGroup // runs and their clean-up, the watch of the key table

	mu      sync.Mutex // guards all fields below; leaf: nothing is locked under it
	hosts   map[string]bool
	own     map[string]bool // the hosts of the listeners of Serve
	follows bool            // set while the key table is watched
	lns     []*edge.Listener
	// waited is set before wg.Wait is called. Nothing is added to wg after it.
	waited bool
}

// New returns a gateway in front of n. A nil logger discards.
func New(cfg Config, n Node, log *slog.Logger) (*Gateway, error) {
	const op = "gateway.new"
	if n == nil {
		return nil, fault.New(fault.Internal, op, "a gateway needs a node")
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	cfg = cfg.withDefaults()
	domain, err := ports.ParseDomain(cfg.PortsDomain)
	if err != nil {
		return nil, err
	}
	document, err := native.Document()
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "gateway.new", err)
	}
	g := &Gateway{
		openAPIDocument: document,
		cfg:             cfg, node: n, log: log, stats: newCounters(),
		ports:  domain,
		places: places.New(cfg.Limits.InFlight),
		own:    make(map[string]bool),
	}
	g.webhooks = newWebhooks(g)
	g.base, g.giveUp = context.WithCancel(context.Background())
	g.leaving, g.setOut = context.WithCancel(g.base)
	g.serving, g.served = context.WithCancel(context.Background())
	g.runs = &run.Runner{Node: surfaceNode{g}, Log: log, Base: g.base, Call: cfg.Times.Call}
	g.auth, err = auth.New(g.base, auth.Config{
		Keys: keySource{n}, SignIn: cfg.SignIn,
		Tickets: cfg.Tickets, RunTokens: cfg.RunTokens, Rates: cfg.Rates,
		MaxTickets: cfg.Limits.Tickets,
		Runs: auth.RunBounds{
			Timeout: run.MaxTimeout, Output: run.MaxOutput, DefaultOutput: run.DefaultOutput,
			Life: g.runs.MaxLife(run.MaxTimeout),
		},
		Exceeded: func(owner string) { g.full(quotaLimit(owner)) },
		Logger:   log,
	})
	if err != nil {
		return nil, err
	}
	g.sockets = relay.New(relay.Config{
		Open: n.Open, Credentials: g.auth, Observer: socketObserver{g}, Name: "sandgate/" +
			cfg.Version,
		Times: relay.Times{
			Write: cfg.Times.Write, Hello: cfg.Times.Hello, Ping: cfg.Times.Ping,
			Pong: cfg.Times.Pong, Message: cfg.Times.Message,
		},
		Tracer: cfg.Tracer, Logger: log, Base: g.base,
	})
	if err := g.Reload(cfg.changeable()); err != nil {
		return nil, err
	}
	g.audit = &auditLog{
		node: n, log: log, base: g.base, begin: g.trackRequest, done: g.wg.Done,
		denied: g.stats.denied, lost: g.stats.notesLost,
	}
	g.files = files.New(filesConfig(g))
	g.credentials = &credentialAPI{
		auth: g.auth, audit: g.audit, log: log, base: g.base,
		full: g.full,
	}
	g.health = health.New(g.healthConfig())
	g.portSurface = ports.New(g.portsConfig(domain))
	if g.e2b, err = newE2B(g); err != nil {
		return nil, err
	}
	if err := openChats(g); err != nil {
		return nil, err
	}
	if err := g.build(); err != nil {
		return nil, err
	}
	g.metrics = newMetrics(g)
	return g, nil
}

// trackRequest adds work to wg, so that a shutdown waits for it. The caller ends it with wg.Done.
// It returns false after a shutdown has begun to wait.
func (g *Gateway) trackRequest() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waited {
		return false
	}
	g.wg.Add(1)
	return true
}
