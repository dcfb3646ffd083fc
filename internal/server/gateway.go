package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/gateway"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/librechat"
	"github.com/sandgate/sandgate/gateway/librechat/usertoken"
	"github.com/sandgate/sandgate/gateway/onlyboxes"
	"github.com/sandgate/sandgate/gateway/onlyboxes/export"
	"github.com/sandgate/sandgate/gateway/onlyboxes/jittoken"
	"github.com/sandgate/sandgate/internal/certificate"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/web"
)

// allowedHosts returns the loopback names and the names in the settings.
func allowedHosts(cfg *config.Config) []string {
	return append([]string{"localhost", "127.0.0.1", "[::1]"}, cfg.Hosts...)
}

// GatewaySupervised runs a gateway that serve has started: descriptor 3 carries its settings,
// descriptor 4 is its status pipe, descriptor 5 the listening socket and descriptor 6 the one with
// TLS.
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
	lns, err := inheritedListeners(in.Config)
	if err != nil {
		return err
	}
	return serveGateway(ctx, a, in, lns, status, func(apply func(gatewayInput) error) {
		go follow(settings, status, apply)
	})
}

// inheritedListeners returns the listening sockets, that without TLS first.
func inheritedListeners(cfg *config.Config) (all []net.Listener, err error) {
	last := uintptr(5)
	if cfg.TLS.Listen != "" {
		last = 6
	}
	for fd := uintptr(5); fd <= last; fd++ {
		socket := os.NewFile(fd, "listener")
		ln, err := net.FileListener(socket)
		_ = socket.Close()
		if err != nil {
			return nil, &fault.Error{
				Kind: fault.Internal, Op: "gateway.start", Err: err,
				Message: fmt.Sprintf("descriptor %d is not a listening socket", fd),
			}
		}
		all = append(all, ln)
	}
	return all, nil
}

// listen opens the listening sockets, that without TLS first.
func listen(op string, cfg *config.Config) (all []net.Listener, err error) {
	for _, address := range []struct{ flag, text string }{
		{"--listen", cfg.Listen}, {"--tls-listen", cfg.TLS.Listen},
	} {
		if address.text == "" {
			continue
		}
		ln, err := net.Listen("tcp", address.text)
		if err != nil {
			closeAll(all)
			return nil, &fault.Error{
				Kind: fault.Host, Op: op, Err: err, Message: "cannot listen on " + address.text +
					", another program may; choose another address with " + address.flag,
			}
		}
		all = append(all, ln)
	}
	return all, nil
}

func closeAll(lns []net.Listener) {
	for _, ln := range lns {
		_ = ln.Close()
	}
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
	lns, err := listen(op, cfg)
	if err != nil {
		return err
	}
	status := &statusPipe{last: statusReady}
	return serveGateway(ctx, a, in, lns, status, func(apply func(gatewayInput) error) {
		r := &reloader{
			load: load, level: new(slog.LevelVar), log: slog.Default(), cfg: cfg,
			files: append(identityFiles(cfg, noderpc.RoleGateway), tokenFiles(cfg)...),
		}
		r.apply = func(_ context.Context, c *config.Config) error {
			in, err := readGatewaySettings(c)
			if err != nil {
				return err
			}
			return apply(in)
		}
		r.onHangup(ctx, func() bool { return false }, nil)
		go r.followFiles(ctx)
	})
}

// serveGateway runs until ctx ends or a signal comes, and then lets clients finish. It calls follow
// when the gateway can apply new settings.
func serveGateway(ctx context.Context, a *console.Invocation, in gatewayInput, lns []net.Listener,
	status *statusPipe, follow func(func(gatewayInput) error),
) error {
	cfg := in.Config
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	level := new(slog.LevelVar)
	log := newLogger(cfg, a.Err, level).With("part", "gateway")
	tracer, sendLast, err := openTracer(cfg, "gateway", a.Version, log)
	if err != nil {
		closeAll(lns)
		return err
	}
	defer sendLast()
	identity, err := in.Cluster.credentials()
	if err != nil {
		closeAll(lns)
		return err
	}
	nodes, shared, leave, err := reachNodes(cfg, in.Cluster, identity, tracer, log)
	if err != nil {
		closeAll(lns)
		return err
	}
	defer leave()
	lobeHub, err := onlyboxesOptions(cfg, in.OnlyboxesKey)
	if err != nil {
		return err
	}
	allow, err := cfg.WebhookNetworks()
	if err != nil {
		closeAll(lns)
		return err
	}
	certificates, err := certificate.Certificates(in.Certificates)
	if err != nil {
		closeAll(lns)
		return err
	}
	var expiry atomic.Pointer[time.Time]
	expiry.Store(firstExpiry(certificates, identity))
	config := gatewayConfig(cfg, in, shared)
	config.Expiry = func() time.Time { return *expiry.Load() }
	config.WebhookAllow, config.Onlyboxes, config.Certificates = allow, lobeHub, certificates
	config.Version, config.Tracer = a.Version, tracer
	g, err := gateway.New(config, nodes, log)
	if err != nil {
		closeAll(lns)
		return err
	}
	follow(func(in gatewayInput) error {
		certificates, err := certificate.Certificates(in.Certificates)
		if err != nil {
			return err
		}
		if identity != nil {
			if err := identity.Renew(in.Cluster.Identity); err != nil {
				return err
			}
		}
		expiry.Store(firstExpiry(certificates, identity))
		_ = level.UnmarshalText([]byte(in.Config.Log.Level)) // Validate has checked it
		return g.Reload(gateway.Changeable{
			Tokens: in.Tokens, Until: in.Until, AllowedHosts: allowedHosts(in.Config),
			AllowedOrigins: in.Config.Origins, Certificates: certificates,
			PerPrincipal: in.Config.Gateway.Sockets,
		})
	})
	status.report(statusReady)
	return g.Serve(ctx, lns[0], lns[1:]...)
}

