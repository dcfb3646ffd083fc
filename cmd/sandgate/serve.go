package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
)

// Times of a shutdown. The gateway's drain takes 15 s and a little; the node's
// time is without that in which it moves its sessions, drainLimit.
const (
	gatewayStop = 35 * time.Second
	nodeStop    = 60 * time.Second
)

func serveCommand() command {
	return command{
		name: "serve", short: "Start the server: the node with its sandboxes and the gateway before it",
		long: `
Runs two processes and starts each again when it dies: the node, as root, which
owns the sandboxes, and the gateway, without privileges, which the network
reaches. The listening socket belongs to neither, so that while the gateway is
started again connections wait instead of being refused.

The first start makes an access token and writes it, with the address, to the
calling user's ~/.config/sandgate/client.yaml, where run, repl and the other
commands find it. SIGTERM or Ctrl-C ends everything in order.

Settings come from flags, SANDGATE_ variables and a file; see docs/configuration.md
or sandgate config reference.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			flags := config.AddFlags(set)
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			cfg, err := config.Load(flags, a.env)
			if err != nil {
				return err
			}
			return serve(ctx, a, cfg, func() (*config.Config, error) { return config.Load(flags, a.env) })
		},
	}
}

// gatewayInput is what a gateway is told over its pipe.
type gatewayInput struct {
	Config *config.Config               `json:"config"`
	Tokens map[string]noderpc.Principal `json:"tokens"`
	Until  map[string]time.Time         `json:"until,omitempty"`
	// OIDCSecret is what the provider of sign-ins knows the server by.
	OIDCSecret string `json:"oidc_secret,omitempty"`
	// Cluster is nil where there is none.
	Cluster *clusterAccess `json:"cluster,omitempty"`
}

// principals says whom the token speaks for.
func principals(token string) map[string]noderpc.Principal {
	var scopes []string
	for _, s := range gateway.Scopes() {
		scopes = append(scopes, string(s))
	}
	return map[string]noderpc.Principal{gateway.HashToken(token): {Tenant: "local", Subject: "owner", Scopes: scopes}}
}

func serve(ctx context.Context, a *app, cfg *config.Config, load func() (*config.Config, error)) error {
	const op = "serve"
	if err := checkListen(cfg); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return fault.New(fault.Host, op, "serve needs root, which gVisor's runtime needs to make sandboxes; run it with sudo")
	}
	level := new(slog.LevelVar)
	log := newLogger(cfg, a.err, level)
	who := whoCalled(a)
	for _, dir := range []string{cfg.DataDir, cfg.RunDir} {
		if err := makeDir(dir); err != nil {
			return err
		}
	}
	token, err := loadToken(cfg.TokenFile(), who)
	if err != nil {
		return err
	}
	credential, name, err := gatewayUser(cfg)
	if err != nil {
		return err
	}
	if name == "nobody" && cfg.User == "" {
		fmt.Fprintln(a.err, "warning: there is no user sandgate, so the gateway runs as nobody, which other services may be too;")
		fmt.Fprintln(a.err, "         mend: useradd --system --no-create-home --shell /usr/sbin/nologin sandgate")
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return &fault.Error{Kind: fault.Host, Op: op, Message: "cannot listen on " + cfg.Listen + ", something else may; choose another with --listen", Err: err}
	}
	defer func() { _ = ln.Close() }()
	socket, err := ln.(*net.TCPListener).File()
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	defer func() { _ = socket.Close() }()
	settings, err := json.Marshal(cfg)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	input, err := gatewaySettings(cfg, token)
	if err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	news := newAnnouncer(a.out, url(ln.Addr()), token, who)
	news.notify = a.getenv("NOTIFY_SOCKET")
	env := childEnv(a)
	exe := "/proc/self/exe"
	parts := []*child{
		{
			name: "node", argv: []string{exe, "node", "--supervised"}, env: env, input: settings,
			stop: nodeStop + drainLimit(cfg), status: news.status, out: a.err, log: log,
		},
		{
			name: "gateway", argv: []string{exe, "gateway", "--supervised"}, env: gatewayEnv(env), input: input, user: credential,
			files: []*os.File{socket}, stop: gatewayStop, status: news.status, out: a.err, log: log,
		},
	}
	r := &reloader{load: load, level: level, log: log, cfg: cfg, tell: func(ctx context.Context, cfg *config.Config) error {
		return tellParts(ctx, cfg, who, parts[0], parts[1])
	}}
	// What serves the operator ends before the parts do.
	control, end := context.WithCancel(ctx)
	wait, err := r.serveControl(control, cfg)
	if err != nil {
		end()
		return err
	}
	defer func() { end(); wait() }()
	r.onHangup(control, func() bool { return terminal(a.out) }, stop)
	fmt.Fprintf(a.out, "sandgate %s: starting\n", version)
	err = supervise(ctx, parts)
	if err == nil {
		fmt.Fprintln(a.out, "sandgate: stopped")
	}
	return err
}

// gatewaySettings is what the gateway is given: who may come in among it.
func gatewaySettings(cfg *config.Config, token string) ([]byte, error) {
	in := gatewayInput{Config: cfg, Tokens: principals(token)}
	if err := in.addPrevious(cfg.TokenFile()); err != nil {
		return nil, err
	}
	if err := in.addSecret(cfg); err != nil {
		return nil, err
	}
	var err error
	if in.Cluster, err = readClusterAccess(cfg, true); err != nil {
		return nil, err
	}
	data, err := json.Marshal(in)
	return data, fault.Wrap(fault.Internal, "serve", err)
}

// tellParts gives the parts new settings. The gateway is the first: what it
// refuses has changed nothing.
func tellParts(ctx context.Context, cfg *config.Config, who invoker, node, gateway *child) error {
	token, err := loadToken(cfg.TokenFile(), who)
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

// supervise runs the parts until ctx ends or one of them cannot start. They
// are stopped from the last to the first: the gateway sends its clients away
// before the node takes the sandboxes down.
func supervise(ctx context.Context, parts []*child) error {
	type running struct {
		cancel context.CancelFunc
		done   chan struct{}
	}
	failed := make(chan error, len(parts))
	all := make([]running, len(parts))
	for i, p := range parts {
		// Each has a context of its own, so that there is an order.
		own, cancel := context.WithCancel(context.Background())
		all[i] = running{cancel: cancel, done: make(chan struct{})}
		go func() {
			defer close(all[i].done)
			if err := p.run(own); err != nil {
				failed <- err
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	for i := len(all) - 1; i >= 0; i-- {
		all[i].cancel()
		<-all[i].done
	}
	var never *childError
	if errors.As(err, &never) {
		// It has said why on standard error, in its own words.
		return exitStatus(never.exitCode())
	}
	return err
}

// checkListen refuses an address that others reach unless that was asked for
// in so many words.
func checkListen(cfg *config.Config) error {
	if cfg.Loopback() || cfg.Insecure {
		return nil
	}
	return fault.Invalid("serve", "listen", "%s can be reached from other machines and there is no TLS: tokens and code would cross the network in the clear; "+
		"listen on 127.0.0.1 behind a proxy with TLS, or say --insecure-listen-without-tls", cfg.Listen)
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return &fault.Error{Kind: fault.Host, Op: "serve", Message: "cannot make " + dir, Err: err}
	}
	// The umask may have taken the search bit, which the gateway needs.
	if err := os.Chmod(dir, 0o711); err != nil {
		return &fault.Error{Kind: fault.Host, Op: "serve", Message: "cannot change the mode of " + dir, Err: err}
	}
	return nil
}

// gatewayUser finds whom the gateway runs as.
func gatewayUser(cfg *config.Config) (*syscall.Credential, string, error) {
	const op = "serve.user"
	names := []string{cfg.User}
	if cfg.User == "" {
		names = []string{"sandgate", "nobody"}
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		if uid == 0 {
			return nil, "", fault.Invalid(op, "gateway_user", "the gateway must not run as root")
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}, name, nil
	}
	return nil, "", fault.Invalid(op, "gateway_user", "there is no user %s on this machine", strings.Join(names, " or "))
}

// childEnv is what the parts see of the environment: they get their settings
// over a pipe, and nothing that is only ours.
func childEnv(a *app) []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}
	for _, name := range []string{"TZ", "GODEBUG", "GOTRACEBACK", "GOMEMLIMIT", "GOGC", "TMPDIR"} {
		if v := a.getenv(name); v != "" {
			env = append(env, name+"="+v)
		} else if name == "GODEBUG" {
			// Goroutines begin with 2 KiB, not with what others have needed:
			// most of them wait on an idle connection.
			env = append(env, "GODEBUG=adaptivestackstart=0")
		}
	}
	return env
}

// gatewayEnv has the gateway collect its garbage twice as often: it is almost
// all connections, most of them idle, and makes little.
func gatewayEnv(env []string) []string {
	for _, v := range env {
		if strings.HasPrefix(v, "GOGC=") {
			return env
		}
	}
	return append(slices.Clone(env), "GOGC=50")
}

func url(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// announcer tells people how far the start is, and once how to go on.
type announcer struct {
	out   io.Writer
	url   string
	token string
	who   invoker
	// notify is systemd's socket; empty without it.
	notify string

	mu    sync.Mutex // guards all below
	ready map[string]bool
	warm  bool
	told  bool
}

func newAnnouncer(out io.Writer, url, token string, who invoker) *announcer {
	return &announcer{out: out, url: url, token: token, who: who, ready: make(map[string]bool)}
}

// statusWarm is the line with which the node says that its pool is filled, or
// will not be for now.
const statusWarm = "warm"

func (n *announcer) status(part, line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch line {
	case statusReady:
		n.ready[part] = true
	case statusWarm:
		n.warm = true
	default:
		if !n.told {
			fmt.Fprintln(n.out, line)
		}
	}
	if n.told || !n.warm || !n.ready["node"] || !n.ready["gateway"] {
		return
	}
	n.told = true
	notify(n.notify, "READY=1")
	fmt.Fprintf(n.out, "\nSandgate is ready:\n\n  %s/#token=%s\n\n", n.url, n.token)
	program := "sandgate"
	if exe, err := os.Executable(); err == nil {
		program = exe
		if wd, err := os.Getwd(); err == nil {
			if rel, err := filepath.Rel(wd, exe); err == nil && !strings.HasPrefix(rel, "..") {
				program = rel
			}
		}
	}
	if err := writeProfile(n.who, profile{URL: n.url, Token: n.token}); err != nil {
		fmt.Fprintf(n.out, "The profile for the command line could not be written (%v). In another terminal, first:\n\n  export SANDGATE_URL=%s/#token=…\n\n", err, n.url)
	}
	fmt.Fprintf(n.out, "In another terminal:\n\n  %[1]s run FILE.py\n  %[1]s repl python\n  %[1]s doctor\n\nCtrl-C ends it.\n", program)
}

// newLogger is the server's log, at a level that can be changed.
func newLogger(cfg *config.Config, w io.Writer, level *slog.LevelVar) *slog.Logger {
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // Validate has checked it
	options := &slog.HandlerOptions{Level: level}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
