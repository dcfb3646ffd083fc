package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

const (
	// closeRestart is RFC 6455's "service restart". 1000 and 1001 would tell
	// Jupyter's clients not to come back.
	closeRestart  = websocket.StatusServiceRestart
	closeProtocol = websocket.StatusProtocolError
	// maxBinary is the largest binary message of a client: a frame's header,
	// a sequence number and the data.
	maxBinary = stream.MessageHeaderSize + 8 + protocol.MaxInput
	// maxPings is how many pings of a client are answered in a second.
	maxPings = 50
	// closeWait is how long a client may take to answer a close frame.
	closeWait = 5 * time.Second
)

// relay is one WebSocket and its link. Two goroutines serve it: one from the
// client to the node, one back. Nothing is queued between them and the two
// ends, so a slow end slows the other; credit keeps that from happening.
type relay struct {
	g    *Gateway
	q    logLine
	who  noderpc.Principal
	edge *edge
	ws   *websocket.Conn
	link Link
	// sending is set while the node takes a frame: the client's pongs cannot
	// be read then, and are not missed.
	sending atomic.Bool
	pinger  *time.Timer
	pings   rate
	awaited awaited

	mu    sync.Mutex // guards all below
	ready bool       // ws is set
	ended bool
	code  websocket.StatusCode
	why   string
}

// logLine is what the access log says of a request that is long gone.
type logLine struct {
	route string
	start time.Time
}

func newRelay(q *request) *relay {
	return &relay{g: q.g, who: q.who, q: logLine{route: q.route.Path, start: q.start}}
}

// begin answers the handshake and hello, and hands the connection to the two
// goroutines that serve it: theirs begin with small stacks, while a handshake
// leaves a large one.
func (r *relay) begin(u *upgrader, req *http.Request) {
	if err := r.welcome(u, req); err != nil {
		if r.ws != nil {
			r.fail(err)
		}
		if r.link != nil {
			_ = r.link.Close()
		}
		r.leave()
		return
	}
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		r.fail(r.pump())
	}()
	r.mu.Lock()
	if !r.ended {
		r.pinger = time.AfterFunc(r.g.cfg.Times.Ping, r.ping)
	}
	r.mu.Unlock()
	go r.serve(pumped)
}

func (r *relay) welcome(u *upgrader, req *http.Request) error {
	ws, err := accept(u, req, r.pings.allow(&r.g.stats.pongsSaved))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.ws, r.ready = ws, true
	code, why, ended := r.code, r.why, r.ended
	r.mu.Unlock()
	if ended { // a shutdown came in between
		r.close(code, why)
		return fault.New(fault.Restarting, "gateway.upgrade", "the gateway is shut down")
	}
	return r.hello()
}

// serve reads from the client until the connection ends.
func (r *relay) serve(pumped <-chan struct{}) {
	defer r.leave()
	r.fail(r.read())
	_ = r.link.Close()
	<-pumped
}

// leave is the relay's last act.
func (r *relay) leave() {
	_ = r.edge.conn.Close()
	r.awaited.leave()
	r.log()
	r.g.leave(r)
}

// hello awaits the first request, which must be hello, and opens the link: a
// connection that says nothing costs the node nothing.
func (r *relay) hello() error {
	const op = "gateway.hello"
	r.deadline(r.g.cfg.Times.Hello)
	buf := stream.GetBuffer()
	defer stream.PutBuffer(buf)
	typ, err := r.message(buf)
	if err != nil {
		if isTimeout(err) {
			return fault.New(fault.DeadlineExceeded, op, "the client did not say hello in time")
		}
		return err
	}
	if typ != websocket.MessageText {
		return fault.New(fault.Malformed, op, "the first message must be hello")
	}
	e, err := parseEnvelope(*buf)
	if err != nil {
		return err
	}
	if e.op != protocol.OpHello {
		return fault.New(fault.Malformed, op, "the first request must be hello")
	}
	ctx, cancel := context.WithTimeout(r.g.base, r.g.cfg.Times.Hello)
	defer cancel()
	if r.link, err = r.g.node.Open(ctx, r.who); err != nil {
		_ = r.refuse(e.id, err)
		return err
	}
	r.deadline(0)
	return r.answer(e.id, protocol.Welcome{Protocol: protocol.Subprotocol, Server: "sandgate/" + r.g.cfg.Version})
}

// read relays from the client to the node.
func (r *relay) read() error {
	for {
		if err := r.readOne(); err != nil {
			return err
		}
	}
}

