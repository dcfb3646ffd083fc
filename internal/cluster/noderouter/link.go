package noderouter

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Limits of one link.
const (
	// maxAsked is the maximum number of concurrent requests beside the link.
	maxAsked = 64
	// maxNumbers is the maximum number of channel numbers of a client.
	maxNumbers = 4 * protocol.MaxAttached
)

// Link is a client's conversation with the nodes of all sessions that it uses. A frame
// for a session goes to its node, over a separate link to that node. Frames of the
// nodes arrive in any order between nodes. Each node has a goroutine that waits until
// its frame was taken, so a client that does not read slows all of them down.
type Link struct {
	router *Router
	who    noderpc.Principal
	ctx    context.Context
	cancel context.CancelFunc
	frames chan packet
	taken  chan struct{} // for the packet that Next returned last; belongs to Next
	asked  chan struct{}
	work   sync.WaitGroup
	// reports is set if the end of a branch is reported to the client and does not end the link.
	reports bool

	send sync.Mutex // held over Send: frames keep their order

	mu       sync.Mutex // guards all below
	err      error
	branches map[*branch]struct{}       // those that are connected
	nodes    map[cluster.NodeID]*branch // those that all sessions of a node share
	late     map[string]*branch         // those of the late sessions
	numbers  map[uint32]*branch
	last     *branch // the branch of the last request, to which Data belongs
}

// branch is the link to one node. search is set for a late session: of and link are then set when it
// has found the node.
type branch struct {
	client   *Link
	of       *nodeConn
	link     *noderpc.Link
	search   *search
	reported chan struct{} // closed when the end was reported to the client

	// The fields below are guarded by Link.mu.
	sessions map[string]struct{}
	// open has the requests without a reply. The value is the number that a request chose, 0 for none.
	open  map[uint64]uint32
	cause error // why the router ends it
	err   error // why it has ended
}

func (l *Link) newBranch(s *search) *branch {
	return &branch{
		client: l, search: s, reported: make(chan struct{}), sessions: map[string]struct{}{},
		open: map[uint64]uint32{},
	}
}

// packet is a frame. Its body is valid until a value is sent to taken.
type packet struct {
	frame frame.Frame
	taken chan struct{}
}

