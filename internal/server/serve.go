package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Times of a shutdown. The gateway's drain takes 15 s and a little. The node's time does not
// include drainLimit, in which it moves its sessions.
const (
	gatewayStop = 35 * time.Second
	nodeStop    = 60 * time.Second
)

// Serve runs the node and the gateway and starts each again when it dies, until ctx ends or a
// signal comes. It reads the settings with load, at the start and at each reload.
func Serve(ctx context.Context, a *console.Invocation, load func() (*config.Config, error)) error {
	const op = "serve"
	cfg, err := load()
	if err != nil {
		return err
	}
	if err := checkListen(cfg); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return fault.New(fault.Host, op,
			"serve needs root, which gVisor's runtime needs to create sandboxes; run it with sudo")
	}
	level := new(slog.LevelVar)
	log := newLogger(cfg, a.Err, level)
	caller := FindCaller(a)
	for _, dir := range []string{cfg.DataDir, cfg.RunDir} {
		if err := MakeDir(dir); err != nil {
			return err
		}
	}
	token, err := LoadToken(cfg.TokenFile(), caller)
	if err != nil {
		return err
	}
	if err := awaitPrevious(ctx, cfg, nodeStop+drainLimit(cfg), a.Out); err != nil {
		return err
	}
	lns, err := listen(op, cfg)
	if err != nil {
		return err
	}
	defer closeAll(lns)
	var sockets []*os.File
	for _, ln := range lns {
		socket, err := ln.(*net.TCPListener).File()
		if err != nil {
			return fault.Wrap(fault.Host, op, err)
		}
		defer func() { _ = socket.Close() }()
		sockets = append(sockets, socket)
	}
	banner := newStartupBanner(a.Out, url(lns[0].Addr()), token, caller)
	node, gateway, err := serverParts(a, cfg, token, sockets, banner.status, log)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	r := &reloader{
		load: load, level: level, log: log, cfg: cfg,
		files: identityFiles(cfg, noderpc.RoleNode, noderpc.RoleGateway),
		apply: func(ctx context.Context, cfg *config.Config) error {
			return reloadParts(ctx, cfg, caller, node, gateway)
		},
	}
	// The control socket is closed before the parts end.
	control, end := context.WithCancel(ctx)
	wait, err := r.serveControl(control, cfg)
	if err != nil {
		end()
		return err
	}
	defer func() { end(); wait() }()
	r.onHangup(control, func() bool { return console.IsTerminal(a.Out) }, stop)
	go r.followFiles(control)
	fmt.Fprintf(a.Out, "sandgate %s: starting\n", a.Version)
	err = supervise(ctx, []*child{node, gateway})
	if err == nil {
		fmt.Fprintln(a.Out, "sandgate: stopped")
	}
	return err
}

// serverParts describes the two processes of the server. sockets are the listening ones, status gets
// the lines of their status pipes.
func serverParts(a *console.Invocation, cfg *config.Config, token string, sockets []*os.File,
	status func(part, line string), log *slog.Logger,
) (node, gateway *child, err error) {
	credential, name, err := GatewayUser(cfg)
	if err != nil {
		return nil, nil, err
	}
	if name == "nobody" && cfg.User == "" {
		fmt.Fprintln(
			a.Err, "warning: there is no user sandgate, so the gateway runs as nobody, which other services may use too;")
		fmt.Fprintln(
			a.Err, "         repair: useradd --system --no-create-home --shell /usr/sbin/nologin sandgate")
	}
	settings, err := json.Marshal(cfg)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Internal, "serve", err)
	}
	input, err := gatewaySettings(cfg, token)
	if err != nil {
		return nil, nil, err
	}
	env := childEnv(a)
	exe := "/proc/self/exe"
	node = &child{
		name: "node", argv: []string{exe, "node", "start", "--supervised"}, env: env,
		input: settings,
		stop:  nodeStop + drainLimit(cfg), status: status, out: a.Err, log: log,
	}
	return node, &child{
		name: "gateway", argv: []string{exe, "gateway", "start", "--supervised"},
		env: gatewayEnv(env), input: input, user: credential,
		files: sockets, stop: gatewayStop, status: status, out: a.Err, log: log,
	}, nil
}

// reloadParts sends new settings to the parts. It sends them to the gateway first: if the gateway
// rejects them, nothing has changed.
func reloadParts(ctx context.Context, cfg *config.Config, caller Caller,
	node, gateway *child,
) error {
	token, err := LoadToken(cfg.TokenFile(), caller)
	if err != nil {
		return err
	}
	input, err := gatewaySettings(cfg, token)
	if err != nil {
		return err
	}
	if err := gateway.reload(ctx, input); err != nil {
		return err
	}
	settings, err := json.Marshal(cfg)
	if err != nil {
		return fault.Wrap(fault.Internal, "reload", err)
	}
	return node.reload(ctx, settings)
}