// gatewayConfig returns the configuration of a gateway, as far as the settings and the stores
// determine it.
func gatewayConfig(cfg *config.Config, in gatewayInput, stores shared) gateway.Config {
	selfCheck := time.Duration(cfg.Gateway.SelfCheck)
	if selfCheck == 0 {
		selfCheck = -1
	}
	return gateway.Config{
		Tokens: in.Tokens, Until: in.Until,
		AllowedHosts: allowedHosts(cfg), AllowedOrigins: cfg.Origins,
		Static:  web.Site(),
		Tickets: stores.tickets, RunTokens: stores.runTokens, Rates: stores.rates,
		Relay:       stores.relay,
		PortsDomain: cfg.Ports,
		E2BDomain:   cfg.E2B, E2BOpenInterpreter: cfg.E2BOpen,
		LibreChat: libreChat(cfg, in.LibreChatKeys),
		Settings:  surfaceSettings(cfg),
		SignIn:    signIn(cfg, in.OIDCSecret),
		Times:     gateway.Times{SelfCheck: selfCheck},
		Limits: gateway.Limits{
			Connections:  cfg.Gateway.Connections,
			PerPrincipal: cfg.Gateway.Sockets,
		},
	}
}

// surfaceSettings returns the settings of the surfaces for chat applications.
func surfaceSettings(cfg *config.Config) map[string]surfaces.Settings {
	all := map[string]surfaces.Settings{}
	for _, name := range surfaces.Names() {
		all[name] = cfg.Surface(name)
	}
	return all
}

// libreChat configures the surface for LibreChat.
func libreChat(cfg *config.Config, keys []byte) gateway.LibreChat {
	c := cfg.LibreChat
	retention := c.Retention
	if idle := cfg.Sessions.IdleDelete; idle > 0 {
		retention = min(retention, idle) // a session may not ask for more
	}
	return gateway.LibreChat{
		Settings: librechat.Settings{
			Template: c.Template, Timeout: time.Duration(c.Timeout),
			Retention: time.Duration(retention), Runs: c.Runs, Tenant: c.Tenant,
			MaxLifetime: time.Duration(cfg.Sessions.MaxLifetime),
		},
		Tokens: usertoken.Config{
			Keys: keys, KeyID: c.KeyID, Issuer: c.Issuer, Audience: c.Audience,
		},
	}
}

// onlyboxesOptions configures the surface for LobeHub.
func onlyboxesOptions(cfg *config.Config, key []byte) (onlyboxes.Options, error) {
	c := cfg.Onlyboxes
	stores, err := cfg.ExportNetworks()
	return onlyboxes.Options{
		Tenant: c.Tenant,
		Tokens: jittoken.Config{Key: key, Issuers: c.Issuers},
		Export: export.Config{Hosts: c.Hosts, Private: stores},
	}, err
}

// signIn configures the sign-in of browsers' users; nil without a provider.
func signIn(cfg *config.Config, secret string) *auth.SignIn {
	o := cfg.OIDC
	if o.Issuer == "" {
		return nil
	}
	return &auth.SignIn{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: secret, PublicURL: o.PublicURL,
		Scopes: o.Scopes, Audience: o.Audience,
		TenantClaim: o.TenantClaim, Tenant: o.Tenant, RoleClaim: o.RoleClaim,
		Role: tenant.Role(o.Role), Life: time.Duration(o.Session),
	}
}
