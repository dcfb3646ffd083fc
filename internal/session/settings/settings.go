// Package settings has the settings of a node's sessions, with their defaults, and what follows
// from them.
package settings

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/egress/proxy"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/internal/fairqueue"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/names"
	"github.com/sandgate/sandgate/internal/session/ownership"
	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Events takes events for the feeds of tenants. Emit does not block, and ignores an event without
// a tenant.
type Events interface{ Emit(e event.Event) }

// DiskUser is a part of the node that writes to disk for tenants.
type DiskUser interface {
	// DiskUse returns the bytes of a tenant, and those of one of its subjects.
	DiskUse(tenant, subject string) (all, own int64)
}

// Config has the settings of a session.Manager. Backend, DataDir and Languages have no
// defaults. Each other field has the default that its comment names.
type Config struct {
	// Backend starts and restores sandboxes.
	Backend sandbox.Backend
	// DataDir is a folder that only one node uses. Snapshots, logs and hibernated
	// sessions are below it. New finds the sessions that Close left there.
	DataDir string
	// Languages are the kernels that the image has.
	Languages []kernel.Manifest
	// Disk are parts of the node outside of sessions that write to disk for tenants.
	Disk []DiskUser
	// Version is the version of the server, for the status.
	Version string
	// Pools says how many sandboxes are kept ready for a language. Default 2
	// for the default language. Sandboxes of other languages are restored
	// when they are asked for.
	Pools map[string]int
	// PoolParallel is how many are made at a time. Default half the
	// processors, at least 1.
	PoolParallel int
	// ClaimWait bounds how long a create waits for a sandbox. Default 30 s.
	ClaimWait time.Duration
	// Queue is how many creates and resumes may wait for a place, half of them from
	// one tenant; default none. QueueWait is how long; default 10 s.
	Queue     int
	QueueWait time.Duration
	// MaxSessions is how many sessions have a sandbox at once; default 64.
	// MaxHibernated is how many are hibernated beside them; default 1,000.
	MaxSessions, MaxHibernated int
	// Lifetime is the lifetime of a session whose request has none; 0 means MaxLifetime.
	// MaxLifetime is the longest that a request may have; 0 means that sessions need not end.
	// DeleteAfter is the longest time without work before a session is deleted; 0 means any.
	Lifetime, MaxLifetime, DeleteAfter time.Duration
	// MaxIdle is the longest idle time that a session may ask for; default 24
	// h, negative means any. MaxKeepAlive is how many sessions may be kept
	// alive; default 4, negative means none.
	MaxIdle      time.Duration
	MaxKeepAlive int
	// Limits are the limits of a session whose request has none. MaxLimits are the
	// highest that a request may have. A field that is zero in MaxLimits is bounded
	// by Limits. A field that is zero in both may not be in a request.
	Limits, MaxLimits protocol.Limits
	// Memory is how many bytes all sandboxes may use together. Beyond it, idle
	// sessions are hibernated and new ones refused. 0 means no bound.
	Memory int64
	// PoolMemory is how much of it the pools may use beyond the sandboxes of
	// Pools. Default 1 GiB; negative means none.
	PoolMemory int64
	// PauseAfter is how long a session without work runs before it is frozen in
	// memory. Default 60 s; negative means never.
	PauseAfter time.Duration
	// HibernateAfter is how long a session without work is kept in memory
	// before it is written to disk. It counts from the last work, and only paused
	// sessions are hibernated. Default 15 min; negative means never.
	HibernateAfter time.Duration
	// ShutdownLimit is how long Close takes to hibernate sessions. Default 30
	// s; negative means that all sessions end.
	ShutdownLimit time.Duration
	// MaxSnapshots is how many snapshots users may keep, and MaxSnapshotBytes
	// what all of them may take on disk. Defaults 100 and 20 GiB.
	MaxSnapshots     int
	MaxSnapshotBytes int64
	// Durable makes a session durable whose request does not choose. A durable
	// session is copied to disk when it falls idle after work, at most once in
	// DurableEvery, default 30 s, unless its sandbox holds more than
	// DurableBytes, default 2 GiB.
	Durable      bool
	DurableEvery time.Duration
	DurableBytes int64
	// ResumeBusy resumes the sessions that were at work when the earlier process
	// ended, one after another, as far as there are places. Otherwise they are
	// resumed by the next request.
	ResumeBusy bool
	// LostRetention is how long a lost session stays listed. Default 10 min.
	LostRetention time.Duration
	// LogMemory and LogDisk bound each channel's log in bytes. Defaults 1 MiB
	// and 64 MiB.
	LogMemory, LogDisk int64
	// BootLimit bounds a cold boot with its kernel and warm-up. Default 120 s.
	BootLimit time.Duration
	// BuildLimit is how much longer a user's template may take; default 10
	// min.
	BuildLimit time.Duration
	// MaxTemplates is how many templates a tenant may have; default 32,
	// negative means none. TemplateBytes bounds what each brings along;
	// default 1 GiB.
	MaxTemplates  int
	TemplateBytes int64
	// MaxVolumes is how many volumes a tenant may have; default 100, negative
	// means none. MaxVolumeBytes is the most that one may hold; default 10 GiB.
	// VolumeEvery is how often volumes are measured that sessions write to.
	// Default 5 s.
	MaxVolumes     int
	MaxVolumeBytes int64
	VolumeEvery    time.Duration
	// Egress has the hosts that sessions may reach. Default none.
	Egress proxy.Config
	// Images makes root filesystems from images of users; nil means that there is
	// only the image of the node.
	Images warm.Images
	// Unpacker reads the tars of templates; nil means that this process does it.
	Unpacker warm.Unpacker
	// Tick is how often the janitor works. Default 1 s.
	Tick time.Duration
	// Audit is the audit log. Default none.
	Audit audit.Log
	// Events takes events for the feeds of tenants. Default none.
	Events Events
	// Usage records the use of sessions, once a minute and at their end. Default
	// none.
	Usage *journal.Journal
	// Tenants keeps keys and quotas. nil means that there are none.
	Tenants *tenant.Store
	// Turns returns the counters of the queues in which tenants wait to start and to save
	// sandboxes. By default nobody waits.
	Turns func() map[string]fairqueue.Stats
	// HeavyTenants returns the number of tenants that use more than their part of the processors.
	// By default there are none.
	HeavyTenants func() int
	// Tracer may be nil.
	Tracer *trace.Tracer
	// Directory records the owners of sessions; nil means that the node owns all of
	// its sessions.
	Directory ownership.Directory
	// Names has the names of all nodes' sessions; nil means that this node has all sessions.
	Names names.Directory
	// Ledger adds up the use of tenants over the nodes of a cluster; nil means that
	// this is the only node.
	Ledger admission.Ledger
	// Blobs is the blob store, for parked sessions; nil means that sessions are not
	// parked.
	Blobs migrate.Blobs
	// Reserved has the names of the snapshots and volumes of all nodes; nil means that this node has
	// all volumes, and that snapshots are not stored in Blobs.
	Reserved ReservedNames
	// Room reports whether another node has room for a session; nil means that there is none. A
	// hibernated session that cannot be resumed here then moves.
	Room func(context.Context) bool
	// Elsewhere reports whether another node has an edition that does not end there; nil for no.
	Elsewhere func(ctx context.Context, edition string) bool
	// UpgradeWindow is how long nodes keep earlier editions.
	UpgradeWindow time.Duration
	// Node is this node's name in the directory.
	Node cluster.NodeID
	// Checkpoints uploads the copies of durable sessions to Blobs, with at most
	// CheckpointRate bytes a second; default 16 MiB.
	Checkpoints    bool
	CheckpointRate int64
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// ReservedNames gives each name of a tenant to one snapshot and to one volume of a cluster.
type ReservedNames interface {
	snapshot.Names
	volume.Names
}

// SharedBlobs returns the blob store for the snapshots and templates of users; nil without one.
func (c Config) SharedBlobs() migrate.Blobs {
	if c.Reserved == nil {
		return nil
	}
	return c.Blobs
}

// Resolve returns the settings with their defaults. Errors: Host without a required setting,
// InvalidArgument.
func (c Config) Resolve() (Config, error) {
	const op = "session.config"
	if c.Backend == nil || c.DataDir == "" || len(c.Languages) == 0 {
		return c, fault.New(fault.Host, op, "a node needs a host, a data directory and languages")
	}
	def(&c.PoolParallel, max(1, runtime.NumCPU()/2))
	def(&c.ClaimWait, 30*time.Second)
	def(&c.QueueWait, 10*time.Second)
	def(&c.MaxSessions, 64)
	def(&c.MaxHibernated, 1000)
	def(&c.MaxIdle, 24*time.Hour)
	def(&c.MaxKeepAlive, 4)
	def(&c.PoolMemory, 1<<30)
	if c.Turns == nil {
		c.Turns = func() map[string]fairqueue.Stats {
			return map[string]fairqueue.Stats{"start": {}, "save": {}}
		}
	}
	if c.HeavyTenants == nil {
		c.HeavyTenants = func() int { return 0 }
	}
	def(&c.PauseAfter, time.Minute)
	def(&c.HibernateAfter, 15*time.Minute)
	def(&c.ShutdownLimit, 30*time.Second)
	def(&c.MaxSnapshots, 100)
	def(&c.MaxSnapshotBytes, 20<<30)
	def(&c.DurableEvery, 30*time.Second)
	def(&c.DurableBytes, 2<<30)
	def(&c.CheckpointRate, 16<<20)
	def(&c.LostRetention, 10*time.Minute)
	def(&c.LogMemory, 1<<20)
	def(&c.LogDisk, 64<<20)
	def(&c.BootLimit, 2*time.Minute)
	def(&c.BuildLimit, 10*time.Minute)
	def(&c.MaxTemplates, 32)
	def(&c.TemplateBytes, 1<<30)
	def(&c.MaxVolumes, 100)
	def(&c.MaxVolumeBytes, 10<<30)
	def(&c.VolumeEvery, volume.DefaultEvery)
	def(&c.Tick, time.Second)
	var err error
	if c.Egress, err = c.Egress.Resolve(); err != nil {
		return c, err
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Pools == nil {
		c.Pools = map[string]int{c.DefaultLanguage(): 2}
	}
	for name := range c.Pools {
		if _, ok := c.Language(name); !ok {
			return c, fault.Invalid(op, "pools", "there is no language %q", name)
		}
	}
	return c, nil
}

func def[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// DefaultLanguage is python where there is one.
func (c Config) DefaultLanguage() string {
	if m, ok := c.Language("python"); ok {
		return m.Name
	}
	return c.Languages[0].Name
}

// Retention is how long the directory keeps the record of a session; 0 means that it has no end.
func (c Config) Retention() time.Duration {
	if c.MaxLifetime == 0 {
		return 0
	}
	return c.MaxLifetime + c.LostRetention
}

// IsDurable reports whether a new session is durable.
func (c Config) IsDurable(r protocol.SessionCreate) bool {
	if r.Durable != nil {
		return *r.Durable
	}
	return c.Durable
}

// Language finds a manifest by name or alias.
func (c Config) Language(name string) (kernel.Manifest, bool) {
	m, err := kernel.Find(c.Languages, name)
	return m, err == nil
}

// SessionRequest returns the request for the place of a new session, which may be kept alive.
func (c Config) SessionRequest(p noderpc.Principal, l protocol.Limits, keepAlive bool,
) admission.Request {
	holder, use := admission.Holder{Tenant: p.Tenant, Subject: p.Subject}, c.SandboxUse(l)
	if keepAlive {
		use.KeepAlive = 1
	}
	return admission.ForSession(holder, use)
}

// Shares returns the parts of the node's snapshots and sessions that are kept alive, that one tenant
// without a quota may have.
func (c Config) Shares() tenant.Quota {
	return tenant.Quota{
		Snapshots: tenantlimit.Lookup(tenantlimit.Snapshots).Scale(c.MaxSnapshots).Tenant,
		KeepAlive: tenantlimit.Lookup(tenantlimit.KeptAlive).Scale(c.MaxKeepAlive).Tenant,
	}
}

// SandboxUse returns the part of its tenant's quota that a session with a sandbox
// uses.
func (c Config) SandboxUse(l protocol.Limits) tenant.Use {
	l = warm.MergeLimits(c.Limits, l)
	return tenant.Use{Running: 1, CPUs: l.CPUs, MemoryBytes: l.SandboxBytes()}
}

// MemoryShort reports whether need more bytes would exceed the memory of all
// sandboxes.
func (c Config) MemoryShort(need int64) bool {
	return c.Memory > 0 && c.Backend.Memory()+need > c.Memory
}
