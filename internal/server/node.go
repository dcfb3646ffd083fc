package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/nodeapi"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/internal/session"
)

// NodeSupervised runs a node that serve has started: descriptor 3 carries its settings, descriptor
// 4 is its status pipe.
func NodeSupervised(ctx context.Context, a *console.Invocation) error {
	input, status := inherited()
	cfg := new(config.Config)
	settings := json.NewDecoder(input)
	if err := settings.Decode(cfg); err != nil {
		return &fault.Error{Kind: fault.Internal, Op: "node.start", Message: "the settings cannot be read from descriptor 3", Err: err}
	}
	return serveNode(ctx, a, cfg, status, func(r *reloader) {
		go follow(settings, status, func(c *config.Config) error { return r.apply(ctx, c) })
	})
}

// Node runs a node that nobody supervises. It reads its settings with load, at its start and at
// each SIGHUP.
func Node(ctx context.Context, a *console.Invocation, load func() (*config.Config, error)) error {
	cfg, err := load()
	if err != nil {
		return err
	}
	for _, dir := range []string{cfg.DataDir, cfg.RunDir} {
		if err := MakeDir(dir); err != nil {
			return err
		}
	}
	return serveNode(ctx, a, cfg, &statusPipe{w: a.Out}, func(r *reloader) {
		r.load = load
		r.onHangup(ctx, func() bool { return false }, nil)
	})
}

// closeLimit is how long the end of all sandboxes may take.
const closeLimit = 50 * time.Second

// serveNode runs until ctx ends or a signal comes. follow is called once the
// node can take up new settings.
func serveNode(ctx context.Context, a *console.Invocation, cfg *config.Config, status *statusPipe, follow func(*reloader)) (err error) {
	const op = "node.start"
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Geteuid() != 0 {
		return fault.New(fault.Host, op, "the node needs root, which gVisor's runtime needs to make sandboxes")
	}
	level := new(slog.LevelVar)
	log := newLogger(cfg, a.Err, level).With("part", "node")
	languages, err := ReadLanguages(cfg.ImagePath())
	if err != nil {
		return err
	}
	sizes, err := pools(cfg, languages)
	if err != nil {
		return err
	}
	what, err := SandboxSpec(cfg)
	if err != nil {
		return err
	}
	status.say("node: checking the runtime")
	runsc, err := ReachableRunsc(cfg.RunscPath(), filepath.Join(cfg.DataDir, "bin"))
	if err != nil {
		return err
	}
	rt, err := gvisor.NewRuntime(gvisor.Config{Runsc: runsc, StateDir: cfg.StateDir(), Platform: cfg.Platform, Log: log})
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
	limits, most := sessionLimits(cfg)
	memory, err := memoryBudget(cfg)
	if err != nil {
		return err
	}
	snapshots := cfg.Sessions.Snapshots
	if snapshots == 0 {
		snapshots = -1 // none; 0 would be the default
	}
	backend := &gvisor.Backend{Runtime: rt, Spec: what}
	if cfg.Pool.Spare > 0 {
		backend.Standby = gvisor.NewStandby(backend, cfg.Pool.Spare)
		defer backend.Standby.Close()
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
	tracer, sendLast, err := openTracer(cfg, "node", a.Version, log)
	if err != nil {
		return err
	}
	defer sendLast()
	tenants, leave, err := openTenants(cfg, place.vault, log)
	if err != nil {
		return err
	}
	defer leave()
	outside, err := egressConfig(cfg)
	if err != nil {
		return err
	}
	m, err := session.New(session.Config{
		Egress:    outside,
		Directory: place.leases, Ledger: place.ledger, Blobs: place.blobs, Node: place.name,
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
		Backend: backend, DataDir: cfg.NodeDir(), Languages: languages, Version: a.Version,
		Pools: sizes, ClaimWait: time.Duration(cfg.Sessions.ClaimWait), MaxSessions: cfg.Sessions.Max,
		Lifetime: time.Duration(cfg.Sessions.Lifetime), MaxLifetime: time.Duration(cfg.Sessions.MaxLifetime),
		PauseAfter: pause, HibernateAfter: hibernate, ShutdownLimit: shutdown, GoOn: true, MaxHibernated: orNone(cfg.Sessions.Hibernated), LogMemory: int64(cfg.Sessions.LogMemory), LogDisk: int64(cfg.Sessions.LogDisk), Logger: log,
	})
	if err != nil {
		return err
	}
	api := nodeapi.Of(m)
	api.Audit, api.Tenants, api.Tracer, api.Version, api.Logger = audit, tenants, tracer, a.Version, log
	handler, err := nodeapi.New(api)
	if err != nil {
		cleanup(m.Close)
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
	follow(&reloader{level: level, log: log, cfg: cfg, apply: func(_ context.Context, c *config.Config) error {
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
	err = serveLinks(serving, ln, abroad, handler, log)
	stopServing()
	<-left
	return err
}

// watchPool tells how the first filling of the pool goes, until it is full or
// does not get on.
func watchPool(ctx context.Context, m *session.Manager, cfg *config.Config, status *statusPipe) {
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
