package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client/internal/hello"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Limits and times of a connection.
const (
	// MaxPending is the largest number of calls that wait for their replies.
	MaxPending = 4096

	dialTimeout  = 10 * time.Second // upgrade and hello together
	writeTimeout = 20 * time.Second // for one message; then the connection counts as lost
	pingEvery    = 15 * time.Second
	pingTimeout  = 10 * time.Second
	outQueue     = 64 // messages that wait for the socket
)

// Conn is a connection over a WebSocket. It reconnects until Close, or until the server answers
// that reconnecting cannot succeed. After that every method returns the final error. It is safe for
// concurrent use.
type Conn struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // the loop and the goroutines that it started

	mu      sync.Mutex // guards all fields below
	link    *link      // nil while no link has completed hello
	ready   chan struct{}
	calls   map[uint64]*call
	nextID  uint64
	viewers map[uint32]*Viewer
	watches map[uint32]*watch
	nextCh  uint32
	err     error // why it has ended
	last    error // why the last attempt or connection failed
	links   int   // how many there have been
}

// Connect opens the WebSocket. It returns once the server has answered hello. Until then it
// retries, until ctx ends or the server answers that retrying cannot succeed. Afterwards ctx has no
// effect on the connection.
func (c *Client) Connect(ctx context.Context) (*Conn, error) {
	conn := &Conn{
		client: c, ready: make(chan struct{}),
		calls: make(map[uint64]*call), viewers: make(map[uint32]*Viewer),
		watches: make(map[uint32]*watch),
	}
	conn.ctx, conn.cancel = context.WithCancel(context.Background())
	conn.work.Add(1)
	go conn.loop()
	conn.mu.Lock()
	ready := conn.ready
	conn.mu.Unlock()
	select {
	case <-ready:
		return conn, nil
	case <-conn.ctx.Done():
	case <-ctx.Done():
	}
	conn.mu.Lock()
	err, last := conn.err, conn.last
	conn.mu.Unlock()
	_ = conn.Close()
	if err == nil {
		e := &fault.Error{Kind: fault.KindOf(ctx.Err()), Op: "client.connect", Err: ctx.Err()}
		if last != nil {
			e.Kind, e.Message, e.Err = fault.KindOf(last), "", last
		}
		err = e
	}
	return nil, err
}

// Close ends the connection and all its viewers and calls. Sessions continue.
func (c *Conn) Close() error {
	c.finish(fault.New(fault.Canceled, "client.conn", "the connection was closed"))
	c.cancel()
	c.work.Wait()
	return nil
}

// Err returns why the connection has ended. It returns nil until then, connected or not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Reconnects returns how many times the client has reconnected.
func (c *Conn) Reconnects() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.links-1, 0)
}

// finish ends the connection permanently. Only the first error is kept.
func (c *Conn) finish(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	calls := c.takeCalls(func(*call) bool { return true })
	viewers := slices.Collect(maps.Values(c.viewers))
	clear(c.viewers)
	l := c.link
	c.mu.Unlock()
	if l != nil && fault.Is(err, fault.Canceled) {
		// A regular close frame, so that the server knows that the client left on purpose.
		_ = l.ws.Close(websocket.StatusNormalClosure, "")
	}
	c.cancel()
	for _, p := range calls {
		p.reply(nil, err)
	}
	for _, v := range viewers {
		v.fail(err)
	}
}

// loop keeps a link connected.
func (c *Conn) loop() {
	defer c.work.Done()
	pause := c.client.opts.MinBackoff
	for {
		useful, err := c.once()
		c.mu.Lock()
		c.last = err
		over := c.err != nil
		c.mu.Unlock()
		if over || c.ctx.Err() != nil {
			return
		}
		if final(err) {
			c.finish(err)
			return
		}
		if f := c.client.opts.OnState; f != nil {
			f(err)
		}
		if useful {
			pause = c.client.opts.MinBackoff
		}
		// Full jitter: a thousand clients of a restarting gateway must not reconnect at the same
		// moment.
		wait := rand.N(pause) + 1
		var known *fault.Error
		if errors.As(err, &known) && known.RetryAfter > 0 {
			wait += min(time.Duration(known.RetryAfter)*time.Second, c.client.opts.MaxBackoff)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, c.client.opts.MaxBackoff)
	}
}

// final reports whether reconnecting cannot succeed: the server rejected the credentials, or closed
// with a code from 3500 to 3999.
func final(err error) bool {
	var f *hello.FinalError
	return errors.As(err, &f)
}

// once opens one link and serves it until it ends. useful reports whether the server sent anything
// after the reply to hello.
func (c *Conn) once() (useful bool, err error) {
	l, err := c.dial()
	if err != nil {
		return false, err
	}
	var writer sync.WaitGroup
	writer.Add(2)
	go func() { defer writer.Done(); l.write() }()
	go func() { defer writer.Done(); l.ping() }()
	defer writer.Wait()
	defer l.end()

	if !c.raise(l) {
		return false, c.ctx.Err()
	}
	if f := c.client.opts.OnState; f != nil {
		f(nil)
	}
	for {
		kind, body, rerr := l.ws.Read(l.ended)
		if rerr != nil {
			err = hello.CloseError(rerr)
			break
		}
		useful = true
		if err = c.receive(l, kind, body); err != nil {
			break
		}
	}
	l.end()
	_ = l.ws.CloseNow()
	c.lower(l, err)
	return useful, err
}

