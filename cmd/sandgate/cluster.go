package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway"
	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/noderouter"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/internal/trace"
)

func clusterCommand() command {
	return command{
		name: "cluster", args: "init FOLDER | join FOLDER NAME | delegate FOLDER", short: "Make the certificates with which a cluster's machines know each other",
		long: `
init makes a certificate authority in FOLDER. Keep it: whoever has ca.key can
make nodes and gateways. join makes, with the authority in FOLDER, what the
machine NAME needs as a node and as a gateway, in --out: copy that folder to the
machine's cluster.dir. Certificates are good for a year; join makes new ones.

delegate makes in --out an authority that can make nodes and nothing else, for
machines that join by themselves, as those of Kubernetes do: join takes its
folder in the place of FOLDER. Its machines cannot pass for gateways.`,
		run: func(_ context.Context, a *app, set *flag.FlagSet, args []string) error {
			out := set.String("out", "", "`Folder` that join and delegate write to. Default NAME, or nodes, below FOLDER.")
			verb, err := verbOf(set, args, map[string][2]int{"init": {1, 1}, "join": {2, 2}, "delegate": {1, 1}})
			if err != nil {
				return err
			}
			switch verb {
			case "join":
				return joinCluster(a, set.Arg(0), set.Arg(1), *out)
			case "delegate":
				return delegateNodes(a, set.Arg(0), *out)
			}
			if err := noderpc.MakeCA(set.Arg(0)); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "made a certificate authority in %s\n", set.Arg(0))
			return nil
		},
	}
}

func joinCluster(a *app, ca, name, out string) error {
	if err := cluster.CheckNode(cluster.NodeID(name)); err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(ca, name)
	}
	roles, err := noderpc.Roles(ca)
	if err != nil {
		return err
	}
	for _, role := range roles {
		if err := noderpc.Issue(ca, out, role, name); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.out, "made the certificates of %s in %s\n", name, out)
	return nil
}

func delegateNodes(a *app, ca, out string) error {
	if out == "" {
		out = filepath.Join(ca, "nodes")
	}
	if err := noderpc.Delegate(ca, out); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "made an authority for nodes alone in %s\n", out)
	return nil
}

// nodeName is the name of this machine's node.
func nodeName(cfg *config.Config) (cluster.NodeID, error) {
	name := cfg.Cluster.Node
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return "", fault.Wrap(fault.Host, "node.name", err)
		}
	}
	if err := cluster.CheckNode(cluster.NodeID(name)); err != nil {
		return "", fault.Invalid("node.name", "cluster.node", "%q is no name of letters, digits, dots and dashes", name)
	}
	return cluster.NodeID(name), nil
}

// redisPassword is read by the one who may: a gateway is told.
func redisPassword(cfg *config.Config) (string, error) {
	if cfg.Cluster.Password == "" {
		return "", nil
	}
	b, err := os.ReadFile(cfg.Cluster.Password)
	if err != nil {
		return "", &fault.Error{Kind: fault.Host, Op: "cluster.redis", Message: "cannot read the password from " + cfg.Cluster.Password, Err: err}
	}
	return strings.TrimSpace(string(b)), nil
}

func openRedis(cfg *config.Config, password string, log *slog.Logger) (*cluster.Redis, error) {
	return cluster.NewRedis(cluster.RedisOptions{URL: cfg.Cluster.Redis, User: cfg.Cluster.User, Password: password, Cluster: cfg.Cluster.Name, Logger: log})
}

// instance tells this node's data from another's that was given its name.
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

// membership is a node's place in the directory.
type membership struct {
	name   cluster.NodeID
	keeper *cluster.Keeper
	blobs  session.Blobs
	vault  tenant.Vault   // of the cluster's keys; nil without a cluster
	ledger session.Ledger // of what tenants hold; nil without a cluster
	close  func() error
	// others reports whether another node takes sessions; nil where there is
	// no other.
	others func(context.Context) bool

	mu      sync.Mutex // guards manager
	manager *session.Manager
}

// openBlobs opens the blob store; nil where there is none.
func openBlobs(cfg *config.Config) (blob.Store, error) {
	c := cfg.Cluster
	switch {
	case c.Blobs == "":
		return nil, nil
	case strings.HasPrefix(c.Blobs, "s3://"):
		store, err := blob.OpenS3(blob.S3Options{URL: c.Blobs, Endpoint: c.S3Endpoint, Region: c.S3Region, Credentials: c.S3Credentials, Insecure: c.S3Insecure})
		if err != nil {
			return nil, err
		}
		return store, nil
	}
	store, err := blob.OpenDir(c.Blobs)
	if err != nil {
		return nil, err
	}
	return store, nil
}

