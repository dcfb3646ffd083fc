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

// Options are a Fleet's.
type Options struct {
	// Finder finds owners and nodes. Its Run is the caller's.
	Finder *cluster.Finder
	// Dial returns a dial function for the node of that name and address.
	Dial func(name, address string) (func(context.Context) (net.Conn, error), error)
	// Tracer may be nil.
	Tracer *trace.Tracer
	// Logger may be nil.
	Logger *slog.Logger
}

// Fleet is the nodes of a cluster, as a gateway uses them.
type Fleet struct {
	find   *cluster.Finder
	dial   func(name, address string) (func(context.Context) (net.Conn, error), error)
	log    *slog.Logger
	tracer *trace.Tracer

	mu     sync.Mutex // guards all below
	closed bool
	nodes  map[cluster.NodeID]*member
}

// member is a node and the one connection to it.
type member struct {
	id      cluster.NodeID
	address string
	client  *noderpc.Client
	used    time.Time
}

// New returns a Fleet. It connects when it has to.
func New(o Options) *Fleet {
	f := &Fleet{find: o.Finder, dial: o.Dial, log: o.Logger, tracer: o.Tracer, nodes: map[cluster.NodeID]*member{}}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	return f
}

// Close ends all connections.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closed = true
	all := f.nodes
	f.nodes = map[cluster.NodeID]*member{}
	f.mu.Unlock()
	for _, m := range all {
		_ = m.client.Close()
	}
	return nil
}

// member returns the connection to a node.
func (f *Fleet) member(id cluster.NodeID, address string) (*member, error) {
	const op = "noderouter.node"
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fault.New(fault.Unavailable, op, "the gateway is stopping")
	}
	now := time.Now()
	if m := f.nodes[id]; m != nil {
		if m.address == address {
			m.used = now
			return m, nil
		}
		// It was started again elsewhere: what hangs on the old one is over.
		go func() { _ = m.client.Close() }()
	}
	for other, m := range f.nodes {
		if now.Sub(m.used) > idleLife && m.client.Links() == 0 {
			delete(f.nodes, other)
			go func() { _ = m.client.Close() }()
		}
	}
	dial, err := f.dial(string(id), address)
	if err != nil {
		return nil, err
	}
	m := &member{id: id, address: address, used: now, client: noderpc.NewClient(dial, noderpc.ClientOptions{Logger: f.log.With("node", id)})}
	f.nodes[id] = m
	return m, nil
}

// of returns the node that has a session, having one adopt it if none has.
func (f *Fleet) of(ctx context.Context, who noderpc.Principal, id string) (*member, error) {
	const op = "noderouter.find"
	ctx, cancel := context.WithTimeout(ctx, routeLimit)
	defer cancel()
	if cluster.CheckSession(cluster.SessionID(id)) != nil {
		return nil, &fault.Error{Kind: fault.NotFound, Op: op, Field: "session", Message: "there is no such session"}
	}
	for try := 1; ; try++ {
		o, err := f.find.Find(ctx, cluster.SessionID(id))
		if err == nil && o.Live {
			return f.member(o.Node, o.Address)
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		m, aerr := f.adopt(ctx, who, id)
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
			return nil, f.missed(ctx, who, id, o.Node)
		}
		return nil, aerr
	}
}

// missed says why a session cannot be had whose node's lease has run out. When
// that node was started again and does not know it, nobody does.
func (f *Fleet) missed(ctx context.Context, who noderpc.Principal, id string, had cluster.NodeID) error {
	const op = "noderouter.find"
	nodes, err := f.find.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if n.ID != had {
			continue
		}
		m, err := f.member(n.ID, n.Address)
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
func (f *Fleet) adopt(ctx context.Context, who noderpc.Principal, id string) (*member, error) {
	m, err := f.place(ctx, "")
	if err != nil {
		return nil, err
	}
	err = m.client.Call(ctx, who, protocol.OpAdopt, protocol.SessionRef{Session: id}, nil)
	if f.unreached(m, err) {
		if m, err = f.place(ctx, ""); err == nil {
			err = m.client.Call(ctx, who, protocol.OpAdopt, protocol.SessionRef{Session: id}, nil)
		}
	}
	return m, err
}

// unreached reports whether a node was not even connected to, so that nothing has
// come of a request. It then gets nothing new for a while.
func (f *Fleet) unreached(m *member, err error) bool {
	var known *fault.Error
	if !errors.As(err, &known) || known.Op != "node.connect" {
		return false
	}
	f.find.Avoid(m.id)
	return true
}

// Adopt has a node take a session that was at work when its own gave it up, so
// that nobody has to ask for it. Of several gateways one has its way.
func (f *Fleet) Adopt(ctx context.Context, id cluster.SessionID) {
	who := noderpc.Principal{Tenant: noderpc.GatewayTenant, Subject: "gateway"}
	if _, err := f.adopt(ctx, who, string(id)); err != nil && !fault.Is(err, fault.Conflict) {
		f.log.Warn("a session that was at work was not adopted", "session", id, "error", err)
	}
}

// place returns the node for something new.
func (f *Fleet) place(ctx context.Context, language string) (*member, error) {
	n, err := f.find.Place(ctx, language)
	if err != nil {
		return nil, err
	}
	return f.member(n.ID, n.Address)
}

// all returns all nodes.
func (f *Fleet) all(ctx context.Context) ([]*member, error) {
	nodes, err := f.find.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var all []*member
	for _, n := range nodes {
		m, err := f.member(n.ID, n.Address)
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
