package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/resources"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/session/settings"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/webhook"
	"github.com/sandgate/sandgate/protocol/fault"
)

// membership is a node's place in the directory.
type membership struct {
	name cluster.NodeID
	// address is where gateways reach the node; empty without a cluster.
	address string
	leases  *cluster.LeaseHolder
	blobs   migrate.Blobs
	tables  tenant.KeyTableStore // the key table; nil without a cluster
	ledger  admission.Ledger     // the usage of tenants; nil without a cluster
	feeds   event.Store          // the feeds of events; nil without a cluster
	// reserved reserves names of snapshots and volumes; nil without a cluster.
	reserved settings.ReservedNames
	// webhooks has the webhooks of the cluster, encrypted with its secret; nil without a cluster.
	webhooks webhook.Store
	secret   []byte
	// identity is that of the node in its cluster; nil without one.
	identity *noderpc.Credentials
	close    func() error
	process  processFile
	// refused gets an error when another process is the node.
	refused chan error
	// stop ends the heartbeats.
	stop func()
	// others reports whether another node takes sessions; nil without a cluster.
	others func(context.Context) bool
	// room reports whether another node has a place for a session; nil without a cluster.
	room     func(context.Context) bool
	editions cluster.Editions
	leaving  atomic.Bool // the node is about to end, and something stays on it

	mu      sync.Mutex // guards all below
	manager *session.Manager
	meter   resources.Meter
}

// namedRegistry is the part of a directory that a node uses.
type namedRegistry interface {
	cluster.Registry
	cluster.NameRegistry
}

// joinDirectory opens the directory of the cluster or of this machine.
func joinDirectory(cfg *config.Config, log *slog.Logger) (*membership, error) {
	name, err := nodeName(cfg)
	if err != nil {
		return nil, err
	}
	ms := &membership{name: name, refused: make(chan error, 1)}
	id, err := instance(cfg)
	if err != nil {
		return nil, err
	}
	var former string
	if ms.process, former, err = openProcessFile(cfg); err != nil {
		return nil, err
	}
	if err := ms.join(cfg, id, former, log); err != nil {
		return nil, errors.Join(err, ms.process.close())
	}
	return ms, nil
}

// join opens the directory and the stores of the node. id is the instance of its data, former the
// process that has used them last.
func (ms *membership) join(cfg *config.Config, id, former string, log *slog.Logger) error {
	// The node must not be listed before gateways can reach it.
	var err error
	if ms.identity, err = openNodeIdentity(cfg); err != nil {
		return err
	}
	address := cfg.Cluster.Address
	if address == "" {
		address = cfg.Cluster.Listen
	}
	var dir namedRegistry
	if cfg.Cluster.Redis != "" {
		ms.address = address
	}
	if cfg.Cluster.Redis == "" {
		file, err := local.OpenDirectory(filepath.Join(cfg.NodeDir(), "directory"))
		if err != nil {
			return err
		}
		dir, ms.close = file, file.Close
		if ms.blobs, err = openMarkedBlobs(cfg, string(ms.name), nil); err != nil {
			return errors.Join(err, file.Close())
		}
	} else {
		if host, _, err := net.SplitHostPort(address); err != nil || host == "" ||
			net.ParseIP(host).IsUnspecified() {
			return fault.Invalid("node.start", "cluster.address",
				"%q is not an address at which gateways could reach this node", address)
		}
		password, err := redisPassword(cfg)
		if err != nil {
			return err
		}
		remote, err := openRedis(cfg, password, log)
		if err != nil {
			return err
		}
		if err := checkRedis(remote, log); err != nil {
			return errors.Join(err, remote.Close())
		}
		dir, ms.close, ms.feeds = remote.Directory(), remote.Close, remote.FeedStore()
		if ms.blobs, err = openMarkedBlobs(cfg, string(ms.name), remote.AgreeOnStore); err != nil {
			return errors.Join(err, remote.Close())
		}
		ms.others = func(ctx context.Context) bool {
			return others(ctx, remote.Directory(), ms.name, time.Duration(cfg.Cluster.Lease))
		}
		ms.room = func(ctx context.Context) bool {
			return hasRoom(ctx, remote.Directory(), ms.name, time.Duration(cfg.Cluster.Lease))
		}
		ms.editions = cluster.Editions{Nodes: remote.Directory().Nodes, Self: ms.name}
		ms.webhooks, ms.reserved = remote.WebhookStore(), remote
		if ms.secret, err = noderpc.ReadSecret(cfg.ClusterDir()); err != nil {
			return errors.Join(err, remote.Close())
		}
		if ms.tables, err = sealedKeyTable(cfg, remote); err != nil {
			return errors.Join(err, remote.Close())
		}
	}
	ms.leases, err = ms.newLeases(cfg, id, former, address, dir, log)
	if err != nil {
		return errors.Join(err, ms.close())
	}
	if cfg.Cluster.Redis != "" {
		ms.ledger = ms.leases
	}
	return ms.process.write(ms.leases.Process())
}

