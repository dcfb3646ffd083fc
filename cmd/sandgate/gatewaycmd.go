package main

import (
	"context"
	"encoding/json"
	"flag"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway"
	"github.com/sandgate/sandgate/node"
	"github.com/sandgate/sandgate/web"
)

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
			return gatewayAlone(ctx, a, cfg)
		},
	}
}

func gatewaySupervised(ctx context.Context, a *app) error {
	const op = "gateway.start"
	input, status := inherited()
	var in gatewayInput
	if err := json.NewDecoder(input).Decode(&in); err != nil || in.Config == nil {
		return &fault.Error{Kind: fault.Internal, Op: op, Message: "the settings cannot be read from descriptor 3", Err: err}
	}
	_ = input.Close()
	socket := os.NewFile(5, "listener")
	ln, err := net.FileListener(socket)
	_ = socket.Close()
	if err != nil {
		return &fault.Error{Kind: fault.Internal, Op: op, Message: "descriptor 5 is no listening socket", Err: err}
	}
	return serveGateway(ctx, a, in.Config, in.Tokens, ln, status)
}

func gatewayAlone(ctx context.Context, a *app, cfg *config.Config) error {
	const op = "gateway.start"
	if err := checkListen(cfg); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return fault.New(fault.Host, op, "the gateway must not run as root; use setpriv or a service's User=")
	}
	b, err := os.ReadFile(cfg.TokenFile())
	if err != nil {
		return &fault.Error{Kind: fault.Host, Op: op, Message: "cannot read the token from " + cfg.TokenFile(), Err: err}
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return &fault.Error{Kind: fault.Host, Op: op, Message: "cannot listen on " + cfg.Listen, Err: err}
	}
	return serveGateway(ctx, a, cfg, principals(strings.TrimSpace(string(b))), ln, &teller{})
}

// serveGateway runs until ctx ends or a signal comes, and then lets clients
// finish.
func serveGateway(ctx context.Context, a *app, cfg *config.Config, tokens map[string]node.Principal, ln net.Listener, status *teller) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log := newLogger(cfg, a.err).With("part", "gateway")
	remote := node.NewClient(node.Unix(cfg.NodeSocket()), node.ClientOptions{Logger: log})
	defer func() { _ = remote.Close() }()
	g, err := gateway.New(gateway.Config{
		Version: version, Tokens: tokens,
		AllowedHosts:   append([]string{"localhost", "127.0.0.1", "[::1]"}, cfg.Hosts...),
		AllowedOrigins: cfg.Origins,
		Static:         web.Site(),
		PortsDomain:    cfg.Ports,
		Limits:         gateway.Limits{Connections: cfg.Gateway.Connections, PerPrincipal: cfg.Gateway.Sockets},
	}, gateway.Remote(remote), log)
	if err != nil {
		_ = ln.Close()
		return err
	}
	status.say(statusReady)
	return g.Serve(ctx, ln)
}
