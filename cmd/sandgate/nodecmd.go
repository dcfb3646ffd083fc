package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/kernel"
)

func nodeCommand() command {
	return command{
		name: "node", short: "Start a node alone: sandboxes and sessions, behind a socket in run_dir",
		long: `
serve does this for you. The socket belongs to the gateway's user alone: whoever
can open it may speak for anybody.

sandgate node drain, as root on the node's machine, has the node take no more
sessions and moves those that it has to cluster.blobs, from where other nodes
wake them. Their clients reconnect by themselves. A node that gets SIGTERM does
the same, for cluster.drain_limit at most.

sandgate node check, there too, exits with 0 when the node answers: for the
probes of Kubernetes, which have no other door to a node that is alone.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			if len(args) > 0 && args[0] == "drain" {
				return drainNode(ctx, a, set, args[1:])
			}
			if len(args) > 0 && args[0] == "check" {
				return checkNode(ctx, a, set, args[1:])
			}
			flags := config.AddFlags(set)
			supervised := set.Bool("supervised", false, "Started by serve: settings and status are descriptors 3 and 4.")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			if *supervised {
				input, status := inherited()
				cfg := new(config.Config)
				settings := json.NewDecoder(input)
				if err := settings.Decode(cfg); err != nil {
					return &fault.Error{Kind: fault.Internal, Op: "node.start", Message: "the settings cannot be read from descriptor 3", Err: err}
				}
				return serveNode(ctx, a, cfg, status, func(r *reloader) {
					go follow(settings, status, func(c *config.Config) error { return r.tell(ctx, c) })
				})
			}
			cfg, err := config.Load(flags, a.env)
			if err != nil {
				return err
			}
			for _, dir := range []string{cfg.DataDir, cfg.RunDir} {
				if err := makeDir(dir); err != nil {
					return err
				}
			}
			return serveNode(ctx, a, cfg, &teller{w: a.out}, func(r *reloader) {
				r.load = func() (*config.Config, error) { return config.Load(flags, a.env) }
				r.onHangup(ctx, func() bool { return false }, nil)
			})
		},
	}
}

// spec is what every sandbox is made from.
func spec(cfg *config.Config) (sandbox.Spec, error) {
	env, err := imageEnv(cfg.ImagePath())
	if err != nil {
		return sandbox.Spec{}, err
	}
	return sandbox.Spec{
		Image: cfg.ImagePath(), Args: []string{"/opt/sandgate/agent"}, Env: env,
		Limits: sandbox.Limits{
			MemoryBytes: int64(cfg.Limits.Memory), CPUs: cfg.Limits.CPUs,
			OverlayBytes: int64(cfg.Limits.Overlay), TmpBytes: int64(cfg.Limits.Tmp),
			Inodes: int64(cfg.Limits.Inodes), OpenFiles: uint64(cfg.Limits.Files), UserProcesses: uint64(cfg.Limits.PIDs),
			// The outer ring counts the sentry's own threads too.
			PIDs: int64(cfg.Limits.PIDs)*4 + 2048,
		},
	}, nil
}

// pools says for which languages sandboxes are kept ready.
func pools(cfg *config.Config, languages []kernel.Manifest) (map[string]int, error) {
	all := make(map[string]int)
	if cfg.Pool.Size == 0 {
		return all, nil
	}
	for _, name := range cfg.Pool.Languages {
		var known []string
		for _, m := range languages {
			known = append(known, m.Name)
			if m.Name == name {
				all[name] = cfg.Pool.Size
			}
		}
		if all[name] == 0 {
			return nil, fault.Invalid("node.start", "pool.languages", "the image has no language %q; it has %s", name, strings.Join(known, ", "))
		}
	}
	return all, nil
}

// closeLimit is how long the end of all sandboxes may take.
const closeLimit = 50 * time.Second

// serveNode runs until ctx ends or a signal comes. follow is called once the
// node can take up new settings.
func serveNode(ctx context.Context, a *app, cfg *config.Config, status *teller, follow func(*reloader)) (err error) {
	const op = "node.start"
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Geteuid() != 0 {
		return fault.New(fault.Host, op, "the node needs root, which gVisor's runtime needs to make sandboxes")
	}
	level := new(slog.LevelVar)
	log := newLogger(cfg, a.err, level).With("part", "node")
	languages, err := readManifests(cfg.ImagePath())
	if err != nil {
		return err
	}
	sizes, err := pools(cfg, languages)
	if err != nil {
		return err
	}
	what, err := spec(cfg)
	if err != nil {
		return err
	}
	status.say("node: checking the runtime")
	runsc, err := reachable(cfg.RunscPath(), filepath.Join(cfg.DataDir, "bin"))
	if err != nil {
		return err
	}
	rt, err := sandbox.NewRuntime(sandbox.Config{Runsc: runsc, StateDir: cfg.StateDir(), Platform: cfg.Platform, Log: log})
	if err != nil {
		return err
	}
	cleanup := func(f func(context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
		defer cancel()
		err = errors.Join(err, f(ctx))
	}
	defer func() { cleanup(rt.Close) }()
	pause := time.Duration(cfg.Sessions.Pause)
	if pause == 0 {
		pause = -1 // never; 0 would be the default
	}
	hibernate := time.Duration(cfg.Sessions.Hibernate)
	if hibernate == 0 || cfg.Sessions.Hibernated == 0 {
		hibernate = -1
	}
	shutdown := time.Duration(cfg.Sessions.Shutdown)
	if shutdown == 0 {
		shutdown = -1
	}
	limits, most := bounds(cfg)
	memory, err := budget(cfg)
	if err != nil {
		return err
	}
	snapshots := cfg.Sessions.Snapshots
	if snapshots == 0 {
		snapshots = -1 // none; 0 would be the default
	}
	host := session.GVisor{Runtime: rt, Spec: what}
	if cfg.Pool.Spare > 0 {
		host.Spares = session.NewSpares(host, cfg.Pool.Spare)
		defer host.Spares.Close()
	}
	usage, err := journal.Open(journal.Options{Dir: cfg.UsageDir(), Name: "usage", MaxFile: int64(cfg.Usage.MaxFile), Keep: cfg.Usage.Keep, Log: log})
	if err != nil {
		return err
	}
	defer func() { cleanup(usage.Close) }()
	audit := session.Audit{Whole: cfg.Audit.Code == "whole", Required: cfg.Audit.Required}
	if cfg.Audit.Enabled {
		audit.Journal, err = journal.Open(journal.Options{Dir: cfg.AuditDir(), Name: "audit", MaxFile: int64(cfg.Audit.MaxFile), Keep: cfg.Audit.Keep, Log: log})
		if err != nil {
			return err
		}
		defer func() { cleanup(audit.Journal.Close) }()
	}
	place, err := joinDirectory(cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, place.close()) }()
	tracer, sendLast, err := openTracer(cfg, "node", log)
	if err != nil {
		return err
	}
	defer sendLast()
	tenants, leave, err := openTenants(cfg, place.vault, log)
	if err != nil {
		return err
	}
	defer leave()
	outside, err := wayOut(cfg)
	if err != nil {
		return err
	}
	m, err := session.New(session.Config{
		Egress:    outside,
		Directory: place.keeper, Ledger: place.ledger, Blobs: place.blobs, Node: place.name,
		Checkpoints: cfg.Cluster.Checkpoints && cfg.Cluster.Redis != "", CheckpointRate: int64(cfg.Cluster.CheckpointRate),
		Audit: audit, Usage: usage, Tenants: tenants, Tracer: tracer,
		Queue: cfg.Sessions.Queue, QueueWait: time.Duration(cfg.Sessions.QueueWait),
		MaxSnapshots: snapshots, MaxSnapshotBytes: int64(cfg.Sessions.SnapshotMax),
		MaxVolumes: orNone(cfg.Sessions.Volumes), MaxVolumeBytes: int64(cfg.Sessions.VolumeMax),
		Durable: cfg.Sessions.Durable, DurableEvery: time.Duration(cfg.Sessions.DurableRate), DurableBytes: int64(cfg.Sessions.DurableMax),
		Limits: limits, MaxLimits: most, Memory: memory, PoolMemory: orNone(int64(cfg.Pool.Memory)),
		MaxIdle: time.Duration(cfg.Sessions.MaxIdle), MaxKeepAlive: orNone(cfg.Sessions.MaxKeep),
		Images:       imageMaker(cfg.ImagePath(), languages),
		MaxTemplates: orNone(cfg.Templates.Max), TemplateBytes: int64(cfg.Templates.Bytes), BuildLimit: time.Duration(cfg.Templates.Build),
		Host: host, DataDir: cfg.NodeDir(), Languages: languages, Version: version,
		Pools: sizes, ClaimWait: time.Duration(cfg.Sessions.ClaimWait), MaxSessions: cfg.Sessions.Max,
		Lifetime: time.Duration(cfg.Sessions.Lifetime), MaxLifetime: time.Duration(cfg.Sessions.MaxLifetime),
		PauseAfter: pause, HibernateAfter: hibernate, ShutdownLimit: shutdown, GoOn: true, MaxHibernated: orNone(cfg.Sessions.Hibernated), LogMemory: int64(cfg.Sessions.LogMemory), LogDisk: int64(cfg.Sessions.LogDisk), Logger: log,
	})
	if err != nil {
		return err
	}
	stopBeating := place.run(m)
	defer stopBeating()
	defer func() { cleanup(m.Close) }()
	abroad, err := listenCluster(cfg, log)
	if err != nil {
		return err
	}
	ln, err := listenNode(cfg)
	if err != nil {
		if abroad != nil {
			_ = abroad.Close()
		}
		return err
	}
	follow(&reloader{level: level, log: log, cfg: cfg, tell: func(_ context.Context, c *config.Config) error {
		_ = level.UnmarshalText([]byte(c.Log.Level)) // Validate has checked it
		if err := tenants.Reload(); err != nil {
			return err
		}
		all, err := pools(c, languages)
		if err != nil {
			return err
		}
		most := c.Sessions.Hibernated
		if most == 0 {
			most = -1
		}
		m.Reload(session.Changeable{MaxSessions: c.Sessions.Max, MaxHibernated: most, Pools: all})
		return nil
	}})
	status.say(statusReady)
	watching, end := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchPool(watching, m, cfg, status)
	}()
	defer func() { end(); <-watched }()
	// Nil once ctx ends: sessions move away first, then the links end, then the
	// sessions that stayed, then sandboxes.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	left := make(chan struct{})
	go func() {
		defer close(left)
		select {
		case <-ctx.Done():
			place.leave(m, drainLimit(cfg), log)
			stopServing()
		case <-serving.Done():
		}
	}()
	err = serveLinks(serving, ln, abroad, m, log)
	stopServing()
	<-left
	return err
}

// serveLinks serves the gateway of this machine and those of others; abroad may
// be nil. When one listener fails both end.
func serveLinks(ctx context.Context, ln, abroad net.Listener, h noderpc.Handler, log *slog.Logger) error {
	if abroad == nil {
		return noderpc.Serve(ctx, ln, h, log)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	other := make(chan error, 1)
	go func() {
		defer cancel()
		other <- noderpc.Serve(ctx, abroad, h, log)
	}()
	err := noderpc.Serve(ctx, ln, h, log)
	cancel()
	return errors.Join(err, <-other)
}

// listenNode opens the socket and gives it to the gateway's user.
func listenNode(cfg *config.Config) (net.Listener, error) {
	const op = "node.listen"
	path := cfg.NodeSocket()
	who, _, err := gatewayUser(cfg)
	if err != nil {
		return nil, err
	}
	// The runtime's lock says that no other node runs here: what is there is
	// left from one that was killed.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	// Nobody may open it before it has its owner.
	part := filepath.Join(filepath.Dir(path), ".node.sock")
	_ = os.Remove(part)
	l, err := listenPrivately(part)
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Lchown(part, int(who.Uid), int(who.Gid))
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = l.Close()
		_ = os.Remove(part)
		return nil, fault.Wrap(fault.Host, op, err)
	}
	return l, nil
}

// watchPool tells how the first filling of the pool goes, until it is full or
// does not get on.
func watchPool(ctx context.Context, m *session.Manager, cfg *config.Config, status *teller) {
	defer status.say(statusWarm)
	want := m.Status().Pool.Size
	if want == 0 {
		return
	}
	names := strings.Join(cfg.Pool.Languages, ", ")
	status.say("warming %s: the first start makes a snapshot, which takes up to a minute; later ones restore it", names)
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	ready := -1
	for {
		p := m.Status().Pool
		if p.Ready != ready {
			ready = p.Ready
			if ready > 0 {
				status.say("warming %s: restored %d of %d sandboxes", names, ready, want)
			}
		}
		if ready >= want {
			return
		}
		if p.LastError != "" && ready == 0 {
			status.say("warming %s: %s", names, fmt.Sprintf("failed and will be tried again: %s", p.LastError))
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
