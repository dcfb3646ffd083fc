package gateway

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/sandgate/sandgate/gateway/edge"
	"github.com/sandgate/sandgate/gateway/repeat"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// headerSlop is the number of bytes that net/http reads beyond MaxHeaderBytes.
const headerSlop = 4 << 10

// build creates the route table, the router and the server.
func (g *Gateway) build() error {
	g.routes = g.table()
	for _, s := range g.surfaces() {
		for _, r := range s.Routes() {
			row, err := routeOf(r)
			if err != nil {
				return err
			}
			g.routes = append(g.routes, row)
		}
	}
	creates := repeat.Operations(fiberPath)
	for i, r := range g.routes {
		g.routes[i].creates = creates[r.Method+" "+r.Path]
	}
	if err := checkOperations(g.routes); err != nil {
		return err
	}
	g.portHost = &route{
		Path: "(port)", Access: protocol.ScopeWrite, Body: g.cfg.Limits.File, Port: true,
		standard: g.portSurface.Handler(),
	}
	g.linkHost = &route{
		Path: "(link)", Access: protocol.ScopeAny, Body: g.cfg.Limits.File, Port: true, Link: true,
		standard: g.portSurface.LinkHandler(),
	}
	g.contexts.New = newRequestCtx
	g.fiber = g.newFiber()
	g.server = &http.Server{
		Handler:           g,
		ReadHeaderTimeout: g.cfg.Times.Header,
		HTTP2:             edge.HTTP2Limits(),
		IdleTimeout:       g.cfg.Times.Idle,
		MaxHeaderBytes:    max(1, g.cfg.Limits.Header-headerSlop),
		BaseContext:       func(net.Listener) context.Context { return g.serving },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState:                    edge.State,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	return nil
}

// edgeConfig returns the configuration of the listeners.
func edgeConfig(g *Gateway) edge.Config {
	return edge.Config{
		Open: &g.stats.connections, Max: g.cfg.Limits.Connections, Stall: 3 * g.cfg.Times.Write,
		Header: g.cfg.Times.Header, MaxHeader: g.cfg.Limits.Header, TLS: g.tls.Load,
		Leaving: g.leaving, Full: func() { g.full(limitConnections) }, Slow: g.stats.slow.Inc,
		Bad: g.stats.badRequests.Inc, HandshakeFailed: g.stats.handshakes.Inc,
	}
}

// checkOperations returns an error unless each operation that the gateway performs has a handler
// for each of its routes, with the operation's scope.
func checkOperations(routes []route) error {
	for _, o := range protocol.Operations() {
		if o.Target != protocol.AtGateway {
			continue
		}
		for _, r := range o.REST {
			path := fiberPath(r.Path)
			if !slices.ContainsFunc(routes, func(row route) bool {
				return row.Method == r.Method && row.Path == path && row.Access == o.Scope
			}) {
				return fault.New(fault.Internal, "gateway.build", "%s has no handler of %s %s",
					o.Name, r.Method, path)
			}
		}
	}
	return nil
}

// Serve accepts connections on ln, and those with TLS on secure, until ctx ends or Shutdown is
// called. It returns nil once everything is closed. That takes at most Times.Drain and a little
// more.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener, secure ...net.Listener) error {
	cfg := edgeConfig(g)
	all := []*edge.Listener{edge.Listen(ln, cfg, false)}
	for _, s := range secure {
		all = append(all, edge.Listen(s, cfg, true))
	}
	g.mu.Lock()
	if host, ok := listenHost(ln.Addr()); ok {
		g.hosts[host], g.own[host] = true, true
	}
	g.lns = append(g.lns, all...)
	follow := !g.follows && !g.waited
	if follow {
		g.follows = true
		g.wg.Add(1)
	}
	g.mu.Unlock()
	if follow {
		go func() {
			defer g.wg.Done()
			g.auth.Run(g.leaving, func() {
				g.sockets.CloseInvalid()
				g.portSurface.CutInvalid()
			})
		}()
		if !g.cfg.NoWebhooks {
			g.start(func() { g.webhooks.Run(g.leaving) })
		}
	}
	if g.draining.Load() {
		for _, l := range all {
			_ = l.Close()
		}
		return fault.New(fault.Restarting, "gateway.serve", "the gateway is shut down")
	}
	failed := make(chan error, len(all))
	for _, l := range all {
		go func() { failed <- g.server.Serve(l) }()
	}
	select {
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.Background(), g.cfg.Times.Drain)
		defer cancel()
		_ = g.Shutdown(drain)
		for range all {
			<-failed
		}
		return nil
	case err := <-failed:
		if g.draining.Load() {
			<-g.serving.Done()
			return nil
		}
		return fault.Wrap(fault.Host, "gateway.serve", err)
	}
}

// Shutdown stops accepting, closes every WebSocket with 1012, after which its client reconnects,
// and lets HTTP requests finish until ctx ends. Then it cuts the remaining ones. It returns ctx's
// error if something had to be cut.
func (g *Gateway) Shutdown(ctx context.Context) error {
	if g.draining.Swap(true) {
		<-g.serving.Done()
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
	for _, l := range lns {
		l.CloseSilent()
	}
	err := g.server.Shutdown(ctx)
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
		l.CloseAll()
	}
	g.served()
	select {
	case <-done:
	case <-time.After(cleanupTimeout):
		err = fault.New(fault.DeadlineExceeded, "gateway.shutdown", "some requests did not end")
	}
	return err
}

// flushLimit is how long abandoned requests may take to send their answers.
const flushLimit = 3 * time.Second

// flush waits that long. A request gives its place back before its answer is written, so flush
// watches the connections instead.
func flush(lns []*edge.Listener) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(flushLimit); slices.ContainsFunc(lns, (*edge.Listener).Busy) &&
		time.Now().Before(end); {
		<-tick.C
	}
}
