// Package noderouter makes one node of many: it finds the node that owns a session,
// chooses one for a new session, has a node adopt a session that none has, and
// asks all where an answer is about all.
package noderouter

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
)

// Times and limits.
const (
	// routeLimit is how long it may take to find the node of a session, its
	// adoption included.
	routeLimit = 90 * time.Second
	// routeTries is how often an owner is looked up who changes meanwhile.
	routeTries = 5
	// idleLife is how long a connection to a node outlives its place in the
	// directory.
	idleLife = 10 * time.Minute
)

// Options are a Router's.
type Options struct {
	// Resolver finds the owners of sessions. The caller runs it.
	Resolver *cluster.Resolver
	// Placer lists nodes and chooses nodes for new sessions.
	Placer *cluster.Placer
	// Dial returns a dial function for the node of that name and address.
	Dial func(name, address string) (func(context.Context) (net.Conn, error), error)
	// Tracer may be nil.
	Tracer *trace.Tracer
	// Logger may be nil.
	Logger *slog.Logger
}

// Router is the nodes of a cluster, as a gateway uses them.
type Router struct {
	resolver *cluster.Resolver
	placer   *cluster.Placer
	dial     func(name, address string) (func(context.Context) (net.Conn, error), error)
	log      *slog.Logger
	tracer   *trace.Tracer

	mu     sync.Mutex // guards all below
	closed bool
	nodes  map[cluster.NodeID]*nodeConn
}

// member is a node and the one connection to it.
type nodeConn struct {
	id      cluster.NodeID
	address string
	client  *noderpc.Client
	used    time.Time
}

// New returns a Router. It connects when it has to.
func New(o Options) *Router {
	r := &Router{resolver: o.Resolver, placer: o.Placer, dial: o.Dial, log: o.Logger, tracer: o.Tracer, nodes: map[cluster.NodeID]*nodeConn{}}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r
}

// Close ends all connections.
func (r *Router) Close() error {
	r.mu.Lock()
	r.closed = true
	all := r.nodes
	r.nodes = map[cluster.NodeID]*nodeConn{}
	r.mu.Unlock()
	for _, m := range all {
		_ = m.client.Close()
	}
	return nil
}

// member returns the connection to a node.
func (r *Router) conn(id cluster.NodeID, address string) (*nodeConn, error) {
	const op = "noderouter.node"
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fault.New(fault.Unavailable, op, "the gateway is stopping")
	}
	now := time.Now()
	if m := r.nodes[id]; m != nil {
		if m.address == address {
			m.used = now
			return m, nil
		}
		// It was started again elsewhere: what hangs on the old one is over.
		go func() { _ = m.client.Close() }()
	}
	for other, m := range r.nodes {
		if now.Sub(m.used) > idleLife && m.client.Links() == 0 {
			delete(r.nodes, other)
			go func() { _ = m.client.Close() }()
		}
	}
	dial, err := r.dial(string(id), address)
	if err != nil {
		return nil, err
	}
	m := &nodeConn{id: id, address: address, used: now, client: noderpc.NewClient(dial, noderpc.ClientOptions{Logger: r.log.With("node", id)})}
	r.nodes[id] = m
	return m, nil
}

// of returns the node that has a session, having one adopt it if none has.
func (r *Router) of(ctx context.Context, who noderpc.Principal, id string) (*nodeConn, error) {
	const op = "noderouter.find"
	ctx, cancel := context.WithTimeout(ctx, routeLimit)
	defer cancel()
	if cluster.CheckSession(cluster.SessionID(id)) != nil {
		return nil, &fault.Error{Kind: fault.NotFound, Op: op, Field: "session", Message: "there is no such session"}
	}
	for try := 1; ; try++ {
		o, err := r.resolver.Find(ctx, cluster.SessionID(id))
		if err == nil && o.Live {
			return r.conn(o.Node, o.Address)
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		m, aerr := r.adopt(ctx, who, id)
		switch {
		case aerr == nil:
			return m, nil
		case fault.Is(aerr, fault.Conflict) && try < routeTries:
			// Another gateway's node was faster.
			timer := time.NewTimer(time.Duration(try) * 50 * time.Millisecond)
			select {
			case <-timer.C:
				continue
			case <-ctx.Done():
				timer.Stop()
			}
			return nil, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		case fault.Is(aerr, fault.NotFound) && err == nil && o.Node != "":
			return nil, r.missed(ctx, who, id, o.Node)
		}
		return nil, aerr
	}
}

// missed says why a session cannot be had whose node's lease has run out. When
// that node was started again and does not know it, nobody does.
func (r *Router) missed(ctx context.Context, who noderpc.Principal, id string, had cluster.NodeID) error {
	const op = "noderouter.find"
	nodes, err := r.placer.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.ID != had {
			continue
		}
		m, err := r.conn(n.ID, n.Address)
		if err != nil {
			return err
		}
		err = m.client.Call(ctx, who, protocol.OpSessionGet, protocol.SessionRef{Session: id}, nil)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.SandboxLost, op, "the node that had the session was killed, and the session with it")
		}
		return &fault.Error{Kind: fault.Unavailable, Op: op, RetryAfter: 1, Message: "the node that has the session is starting"}
	}
	return &fault.Error{Kind: fault.Unavailable, Op: op, RetryAfter: 5, Message: "the session's node is gone, and no other has a copy: it comes back with it"}
}

// adopt has a node take a session that none has.
func (r *Router) adopt(ctx context.Context, who noderpc.Principal, id string) (*nodeConn, error) {
	m, err := r.place(ctx, "")
	if err != nil {
		return nil, err
	}
	err = m.client.Call(ctx, who, protocol.OpAdopt, protocol.SessionRef{Session: id}, nil)
	if r.unreached(m, err) {
		if m, err = r.place(ctx, ""); err == nil {
			err = m.client.Call(ctx, who, protocol.OpAdopt, protocol.SessionRef{Session: id}, nil)
		}
	}
	return m, err
}

// unreached reports whether a node was not even connected to, so that nothing has
// come of a request. It then gets nothing new for a while.
func (r *Router) unreached(m *nodeConn, err error) bool {
	var known *fault.Error
	if !errors.As(err, &known) || known.Op != "node.connect" {
		return false
	}
	r.placer.Avoid(m.id)
	return true
}

// Adopt has a node take a session that was at work when its own gave it up, so
// that nobody has to ask for it. Of several gateways one has its way.
func (r *Router) Adopt(ctx context.Context, id cluster.SessionID) {
	who := noderpc.Principal{Tenant: noderpc.GatewayTenant, Subject: "gateway"}
	if _, err := r.adopt(ctx, who, string(id)); err != nil && !fault.Is(err, fault.Conflict) {
		r.log.Warn("a session that was at work was not adopted", "session", id, "error", err)
	}
}

// place returns the node for something new.
func (r *Router) place(ctx context.Context, language string) (*nodeConn, error) {
	n, err := r.placer.Place(ctx, language)
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
	for _, n := range nodes {
		m, err := r.conn(n.ID, n.Address)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, &fault.Error{Kind: fault.Unavailable, Op: "noderouter.nodes", Message: "no node of the cluster can be reached", RetryAfter: 2}
	}
	return all, nil
}

// target is what a request's parameters say of where it belongs.
type target struct {
	Session  string `json:"session"`
	Language string `json:"language"`
	Snapshot string `json:"snapshot"`
	Template string `json:"template"`
	Name     string `json:"name"`
}

func targetOf(params json.RawMessage) target {
	var t target
	_ = json.Unmarshal(params, &t) // the node says what is wrong with it
	return t
}
