// Package gateway is the edge: it speaks HTTP and WebSocket to clients, knows
// who they are, and relays to the node that owns their sessions. It runs
// unprivileged and holds no state of a session, so that it can be restarted
// under running sandboxes.
//
// Fiber carries HTTP, coder/websocket the WebSocket; no type of either leaves
// this package.
package gateway

import (
	"context"
	"log/slog"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/native"
	"github.com/sandgate/sandgate/gateway/relay"
	"github.com/sandgate/sandgate/gateway/run"
)

// Gateway serves clients. Make one with New.
type Gateway struct {
	cfg    Config
	node   Node
	log    *slog.Logger
	routes []route
	// openAPIDocument describes the routes.
	openAPIDocument []byte
	app             *fiber.App
	server          *fasthttp.Server
	auth            *auth.Authenticator
	runs            *run.Runner
	// sockets are the WebSockets.
	sockets *relay.Server
	// origins are those that Config.AllowedOrigins lists.
	origins atomic.Pointer[map[string]bool]
	// ports is the domain below which ports have host names.
	ports   portDomain
	info    *infoCache
	stats   counters
	check   selfCheck
	metrics *metrics
	// slots holds one token for each HTTP request under way.
	slots chan struct{}
	// base ends when requests under way are given up.
	base   context.Context
	giveUp context.CancelFunc
	// leaving ends when a shutdown begins.
	leaving context.Context
	setOut  context.CancelFunc
	// draining is set before anything is closed.
	draining atomic.Bool
	wg       sync.WaitGroup // runs and their clean-up, the following of keys

	mu      sync.Mutex // guards all below; leaf: nothing is locked under it
	hosts   map[string]bool
	own     map[string]bool // the hosts of what Serve listens on
	follows bool            // the keys are followed
	lns     []*listener
	// denials wait to be told to the audit log; at most 65.
	denials map[denial]int
	// waited is set before wg is waited for: nothing is added after it.
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
	ports, err := parsePortDomain(cfg.PortsDomain)
	if err != nil {
		return nil, err
	}
	document, err := native.Document()
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "gateway.new", err)
	}
	g := &Gateway{
		openAPIDocument: document,
		cfg:             cfg, node: n, log: log,
		ports: ports,
		slots: make(chan struct{}, cfg.Limits.InFlight),
		own:   make(map[string]bool),
	}
	g.base, g.giveUp = context.WithCancel(context.Background())
	g.leaving, g.setOut = context.WithCancel(g.base)
	g.runs = &run.Runner{Node: runNode{g}, Log: log, Base: g.base, Call: cfg.Times.Call}
	g.auth, err = auth.New(g.base, auth.Config{
		Keys: keySource{n}, SignIn: cfg.SignIn,
		Tickets: cfg.Tickets, RunTokens: cfg.RunTokens, Rates: cfg.Rates, MaxTickets: cfg.Limits.Tickets,
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
		Open: n.Open, Credentials: g.auth, Observer: socketObserver{g}, Name: "sandgate/" + cfg.Version,
		Times: relay.Times{
			Write: cfg.Times.Write, Hello: cfg.Times.Hello, Ping: cfg.Times.Ping, Pong: cfg.Times.Pong, Message: cfg.Times.Message,
		},
		Tracer: cfg.Tracer, Logger: log, Base: g.base,
	})
	if err := g.Reload(cfg.changeable()); err != nil {
		return nil, err
	}
	g.info = &infoCache{node: n, version: cfg.Version}
	g.build()
	g.metrics = newMetrics(g)
	return g, nil
}

