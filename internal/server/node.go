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
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/internal/edition/survey"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/internal/idempotency"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/nodeapi"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/notebook"
	"github.com/sandgate/sandgate/internal/report/archive"
	"github.com/sandgate/sandgate/internal/resources"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor/trial"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/settings"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/internal/webhook"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
)

// NodeSupervised runs a node that serve has started: descriptor 3 carries its settings, descriptor
// 4 is its status pipe.
func NodeSupervised(ctx context.Context, a *console.Invocation) error {
	input, status := inherited()
	cfg := new(config.Config)
	settings := json.NewDecoder(input)
	if err := settings.Decode(cfg); err != nil {
		return &fault.Error{
			Kind: fault.Internal, Op: "node.start",
			Message: "the settings cannot be read from descriptor 3", Err: err,
		}
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
	return serveNode(ctx, a, cfg, &statusPipe{w: a.Out, last: statusWarm}, func(r *reloader) {
		r.load = load
		r.onHangup(ctx, func() bool { return false }, nil)
		go r.followFiles(ctx)
	})
}

// node is a node with its parts, in the order in which they are opened.
type node struct {
	// given has the settings, and cfg the same with the node's own files of the runtime and the image.
	given   *config.Config
	cfg     *config.Config
	version string
	level   *slog.LevelVar
	log     *slog.Logger
	status  *statusPipe
	// cleanup closes the parts, in the reverse order.
	cleanup cleanup

	languages  []kernel.Manifest
	backend    *gvisor.Backend
	editions   *edition.Store
	usage      *journal.Journal
	audit      audit.Log
	membership *membership
	tracer     *trace.Tracer
	tenants    *tenant.Store
	events     *event.Feed
	webhooks   *webhook.Manager
	notebooks  *notebook.Store
	meter      resources.Meter
	manager    *session.Manager
	handler    noderpc.Handler
	// archive has the journals of the cluster; nil without a cluster or a blob store.
	archive *archive.Archive
	// identity is that of the node in its cluster; nil without one.
	identity *noderpc.Credentials
}

// serveNode runs until ctx ends or a signal comes. follow is called once the node can apply new
// settings.
func serveNode(ctx context.Context, a *console.Invocation, cfg *config.Config, status *statusPipe,
	follow func(*reloader),
) (err error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if os.Geteuid() != 0 {
		return fault.New(fault.Host, "node.start",
			"the node needs root, which gVisor's runtime needs to create sandboxes")
	}
	level := new(slog.LevelVar)
	n := &node{
		given: cfg, cfg: cfg, version: a.Version, level: level,
		log: newLogger(cfg, a.Err, level).With("part", "node"), status: status,
	}
	defer func() { err = errors.Join(err, n.cleanup.run()) }()
	for _, open := range []func() error{
		n.openBackend, n.openCluster, n.openJournals,
		n.openSessions, n.openAPI,
	} {
		if err := open(); err != nil {
			return err
		}
	}
	return n.serve(ctx, follow)
}

// openBackend opens gVisor's runtime and reads the image.
func (n *node) openBackend() error {
	n.status.report("node: checking the runtime")
	try := &trial.Trial{Dir: filepath.Join(n.cfg.NodeDir(), "trial")}
	var err error
	if n.editions, n.cfg, err = openEditions(n.cfg, try.Run, n.log); err != nil {
		return err
	}
	if n.languages, err = ReadLanguages(n.cfg.ImagePath()); err != nil {
		return err
	}
	spec, err := SandboxSpec(n.cfg)
	if err != nil {
		return err
	}
	rt, err := gvisor.NewRuntime(gvisor.Config{
		Runsc: n.cfg.RunscPath(), StateDir: n.cfg.StateDir(),
		Platform: n.cfg.Platform, CopyMemory: !n.cfg.Pool.Shared, Log: n.log,
	})
	if err != nil {
		return err
	}
	n.cleanup.add(rt.Close)
	n.backend = &gvisor.Backend{Runtime: rt, Spec: spec, Editions: n.editions}
	try.Runtime, try.Spec = rt, spec
	if n.cfg.Pool.Spare > 0 {
		n.backend.Standby = gvisor.NewStandby(n.backend, n.cfg.Pool.Spare)
		n.cleanup.do(n.backend.Standby.Close)
	}
	return nil
}

// openCluster opens the directory, the keys and the tracer.
func (n *node) openCluster() error {
	var err error
	if n.membership, err = joinDirectory(n.cfg, n.log); err != nil {
		return err
	}
	n.identity = n.membership.identity
	n.cleanup.add(func(context.Context) error {
		return errors.Join(n.membership.close(), n.membership.process.close())
	})
	tracer, sendLast, err := openTracer(n.cfg, "node", n.version, n.log)
	if err != nil {
		return err
	}
	n.tracer = tracer
	n.cleanup.do(sendLast)
	tenants, leave, err := openTenants(n.cfg, n.membership.tables, n.log)
	if err != nil {
		return err
	}
	n.tenants = tenants
	n.cleanup.do(leave)
	return n.openEvents()
}

// openEvents opens the feeds of events: those of the cluster, or a file of this node.
func (n *node) openEvents() error {
	store, hooks := n.membership.feeds, n.membership.webhooks
	if store == nil {
		file, err := local.OpenFeedStore(filepath.Join(n.cfg.NodeDir(), "events"))
		if err != nil {
			return err
		}
		n.cleanup.add(func(context.Context) error { return file.Close() })
		store, hooks = file, file.WebhookStore()
	}
	n.events = event.New(store, n.log)
	n.cleanup.add(n.events.Close)
	var err error
	n.webhooks, err = webhook.New(hooks, n.events, n.membership.secret)
	return err
}

// openSessions opens the manager of sessions.
func (n *node) openSessions() error {
	c, err := n.sessionConfig()
	if err != nil {
		return err
	}
	n.notebooks, err = notebook.Open(filepath.Join(n.cfg.NodeDir(), "notebooks"), n.log)
	if err != nil {
		return err
	}
	c.Disk = []settings.DiskUser{n.notebooks}
	n.meter = resources.Meter{
		Memory: c.Memory, Used: n.backend.Memory, Dir: n.cfg.DataDir, Zone: n.cfg.Cluster.Zone,
	}
	n.meter.Image, n.meter.Earlier = n.editions.Current().String(), n.editions.Earlier
	n.manager, err = session.New(c)
	return err
}

// openAPI creates the handler of links, and registers the node in the directory.
func (n *node) openAPI() error {
	api := nodeapi.ConfigFor(n.manager)
	api.Audit, api.Tenants, api.Tracer, api.Version, api.Logger = n.audit, n.tenants, n.tracer,
		n.version, n.log
	api.Events, api.Webhooks, api.Expiry = n.events, n.webhooks, n.expiry
	api.Notebooks = n.notebooks
	api.Reports = n.reports()
	moves := n.manager.Migration()
	carrier, err := session.NewCarrier(n.manager), error(nil)
	kept := &survey.Survey{
		Store: n.editions, Needed: migrate.EditionsOf(moves), Shared: moves.Shared(), Log: n.log,
		Carrier: carrier, Others: n.membership.editions,
		Window: time.Duration(n.cfg.Upgrade.Window),
	}
	if kept.Stored, err = shareEditions(n, carrier.Stats()); err != nil {
		return err
	}
	migrate.EditionsOf(moves).OnDrain(kept.StoreLast)
	api.Self = newSelf(n.membership, n.manager, n.version, kept)
	surveying, end := context.WithCancel(context.Background())
	n.cleanup.do(end)
	go kept.Run(surveying)
	api.Repeats, err = idempotency.Open(idempotency.Options{
		Dir: filepath.Join(n.cfg.NodeDir(), "idempotency"), Log: n.log,
	})
	if err != nil {
		n.cleanup.add(n.manager.Close)
		return err
	}
	n.cleanup.add(func(context.Context) error { return api.Repeats.Close() })
	if n.handler, err = nodeapi.New(api); err != nil {
		n.cleanup.add(n.manager.Close)
		return err
	}
	n.cleanup.do(n.membership.run(n.manager, n.meter))
	n.cleanup.add(n.manager.Close)
	return nil
}

// serve serves links until ctx ends.
func (n *node) serve(ctx context.Context, follow func(*reloader)) error {
	abroad, err := listenCluster(n.cfg, n.identity, n.log)
	if err != nil {
		return err
	}
	ln, err := listenNode(n.cfg)
	if err != nil {
		if abroad != nil {
			_ = abroad.Close()
		}
		return err
	}
	follow(&reloader{
		level: n.level, log: n.log, cfg: n.given, apply: n.reload,
		files: identityFiles(n.cfg, noderpc.RoleNode),
	})
	n.status.report(statusReady)
	watching, end := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { watchPool(watching, n.manager, n.cfg, n.status) })
	defer func() { end(); watched.Wait() }()
	// This context ends after ctx: sessions move away first, then the links end, then the sessions
	// that stayed, then sandboxes.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	var left sync.WaitGroup
	var refused error
	left.Go(func() {
		select {
		case refused = <-n.membership.refused:
			stopServing()
		case <-ctx.Done():
			n.membership.leave(n.manager, drainLimit(n.cfg), n.log)
			stopServing()
		case <-serving.Done():
		}
	})
	err = serveLinks(serving, ln, abroad, n.handler, n.log)
	stopServing()
	left.Wait()
	return errors.Join(err, refused)
}

