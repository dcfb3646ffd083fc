package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/local"
	"github.com/sandgate/sandgate/internal/cluster/redis"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// nodeName returns the name of this machine's node.
func nodeName(cfg *config.Config) (cluster.NodeID, error) {
	name := cfg.Cluster.Node
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fault.Wrap(fault.Host, "node.name", err)
		}
	}
	if err := cluster.CheckNode(cluster.NodeID(name)); err != nil {
		return "", fault.Invalid("node.name", "cluster.node",
			"%q is not a name of letters, digits, dots and dashes", name)
	}
	return cluster.NodeID(name), nil
}

// redisPassword reads the password. A gateway that serve has started gets it from serve.
func redisPassword(cfg *config.Config) (string, error) {
	if cfg.Cluster.Password == "" {
		return "", nil
	}
	b, err := os.ReadFile(cfg.Cluster.Password)
	if err != nil {
		return "", &fault.Error{
			Kind: fault.Host, Op: "cluster.redis",
			Message: "cannot read the password from " + cfg.Cluster.Password, Err: err,
		}
	}
	return strings.TrimSpace(string(b)), nil
}

func openRedis(cfg *config.Config, password string, log *slog.Logger) (*redis.Client, error) {
	return redis.Open(redis.Options{
		URL: cfg.Cluster.Redis, User: cfg.Cluster.User, Password: password,
		Cluster: cfg.Cluster.Name, Logger: log,
	})
}

// instance is a random id of this node's data. It differs from that of another node with the same
// name.
func instance(cfg *config.Config) (string, error) {
	path := filepath.Join(cfg.NodeDir(), "instance")
	b, err := os.ReadFile(path)
	if err == nil && len(b) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fault.Wrap(fault.Host, "node.instance", err)
	}
	var random [16]byte
	rand.Read(random[:]) // never fails
	id := hex.EncodeToString(random[:])
	if err := os.MkdirAll(cfg.NodeDir(), 0o700); err != nil {
		return "", fault.Wrap(fault.Host, "node.instance", err)
	}
	return id, fault.Wrap(fault.Host, "node.instance", os.WriteFile(path, []byte(id+"\n"), 0o600))
}

// OpenBlobs opens the blob store for a node, or for a program beside the node if the name is empty.
// The store is nil if the configuration has none.
func OpenBlobs(cfg *config.Config, node string) (blob.Store, error) {
	c := cfg.Cluster
	switch {
	case c.Blobs == "":
		return nil, nil
	case strings.HasPrefix(c.Blobs, "s3://"):
		store, err := blob.OpenS3(blob.S3Options{
			URL: c.Blobs, Endpoint: c.S3Endpoint,
			Region: c.S3Region, Credentials: c.S3Credentials, Insecure: c.S3Insecure,
		})
		if err != nil {
			return nil, err
		}
		return store, nil
	}
	store, err := blob.OpenDir(c.Blobs, node)
	if err != nil {
		return nil, err
	}
	return store, nil
}

// sealedKeyTable returns the store of the cluster's key table. The Redis server can
// neither read nor forge the table.
func sealedKeyTable(cfg *config.Config, server *redis.Client) (tenant.KeyTableStore, error) {
	secret, err := noderpc.ReadSecret(cfg.ClusterDir())
	if err != nil {
		return nil, err
	}
	return tenant.Sealed(server.KeyTableStore(), secret)
}

// openTenants opens the keys of this machine or of the cluster. It follows the keys of a cluster
// until stop is called.
func openTenants(
	cfg *config.Config, tables tenant.KeyTableStore, log *slog.Logger,
) (s *tenant.Store, stop func(), err error) {
	file := local.NewKeyTableStore(cfg.TenantsFile())
	if tables == nil {
		s, err = tenant.Open(file)
		return s, func() {}, err
	}
	s = tenant.New(tenant.Options{
		Tables: tables, Copy: file, Grace: time.Duration(cfg.Cluster.Grace), Logger: log,
	})
	// The first request should find the keys. If the directory does not answer, they load in the
	// background.
	if err := s.Reload(); err != nil {
		log.Warn("the keys of the cluster are not available yet", "error", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { s.Run(ctx) })
	return s, func() { cancel(); work.Wait() }, nil
}

// others reports whether a node other than self takes sessions: one with a heartbeat in the last
// third of a lease.
func others(ctx context.Context, dir cluster.Lookup, self cluster.NodeID,
	lease time.Duration,
) bool {
	all, err := dir.Nodes(ctx)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(all, func(n cluster.Node) bool {
		return n.ID != self &&
			!n.Draining && n.Age < lease/3
	})
}

// hasRoom reports whether a node other than self takes sessions and has a place for one.
func hasRoom(ctx context.Context, dir cluster.Lookup, self cluster.NodeID,
	lease time.Duration,
) bool {
	all, err := dir.Nodes(ctx)
	return err == nil && slices.ContainsFunc(all, func(n cluster.Node) bool {
		return n.ID != self && !n.Draining && n.Age < lease/3 && n.HasPlace(0)
	})
}
