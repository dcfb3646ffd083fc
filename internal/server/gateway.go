package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/gateway"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/web"
)

// allowedHosts returns the loopback names and the names in the settings.
func allowedHosts(cfg *config.Config) []string {
	return append([]string{"localhost", "127.0.0.1", "[::1]"}, cfg.Hosts...)
}

// GatewaySupervised runs a gateway that serve has started: descriptor 3 carries its settings,
// descriptor 4 is its status pipe and descriptor 5 the listening socket.
func GatewaySupervised(ctx context.Context, a *console.Invocation) error {
	const op = "gateway.start"
	dropPrivilegeGains()
	input, status := inherited()
	var in gatewayInput
	settings := json.NewDecoder(input)
	if err := settings.Decode(&in); err != nil || in.Config == nil {
		return &fault.Error{
			Kind: fault.Internal, Op: op,
			Message: "the settings cannot be read from descriptor 3", Err: err,
		}
	}
	socket := os.NewFile(5, "listener")
	ln, err := net.FileListener(socket)
	_ = socket.Close()
	if err != nil {
		return &fault.Error{
			Kind: fault.Internal, Op: op,
			Message: "descriptor 5 is not a listening socket", Err: err,
		}
	}
	return serveGateway(ctx, a, in, ln, status, func(apply func(gatewayInput) error) {
		go follow(settings, status, apply)
	})
}

// dropPrivilegeGains keeps this process and its children from gaining privileges by execve.
func dropPrivilegeGains() { _ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// Gateway runs a gateway that nobody supervises. It reads its settings with load, at its start and
// at each SIGHUP.
func Gateway(ctx context.Context, a *console.Invocation,
	load func() (*config.Config, error),
) error {
	const op = "gateway.start"
	dropPrivilegeGains()
	cfg, err := load()
	if err != nil {
		return err
	}
	if err := checkListen(cfg); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return fault.New(fault.Host, op,
			"the gateway must not run as root; use setpriv or a service's User=")
	}
	in, err := readGatewaySettings(cfg)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return &fault.Error{
			Kind: fault.Host, Op: op, Message: "cannot listen on " + cfg.Listen,
			Err: err,
		}
	}
	return serveGateway(ctx, a, in, ln, &statusPipe{}, func(apply func(gatewayInput) error) {
		r := &reloader{load: load, level: new(slog.LevelVar), log: slog.Default(), cfg: cfg}
		r.apply = func(_ context.Context, c *config.Config) error {
			in, err := readGatewaySettings(c)
			if err != nil {
				return err
			}
			return apply(in)
		}
		r.onHangup(ctx, func() bool { return false }, nil)
	})
}

// serveGateway runs until ctx ends or a signal comes, and then lets clients finish. It calls follow
// when the gateway can apply new settings.
func serveGateway(ctx context.Context, a *console.Invocation, in gatewayInput, ln net.Listener,
	status *statusPipe, follow func(func(gatewayInput) error),
) error {
	cfg := in.Config
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	level := new(slog.LevelVar)
	log := newLogger(cfg, a.Err, level).With("part", "gateway")
	tracer, sendLast, err := openTracer(cfg, "gateway", a.Version, log)
	if err != nil {
		_ = ln.Close()
		return err
	}
	defer sendLast()
	nodes, shared, leave, err := reachNodes(cfg, in.Cluster, tracer, log)
	if err != nil {
		_ = ln.Close()
		return err
	}
	defer leave()
	selfCheck := time.Duration(cfg.Gateway.SelfCheck)
	if selfCheck == 0 {
		selfCheck = -1
	}
	allow, err := cfg.WebhookNetworks()
	if err != nil {
		_ = ln.Close()
		return err
	}
	g, err := gateway.New(gateway.Config{
		WebhookAllow: allow,
		Version:      a.Version, Tokens: in.Tokens, Until: in.Until,
		AllowedHosts:   allowedHosts(cfg),
		AllowedOrigins: cfg.Origins,
		Static:         web.Site(),
		Tickets:        shared.tickets,
		RunTokens:      shared.runTokens,
		Rates:          shared.rates,
		Tracer:         tracer,
		PortsDomain:    cfg.Ports,
		E2BDomain:      cfg.E2B,
		SignIn:         signIn(cfg, in.OIDCSecret),
		Times:          gateway.Times{SelfCheck: selfCheck},
		Limits: gateway.Limits{
			Connections:  cfg.Gateway.Connections,
			PerPrincipal: cfg.Gateway.Sockets,
		},
	}, nodes, log)
	if err != nil {
		_ = ln.Close()
		return err
	}
	follow(func(in gatewayInput) error {
		_ = level.UnmarshalText([]byte(in.Config.Log.Level)) // Validate has checked it
		return g.Reload(gateway.Changeable{
			Tokens: in.Tokens, Until: in.Until, AllowedHosts: allowedHosts(in.Config),
			AllowedOrigins: in.Config.Origins,
			PerPrincipal:   in.Config.Gateway.Sockets,
		})
	})
	status.report(statusReady)
	return g.Serve(ctx, ln)
}

// signIn configures the sign-in of browsers' users; nil without a provider.
func signIn(cfg *config.Config, secret string) *auth.SignIn {
	o := cfg.OIDC
	if o.Issuer == "" {
		return nil
	}
	return &auth.SignIn{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secret, PublicURL: o.PublicURL,
		Scopes:      o.Scopes,
		TenantClaim: o.TenantClaim, Tenant: o.Tenant, RoleClaim: o.RoleClaim,
		Role: tenant.Role(o.Role), Life: time.Duration(o.Session),
	}
}