// expiry returns when the node's certificate in the cluster expires; 0 without one.
func (n *node) expiry() time.Time {
	if n.identity == nil {
		return time.Time{}
	}
	return n.identity.Until()
}

// renewIdentity reads the files of the node's identity again.
func (n *node) renewIdentity(c *config.Config) error {
	if n.identity == nil {
		return nil
	}
	identity, err := readNodeIdentity(c)
	if err != nil {
		return err
	}
	return n.identity.Renew(identity)
}

// reload applies the settings that a running node can change.
func (n *node) reload(_ context.Context, c *config.Config) error {
	_ = n.level.UnmarshalText([]byte(c.Log.Level)) // Validate has checked it
	if err := n.tenants.Reload(); err != nil {
		return err
	}
	if err := n.renewIdentity(c); err != nil {
		return err
	}
	pools, err := poolSizes(c, n.languages)
	if err != nil {
		return err
	}
	n.manager.Reload(session.Changeable{
		MaxSessions:   c.Sessions.Max,
		MaxHibernated: orNone(c.Sessions.Hibernated), Pools: pools,
	})
	return nil
}

// watchPool reports the progress of the first filling of the pool, until it is full or fails.
func watchPool(ctx context.Context, m *session.Manager, cfg *config.Config, status *statusPipe) {
	defer status.report(statusWarm)
	want := m.Status().Pool.Size
	if want == 0 {
		return
	}
	names := strings.Join(cfg.Pool.Languages, ", ")
	status.report(
		"warming %s: the first start creates a snapshot, which takes up to a minute; later starts restore it", names)
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	ready := -1
	for {
		p := m.Status().Pool
		if p.Ready != ready {
			ready = p.Ready
			if ready > 0 {
				status.report("warming %s: restored %d of %d sandboxes", names, ready, want)
			}
		}
		if ready >= want {
			return
		}
		if p.LastError != "" && ready == 0 {
			status.report("warming %s: %s", names, fmt.Sprintf("failed and will be tried again: %s",
				p.LastError))
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
