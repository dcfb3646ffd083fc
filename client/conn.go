package client

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// Limits and times of a connection.
const (
	// MaxPending is how many calls may wait for their replies at once.
	MaxPending = 4096

	dialTimeout  = 10 * time.Second // upgrade and hello together
	writeTimeout = 20 * time.Second // one message; then the connection is lost
	pingEvery    = 15 * time.Second
	pingTimeout  = 10 * time.Second
	outQueue     = 64 // messages that wait for the socket
)

// Conn is a connection over WebSocket. It reconnects for ever, until Close or
// until the server says that coming back is of no use; then every method
// returns that error. It is safe for concurrent use.
type Conn struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup // the loop and what it has started

	mu      sync.Mutex // guards all below
	link    *link      // nil while there is none that has said hello
	ready   chan struct{}
	calls   map[uint64]*call
	nextID  uint64
	viewers map[uint32]*Viewer
	watches map[uint32]*fileWatch
	nextCh  uint32
	err     error // why it has ended
	last    error // why the last attempt or connection failed
	links   int   // how many there have been
}

// link is one WebSocket in the life of a Conn.
type link struct {
	ws    *websocket.Conn
	out   chan message
	ended context.Context
	end   context.CancelFunc
}

type message struct {
	kind websocket.MessageType
	body []byte
}

// call is a request whose reply is awaited.
type call struct {
	id   uint64
	body []byte
	// repeat says that sending it twice does no harm.
	repeat bool
	// sent is the link it went out on; nil while it waits for one.
	sent *link
	// reply is told exactly once, on the reading goroutine, unless the
	// caller has given up before.
	reply func(json.RawMessage, error)
}

// Connect opens the WebSocket. It returns once the server has answered hello,
// and goes on trying until ctx ends or the server says that it is of no use.
// After that ctx has no bearing on the connection.
func (c *Client) Connect(ctx context.Context) (*Conn, error) {
	conn := &Conn{
		client: c, ready: make(chan struct{}),
		calls: make(map[uint64]*call), viewers: make(map[uint32]*Viewer), watches: make(map[uint32]*fileWatch),
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

// Close ends the connection and everything on it. Sessions go on.
func (c *Conn) Close() error {
	c.finish(fault.New(fault.Canceled, "client.conn", "the connection was closed"))
	c.cancel()
	c.work.Wait()
	return nil
}

// Err is why the connection has ended; nil while it lives, connected or not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Reconnects is how many times the connection was made anew.
func (c *Conn) Reconnects() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.links-1, 0)
}

// finish ends the connection for good. The first reason stays.
func (c *Conn) finish(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	calls := c.takeCalls(func(*call) bool { return true })
	viewers := make([]*Viewer, 0, len(c.viewers))
	for _, v := range c.viewers {
		viewers = append(viewers, v)
	}
	clear(c.viewers)
	l := c.link
	c.mu.Unlock()
	if l != nil && fault.Is(err, fault.Canceled) {
		// A goodbye in good order, so that the server need not guess.
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

// takeCalls removes the calls that match and returns them by age. mu is held.
func (c *Conn) takeCalls(match func(*call) bool) []*call {
	var taken []*call
	for id, p := range c.calls {
		if match(p) {
			taken = append(taken, p)
			delete(c.calls, id)
		}
	}
	slices.SortFunc(taken, func(a, b *call) int { return int(int64(a.id) - int64(b.id)) })
	return taken
}

// loop keeps a link up.
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
		// Full jitter: a thousand clients of a gateway that restarts must
		// not come back in one beat.
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

// final reports whether err says that reconnecting is of no use: the server
// refused who we are, or closed with a code of 3500 to 3999.
func final(err error) bool {
	var f *finalError
	return errors.As(err, &f)
}

// finalError marks an error after which there is no reconnect.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// once makes one link and serves it until it ends. useful says whether the
// server answered anything after hello.
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
			err = linkError(rerr)
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

func linkError(err error) error {
	const op = "client.conn"
	code := int(websocket.CloseStatus(err))
	for _, row := range fault.Table() {
		if row.Close != code {
			continue
		}
		var ce websocket.CloseError
		message := row.Advice
		if errors.As(err, &ce) && ce.Reason != "" {
			message = ce.Reason
		}
		e := fault.New(row.Kind, op, "%s", message)
		if code >= 3500 && code <= 3999 {
			return &finalError{e}
		}
		return e
	}
	if code >= 3500 && code <= 3999 {
		return &finalError{fault.New(fault.Unsupported, op, "the server ended the connection with code %d", code)}
	}
	return &fault.Error{Kind: fault.Unavailable, Op: op, Message: "the connection was lost", Err: err}
}

// dial opens a WebSocket and says hello.
func (c *Conn) dial() (*link, error) {
	const op = "client.connect"
	ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
	defer cancel()
	header := http.Header{}
	c.client.authorize(header)
	ws, resp, err := websocket.Dial(ctx, c.client.endpoint([]string{"v1", "ws"}), &websocket.DialOptions{
		HTTPClient: c.client.opts.HTTP, HTTPHeader: header, Subprotocols: []string{protocol.Subprotocol},
	})
	if err != nil {
		if resp == nil || resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, c.client.transportError(ctx, op, err)
		}
		if resp.Body == nil {
			resp.Body = http.NoBody
		}
		e := responseError(op, resp)
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			return nil, &finalError{e}
		}
		return nil, e
	}
	ws.SetReadLimit(stream.MessageHeaderSize + stream.MaxBody + 64)
	if err := hello(ctx, ws, c.client.opts.Name); err != nil {
		_ = ws.CloseNow()
		return nil, err
	}
	l := &link{ws: ws, out: make(chan message, outQueue)}
	l.ended, l.end = context.WithCancel(c.ctx)
	return l, nil
}

