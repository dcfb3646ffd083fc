package noderouter

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// Limits of one link.
const (
	// maxAsked is how many requests about the whole cluster are under way.
	maxAsked = 64
	// maxNumbers is how many of a client's numbers are remembered.
	maxNumbers = 4 * protocol.MaxAttached
)

// Link is a client's conversation with the nodes of all sessions that it uses.
// What it says of a session goes to that session's node, over a link of its own
// there; what the nodes say comes in the order in which it comes. Each node has
// a goroutine that waits for its next frame to be taken, so that a client who
// does not read holds all of them back.
type Link struct {
	router *Router
	who    noderpc.Principal
	ctx    context.Context
	cancel context.CancelFunc
	frames chan packet
	taken  chan struct{} // of the packet that Next returned last; its own
	asked  chan struct{}
	work   sync.WaitGroup

	send sync.Mutex // held over Send: frames keep their order

	mu      sync.Mutex // guards all below
	err     error
	nodes   map[cluster.NodeID]*branch
	numbers map[uint32]*branch
	last    *branch // that of the last request, to which Data belongs
}

// branch is the link to one node.
type branch struct {
	of       *nodeConn
	link     *noderpc.Link
	sessions map[string]struct{} // guarded by Link.mu
}

// packet is a frame whose body is good until taken is told.
type packet struct {
	frame stream.Frame
	taken chan struct{}
}

