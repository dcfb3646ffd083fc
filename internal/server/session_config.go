package server

import (
	"time"

	"github.com/sandgate/sandgate/internal/session"
)

// sessionConfig returns the configuration of the session manager. In it, 0 means a default, and a
// negative number means none, never or no limit.
func (n *node) sessionConfig() (session.Config, error) {
	cfg, s := n.cfg, n.cfg.Sessions
	pools, err := poolSizes(cfg, n.languages)
	if err != nil {
		return session.Config{}, err
	}
	memory, err := memoryBudget(cfg)
	if err != nil {
		return session.Config{}, err
	}
	egress, err := egressConfig(cfg)
	if err != nil {
		return session.Config{}, err
	}
	limits, most := sessionLimits(cfg)
	hibernate := orNone(time.Duration(s.Hibernate))
	if s.Hibernated == 0 {
		hibernate = -1
	}
	work := newConfined(n.backend.Runtime, cfg.ImagePath())
	return session.Config{
		Backend: n.backend, DataDir: cfg.NodeDir(), Languages: n.languages, Version: n.version,
		Egress: egress, Audit: n.audit, Usage: n.usage,
		Events: n.events, Tenants: n.tenants, Tracer: n.tracer, Turns: n.backend.Turns,
		HeavyTenants: n.backend.HeavyTenants, Logger: n.log,

		Node: n.membership.name, Directory: n.membership.leases, Names: n.membership.leases,
		Ledger: n.membership.ledger, Blobs: n.membership.blobs,
		Reserved: n.membership.reserved,
		Room:     n.membership.room, Elsewhere: n.membership.editions.Elsewhere,
		UpgradeWindow:  time.Duration(cfg.Upgrade.Window),
		Checkpoints:    cfg.Cluster.Checkpoints && cfg.Cluster.Redis != "",
		CheckpointRate: int64(cfg.Cluster.CheckpointRate),

		MaxSessions: s.Max, MaxHibernated: orNone(s.Hibernated), Memory: memory, Limits: limits,
		MaxLimits: most,
		Queue:     s.Queue, QueueWait: time.Duration(s.QueueWait),
		ClaimWait: time.Duration(s.ClaimWait),
		Pools:     pools, PoolMemory: orNone(int64(cfg.Pool.Memory)),

		Lifetime: time.Duration(s.Lifetime), MaxLifetime: time.Duration(s.MaxLifetime),
		DeleteAfter: time.Duration(s.IdleDelete),
		PauseAfter:  orNone(time.Duration(s.Pause)), HibernateAfter: hibernate,
		ShutdownLimit: orNone(time.Duration(s.Shutdown)), ResumeBusy: true,
		MaxIdle: time.Duration(s.MaxIdle), MaxKeepAlive: orNone(s.MaxKeep),
		Durable: s.Durable, DurableEvery: time.Duration(s.DurableRate),
		DurableBytes: int64(s.DurableMax),
		LogMemory:    int64(s.LogMemory), LogDisk: int64(s.LogDisk),

		MaxSnapshots: orNone(s.Snapshots), MaxSnapshotBytes: int64(s.SnapshotMax),
		MaxVolumes: orNone(s.Volumes), MaxVolumeBytes: int64(s.VolumeMax),
		Images: work, Unpacker: work, MaxTemplates: orNone(cfg.Templates.Max),
		TemplateBytes: int64(cfg.Templates.Bytes), BuildLimit: time.Duration(cfg.Templates.Build),
	}, nil
}