func hello(ctx context.Context, ws *websocket.Conn, name string) error {
	const op = "client.hello"
	params, err := json.Marshal(protocol.Hello{Client: name})
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	body, err := json.Marshal(protocol.Request{ID: 1, Op: protocol.OpHello, Params: params})
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	if err := ws.Write(ctx, websocket.MessageText, body); err != nil {
		return linkError(err)
	}
	_, text, err := ws.Read(ctx)
	if err != nil {
		return linkError(err)
	}
	var reply protocol.Reply
	var welcome protocol.Welcome
	if err := json.Unmarshal(text, &reply); err != nil {
		return &fault.Error{Kind: fault.Malformed, Op: op, Message: "the server's first message is no reply", Err: err}
	}
	if reply.Error != nil {
		e := reply.Error.Err(op)
		if e.Kind.Row().Close >= 3500 {
			return &finalError{e}
		}
		return e
	}
	if err := json.Unmarshal(reply.Result, &welcome); err != nil || welcome.Protocol != protocol.Subprotocol {
		return &finalError{fault.New(fault.Unsupported, op, "the server speaks %q, this client %s", welcome.Protocol, protocol.Subprotocol)}
	}
	return nil
}

// write sends what is queued, in order.
func (l *link) write() {
	for {
		select {
		case m := <-l.out:
			ctx, cancel := context.WithTimeout(l.ended, writeTimeout)
			err := l.ws.Write(ctx, m.kind, m.body)
			cancel()
			if err != nil {
				l.end() // the reader finds out and reports
				return
			}
		case <-l.ended.Done():
			return
		}
	}
}

// ping finds a network that is gone without a word.
func (l *link) ping() {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			ctx, cancel := context.WithTimeout(l.ended, pingTimeout)
			err := l.ws.Ping(ctx)
			cancel()
			if err != nil {
				l.end()
				return
			}
		case <-l.ended.Done():
			return
		}
	}
}

// send queues a message. false means that the link or ctx ended first.
func (l *link) send(ctx context.Context, kind websocket.MessageType, body []byte) bool {
	select {
	case l.out <- message{kind, body}:
		return true
	case <-l.ended.Done():
	case <-ctx.Done():
	}
	return false
}

// raise makes l the link in use and sends what waited for one: first the
// viewers' attachments, then the calls by age.
func (c *Conn) raise(l *link) bool {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return false
	}
	c.link = l
	c.links++
	var waiting []*call
	for _, p := range c.calls {
		if p.sent == nil {
			p.sent = l
			waiting = append(waiting, p)
		}
	}
	slices.SortFunc(waiting, func(a, b *call) int { return int(int64(a.id) - int64(b.id)) })
	viewers := make([]*Viewer, 0, len(c.viewers))
	for _, v := range c.viewers {
		viewers = append(viewers, v)
	}
	watches := slices.Collect(maps.Values(c.watches))
	close(c.ready)
	c.work.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.work.Done()
		for _, v := range viewers {
			v.attach()
		}
		for _, w := range watches {
			w.begin(l)
		}
		for _, p := range waiting {
			if !l.send(c.ctx, websocket.MessageText, p.body) {
				return
			}
		}
	}()
	return true
}

// lower takes l out of use. Calls that may not be repeated fail; the others
// wait for the next link.
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
	viewers := make([]*Viewer, 0, len(c.viewers))
	for _, v := range c.viewers {
		viewers = append(viewers, v)
	}
	c.mu.Unlock()
	for _, v := range viewers {
		v.lower()
	}
	for _, p := range failed {
		p.reply(nil, &fault.Error{
			Kind: fault.Unavailable, Op: "client.call",
			Message: "the connection was lost before the reply came; it may or may not have been done", Err: cause,
		})
	}
}

// receive takes one message from the server. An error ends the link.
func (c *Conn) receive(l *link, kind websocket.MessageType, body []byte) error {
	const op = "client.receive"
	if kind == websocket.MessageText {
		return c.control(l, body)
	}
	f, err := stream.ParseMessage(body)
	if err != nil {
		return err
	}
	switch f.Type {
	case stream.Control:
		return c.control(l, f.Body)
	case stream.Records:
		c.mu.Lock()
		v := c.viewers[f.Channel]
		c.mu.Unlock()
		if v == nil {
			return nil // it was on its way when the viewer was closed
		}
		return v.receive(l, f.Body)
	case stream.Ack:
		c.mu.Lock()
		v := c.viewers[f.Channel]
		c.mu.Unlock()
		if v != nil && len(f.Body) == 8 {
			v.inputTaken(binary.BigEndian.Uint64(f.Body))
		}
		return nil
	}
	return fault.New(fault.Malformed, op, "the server sent a frame of type %d", f.Type)
}

