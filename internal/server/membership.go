package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/session/migrate"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/webhook"
	"github.com/sandgate/sandgate/protocol/fault"
)

// membership is a node's place in the directory.
type membership struct {
	name   cluster.NodeID
	leases *cluster.LeaseHolder
	blobs  migrate.Blobs
	tables tenant.KeyTableStore // the key table; nil without a cluster
	ledger admission.Ledger     // the usage of tenants; nil without a cluster
	feeds  event.Store          // the feeds of events; nil without a cluster
	// webhooks has the webhooks of the cluster, encrypted with its secret; nil without a cluster.
	webhooks webhook.Store
	secret   []byte
	close    func() error
	// others reports whether another node takes sessions; nil without a cluster.
	others func(context.Context) bool

	mu      sync.Mutex // guards manager
	manager *session.Manager
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
	ms := &membership{name: name}
	id, err := instance(cfg)
	if err != nil {
		return nil, err
	}
	store, err := OpenBlobs(cfg, string(name))
	if err != nil {
		return nil, err
	}
	if store != nil {
		ms.blobs = store
	}
	address := cfg.Cluster.Address
	if address == "" {
		address = cfg.Cluster.Listen
	}
	var dir namedRegistry
	if cfg.Cluster.Redis == "" {
		file, err := local.OpenDirectory(filepath.Join(cfg.NodeDir(), "directory"))
		if err != nil {
			return nil, err
		}
		dir, ms.close = file, file.Close
	} else {
		if host, _, err := net.SplitHostPort(address); err != nil || host == "" ||
			net.ParseIP(host).IsUnspecified() {
			return nil, fault.Invalid("node.start", "cluster.address",
				"%q is not an address at which gateways could reach this node", address)
		}
		password, err := redisPassword(cfg)
		if err != nil {
			return nil, err
		}
		remote, err := openRedis(cfg, password, log)
		if err != nil {
			return nil, err
		}
		if err := checkRedis(remote, log); err != nil {
			return nil, errors.Join(err, remote.Close())
		}
		dir, ms.close, ms.feeds = remote.Directory(), remote.Close, remote.FeedStore()
		ms.others = func(ctx context.Context) bool {
			return others(ctx, remote.Directory(), name, time.Duration(cfg.Cluster.Lease))
		}
		ms.webhooks = remote.WebhookStore()
		if ms.secret, err = noderpc.ReadSecret(cfg.ClusterDir()); err != nil {
			return nil, errors.Join(err, remote.Close())
		}
		if ms.tables, err = sealedKeyTable(cfg, remote); err != nil {
			return nil, errors.Join(err, remote.Close())
		}
	}
	ms.leases, err = ms.newLeases(cfg, id, address, dir, log)
	if err != nil {
		return nil, errors.Join(err, ms.close())
	}
	if cfg.Cluster.Redis != "" {
		ms.ledger = ms.leases
	}
	return ms, nil
}

// newLeases returns the holder of the node's leases.
func (ms *membership) newLeases(cfg *config.Config, id, address string, dir namedRegistry,
	log *slog.Logger,
) (*cluster.LeaseHolder, error) {
	return cluster.NewLeaseHolder(dir, cluster.LeaseHolderOptions{
		Node: ms.name, Instance: id, Lease: time.Duration(cfg.Cluster.Lease),
		Grace: time.Duration(cfg.Cluster.TakeOver), Logger: log,
		Info: func() cluster.NodeInfo {
			var info cluster.NodeInfo
			if m := ms.sessions(); m != nil {
				info = m.Info()
			}
			info.Address = address
			return info
		},
		Names: dir,
		Reclaimed: func(id cluster.SessionID) {
			if m := ms.sessions(); m != nil {
				m.Names().Doubt(string(id))
			}
		},
		Lost: func(id cluster.SessionID) {
			if m := ms.sessions(); m != nil {
				m.Moved(id)
			}
		},
	})
}

func (ms *membership) sessions() *session.Manager {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.manager
}

// run keeps the node in the directory until stop is called.
func (ms *membership) run(m *session.Manager) (stop func()) {
	ms.mu.Lock()
	ms.manager = m
	ms.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	// The node should be registered before its first session, if the directory answers.
	first, end := context.WithTimeout(ctx, 3*time.Second)
	ms.leases.Heartbeat(first)
	end()
	var done sync.WaitGroup
	done.Go(func() { ms.leases.Run(ctx) })
	return func() { cancel(); done.Wait() }
}

// drainLimit is the time in which a stopping node moves its sessions.
func drainLimit(cfg *config.Config) time.Duration {
	if cfg.Cluster.Redis == "" || cfg.Cluster.Blobs == "" {
		return 0
	}
	return time.Duration(cfg.Cluster.Drain)
}

// leave moves the sessions of a node that is about to end to the blob store, from where other nodes
// resume them. It takes at most limit. If no other node would resume them sooner than this node's
// next start, it does nothing and they stay on the disk.
func (ms *membership) leave(m *session.Manager, limit time.Duration, log *slog.Logger) {
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