// Open returns a link that speaks for who. Nodes are connected as they are
// spoken to.
func (r *Router) Open(_ context.Context, who noderpc.Principal) (*Link, error) {
	l := &Link{
		router: r, who: who, frames: make(chan packet), asked: make(chan struct{}, maxAsked),
		nodes: map[cluster.NodeID]*branch{}, numbers: map[uint32]*branch{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Next returns the next frame, whose body is valid until the next call.
func (l *Link) Next() (stream.Frame, error) {
	if l.taken != nil {
		l.taken <- struct{}{} // it has room
		l.taken = nil
	}
	select {
	case p := <-l.frames:
		l.taken = p.taken
		return p.frame, nil
	case <-l.ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return stream.Frame{}, l.err
}

// Send sends the frames to where they belong. It waits while a session is
// found, or adopted.
func (l *Link) Send(frames ...stream.Frame) error {
	l.send.Lock()
	defer l.send.Unlock()
	for _, f := range frames {
		if err := l.one(f); err != nil {
			return err
		}
	}
	return nil
}

func (l *Link) one(f stream.Frame) error {
	l.mu.Lock()
	err := l.err
	var b *branch
	switch f.Type {
	case stream.Control:
	case stream.Data:
		b = l.last
	default:
		b = l.numbers[f.Channel]
	}
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case f.Type == stream.Control:
		return l.request(f)
	case b != nil:
		return b.link.Send(f)
	case f.Type == stream.Ack:
		return nil // of a channel that was detached
	}
	l.event(f.Channel, unattached("link.input", f.Channel))
	return nil
}

func unattached(op string, ch uint32) error {
	return fault.Invalid(op, "ch", "nothing is attached as %d", ch)
}

// request sends a request to the node that it is for.
func (l *Link) request(f stream.Frame) error {
	var r protocol.Request
	if err := json.Unmarshal(f.Body, &r); err != nil {
		l.reply(r.ID, nil, &fault.Error{Kind: fault.Malformed, Op: "noderouter.request", Message: "a control message is not the JSON of a request", Err: err})
		return nil
	}
	t := targetOf(r.Params)
	switch r.Op {
	case protocol.OpSessionCreate, protocol.OpSessionList, protocol.OpStatus, protocol.OpMetrics, protocol.OpTenantList,
		protocol.OpSnapshotList, protocol.OpSnapshotGet, protocol.OpSnapshotDel,
		protocol.OpTemplateList, protocol.OpTemplateGet, protocol.OpTemplateDelete:
		l.ask(r)
		return nil
	}
	var b *branch
	var err error
	// These choose a number; all others name one that was chosen.
	chooses := r.Op == protocol.OpAttach || r.Op == protocol.OpFileWatch || r.Op == protocol.OpSessionWatch
	if r.Ch != 0 && !chooses {
		l.mu.Lock()
		if b = l.numbers[r.Ch]; r.Op == protocol.OpDetach {
			delete(l.numbers, r.Ch)
		}
		l.mu.Unlock()
		if b == nil {
			err = unattached("link.request", r.Ch)
		}
	} else {
		ctx, span := l.router.tracer.Join(l.ctx, "relay", r.Trace)
		span.Set(trace.Operation, r.Op)
		b, err = l.branch(ctx, r.Op, t)
		if b != nil {
			span.Set(trace.Node, string(b.of.id))
		}
		span.End(err)
	}
	if err == nil && chooses && r.Ch != 0 {
		l.mu.Lock()
		if _, there := l.numbers[r.Ch]; !there && len(l.numbers) >= maxNumbers {
			err = fault.New(fault.Exhausted, "link.attach", "a connection attaches at most %d channels", protocol.MaxAttached)
		} else {
			l.numbers[r.Ch] = b
		}
		l.mu.Unlock()
	}
	if err != nil {
		l.reply(r.ID, nil, err)
		return nil
	}
	l.mu.Lock()
	l.last = b
	l.mu.Unlock()
	return b.link.Send(f)
}

// branch returns the link to the node that a request is for.
func (l *Link) branch(ctx context.Context, op string, t target) (*branch, error) {
	m, err := l.router.choose(ctx, l.who, op, t)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	b := l.nodes[m.id]
	if b != nil && b.of == m {
		b.sessions[t.Session] = struct{}{}
	} else {
		b = nil
	}
	l.mu.Unlock()
	if b != nil {
		return b, nil
	}
	link, err := m.client.Open(l.ctx, l.who)
	if err != nil {
		l.router.resolver.Drop(cluster.SessionID(t.Session))
		return nil, err
	}
	b = &branch{of: m, link: link, sessions: map[string]struct{}{t.Session: {}}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		_ = link.Close()
		return nil, l.err
	}
	l.nodes[m.id] = b
	l.work.Go(func() { l.pump(b) })
	return b, nil
}

// pump hands a node's frames to Next.
func (l *Link) pump(b *branch) {
	taken := make(chan struct{}, 1)
	for {
		b.link.Wait()
		f, err := b.link.Next()
		if err != nil {
			l.mu.Lock()
			for id := range b.sessions {
				l.router.resolver.Drop(cluster.SessionID(id))
			}
			l.mu.Unlock()
			l.end(err)
			return
		}
		if !l.put(packet{f, taken}) {
			return
		}
		select {
		case <-taken:
		case <-l.ctx.Done():
			return
		}
	}
}

func (l *Link) put(p packet) bool {
	select {
	case l.frames <- p:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// ask carries a request about the cluster out, beside what else goes on.
func (l *Link) ask(r protocol.Request) {
	select {
	case l.asked <- struct{}{}:
	default:
		l.reply(r.ID, nil, &fault.Error{Kind: fault.Exhausted, Op: "noderouter.request", RetryAfter: 1, Message: "too many requests of this connection are under way"})
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		<-l.asked
		return
	}
	l.work.Go(func() {
		defer func() { <-l.asked }()
		ctx, cancel := context.WithTimeout(l.ctx, routeLimit)
		defer cancel()
		ctx, span := l.router.tracer.Join(ctx, "cluster", r.Trace)
		out, err := l.router.call(ctx, l.who, r.Op, r.Params)
		span.End(err)
		l.tell(r.ID, out, err)
	})
}

// reply answers in a node's place, without waiting.
func (l *Link) reply(id uint64, result json.RawMessage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.work.Go(func() { l.tell(id, result, err) })
	}
}

func (l *Link) tell(id uint64, result json.RawMessage, err error) {
	r := protocol.Reply{ID: id, Result: result}
	if err != nil {
		p := fault.PublicOf(err)
		r.Result, r.Error = nil, &p
	} else if id == 0 {
		return
	}
	l.control(r)
}

func (l *Link) control(r protocol.Reply) {
	body, err := json.Marshal(r)
	if err != nil {
		l.end(fault.Wrap(fault.Internal, "noderouter.reply", err))
		return
	}
	l.put(packet{stream.Frame{Type: stream.Control, Channel: r.Ch, Body: body}, make(chan struct{}, 1)})
}

// event tells of an error that is no reply.
func (l *Link) event(ch uint32, err error) {
	params, merr := json.Marshal(fault.PublicOf(err))
	if merr != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.work.Go(func() { l.control(protocol.Reply{Event: protocol.EventError, Ch: ch, Params: params}) })
	}
}

// end ends the link once; the first reason counts.
func (l *Link) end(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = err
	all := l.nodes
	l.mu.Unlock()
	l.cancel()
	for _, b := range all {
		_ = b.link.Close()
	}
}

// Close ends the link and lets Next and Send return.
func (l *Link) Close() error {
	l.end(fault.New(fault.Canceled, "noderouter.link", "the link is closed"))
	l.work.Wait()
	return nil
}
