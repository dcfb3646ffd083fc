package nodeapi

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"sync"

	"github.com/sandgate/sandgate/internal/idempotency"
	"github.com/sandgate/sandgate/internal/nodeapi/serial"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session/channel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// maxRequests is the number of concurrent requests of one link. The next one is rejected as
// Exhausted.
const maxRequests = 64

// linkHandler is the server's side of a link, with its viewers, watches and upload. One goroutine
// reads the link; it never waits for a sandbox. Requests with the same ch are carried out one after
// another, in order. All others are carried out concurrently.
//
// Lock order: a session's locks, mu, a serial.Queue's lock.
type linkHandler struct {
	server    *Server
	link      *noderpc.Link
	id        channel.LinkID
	principal noderpc.Principal
	ctx       context.Context
	slots     chan struct{} // one token for each request under way
	work      sync.WaitGroup

	mu      sync.Mutex         // guards all below
	viewers map[uint32]*viewer // nil once the link has ended
	watches map[uint32]func()  // each function ends one watch
	upload  *upload
	// turns are the operations of the gateway that are in progress, by their numbers.
	turns map[uint32]*idempotency.Turn
}

func (c *linkHandler) serve() error { return c.finish(c.read()) }

// newLinkHandler is a separate function so that its frame is not part of ServeLink's stack, which
// an idle link keeps.
//
//go:noinline
func (s *Server) newLinkHandler(ctx context.Context, l *noderpc.Link) *linkHandler {
	s.metrics.links.Add(1)
	return &linkHandler{
		server: s, link: l, id: channel.LinkID(s.links.Add(1)), principal: l.Principal(), ctx: ctx,
		slots: make(chan struct{}, maxRequests), viewers: map[uint32]*viewer{},
		watches: map[uint32]func(){},
	}
}

// finish waits for the operations of a link that has ended with err.
func (c *linkHandler) finish(err error) error {
	// Operations under way may be sending: they must not wait for a peer that has left. Closing the
	// link also ends ctx.
	_ = c.link.Close()
	c.drop()
	c.work.Wait()
	if err == io.EOF {
		return nil
	}
	return err
}

// read handles the link's frames until it ends.
func (c *linkHandler) read() error {
	for {
		c.link.Wait()
		if err := c.readOne(); err != nil {
			return err
		}
	}
}

func (c *linkHandler) readOne() error {
	f, err := c.link.Next()
	if err != nil {
		return err
	}
	switch f.Type {
	case frame.Control:
		c.request(f.Body)
	case frame.Ack:
		if len(f.Body) != 8 {
			c.reply(0, nil, fault.New(fault.Malformed, "link.ack", "an Ack has 8 bytes"))
		} else if v := c.find(f.Channel); v != nil {
			v.ack(int64(binary.BigEndian.Uint64(f.Body)))
		}
	case frame.Input:
		c.input(f)
	case frame.Data:
		c.data(f)
	default:
		c.reply(0, nil, fault.New(fault.Unsupported, "link.read",
			"a client sends no frame of type %d", f.Type))
	}
	return nil
}

// request starts a request. If it cannot be started, it replies at once.
func (c *linkHandler) request(body []byte) {
	const op = "link.request"
	c.server.metrics.requests.Add(1)
	var r protocol.Request
	if len(body) > protocol.MaxControl {
		c.reply(0, nil, fault.New(fault.TooLarge, op, "a control message has at most %d bytes",
			protocol.MaxControl))
		return
	}
	if err := json.Unmarshal(body, &r); err != nil {
		c.reply(0, nil, &fault.Error{
			Kind: fault.Malformed, Op: op,
			Message: "a control message is not the JSON of a request", Err: err,
		})
		return
	}
	o, ok := c.server.operations[r.Op]
	if !ok {
		c.reply(r.ID, nil, &fault.Error{
			Kind: fault.Unsupported, Op: op, Field: "op", Message: "there is no such operation",
		})
		return
	}
	if err := c.permit(o, r); err != nil {
		c.reply(r.ID, nil, err)
		return
	}
	select {
	case c.slots <- struct{}{}:
	default:
		c.refuse(r.ID, "too many requests of this connection are under way")
		return
	}
	c.start(&call{linkHandler: c, operation: o, request: r}, len(body))
}

// permit rejects operations that a credential for one session, or a read-only viewer, may not use.
func (c *linkHandler) permit(o *operation, r protocol.Request) error {
	const op = "link.request"
	if _, ok := c.principal.OnlyPort(); ok {
		switch o.Name {
		case protocol.OpPortOpen: // it checks the port
			return nil
		case protocol.OpSessionGet: // routers ask for it
			return nil
		}
		return fault.New(fault.PermissionDenied, op, "a preview link is for one port")
	}
	if c.principal.Session != "" && !o.OneSession {
		return fault.New(fault.PermissionDenied, op,
			"these credentials are for looking at one session").For(fault.CauseReadOnly)
	}
	if o.Effects != protocol.Reads && o.Channel == protocol.NamesChannel {
		if v := c.find(r.Ch); v != nil && v.ReadOnly() {
			return fault.New(fault.PermissionDenied, op, "this viewer is read-only").
				For(fault.CauseReadOnly)
		}
	}
	return nil
}