func (r *relay) readOne() error {
	typ, src, err := r.ws.Reader(context.Background())
	if err != nil {
		return err
	}
	r.deadline(r.g.cfg.Times.Message)
	buf := stream.GetBuffer()
	defer stream.PutBuffer(buf)
	if err := fill(src, buf, limitOf(typ)); err != nil {
		return err
	}
	r.deadline(0)
	r.g.stats.messagesIn.Add(1)
	if typ == websocket.MessageBinary {
		f, err := r.checkFrame(*buf)
		if err != nil {
			return err
		}
		return r.send(f)
	}
	e, err := parseEnvelope(*buf)
	if err != nil {
		if e.id == 0 {
			return err
		}
		return r.refuse(e.id, err)
	}
	err = r.checkOp(e.op)
	if err == nil {
		err = r.g.auth.Meter(r.who)
	}
	if err != nil {
		// A request without an id has no reply, not even this one.
		return r.refuse(e.id, err)
	}
	*buf = r.begun(e, *buf)
	return r.send(stream.Frame{Type: stream.Control, Body: *buf})
}

func (r *relay) send(f stream.Frame) error {
	r.sending.Store(true)
	defer r.sending.Store(false)
	return r.link.Send(f)
}

func (r *relay) checkOp(op string) error {
	const name = "gateway.op"
	scope, ok := opScope(op)
	switch {
	case op == protocol.OpHello:
		return fault.New(fault.Conflict, name, "hello was said already")
	case op == protocol.OpFileRead, op == protocol.OpFileWrite, op == protocol.OpTreeRead, op == protocol.OpTreeWrite:
		return fault.New(fault.Unsupported, name, "files are read and written over HTTP: /v1/sessions/{id}/files/{path}")
	case op == protocol.OpPortOpen:
		return fault.New(fault.Unsupported, name, "ports are reached over HTTP: /v1/sessions/{id}/ports/{port}/")
	case !ok:
		return fault.New(fault.Unsupported, name, "there is no operation of that name")
	}
	return auth.Permit(name, r.who, scope)
}

// checkFrame lets a client send input and acknowledgements, nothing else.
func (r *relay) checkFrame(b []byte) (stream.Frame, error) {
	const op = "gateway.frame"
	f, err := stream.ParseMessage(b)
	if err != nil {
		return f, err
	}
	switch {
	case f.Type == stream.Ack:
		if len(f.Body) != 8 || f.Flags != 0 || f.Body[0]&0x80 != 0 {
			return f, fault.New(fault.Malformed, op, "an Ack is one offset of 8 bytes, below 2^63, without flags")
		}
		return f, nil
	case f.Type != stream.Input:
		return f, fault.New(fault.Malformed, op, "a client sends frames of the types Input and Ack only")
	case len(f.Body) < 8 || f.Flags&^(stream.FlagEnd|stream.FlagPaste) != 0:
		return f, fault.New(fault.Malformed, op, "an Input frame begins with a sequence number of 8 bytes and has no flag but end and paste")
	}
	return f, auth.Permit(op, r.who, ScopeWrite)
}

// pump relays from the node to the client.
func (r *relay) pump() error {
	link, _ := r.link.(thrifty)
	for {
		if link != nil {
			link.Wait()
		}
		if err := r.pumpOne(link); err != nil {
			return err
		}
	}
}

func (r *relay) pumpOne(link thrifty) error {
	f, err := nodecall.Next(r.link)
	if err != nil {
		return err
	}
	r.g.stats.messagesOut.Add(1)
	r.awaited.reply(f)
	r.edge.cork()
	err = r.write(f)
	if link == nil || !link.Buffered() {
		if ferr := r.edge.uncork(); err == nil {
			err = ferr
		}
	}
	if r.edge.slowed.Load() {
		r.g.stats.slow.Add(1)
		return fault.New(fault.Slow, "gateway.write", "the client took nothing for %s", r.g.cfg.Times.Write)
	}
	return err
}

// write sends a frame of the node's as a message.
func (r *relay) write(f stream.Frame) error {
	if f.Type == stream.Control {
		return r.ws.Write(context.Background(), websocket.MessageText, f.Body)
	}
	buf := stream.GetBuffer()
	defer stream.PutBuffer(buf)
	*buf = stream.AppendMessage(*buf, f)
	return r.ws.Write(context.Background(), websocket.MessageBinary, *buf)
}

// ping finds out whether the other end is still there, and comes again.
func (r *relay) ping() {
	if !r.g.auth.Keys.Valid(r.who) { // it has expired since
		r.fail(auth.ErrRevoked())
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.g.cfg.Times.Pong)
	defer cancel()
	err := r.ws.Ping(ctx)
	busy := r.edge.writing.Load() || r.sending.Load() // with deadlines of their own
	if err != nil && !busy {
		r.g.stats.slow.Add(1)
		r.fail(fault.New(fault.Slow, "gateway.ping", "the client did not answer a ping for %s", r.g.cfg.Times.Pong))
		return
	}
	if link, ok := r.link.(thrifty); ok {
		link.Shrink()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.pinger.Reset(r.g.cfg.Times.Ping)
	}
}

func (r *relay) answer(id uint64, result any) error {
	if id == 0 {
		return nil
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return fault.Wrap(fault.Internal, "gateway.answer", err)
	}
	return r.reply(protocol.Reply{ID: id, Result: raw})
}