func (c *Conn) control(l *link, body []byte) error {
	var reply protocol.Reply
	if err := json.Unmarshal(body, &reply); err != nil {
		return &fault.Error{Kind: fault.Malformed, Op: "client.receive", Message: "the server sent a message that is no JSON", Err: err}
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
		return nil // the caller gave up
	}
	if reply.Error != nil {
		p.reply(nil, reply.Error.Err("client.call"))
	} else {
		p.reply(reply.Result, nil)
	}
	return nil
}

// eventError is the event that a frame of ours was refused.
const eventError = "error"

// event passes news on to the viewers they concern.
func (c *Conn) event(l *link, reply protocol.Reply) {
	switch reply.Event {
	case protocol.EventLost:
	case protocol.EventState:
		var s protocol.StateChange
		if tell := c.client.opts.OnSession; tell != nil && json.Unmarshal(reply.Params, &s) == nil {
			tell(s)
		}
		return
	case protocol.EventFile:
		var f protocol.FileChanges
		c.mu.Lock()
		w := c.watches[reply.Ch]
		c.mu.Unlock()
		if w != nil && json.Unmarshal(reply.Params, &f) == nil {
			w.take(f)
		}
		return
	case eventError:
		var p fault.Public
		c.mu.Lock()
		v := c.viewers[reply.Ch]
		c.mu.Unlock()
		if v != nil && json.Unmarshal(reply.Params, &p) == nil {
			v.inputRefused(l, p.Err("client.stdin"))
		}
		return
	default:
		return // later versions may have more
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

// start registers a call and sends it, now or once there is a link.
func (c *Conn) start(ctx context.Context, name string, ch uint32, params any, repeat bool, reply func(json.RawMessage, error)) (uint64, error) {
	return c.startOn(ctx, nil, name, ch, params, repeat, reply)
}

// startOn is start over the link on and no other, unless that is nil.
func (c *Conn) startOn(ctx context.Context, on *link, name string, ch uint32, params any, repeat bool, reply func(json.RawMessage, error)) (uint64, error) {
	const op = "client.call"
	req := protocol.Request{Op: name, Ch: ch}
	if params != nil {
		raw, err := json.Marshal(params)
		if err != nil {
			return 0, fault.Wrap(fault.InvalidArgument, op, err)
		}
		req.Params = raw
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return 0, c.err
	}
	if on != nil && c.link != on {
		c.mu.Unlock()
		return 0, fault.New(fault.Unavailable, op, "the connection was lost")
	}
	if len(c.calls) >= MaxPending {
		c.mu.Unlock()
		return 0, fault.New(fault.Exhausted, op, "%d calls wait for their replies already", MaxPending)
	}
	c.nextID++
	req.ID = c.nextID
	body, err := json.Marshal(req)
	if err == nil && len(body) > protocol.MaxControl {
		err = fault.New(fault.TooLarge, op, "the request has %d bytes, the limit is %d", len(body), protocol.MaxControl)
	}
	if err != nil {
		c.mu.Unlock()
		return 0, err
	}
	p := &call{id: req.ID, body: body, repeat: repeat, reply: reply, sent: c.link}
	c.calls[p.id] = p
	l := c.link
	c.mu.Unlock()
	if l != nil && !l.send(ctx, websocket.MessageText, body) && ctx.Err() != nil {
		c.forget(p.id)
		return 0, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
	return p.id, nil
}

// forget drops a call whose caller has given up.
func (c *Conn) forget(id uint64) {
	c.mu.Lock()
	delete(c.calls, id)
	c.mu.Unlock()
}

// call asks and waits for the reply. repeat allows it to be sent again after
// a reconnect. result may be nil.
func (c *Conn) call(ctx context.Context, name string, ch uint32, params, result any, repeat bool) error {
	type answer struct {
		result json.RawMessage
		err    error
	}
	got := make(chan answer, 1)
	id, err := c.start(ctx, name, ch, params, repeat, func(r json.RawMessage, err error) { got <- answer{r, err} })
	if err != nil {
		return err
	}
	var a answer
	select {
	case a = <-got:
	case <-ctx.Done():
		c.forget(id)
		return fault.Wrap(fault.KindOf(ctx.Err()), "client."+name, ctx.Err())
	}
	if a.err != nil || result == nil {
		return a.err
	}
	if err := json.Unmarshal(a.result, result); err != nil && !errors.Is(err, io.EOF) {
		return &fault.Error{Kind: fault.Malformed, Op: "client." + name, Message: "the reply cannot be read", Err: err}
	}
	return nil
}
