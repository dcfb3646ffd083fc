package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// maxRequests is how many requests of one link are under way at once; the
// next is refused as exhausted.
const maxRequests = 64

// conn is a link and what hangs on it. One goroutine reads the link; it never
// waits for a sandbox. Requests that name a channel by ch are carried out in
// order, one after the other for each channel; all others side by side.
type linkHandler struct {
	m         *Manager
	link      *noderpc.Link
	principal noderpc.Principal
	ctx       context.Context
	slots     chan struct{} // one token for each request under way
	work      sync.WaitGroup

	mu       sync.Mutex // guards all below
	attached map[uint32]*Viewer
	watches  map[uint32]func() // what ends each
	upload   *upload
}

// ServeLink speaks on a link until it ends. (noderpc.Handler)
func (m *Manager) ServeLink(ctx context.Context, l *noderpc.Link) error {
	return m.newConn(ctx, l).serve()
}

func (c *linkHandler) serve() error { return c.finish(c.read()) }

// newConn stays out of ServeLink, whose stack an idle link keeps.
//
//go:noinline
func (m *Manager) newConn(ctx context.Context, l *noderpc.Link) *linkHandler {
	m.count.links.Add(1)
	return &linkHandler{m: m, link: l, principal: l.Principal(), ctx: ctx, slots: make(chan struct{}, maxRequests), attached: map[uint32]*Viewer{}, watches: map[uint32]func(){}}
}

// finish waits for what is under way on a link that has ended with err.
func (c *linkHandler) finish(err error) error {
	// What is under way may be sending: it must not wait for a peer that has
	// left. This ends ctx too.
	_ = c.link.Close()
	c.drop()
	c.work.Wait()
	if err == io.EOF {
		return nil
	}
	return err
}

// read takes the link's frames until it ends.
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
	case stream.Control:
		c.request(f.Body)
	case stream.Ack:
		if len(f.Body) != 8 {
			c.reply(0, nil, fault.New(fault.Malformed, "link.ack", "an Ack has 8 bytes"))
		} else if a := c.find(f.Channel); a != nil {
			a.ack(int64(binary.BigEndian.Uint64(f.Body)))
		}
	case stream.Input:
		c.input(f)
	case stream.Data:
		c.data(f)
	default:
		c.reply(0, nil, fault.New(fault.Unsupported, "link.read", "a client sends no frame of type %d", f.Type))
	}
	return nil
}

// request has a request carried out.
func (c *linkHandler) request(body []byte) {
	const op = "link.request"
	c.m.count.requests.Add(1)
	var r protocol.Request
	if len(body) > protocol.MaxControl {
		c.reply(0, nil, fault.New(fault.TooLarge, op, "a control message has at most %d bytes", protocol.MaxControl))
		return
	}
	if err := json.Unmarshal(body, &r); err != nil {
		c.reply(0, nil, &fault.Error{Kind: fault.Malformed, Op: op, Message: "a control message is not the JSON of a request", Err: err})
		return
	}
	o, ok := c.m.operations[r.Op]
	if !ok {
		c.reply(r.ID, nil, &fault.Error{Kind: fault.Unsupported, Op: op, Field: "op", Message: "there is no such operation"})
		return
	}
	if err := c.within(r); err != nil {
		c.reply(r.ID, nil, err)
		return
	}
	if o.writes {
		if a := c.find(r.Ch); a != nil && a.readOnly {
			c.reply(r.ID, nil, fault.New(fault.PermissionDenied, op, "this viewer is read-only"))
			return
		}
	}
	select {
	case c.slots <- struct{}{}:
	default:
		c.m.count.refusedRequests.Add(1)
		c.reply(r.ID, nil, &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: 1, Message: "too many requests of this connection are under way"})
		return
	}
	done := func() { <-c.slots }
	run := func() {
		defer done()
		ctx, cancel := context.WithTimeout(c.ctx, o.limit)
		defer cancel()
		c.perform(ctx, o, r)
	}
	switch {
	case o.inline:
		c.perform(c.ctx, o, r)
		done()
	case o.ordered:
		a := c.find(r.Ch)
		if a == nil {
			c.reply(r.ID, nil, fault.Invalid(op, "ch", "nothing is attached as %d", r.Ch))
			done()
			return
		}
		ok := a.requests.add(task{size: len(body), run: run})
		if !ok {
			c.m.count.refusedRequests.Add(1)
			c.reply(r.ID, nil, &fault.Error{Kind: fault.Exhausted, Op: op, RetryAfter: 1, Message: "too much waits for this channel"})
			done()
		}
	default:
		c.work.Go(run)
	}
}

// answered is the result of an operation that has sent its own reply.
type answered struct{}

// perform carries an operation out, and answers.
func (c *linkHandler) perform(ctx context.Context, o operation, r protocol.Request) {
	ctx, span := c.m.cfg.Tracer.Join(ctx, "node "+r.Op, r.Trace)
	span.Set(trace.Operation, r.Op)
	span.Set(trace.Tenant, c.principal.Tenant)
	if span != nil {
		if a := c.find(r.Ch); a != nil {
			span.Set(trace.Session, a.session.id)
			span.Set(trace.Channel, a.channel.id)
		}
	}
	result, err := c.carry(ctx, o, r)
	if s, ok := result.(protocol.Session); ok && err == nil {
		span.Set(trace.Session, s.ID)
		span.Set(trace.Language, s.Language)
	}
	span.End(err)
	if _, ok := result.(answered); ok && err == nil {
		return
	}
	c.respond(r.ID, span.ID(), result, err)
}

// reply sends a reply. An error without an id to repeat is sent with id 0.
func (c *linkHandler) reply(id uint64, result any, err error) { c.respond(id, "", result, err) }

// respond is reply for what is part of a trace, if that is not empty.
func (c *linkHandler) respond(id uint64, trace string, result any, err error) {
	if id == 0 && err == nil {
		return
	}
	r := protocol.Reply{ID: id}
	if err == nil {
		if r.Result, err = json.Marshal(result); err != nil {
			err = fault.Wrap(fault.Internal, "link.reply", err)
		}
	}
	if err != nil {
		if fault.Is(err, fault.Internal) || fault.Is(err, fault.Host) {
			c.m.log.Error("a request failed", "tenant", c.principal.Tenant, "error", err, "trace", trace)
		}
		c.m.metrics.failed(err)
		p := fault.PublicOf(err)
		p.Trace = trace
		r.Result, r.Error = nil, &p
	}
	c.control(r)
}

// control sends a Control frame. A link that cannot take it is over: read
// notices.
func (c *linkHandler) control(r protocol.Reply) {
	body, err := json.Marshal(r)
	if err != nil {
		c.m.log.Error("a reply could not be written as JSON", "error", err)
		return
	}
	c.send(stream.Frame{Type: stream.Control, Channel: r.Ch, Body: body})
}

func (c *linkHandler) send(f stream.Frame) {
	if err := c.link.Send(f); err != nil {
		_ = c.link.Close()
	}
}

func (c *linkHandler) find(ch uint32) *Viewer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached[ch]
}

// later has a task carried out behind those of the lane. It is false when the
// link has ended, or too much waits.
func (c *linkHandler) later(l *serialQueue, run func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached != nil && l.add(task{run: run})
}

// drop lets go of everything that hangs on the link.
func (c *linkHandler) drop() {
	c.mu.Lock()
	all, up := c.attached, c.upload
	c.attached, c.upload = nil, nil
	c.mu.Unlock()
	for _, a := range all {
		a.close()
	}
	if up != nil {
		up.cut()
	}
}