// build makes the Fiber application out of the route table.
func (g *Gateway) build() {
	g.app = fiber.New(fiber.Config{
		CaseSensitive: true, StrictRouting: true, Immutable: true,
		DisableStartupMessage: true,
		// Bodies are limited route by route as they are read. A limit here
		// would make fasthttp buffer before the door has looked.
		StreamRequestBody: true, DisablePreParseMultipartForm: true, BodyLimit: math.MaxInt,
		ReadBufferSize: g.cfg.Limits.Header,
		ReadTimeout:    g.cfg.Times.Header,
		IdleTimeout:    g.cfg.Times.Idle,
		// A little more than ours, whose refusal is typed.
		Concurrency:  g.cfg.Limits.Connections + 64,
		ErrorHandler: g.serverError,
	})
	g.routes = g.table()
	named := &route{Path: "(port)", Access: ScopeWrite, Body: g.cfg.Limits.File, Port: true, handler: g.proxy}
	g.app.Use(func(c *fiber.Ctx) error {
		if _, ok := g.ports.target(string(c.Request().Header.Host())); ok {
			return g.serve(c, named)
		}
		return c.Next()
	})
	for i := range g.routes {
		r := &g.routes[i]
		g.app.Add(r.Method, r.Path, func(c *fiber.Ctx) error { return g.serve(c, r) })
	}
	missing := &route{Path: noRoute, Access: Open, handler: func(*request) error {
		return fault.New(fault.NotFound, "gateway.route", "there is no such route; see /v1/openapi.json")
	}}
	g.app.Use(func(c *fiber.Ctx) error { return g.serve(c, missing) })
	inner := g.app.Handler()
	g.server = g.app.Server()
	g.server.Handler = g.guard(inner)
	g.server.CloseOnShutdown = true
	// The bridge hands a hijacked connection to the relay and returns, which
	// gives fasthttp its buffers back.
	g.server.KeepHijackedConns = true
	g.server.NoDefaultServerHeader = true
	g.server.ConnState = func(nc net.Conn, state fasthttp.ConnState) {
		if c, ok := nc.(*conn); ok {
			c.busy.Store(state == fasthttp.StateActive)
		}
	}
}

// Serve accepts connections on ln until ctx ends or Shutdown is called, and
// then returns nil once everything is closed. It takes at most Times.Drain
// for that, and a little.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener) error {
	l := &listener{Listener: ln, g: g, conns: make(map[*conn]struct{})}
	g.mu.Lock()
	if host, ok := listenHost(ln.Addr()); ok {
		g.hosts[host], g.own[host] = true, true
	}
	g.lns = append(g.lns, l)
	follow := !g.follows && !g.waited
	if follow {
		g.follows = true
		g.wg.Add(1)
	}
	g.mu.Unlock()
	if follow {
		go func() {
			defer g.wg.Done()
			g.auth.Run(g.leaving, g.sockets.CloseInvalid)
		}()
	}
	if g.draining.Load() {
		_ = ln.Close()
		return fault.New(fault.Restarting, "gateway.serve", "the gateway is shut down")
	}
	failed := make(chan error, 1)
	go func() { failed <- g.server.Serve(l) }()
	select {
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.Background(), g.cfg.Times.Drain)
		defer cancel()
		_ = g.Shutdown(drain)
		<-failed
		return nil
	case err := <-failed:
		if g.draining.Load() {
			g.sockets.Wait()
			g.wg.Wait()
			return nil
		}
		return fault.Wrap(fault.Host, "gateway.serve", err)
	}
}

// Shutdown stops accepting, closes every WebSocket with 1012, which asks its
// client to come back, and lets HTTP requests finish until ctx ends. Then it
// cuts what is left. It returns ctx's error when something had to be cut.
func (g *Gateway) Shutdown(ctx context.Context) error {
	if g.draining.Swap(true) {
		g.sockets.Wait()
		g.wg.Wait()
		return nil
	}
	g.mu.Lock()
	lns := g.lns
	g.mu.Unlock()
	g.setOut()
	for _, l := range lns {
		_ = l.Close()
	}
	g.sockets.Shutdown()
	err := g.app.ShutdownWithContext(ctx)
	g.mu.Lock()
	g.waited = true
	g.mu.Unlock()
	done := make(chan struct{})
	go func() { g.sockets.Wait(); g.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.giveUp()
	flush(lns)
	for _, l := range lns {
		l.cut()
	}
	select {
	case <-done:
	case <-time.After(cleanupTimeout):
		err = fault.New(fault.DeadlineExceeded, "gateway.shutdown", "some requests did not end")
	}
	return err
}

// flushLimit is how long requests that were given up may take to say so.
const flushLimit = 3 * time.Second

// flush gives them that time. A request's place among those under way is free
// before its answer is written, so it is the connections that tell.
func flush(lns []*listener) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(flushLimit); slices.ContainsFunc(lns, (*listener).busy) && time.Now().Before(end); {
		<-tick.C
	}
}

// begin counts something in that a shutdown waits for; leave it with wg.Done.
func (g *Gateway) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waited {
		return false
	}
	g.wg.Add(1)
	return true
}
