// Package nodeapi carries out the operations of package protocol on a node. It answers the links
// that gateways open: it decodes a request, checks it, calls the services of the node, and encodes
// the reply. It also feeds the viewers of channels, and moves files and the bytes of ports.
package nodeapi

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/document"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/internal/idempotency"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/notebook"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/session/listing"
	"github.com/sandgate/sandgate/internal/session/names"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/internal/webhook"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Sessions are the sessions of the node.
type Sessions interface {
	Create(ctx context.Context, p noderpc.Principal,
		r protocol.SessionCreate) (*session.Session, error)
	// Find returns a session of the principal. Errors: NotFound, also for a session of another
	// tenant.
	Find(p noderpc.Principal, id string) (*session.Session, error)
	List(p noderpc.Principal, r protocol.SessionQuery) (listing.Answer, error)
	Update(ctx context.Context, p noderpc.Principal, s *session.Session,
		r protocol.SessionUpdate) error
	Delete(s *session.Session)
}

// Owners know whose sessions are, also for some time after their end.
type Owners interface {
	// Owner returns the owner of a session of any tenant. Errors: NotFound; Unavailable for a
	// session that is being moved to another node.
	Owner(id string) (nodes.SessionOwner, error)
}

// Lifecycle changes how long a session stays awake, and copies it.
type Lifecycle interface {
	Keepalive(s *session.Session, seconds int64) error
	Fork(ctx context.Context, p noderpc.Principal, s *session.Session,
		r protocol.SessionFork) (protocol.Forks, error)
}

// Migration moves sessions between this node and the blob store.
type Migration interface {
	Adopt(ctx context.Context, p noderpc.Principal, id string) (protocol.Session, error)
	Parked(ctx context.Context, p noderpc.Principal, q protocol.SessionQuery) (
		protocol.SessionList, error)
	Drain(ctx context.Context) (nodes.Moved, error)
}

// Snapshots are the snapshots that users have taken.
type Snapshots interface {
	Create(ctx context.Context, p noderpc.Principal, s snapshot.Source,
		r protocol.SnapshotCreate) (protocol.Snapshot, error)
	List(p noderpc.Principal) protocol.SnapshotList
	Get(ctx context.Context, p noderpc.Principal, ref string) (protocol.Snapshot, error)
	Delete(ctx context.Context, p noderpc.Principal, ref string) error
	// Stored and Discard are for snapshots in the blob store. Without a ref Stored returns all.
	Stored(ctx context.Context, p noderpc.Principal, ref string) (protocol.SnapshotList, error)
	Discard(ctx context.Context, p noderpc.Principal, ref string) error
}

// Templates are the templates that users have created.
type Templates interface {
	Store(ctx context.Context, p noderpc.Principal, name string,
		tar io.Reader) (protocol.Template, error)
	List(p noderpc.Principal) protocol.TemplateList
	Get(p noderpc.Principal, name string) (protocol.Template, error)
	Delete(ctx context.Context, p noderpc.Principal, name string) error
	// Stored returns the templates in the blob store of a cluster: all, or the one with a name.
	Stored(ctx context.Context, p noderpc.Principal, name string) (protocol.TemplateList, error)
}

// Volumes are the named folders that outlive sessions.
type Volumes interface {
	Create(p noderpc.Principal, r protocol.VolumeCreate) (protocol.Volume, error)
	List(p noderpc.Principal) protocol.VolumeList
	Get(p noderpc.Principal, name string) (protocol.Volume, error)
	Delete(p noderpc.Principal, name string) error
}

// Leases gives a volume to one holder at a time.
type Leases interface {
	Lease(p noderpc.Principal, r protocol.VolumeLease) (protocol.Lease, error)
	Release(p noderpc.Principal, r protocol.VolumeRelease) error
}

// Events are the feeds of events.
type Events interface {
	Read(ctx context.Context, tenant string, q protocol.EventQuery) (protocol.EventPage, error)
	Stats() *event.Stats
}

// Node is the state of the node as a whole.
type Node interface {
	Status() protocol.NodeStatus
	// Uses returns each tenant's usage.
	Uses() map[string]tenant.Use
	// Metrics returns the registry for the operation metrics.
	Metrics() *prometheus.Registry
}

// Self is this node, for operators.
type Self interface {
	List() nodes.NodeList
	Change(u nodes.NodeUpdate) (nodes.NodeInfo, error)
}

// Config names the services that a Server calls. Tenants and Tracer may be nil.
type Config struct {
	Sessions  Sessions
	Names     *names.Names
	Lifecycle Lifecycle
	Owners    Owners
	Migration Migration
	Snapshots Snapshots
	Templates Templates
	Volumes   Volumes
	Leases    Leases
	Notebooks *notebook.Store
	Node      Node
	Self      Self // nil in tests only
	// Events, Webhooks and Reports may be nil; then there are none.
	Events   Events
	Webhooks *webhook.Manager
	Reports  Reports
	// Tenants stores keys and quotas; nil means that there are none.
	Tenants *tenant.Store
	// Repeats has the replies to requests with idempotency keys; nil means that they are only in
	// memory.
	Repeats *idempotency.Store
	Audit   audit.Log
	Tracer  *trace.Tracer
	// Expiry returns when the node's certificate in its cluster expires; 0 without one. nil means 0.
	Expiry  func() time.Time
	Version string // the version of the server
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// ConfigFor returns a Config with the services of a manager. The caller sets the other fields.
func ConfigFor(m *session.Manager) Config {
	return Config{
		Sessions: m, Names: m.Names(),
		Lifecycle: m, Owners: session.OwnersOf(m), Migration: m.Migration(),
		Snapshots: m.Snapshots(), Templates: m.Templates(),
		Volumes: m.Volumes(), Leases: m.Volumes(), Node: m,
	}
}

// Server answers links. It is a noderpc.Handler.
type Server struct {
	cfg        Config
	log        *slog.Logger
	operations map[string]*operation
	metrics    *metrics
	repeats    *idempotency.Store
	// repetitions has the operations that a node carries out once per key.
	repetitions map[string]repetition
	links       atomic.Uint64 // the last channel.LinkID
	documents   *document.Store
}

// New returns a Server. It registers its metrics with the node's, and fails
// when the handlers do not match the operation table.
func New(cfg Config) (*Server, error) {
	const op = "nodeapi.new"
	all, err := newOperations(protocol.Operations(), handlers())
	if err != nil {
		return nil, fault.Wrap(fault.Internal, op, err)
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, operations: all,
		repeats: cfg.Repeats, repetitions: repetitions(), documents: document.New(),
	}
	if s.repeats == nil {
		if s.repeats, err = idempotency.Open(idempotency.Options{}); err != nil {
			return nil, err
		}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	counts := new(event.Stats)
	if cfg.Events != nil {
		counts = cfg.Events.Stats()
	}
	sent := new(webhook.Stats)
	if cfg.Webhooks != nil {
		sent = cfg.Webhooks.Stats()
	}
	if s.metrics, err = newMetrics(cfg.Node.Metrics(), counts, sent, s.repeats); err == nil {
		err = registerExpiry(cfg.Node.Metrics(), cfg.Expiry)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Internal, op, err)
	}
	return s, nil
}

// ServeLink implements noderpc.Handler.
func (s *Server) ServeLink(ctx context.Context, l *noderpc.Link) error {
	return s.newLinkHandler(ctx, l).serve()
}
