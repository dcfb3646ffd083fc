// Package noderouter routes the requests of clients to the nodes of a cluster: to the
// node that owns a session, to a node chosen for something new, or to all nodes, whose
// answers it merges. The operation table in package protocol decides about the target.
package noderouter

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// Times and limits.
const (
	// routeLimit is how long it may take to find the node of a session, with its
	// adoption.
	routeLimit = 90 * time.Second
	// routeTries is how often an owner that changes meanwhile is looked up.
	routeTries = 5
	// idleLife is how long a connection to a node that is not used stays open.
	idleLife = 10 * time.Minute
)

// Options are the options of a Router.
type Options struct {
	// Resolver finds the owners of sessions. The caller runs it.
	Resolver *cluster.Resolver
	// Placer lists nodes and chooses nodes for new sessions.
	Placer *cluster.Placer
	// Names is the registry of the names of sessions; nil means that there is none.
	Names Names
	// Keys is the registry of idempotency keys; nil means that there is none.
	Keys cluster.KeyRegistry
	// VolumeNames has the names of volumes; nil means that there are none.
	VolumeNames VolumeNames
	// Dial returns a dial function for the node of that name and address.
	Dial func(name, address string) func(context.Context) (net.Conn, error)
	// Tracer may be nil.
	Tracer *trace.Tracer
	// Logger may be nil.
	Logger *slog.Logger
}

// Router routes requests to the nodes of a cluster.
type Router struct {
	resolver    *cluster.Resolver
	placer      *cluster.Placer
	names       Names
	keys        cluster.KeyRegistry
	volumeNames VolumeNames
	dial        func(name, address string) func(context.Context) (net.Conn, error)
	log         *slog.Logger
	tracer      *trace.Tracer
	// operations is the operation table by name.
	operations map[string]protocol.Operation
	uses       branchIndex

	mu     sync.Mutex // guards all below
	closed bool
	nodes  map[cluster.NodeID]*nodeConn
}

// nodeConn is a node and the one connection to it.
type nodeConn struct {
	id      cluster.NodeID
	address string
	client  *noderpc.Client
	used    time.Time
	lease   time.Duration // that of the cluster
	silence silence
}

// New returns a Router. It connects to a node with the first request.
func New(o Options) *Router {
	r := &Router{
		resolver: o.Resolver, placer: o.Placer, names: o.Names, keys: o.Keys, dial: o.Dial,
		volumeNames: o.VolumeNames,
		log:         o.Logger, tracer: o.Tracer,
		operations: map[string]protocol.Operation{}, nodes: map[cluster.NodeID]*nodeConn{},
	}
	for _, row := range protocol.Operations() {
		r.operations[row.Name] = row
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r
}

// Close closes all connections.
func (r *Router) Close() error {
	r.mu.Lock()
	r.closed = true
	all := r.nodes
	r.nodes = map[cluster.NodeID]*nodeConn{}
	r.mu.Unlock()
	for _, n := range all {
		_ = n.client.Close()
	}
	return nil
}

// conn returns the connection to a node.
func (r *Router) conn(id cluster.NodeID, address string) (*nodeConn, error) {
	const op = "noderouter.node"
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fault.New(fault.Unavailable, op, "the gateway is stopping")
	}
	now := time.Now()
	if n := r.nodes[id]; n != nil {
		if n.address == address {
			n.used = now
			return n, nil
		}
		// The node was started again at another address.
		go func() { _ = n.client.Close() }()
	}
	for other, n := range r.nodes {
		if now.Sub(n.used) > idleLife && n.client.Links() == 0 {
			delete(r.nodes, other)
			go func() { _ = n.client.Close() }()
		}
	}
	client := noderpc.NewClient(r.dial(string(id), address),
		noderpc.ClientOptions{Logger: r.log.With("node", id)})
	n := &nodeConn{
		id: id, address: address, used: now, client: client, lease: r.placer.Lease(),
	}
	r.nodes[id] = n
	return n, nil
}