// raise puts the link l into use and sends everything that waited for one: first the viewers'
// attach requests, then the calls, the oldest first.
func (c *Conn) raise(l *link) bool {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return false
	}
	c.link = l
	c.links++
	waiting := c.takeWaiting(l)
	viewers := slices.Collect(maps.Values(c.viewers))
	watches := slices.Collect(maps.Keys(c.watches))
	close(c.ready)
	c.work.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.work.Done()
		for _, v := range viewers {
			v.attach()
		}
		for _, ch := range watches {
			c.subscribe(l, ch)
		}
		c.sendAll(l, waiting)
	}()
	return true
}

// lower takes the link l out of use. Calls that may not be repeated fail. The others wait for the
// next link.
func (c *Conn) lower(l *link, cause error) {
	c.mu.Lock()
	if c.link == l {
		c.link = nil
		c.ready = make(chan struct{})
	}
	failed := c.takeCalls(func(p *call) bool { return p.sent == l && !p.repeat })
	for _, p := range c.calls {
		if p.sent == l {
			p.sent = nil
		}
	}
	viewers := slices.Collect(maps.Values(c.viewers))
	c.mu.Unlock()
	for _, v := range viewers {
		v.lower()
	}
	for _, p := range failed {
		p.reply(nil, unanswered(cause))
	}
}

// unanswered is the error of a call whose reply will not come.
func unanswered(cause error) error {
	return &fault.Error{
		Kind: fault.Unavailable, Op: "client.call",
		Message: "the connection was lost before the reply; the request may or may not have been performed", Err: cause,
	}
}

// receive processes one message from the server. An error ends the link.
func (c *Conn) receive(l *link, kind websocket.MessageType, body []byte) error {
	const op = "client.receive"
	if kind == websocket.MessageText {
		return c.control(l, body)
	}
	f, err := frame.ParseMessage(body)
	if err != nil {
		return err
	}
	switch f.Type {
	case frame.Control:
		return c.control(l, f.Body)
	case frame.Records:
		v := c.viewer(f.Channel)
		if v == nil {
			return nil // the frame was sent before the viewer was closed
		}
		return v.receive(l, f.Body)
	case frame.Ack:
		if v := c.viewer(f.Channel); v != nil && len(f.Body) == 8 {
			v.inputTaken(binary.BigEndian.Uint64(f.Body))
		}
		return nil
	}
	return fault.New(fault.Malformed, op, "the server sent a frame of type %d", f.Type)
}

// viewer returns the viewer with a channel number; nil if it was closed.
func (c *Conn) viewer(ch uint32) *Viewer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.viewers[ch]
}

func (c *Conn) control(l *link, body []byte) error {
	var reply protocol.Reply
	if err := json.Unmarshal(body, &reply); err != nil {
		return &fault.Error{
			Kind: fault.Malformed, Op: "client.receive",
			Message: "the server sent a message that is not JSON", Err: err,
		}
	}
	if reply.Event != "" {
		c.event(l, reply)
		return nil
	}
	c.mu.Lock()
	p := c.calls[reply.ID]
	delete(c.calls, reply.ID)
	c.mu.Unlock()
	if p == nil {
		return nil // the caller has stopped waiting
	}
	if reply.Error != nil {
		p.reply(nil, reply.Error.Err("client.call"))
	} else {
		p.reply(reply.Result, nil)
	}
	return nil
}

// event passes an event to the viewers that it concerns.
func (c *Conn) event(l *link, reply protocol.Reply) {
	switch reply.Event {
	case protocol.EventLost:
	case protocol.EventState:
		var s protocol.StateChange
		if tell := c.client.opts.OnSession; tell != nil && json.Unmarshal(reply.Params, &s) == nil {
			tell(s)
		}
		return
	case protocol.EventDetached:
		var d protocol.Detached
		if json.Unmarshal(reply.Params, &d) == nil {
			c.detached(l, d)
		}
		return
	case protocol.EventFile, protocol.EventPresence:
		c.mu.Lock()
		w := c.watches[reply.Ch]
		c.mu.Unlock()
		if w != nil {
			w.accept(reply.Event, reply.Params)
		}
		return
	case protocol.EventError:
		var p fault.Public
		if v := c.viewer(reply.Ch); v != nil && json.Unmarshal(reply.Params, &p) == nil {
			v.inputRefused(l, p.Err("client.stdin"))
		}
		return
	default:
		return // later versions of the server may send more events
	}
	var lost protocol.Lost
	if err := json.Unmarshal(reply.Params, &lost); err != nil {
		return
	}
	message := "the sandbox ended: " + lost.Reason
	if lost.Message != "" {
		message = lost.Message
	}
	c.mu.Lock()
	var viewers []*Viewer
	for _, v := range c.viewers {
		if v.ch == reply.Ch || reply.Ch == 0 && v.session == lost.Session {
			viewers = append(viewers, v)
		}
	}
	c.mu.Unlock()
	for _, v := range viewers {
		v.fail(fault.New(fault.SandboxLost, "client.viewer", "%s", message))
	}
}