// newLeases returns the holder of the node's leases.
func (ms *membership) newLeases(cfg *config.Config, id, former, address string,
	dir namedRegistry, log *slog.Logger,
) (*cluster.LeaseHolder, error) {
	return cluster.NewLeaseHolder(dir, cluster.LeaseHolderOptions{
		Node: ms.name, Instance: id, Lease: time.Duration(cfg.Cluster.Lease),
		Grace: time.Duration(cfg.Cluster.TakeOver), Logger: log, Replaces: former,
		Refused: func(err error) { ms.refused <- err },
		Overdue: func(is bool) {
			ms.whenOpen(func(m *session.Manager) { m.Migration().Overdue(is) })
		},
		Info: func() cluster.NodeInfo {
			info := ms.info()
			info.Address = address
			// Gateways that connect now cannot reach the node.
			info.Draining = info.Draining || ms.isExpired()
			info.Leaving = ms.leaving.Load()
			return info
		},
		Names: dir,
		Reclaimed: func(id cluster.SessionID) {
			ms.whenOpen(func(m *session.Manager) { m.Names().Doubt(string(id)) })
		},
		Lost: func(id cluster.SessionID) {
			ms.whenOpen(func(m *session.Manager) { m.Moved(id) })
		},
	})
}

// info describes the node, if it is open.
func (ms *membership) info() (info cluster.NodeInfo) {
	ms.whenOpen(func(m *session.Manager) {
		info = m.Info()
		ms.meter.Describe(&info) // which was set with m
	})
	return info
}

// isExpired reports whether the certificate of the node has expired.
func (ms *membership) isExpired() bool {
	return ms.identity != nil && time.Now().After(ms.identity.Until())
}

// whenOpen calls do with the sessions of the node, if it is open.
func (ms *membership) whenOpen(do func(*session.Manager)) {
	ms.mu.Lock()
	m := ms.manager
	ms.mu.Unlock()
	if m != nil {
		do(m)
	}
}

// run keeps the node in the directory until stop is called.
func (ms *membership) run(m *session.Manager, meter resources.Meter) (stop func()) {
	ms.mu.Lock()
	ms.manager, ms.meter = m, meter
	ms.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	// The node should be registered before its first session, if the directory answers.
	first, end := context.WithTimeout(ctx, 3*time.Second)
	ms.leases.Heartbeat(first)
	end()
	var done sync.WaitGroup
	done.Go(func() { ms.leases.Run(ctx) })
	ms.stop = func() { cancel(); done.Wait() }
	return ms.stop
}

// drainLimit is the time in which a stopping node moves its sessions.
func drainLimit(cfg *config.Config) time.Duration {
	if cfg.Cluster.Redis == "" || cfg.Cluster.Blobs == "" {
		return 0
	}
	return time.Duration(cfg.Cluster.Drain)
}

const (
	// leaveLimit bounds the last step of a node in the directory.
	leaveLimit = 3 * time.Second
	// leaveWait is how long a node that has left still answers. After that no gateway has an older
	// list of nodes.
	leaveWait = cluster.NodesLife + 100*time.Millisecond
)

// leave moves the sessions of a node that is about to end to the blob store, and ends the node's
// lease if nothing stays on it. Otherwise the node announces its end, and keeps its lease, so that no
// other node takes its sessions over until it had time to come back.
func (ms *membership) leave(m *session.Manager, limit time.Duration, log *slog.Logger) {
	ms.moveSessions(m, limit, log)
	if ms.others == nil {
		return
	}
	m.Migration().Refuse()
	defer time.Sleep(leaveWait)
	if !isEmpty(m) {
		ms.leaving.Store(true)
		ms.leases.HeartbeatNow()
		log.Info("something stays on the node, so lists name it")
		return
	}
	ms.stop()
	ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
	defer cancel()
	if err := ms.leases.EndLease(ctx); err != nil {
		log.Warn("the node's lease was not ended", "error", err)
		return
	}
	log.Info("the node has left the cluster")
}

// isEmpty reports whether the node has nothing that a list of the cluster would lack without it.
func isEmpty(m *session.Manager) bool {
	st := m.Status()
	return st.Sessions+st.Hibernated+m.Snapshots().Unstored() == 0 &&
		len(m.Volumes().Holders()) == 0 && m.Templates().Unstored() == 0
}

// moveSessions moves the sessions of a node that is about to end to the blob store, from where other
// nodes resume them. It takes at most limit. If no other node would resume them sooner than this node's
// next start, it does nothing and they stay on the disk.
func (ms *membership) moveSessions(m *session.Manager, limit time.Duration, log *slog.Logger) {
	if limit <= 0 || ms.others == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if !ms.others(ctx) {
		log.Info("no other node takes sessions: they stay on this node's disk")
		return
	}
	// Refuse makes the next heartbeat happen now. From then on, no session is placed here.
	m.Migration().Refuse()
	ms.leases.HeartbeatNow()
	if _, err := m.Migration().Drain(ctx); err != nil {
		log.Warn("the node was not drained", "error", err)
	}
}