// joinDirectory opens the directory, the cluster's or that of this machine.
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
	store, err := openBlobs(cfg)
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
	var dir cluster.Registry
	if cfg.Cluster.Redis == "" {
		local, err := cluster.OpenEmbedded(filepath.Join(cfg.NodeDir(), "directory"))
		if err != nil {
			return nil, err
		}
		dir, ms.close = local, local.Close
	} else {
		if host, _, err := net.SplitHostPort(address); err != nil || host == "" || net.ParseIP(host).IsUnspecified() {
			return nil, fault.Invalid("node.start", "cluster.address", "%q is no address that gateways could reach this node at", address)
		}
		password, err := redisPassword(cfg)
		if err != nil {
			return nil, err
		}
		remote, err := openRedis(cfg, password, log)
		if err != nil {
			return nil, err
		}
		dir, ms.close = remote, remote.Close
		ms.others = func(ctx context.Context) bool { return others(ctx, remote, name, time.Duration(cfg.Cluster.Lease)) }
		if ms.vault, err = sealedVault(cfg, remote); err != nil {
			return nil, errors.Join(err, remote.Close())
		}
	}
	ms.keeper, err = cluster.NewKeeper(dir, cluster.KeeperOptions{
		Node: name, Instance: id, Lease: time.Duration(cfg.Cluster.Lease), Grace: time.Duration(cfg.Cluster.TakeOver), Logger: log,
		Info: func() cluster.Info {
			var info cluster.Info
			if m := ms.sessions(); m != nil {
				info = m.Info()
			}
			info.Address = address
			return info
		},
		Lost: func(id cluster.SessionID) {
			if m := ms.sessions(); m != nil {
				m.Moved(id)
			}
		},
	})
	if err != nil {
		return nil, errors.Join(err, ms.close())
	}
	if cfg.Cluster.Redis != "" {
		ms.ledger = ms.keeper
	}
	return ms, nil
}

// sealedVault is where the cluster's keys are. The Redis server can neither read
// nor make what is in it.
func sealedVault(cfg *config.Config, dir *cluster.Redis) (tenant.Vault, error) {
	secret, err := noderpc.ReadSecret(cfg.ClusterDir())
	if err != nil {
		return nil, err
	}
	return tenant.Sealed(dir.Vault(), secret)
}