// refuse replies that too many requests are under way.
func (c *linkHandler) refuse(id uint64, message string) {
	c.server.metrics.requestsRefused.Add(1)
	c.reply(id, nil, &fault.Error{
		Kind: fault.Exhausted, Op: "link.request", RetryAfter: 1,
		Message: message,
	})
}

// start performs a call in the order that its operation requires, and then releases its slot. size
// is the size of the request in bytes.
func (c *linkHandler) start(x *call, size int) {
	done := func() { <-c.slots }
	run := func() {
		defer done()
		ctx := c.ctx
		if x.operation.Outlasts {
			ctx = context.WithoutCancel(ctx)
		}
		ctx, cancel := context.WithTimeout(ctx, x.operation.Timeout())
		defer cancel()
		x.perform(ctx)
	}
	switch x.operation.Order {
	case protocol.Inline:
		x.perform(c.ctx)
		done()
	case protocol.PerChannel:
		v := c.find(x.request.Ch)
		if v == nil {
			c.reply(x.request.ID, nil,
				fault.Invalid("link.request", "ch", "nothing is attached as %d", x.request.Ch))
			done()
			return
		}
		x.target = v
		inOrder := func() {
			// The first request that the end of the link cancelled fails. The ones after it must not
			// run either: the client repeats all of them, and they would run before it.
			if c.ctx.Err() != nil && !x.operation.Outlasts {
				done()
				return
			}
			run()
		}
		if !v.requests.Enqueue(serial.Task{Size: size, Run: inOrder}) {
			c.refuse(x.request.ID, "too many requests wait for this channel")
			done()
		}
	default:
		c.work.Go(run)
	}
}

// reply is the part of a reply beside its result.
type reply struct {
	id uint64
	// trace is the id of the trace; empty for none.
	trace    string
	replayed bool
	searched bool // nodes are asked that need not have the resource
}

// reply sends a reply. An error for a request without an id is sent with id 0.
func (c *linkHandler) reply(id uint64, result any, err error) {
	c.respond(reply{id: id}, result, err)
}

// respond is reply with more parts.
func (c *linkHandler) respond(to reply, result any, err error) {
	if to.id == 0 && err == nil {
		return
	}
	r := protocol.Reply{ID: to.id, Replayed: to.replayed}
	if err == nil {
		if r.Result, err = json.Marshal(result); err != nil {
			err = fault.Wrap(fault.Internal, "link.reply", err)
		}
	}
	if err != nil {
		if fault.Is(err, fault.Internal) || fault.Is(err, fault.Host) {
			c.server.log.Error("a request failed", "tenant", c.principal.Tenant, "error", err,
				"trace", to.trace)
		}
		if !to.searched || !fault.Is(err, fault.NotFound) {
			c.server.metrics.failed(err)
		}
		p := fault.PublicOf(err)
		p.Trace = to.trace
		r.Result, r.Error, r.Replayed = nil, &p, false
	}
	c.control(r)
}

// control sends a Control frame. If that fails, the link has ended, and read notices it.
func (c *linkHandler) control(r protocol.Reply) {
	body, err := json.Marshal(r)
	if err != nil {
		c.server.log.Error("a reply could not be written as JSON", "error", err)
		return
	}
	c.send(frame.Frame{Type: frame.Control, Channel: r.Ch, Body: body})
}

func (c *linkHandler) send(f frame.Frame) {
	if err := c.link.Send(f); err != nil {
		_ = c.link.Close()
	}
}

// event sends an event.
func (c *linkHandler) event(name string, ch uint32, params any) {
	body, err := json.Marshal(params)
	if err != nil {
		return
	}
	c.control(protocol.Reply{Event: name, Ch: ch, Params: body})
}

func (c *linkHandler) find(ch uint32) *viewer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.viewers[ch]
}

// later adds a task to a queue. It returns false when the link has ended, or too many tasks wait.
func (c *linkHandler) later(q *serial.Queue, run func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.viewers != nil && q.Enqueue(serial.Task{Run: run})
}

// drop ends all viewers, watches and the upload of the link.
func (c *linkHandler) drop() {
	c.mu.Lock()
	all, up, turns := c.viewers, c.upload, c.turns
	c.viewers, c.upload, c.turns = nil, nil, nil
	c.mu.Unlock()
	for _, v := range all {
		v.Close()
	}
	if up != nil {
		up.cut()
	}
	for _, t := range turns {
		t.Leave() // the gateway was killed: its next attempt knows that
	}
}
