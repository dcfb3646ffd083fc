package main

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/web"
)

// allowedHosts are the loopback names and those of the settings.
func allowedHosts(cfg *config.Config) []string {
	return append([]string{"localhost", "127.0.0.1", "[::1]"}, cfg.Hosts...)
}

func gatewayCommand() command {
	return command{
		name: "gateway", short: "Start a gateway alone, before a node that runs already",
		long: `
serve does this for you. Alone, the gateway listens itself, reads the token's
file and reaches the node by the socket in run_dir; run it as a user that may
do both, and never as root.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			flags := config.AddFlags(set)
			supervised := set.Bool("supervised", false, "Started by serve: settings, status and socket are descriptors 3, 4 and 5.")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
			if *supervised {
				return gatewaySupervised(ctx, a)
			}
			cfg, err := config.Load(flags, a.env)
			if err != nil {
				return err
			}
			return gatewayAlone(ctx, a, cfg, func() (*config.Config, error) { return config.Load(flags, a.env) })
		},
	}
}

func gatewaySupervised(ctx context.Context, a *app) error {
	const op = "gateway.start"
	input, status := inherited()
	var in gatewayInput
	settings := json.NewDecoder(input)
	if err := settings.Decode(&in); err != nil || in.Config == nil {
		return &fault.Error{Kind: fault.Internal, Op: op, Message: "the settings cannot be read from descriptor 3", Err: err}
	}
	socket := os.NewFile(5, "listener")
	ln, err := net.FileListener(socket)
	_ = socket.Close()
	if err != nil {
		return &fault.Error{Kind: fault.Internal, Op: op, Message: "descriptor 5 is no listening socket", Err: err}
	}
	return serveGateway(ctx, a, in, ln, status, func(apply func(gatewayInput) error) {
		go follow(settings, status, apply)
	})
}

func gatewayAlone(ctx context.Context, a *app, cfg *config.Config, load func() (*config.Config, error)) error {
	const op = "gateway.start"
	if err := checkListen(cfg); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return fault.New(fault.Host, op, "the gateway must not run as root; use setpriv or a service's User=")
	}
	in, err := readAccess(cfg)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return &fault.Error{Kind: fault.Host, Op: op, Message: "cannot listen on " + cfg.Listen, Err: err}
	}
	return serveGateway(ctx, a, in, ln, &teller{}, func(apply func(gatewayInput) error) {
		r := &reloader{load: load, level: new(slog.LevelVar), log: slog.Default(), cfg: cfg}
		r.tell = func(_ context.Context, c *config.Config) error {
			in, err := readAccess(c)
			if err != nil {
				return err
			}
			return apply(in)
		}
		r.onHangup(ctx, func() bool { return false }, nil)
	})
}

// readAccess reads who may come in, as a gateway that runs alone does.
func readAccess(cfg *config.Config) (gatewayInput, error) {
	b, err := os.ReadFile(cfg.TokenFile())
	if err != nil {
		return gatewayInput{}, &fault.Error{Kind: fault.Host, Op: "gateway.start", Message: "cannot read the token from " + cfg.TokenFile(), Err: err}
	}
	in := gatewayInput{Config: cfg, Tokens: principals(strings.TrimSpace(string(b)))}
	if err := in.addSecret(cfg); err != nil {
		return in, err
	}
	if in.Cluster, err = readClusterAccess(cfg, false); err != nil {
		return in, err
	}
	return in, in.addPrevious(cfg.TokenFile())
}

// serveGateway runs until ctx ends or a signal comes, and then lets clients
// finish. follow is called once it can take up new settings.
func serveGateway(ctx context.Context, a *app, in gatewayInput, ln net.Listener, status *teller, follow func(func(gatewayInput) error)) error {
	cfg := in.Config
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	level := new(slog.LevelVar)
	log := newLogger(cfg, a.err, level).With("part", "gateway")
	tracer, sendLast, err := openTracer(cfg, "gateway", log)
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
	g, err := gateway.New(gateway.Config{
		Version: version, Tokens: in.Tokens, Until: in.Until,
		AllowedHosts:   allowedHosts(cfg),
		AllowedOrigins: cfg.Origins,
		Static:         web.Site(),
		Shelf:          shared.shelf,
		Book:           shared.book,
		Till:           shared.till,
		Tracer:         tracer,
		PortsDomain:    cfg.Ports,
		SignIn:         signIn(cfg, in.OIDCSecret),
		Times:          gateway.Times{SelfCheck: selfCheck},
		Limits:         gateway.Limits{Connections: cfg.Gateway.Connections, PerPrincipal: cfg.Gateway.Sockets},
	}, nodes, log)
	if err != nil {
		_ = ln.Close()
		return err
	}
	follow(func(in gatewayInput) error {
		_ = level.UnmarshalText([]byte(in.Config.Log.Level)) // Validate has checked it
		return g.Reload(gateway.Changeable{
			Tokens: in.Tokens, Until: in.Until, AllowedHosts: allowedHosts(in.Config), AllowedOrigins: in.Config.Origins,
			PerPrincipal: in.Config.Gateway.Sockets,
		})
	})
	status.say(statusReady)
	return g.Serve(ctx, ln)
}