// openTenants opens the keys of this machine, or those of the cluster, and
// follows these until stop is called.
func openTenants(cfg *config.Config, vault tenant.Vault, log *slog.Logger) (s *tenant.Store, stop func(), err error) {
	if vault == nil {
		s, err = tenant.Open(cfg.TenantsFile())
		return s, func() {}, err
	}
	s = tenant.New(tenant.Options{Vault: vault, Copy: cfg.TenantsFile(), Grace: time.Duration(cfg.Cluster.Grace), Logger: log})
	// So that the first request finds them. Without the directory they are
	// waited for in the background.
	if err := s.Reload(); err != nil {
		log.Warn("the keys of the cluster cannot be had yet", "error", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { s.Run(ctx) })
	return s, func() { cancel(); work.Wait() }, nil
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
	// So that the first session does not come before the node's registration,
	// if there is a directory to register with.
	first, end := context.WithTimeout(ctx, 3*time.Second)
	ms.keeper.Beat(first)
	end()
	var done sync.WaitGroup
	done.Go(func() { ms.keeper.Run(ctx) })
	return func() { cancel(); done.Wait() }
}

// drainLimit is how long a node that is stopped moves its sessions.
func drainLimit(cfg *config.Config) time.Duration {
	if cfg.Cluster.Redis == "" || cfg.Cluster.Blobs == "" {
		return 0
	}
	return time.Duration(cfg.Cluster.Drain)
}

// others reports whether a node other than self takes sessions: one that has
// been heard of in the last third of a lease.
func others(ctx context.Context, dir *cluster.Redis, self cluster.NodeID, lease time.Duration) bool {
	all, err := dir.Nodes(ctx)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(all, func(n cluster.Node) bool { return n.ID != self && !n.Draining && n.Age < lease/3 })
}

// leave moves the sessions of a node that is about to end to the blob store, so
// that others wake them. It takes at most limit, and does nothing where nobody
// would wake them sooner than this node's next start: they stay on its disk.
func (ms *membership) leave(m *session.Manager, limit time.Duration, log *slog.Logger) {
	if limit <= 0 || ms.others == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if !ms.others(ctx) {
		log.Info("no other node takes sessions: they stay on this one's disk")
		return
	}
	// With the next heartbeat, which is now, nobody is sent here any more.
	m.Refuse()
	ms.keeper.Tell()
	if _, err := m.Drain(ctx); err != nil {
		log.Warn("the node was not drained", "error", err)
	}
}

// listenCluster opens the node to the gateways of the cluster; nil when it is
// not to be.
func listenCluster(cfg *config.Config, log *slog.Logger) (net.Listener, error) {
	if cfg.Cluster.Listen == "" {
		return nil, nil
	}
	if cfg.Cluster.Redis == "" {
		return nil, fault.Invalid("node.listen", "cluster.listen", "other machines' gateways find the node through cluster.redis, which is empty")
	}
	id, err := noderpc.ReadIdentity(cfg.ClusterDir(), noderpc.RoleNode)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", cfg.Cluster.Listen)
	if err != nil {
		return nil, &fault.Error{Kind: fault.Host, Op: "node.listen", Message: "cannot listen on " + cfg.Cluster.Listen, Err: err}
	}
	s, err := id.Secure(ln, log)
	if err != nil {
		_ = ln.Close()
		return nil, err
	}
	return s, nil
}

// clusterAccess is what a gateway needs to be one of a cluster.
type clusterAccess struct {
	Password string           `json:"password,omitempty"`
	Identity noderpc.Identity `json:"identity"`
	// Local is the name of the node whose socket this gateway reaches.
	Local string `json:"local,omitempty"`
}

// readClusterAccess returns nil where there is no cluster.
func readClusterAccess(cfg *config.Config, local bool) (*clusterAccess, error) {
	if cfg.Cluster.Redis == "" {
		return nil, nil
	}
	var c clusterAccess
	var err error
	if c.Password, err = redisPassword(cfg); err != nil {
		return nil, err
	}
	if c.Identity, err = noderpc.ReadIdentity(cfg.ClusterDir(), noderpc.RoleGateway); err != nil {
		return nil, err
	}
	if local {
		name, err := nodeName(cfg)
		if err != nil {
			return nil, err
		}
		c.Local = string(name)
	}
	return &c, nil
}

// fleetNode is a fleet as the gateway sees it.
type fleetNode struct{ *noderouter.Fleet }

func (f fleetNode) Open(ctx context.Context, who noderpc.Principal) (gateway.Link, error) {
	l, err := f.Fleet.Open(ctx, who)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// shared is what the gateways of a cluster have together; nothing without one.
type shared struct {
	shelf gateway.Shelf
	book  gateway.ClusterBook
	till  gateway.Till
}

// reachNodes returns the node, or all nodes of the cluster as one, what the
// gateways share, and what ends the connections.
func reachNodes(cfg *config.Config, access *clusterAccess, tracer *trace.Tracer, log *slog.Logger) (gateway.Node, shared, func(), error) {
	if access == nil {
		remote := noderpc.NewClient(noderpc.Unix(cfg.NodeSocket()), noderpc.ClientOptions{Logger: log})
		return gateway.Remote(remote), shared{}, func() { _ = remote.Close() }, nil
	}
	dir, err := openRedis(cfg, access.Password, log)
	if err != nil {
		return nil, shared{}, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	var all *noderouter.Fleet
	// Sessions that were at work and have no node: a drain gives up many in a
	// row. One for which there is no room is woken by the first work.
	waiting := make(chan cluster.SessionID, 1024)
	notice := func(e cluster.Event) {
		if e.Session == "" || e.Node != "" || !e.Works {
			return
		}
		select {
		case waiting <- e.Session:
		default:
		}
	}
	for range 4 {
		work.Go(func() {
			for {
				select {
				case id := <-waiting:
					adopt, cancel := context.WithTimeout(ctx, 2*time.Minute)
					all.Adopt(adopt, id)
					cancel()
				case <-ctx.Done():
					return
				}
			}
		})
	}
	finder := cluster.NewFinder(dir, time.Duration(cfg.Cluster.Lease), notice)
	all = noderouter.New(noderouter.Options{Finder: finder, Tracer: tracer, Logger: log, Dial: func(name, address string) (func(context.Context) (net.Conn, error), error) {
		if name == access.Local {
			return noderpc.Unix(cfg.NodeSocket()), nil
		}
		return access.Identity.Dial(name, address)
	}})
	work.Go(func() { finder.Run(ctx) })
	return fleetNode{all}, shared{shelf: dir.Shelf(), book: dir.Book(), till: dir.Till()}, func() {
		cancel()
		work.Wait()
		_ = all.Close()
		_ = dir.Close()
	}, nil
}
