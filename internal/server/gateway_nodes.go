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

// clusterAccess holds the credentials of a gateway in a cluster.
type clusterAccess struct {
	Password string           `json:"password,omitempty"`
	Identity noderpc.Identity `json:"identity"`
	// Local is the name of the node whose socket this gateway reaches.
	Local string `json:"local,omitempty"`
}

// readClusterAccess reads the credentials; nil without a cluster.
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

// credentials returns the gateway's identity, which can be renewed; nil without a cluster.
func (c *clusterAccess) credentials() (*noderpc.Credentials, error) {
	if c == nil {
		return nil, nil
	}
	return noderpc.NewCredentials(c.Identity)
}

// routedNode presents the router to the gateway as one node.
type routedNode struct{ *noderouter.Router }

func (n routedNode) Open(ctx context.Context, who noderpc.Principal) (gateway.Link, error) {
	l, err := n.Router.Open(ctx, who)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// shared holds the stores that the gateways of a cluster share; empty without a cluster.
type shared struct {
	tickets   auth.OneTimeStore
	runTokens auth.SharedRunTokenStore
	rates     auth.RateStore
	relay     gateway.Relay
}

// reachNodes returns the node, or all nodes of the cluster as one, the shared stores, and a
// function that closes the connections.
func reachNodes(cfg *config.Config, access *clusterAccess, credentials *noderpc.Credentials,
	tracer *trace.Tracer, log *slog.Logger,
) (gateway.Node, shared, func(), error) {
	if access == nil {
		remote := noderpc.NewClient(noderpc.Unix(cfg.NodeSocket()),
			noderpc.ClientOptions{Logger: log})
		return gateway.Remote(remote), shared{}, func() { _ = remote.Close() }, nil
	}
	server, err := openRedis(cfg, access.Password, log)
	if err != nil {
		return nil, shared{}, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	var all *noderouter.Router
	// Busy sessions that lost their node wait here: a drain releases many at once. If a session
	// does not fit, its next request resumes it.
	waiting := make(chan cluster.SessionID, 1024)
	notice := func(e cluster.Event) {
		all.Moved(e)
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
	dial := func(name, address string) func(context.Context) (net.Conn, error) {
		if name == access.Local {
			return noderpc.Unix(cfg.NodeSocket())
		}
		return credentials.Dial(name, address)
	}
	placer := cluster.NewPlacer(server.Directory(), cluster.PlacerOptions{
		Lease: time.Duration(cfg.Cluster.Lease), Zone: cfg.Cluster.Zone,
		Policy: cluster.Policy(cfg.Cluster.Placement),
	})
	resolver := cluster.NewResolver(server.Directory(), placer, notice)
	all = noderouter.New(noderouter.Options{
		Resolver: resolver, Placer: placer, Names: server.Directory(), Keys: server.Directory(),
		VolumeNames: server, Dial: dial, Tracer: tracer, Logger: log,
	})
	work.Go(func() { resolver.Run(ctx) })
	stores := shared{
		tickets: server.OneTimeStore(), runTokens: server.RunTokenStore(),
		rates: server.RateStore(), relay: server.Relay(),
	}
	return routedNode{all}, stores, func() {
		cancel()
		work.Wait()
		_ = all.Close()
		_ = server.Close()
	}, nil
}