// Open returns a link for a principal. It connects to a node with the first request.
func (r *Router) Open(_ context.Context, who noderpc.Principal) (*Link, error) {
	l := &Link{
		router: r, who: who, frames: make(chan packet), asked: make(chan struct{}, maxAsked),
		branches: map[*branch]struct{}{}, nodes: map[cluster.NodeID]*branch{},
		late: map[string]*branch{}, numbers: map[uint32]*branch{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

// Next returns the next frame, whose body is valid until the next call.
func (l *Link) Next() (frame.Frame, error) {
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
	return frame.Frame{}, l.err
}

// Send sends frames to their targets. While the node of a session is found or adopts it, Send blocks
// for at most lateAfter.
func (l *Link) Send(frames ...frame.Frame) error {
	l.send.Lock()
	defer l.send.Unlock()
	for _, f := range frames {
		if err := l.one(f); err != nil {
			return err
		}
	}
	return nil
}

func (l *Link) one(f frame.Frame) error {
	l.mu.Lock()
	err := l.err
	var b *branch
	switch f.Type {
	case frame.Control:
	case frame.Data:
		b = l.last
	default:
		b = l.numbers[f.Channel]
	}
	ended := b != nil && b.err != nil
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case f.Type == frame.Control:
		return l.request(f)
	case ended:
		return nil // an event reports it
	case b != nil:
		return b.send(f)
	case f.Type == frame.Ack:
		return nil // the channel was detached
	}
	l.event(f.Channel, unattached("link.input", f.Channel))
	return nil
}

func unattached(op string, ch uint32) error {
	return fault.Invalid(op, "ch", "nothing is attached as %d", ch)
}

// request sends a request to its target.
func (l *Link) request(f frame.Frame) error {
	var r protocol.Request
	if err := json.Unmarshal(f.Body, &r); err != nil {
		l.reply(r.ID, nil, &fault.Error{
			Kind: fault.Malformed, Op: "noderouter.request", Err: err,
			Message: "a control message is not the JSON of a request",
		})
		return nil
	}
	row, err := l.router.operation(r.Op)
	keyed := row.Creates && r.IdempotencyKey != "" && row.Order != protocol.Inline
	if err == nil && (keyed || callsAway(row)) {
		l.ask(r)
		return nil
	}
	for {
		var b *branch
		if err == nil {
			b, err = l.target(row, r)
		}
		registered := false
		if err == nil {
			registered, err = l.register(b, row, r)
		}
		switch {
		case err != nil:
			l.reply(r.ID, nil, err)
			return nil
		case registered:
			return b.send(f)
		case row.Channel == protocol.NamesChannel:
			l.refuseEnded(b, r.ID)
			return nil
		}
		// The branch has ended after it was chosen: choose another one.
	}
}

// callsAway reports whether an operation is carried out beside the link. An operation
// with the order Inline is not: its Data frames follow over the same link.
func callsAway(row protocol.Operation) bool {
	switch row.Target {
	case protocol.AllNodes, protocol.ResourceNode, protocol.PlacedNode,
		protocol.NamedNode:
		return row.Order != protocol.Inline
	}
	return row.Name == protocol.OpSessionOwner // all nodes may have to be asked
}

// target returns the branch for a request, and removes the number that it detaches.
func (l *Link) target(row protocol.Operation, r protocol.Request) (*branch, error) {
	if row.Channel != protocol.NamesChannel {
		return l.branch(row, r)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.numbers[r.Ch]
	if row.Name == protocol.OpDetach {
		delete(l.numbers, r.Ch)
	}
	if b == nil {
		return nil, unattached("link.request", r.Ch)
	}
	return b, nil
}

// pump passes the frames of a node to Next.
func (l *Link) pump(b *branch) {
	taken := make(chan struct{}, 1)
	for {
		b.link.Wait()
		f, err := b.link.Next()
		if err != nil {
			l.ended(b, err)
			return
		}
		l.answered(b, f)
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

// ask carries out a request concurrently with all others.
func (l *Link) ask(r protocol.Request) {
	select {
	case l.asked <- struct{}{}:
	default:
		l.reply(r.ID, nil, &fault.Error{
			Kind: fault.Exhausted, Op: "noderouter.request", RetryAfter: 1,
			Message: "too many requests of this connection are under way",
		})
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
		once := &noderpc.Once{Op: r.Op, Key: r.IdempotencyKey}
		out, err := l.router.call(noderpc.WithOnce(ctx, once), l.who, r.Op, r.Params)
		span.End(err)
		l.answer(protocol.Reply{ID: r.ID, Result: out, Replayed: once.Replayed()}, err)
	})
}

// reply sends a reply that no node sends. It does not block.
func (l *Link) reply(id uint64, result json.RawMessage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.work.Go(func() { l.answer(protocol.Reply{ID: id, Result: result}, err) })
	}
}

func (l *Link) answer(r protocol.Reply, err error) {
	if err != nil {
		p := fault.PublicOf(err)
		r.Result, r.Error, r.Replayed = nil, &p, false
	} else if r.ID == 0 {
		return
	}
	l.control(r)
}

func (l *Link) control(r protocol.Reply) {
	body, err := json.Marshal(r)
	if err != nil {
		l.shutdown(fault.Wrap(fault.Internal, "noderouter.reply", err))
		return
	}
	l.put(packet{
		frame.Frame{Type: frame.Control, Channel: r.Ch, Body: body}, make(chan struct{}, 1),
	})
}

// event emits an error that is not a reply.
func (l *Link) event(ch uint32, err error) {
	params, merr := json.Marshal(fault.PublicOf(err))
	if merr != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.work.Go(func() {
			l.control(protocol.Reply{Event: protocol.EventError, Ch: ch, Params: params})
		})
	}
}

// shutdown ends the link. The first reason counts.
func (l *Link) shutdown(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = err
	all := slices.Collect(maps.Keys(l.branches))
	for _, b := range all {
		l.router.uses.remove(b)
	}
	l.mu.Unlock()
	l.cancel()
	for _, b := range all {
		_ = b.link.Close()
	}
}

// Close ends the link and unblocks Next and Send.
func (l *Link) Close() error {
	l.shutdown(fault.New(fault.Canceled, "noderouter.link", "the link is closed"))
	l.work.Wait()
	return nil
}