func (r *relay) refuse(id uint64, err error) error {
	if id == 0 {
		return nil
	}
	p := surface.PublicOf(err)
	r.g.metrics.failed(err)
	return r.reply(protocol.Reply{ID: id, Error: &p})
}

func (r *relay) reply(reply protocol.Reply) error {
	body, err := json.Marshal(reply)
	if err != nil {
		return fault.Wrap(fault.Internal, "gateway.answer", err)
	}
	return r.ws.Write(context.Background(), websocket.MessageText, body)
}

// message reads a whole message into buf.
func (r *relay) message(buf *[]byte) (websocket.MessageType, error) {
	typ, src, err := r.ws.Reader(context.Background())
	if err != nil {
		return typ, err
	}
	return typ, fill(src, buf, limitOf(typ))
}

func limitOf(typ websocket.MessageType) int {
	if typ == websocket.MessageBinary {
		return maxBinary
	}
	return protocol.MaxControl
}

// fill reads src into buf, at most limit bytes.
func fill(src io.Reader, buf *[]byte, limit int) error {
	b := (*buf)[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := src.Read(b[len(b):min(cap(b), limit+1)])
		b = b[:len(b)+n]
		*buf = b
		if len(b) > limit {
			return fault.New(fault.TooLarge, "gateway.read", "a message is over %d bytes", limit)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// deadline bounds what follows on the reading side; 0 means no bound. Once
// the end has begun it is close's business.
func (r *relay) deadline(d time.Duration) {
	var t time.Time
	if d > 0 {
		t = time.Now().Add(d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		_ = r.edge.conn.SetReadDeadline(t)
	}
}

// fail ends the connection with what err says to the client.
func (r *relay) fail(err error) {
	var known *fault.Error
	switch {
	case websocket.CloseStatus(err) != -1:
		r.end(websocket.CloseStatus(err), "client")
	case errors.As(err, &known) && known.Kind == fault.Canceled:
		// The link was closed by this side: whoever did has said why.
		r.end(websocket.StatusNormalClosure, "client")
	case errors.As(err, &known):
		r.end(websocket.StatusCode(known.Kind.Row().Close), string(known.Kind))
	case isTimeout(err):
		r.end(websocket.StatusCode(fault.DeadlineExceeded.Row().Close), string(fault.DeadlineExceeded))
	case isGone(err):
		r.end(websocket.StatusAbnormalClosure, "gone")
	default:
		r.end(closeProtocol, "protocol error")
	}
}

// end closes the connection once; the first reason counts.
func (r *relay) end(code websocket.StatusCode, why string) {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return
	}
	r.ended, r.code, r.why = true, code, why
	if r.pinger != nil {
		r.pinger.Stop()
	}
	ready := r.ready
	r.mu.Unlock()
	if ready {
		r.close(code, why)
	}
}

func (r *relay) close(code websocket.StatusCode, why string) {
	// coder/websocket waits for the peer's answer, and may wait in a frame
	// that never ends.
	_ = r.edge.conn.SetReadDeadline(time.Now().Add(closeWait))
	_ = r.edge.uncork()
	if code == websocket.StatusAbnormalClosure || r.edge.broken.Load() {
		_ = r.ws.CloseNow()
	} else {
		_ = r.ws.Close(code, why)
	}
}

func (r *relay) log() {
	r.mu.Lock()
	code, why := r.code, r.why
	r.mu.Unlock()
	r.g.metrics.closed(code)
	r.g.log.LogAttrs(r.g.base, slog.LevelInfo, "socket",
		slog.String("route", r.q.route), slog.Int("close", int(code)), slog.String("reason", why),
		slog.Int64("received", r.edge.read.Load()), slog.Int64("bytes", r.edge.wrote.Load()),
		slog.Duration("duration", time.Since(r.q.start)), slog.String("subject", r.who.Subject))
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// isGone reports whether err is the connection's end rather than a breach of
// the protocol.
func isGone(err error) bool {
	var op interface{ Temporary() bool } // net.OpError and its like
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isClosed(err) || errors.As(err, &op)
}

// rate counts events in the present second. One goroutine uses it.
type rate struct {
	second int64
	n      int
}

// allow returns a function that says whether one more ping is answered.
func (p *rate) allow(ignored *atomic.Int64) func() bool {
	return func() bool {
		if now := time.Now().Unix(); now != p.second {
			p.second, p.n = now, 0
		}
		if p.n++; p.n > maxPings {
			ignored.Add(1)
			return false
		}
		return true
	}
}

func onPing(allow func() bool) func(context.Context, []byte) bool {
	return func(context.Context, []byte) bool { return allow() }
}

// newKey is an idempotency key of 128 random bits.
func newKey() string {
	return "run-" + strconv.FormatUint(randomUint(), 36) + strconv.FormatUint(randomUint(), 36)
}
