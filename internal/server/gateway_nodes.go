package server

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/sandgate/sandgate/gateway"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/cluster/noderouter"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
)

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

// routedNode is the router as the gateway sees it: one node.
type routedNode struct{ *noderouter.Router }

func (n routedNode) Open(ctx context.Context, who noderpc.Principal) (gateway.Link, error) {
	l, err := n.Router.Open(ctx, who)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// shared is what the gateways of a cluster have together; nothing without one.
type shared struct {
	tickets   auth.OneTimeStore
	runTokens auth.SharedRunTokenStore
	rates     auth.RateStore
}

// reachNodes returns the node, or all nodes of the cluster as one, what the
// gateways share, and what ends the connections.
func reachNodes(cfg *config.Config, access *clusterAccess, tracer *trace.Tracer, log *slog.Logger) (gateway.Node, shared, func(), error) {
	if access == nil {
		remote := noderpc.NewClient(noderpc.Unix(cfg.NodeSocket()), noderpc.ClientOptions{Logger: log})
		return gateway.Remote(remote), shared{}, func() { _ = remote.Close() }, nil
	}
	server, err := openRedis(cfg, access.Password, log)
	if err != nil {
		return nil, shared{}, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	var all *noderouter.Router
	// Sessions that were at work and have no node: a drain gives up many in a
	// row. One for which there is no room is woken by the first work.
	waiting := make(chan cluster.SessionID, 1024)
	notice := func(e cluster.Event) {
		if e.Session == "" || e.Node != "" || !e.Busy {
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
	dial := func(name, address string) (func(context.Context) (net.Conn, error), error) {
		if name == access.Local {
			return noderpc.Unix(cfg.NodeSocket()), nil
		}
		return access.Identity.Dial(name, address)
	}
	placer := cluster.NewPlacer(server.Directory(), time.Duration(cfg.Cluster.Lease))
	resolver := cluster.NewResolver(server.Directory(), placer, notice)
	all = noderouter.New(noderouter.Options{
		Resolver: resolver, Placer: placer, Dial: dial, Tracer: tracer, Logger: log,
	})
	work.Go(func() { resolver.Run(ctx) })
	stores := shared{tickets: server.OneTimeStore(), runTokens: server.RunTokenStore(), rates: server.RateStore()}
	return routedNode{all}, stores, func() {
		cancel()
		work.Wait()
		_ = all.Close()
		_ = server.Close()
	}, nil
}