// owner returns the node that owns a session. A node adopts a session that has none.
func (r *Router) owner(ctx context.Context, who noderpc.Principal, id string) (*nodeConn, error) {
	const op = "noderouter.find"
	ctx, cancel := context.WithTimeout(ctx, routeLimit)
	defer cancel()
	if cluster.CheckSession(cluster.SessionID(id)) != nil {
		return nil, cluster.NoSession(op)
	}
	for try := 1; ; try++ {
		o, err := r.resolver.Find(ctx, cluster.SessionID(id))
		if err == nil && o.Live {
			return r.conn(o.Node, o.Address)
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if err == nil && o.Ended != "" {
			return nil, fault.New(fault.SandboxLost, op, "the session has ended: %s", o.Ended)
		}
		n, aerr := r.adopt(ctx, who, id, o)
		// The store lacks a session whose record says that it is there.
		absent := err == nil && o.Node == "" && isAbsent(aerr)
		if err != nil && (fault.Is(aerr, fault.Conflict) || fault.Is(aerr, fault.NotFound)) {
			// Perhaps the record was lost alone, and the session's node has not claimed it again yet.
			ref := protocol.SessionRef{Session: id}
			if all, _ := r.owners(ctx, who, protocol.OpSessionGet, ref); len(all) > 0 {
				return all[0].of, nil
			}
		}
		switch {
		case aerr == nil:
			return n, nil
		case (absent || fault.Is(aerr, fault.Conflict)) && try < routeTries:
			// The node of another gateway was faster.
			timer := time.NewTimer(time.Duration(try) * 50 * time.Millisecond)
			select {
			case <-timer.C:
				r.resolver.Drop(cluster.SessionID(id))
				continue
			case <-ctx.Done():
				timer.Stop()
			}
			return nil, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		case absent, fault.Is(aerr, fault.Conflict):
			return nil, &fault.Error{
				Kind: fault.Unavailable, Op: op, RetryAfter: 1, Err: aerr,
				Message: "the session is moving to another node",
			}
		case fault.Is(aerr, fault.NotFound) && err == nil && o.Node != "":
			return nil, r.missed(ctx, who, id, o.Node)
		case isAbsent(aerr):
			return nil, cluster.NoSession(op)
		}
		return nil, aerr
	}
}

// isAbsent reports whether the blob store does not have a session, as its node reports. A session of
// another tenant is not absent.
func isAbsent(err error) bool {
	return fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field == protocol.FieldAbsent
}

// missed returns the reason why a session cannot be reached whose node's lease has expired. When that
// node was restarted and no node knows the session, it is lost. Other nodes are asked too, also those
// whose leases have just expired, because the data of Redis may be older than the session's last move
// and than the leases.
func (r *Router) missed(
	ctx context.Context, who noderpc.Principal, id string, had cluster.NodeID,
) error {
	const op = "noderouter.find"
	nodes, err := r.placer.Nodes(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(nodes, func(n cluster.Node) bool { return n.ID == had }) {
		return &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: 5,
			Message: "the session's node is gone, and no other node has a copy: the session comes back with the node",
		}
	}
	answers, err := r.ask(ctx, who, protocol.OpSessionGet, protocol.SessionRef{Session: id})
	if err != nil {
		return err
	}
	for _, a := range answers {
		if !fault.Is(a.err, fault.NotFound) {
			return &fault.Error{
				Kind: fault.Unavailable, Op: op, RetryAfter: 1,
				Message: "the node that has the session is starting",
			}
		}
	}
	return fault.New(
		fault.SandboxLost, op,
		"the node that had the session was killed, and the session is lost",
	)
}

// adopt makes a node take over a session without a node. o has what is known of the session.
func (r *Router) adopt(
	ctx context.Context, who noderpc.Principal, id string, o cluster.Owner,
) (*nodeConn, error) {
	need := cluster.Need{Memory: o.Memory, Image: o.Image}
	n, err := r.place(ctx, need)
	if err != nil {
		return nil, err
	}
	err = n.client.Call(ctx, who, protocol.OpAdopt, protocol.SessionRef{Session: id}, nil)
	if r.declined(n, err) {
		if n, err = r.place(ctx, need); err == nil {
			err = n.client.Call(ctx, who, protocol.OpAdopt, protocol.SessionRef{Session: id}, nil)
		}
	}
	return n, err
}

// declined reports whether a node has not begun a request: the request did not even reach it, or
// asked for a place on a node that is being drained, which the directory may not report yet. The
// node then gets nothing new for a while.
func (r *Router) declined(n *nodeConn, err error) bool {
	var known *fault.Error
	if !isUnreached(err) && (!errors.As(err, &known) || known.Kind != fault.Unavailable ||
		known.Field != nodes.Draining) {
		return false
	}
	r.placer.Avoid(n.id)
	return true
}

// Adopt makes a node take over a session that was running code when its node released it. If
// several gateways try, one succeeds.
func (r *Router) Adopt(ctx context.Context, id cluster.SessionID) {
	who := noderpc.Principal{Tenant: noderpc.GatewayTenant, Subject: "gateway"}
	o, _ := r.resolver.Find(ctx, id) // without it, any node may have the session
	if o.Live {
		return
	}
	if _, err := r.adopt(ctx, who, string(id), o); err != nil && !fault.Is(err, fault.Conflict) {
		r.log.Warn("a session that was running code was not adopted", "session", id, "error", err)
	}
}

// place chooses a node for a session.
func (r *Router) place(ctx context.Context, need cluster.Need) (*nodeConn, error) {
	n, err := r.placer.Place(ctx, need)
	if err != nil {
		return nil, err
	}
	return r.conn(n.ID, n.Address)
}

// any chooses a node for a request that each node can answer.
func (r *Router) any(ctx context.Context) (*nodeConn, error) {
	n, err := r.placer.Any(ctx)
	if err != nil {
		return nil, err
	}
	return r.conn(n.ID, n.Address)
}

// all returns all nodes.
func (r *Router) all(ctx context.Context) ([]*nodeConn, error) {
	nodes, err := r.placer.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var all []*nodeConn
	for _, listed := range nodes {
		n, err := r.conn(listed.ID, listed.Address)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return nil, cluster.NoneReached("noderouter.nodes")
	}
	return all, nil
}
