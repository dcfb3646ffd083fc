package relay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// closeRestart is "service restart" of RFC 6455. After 1000 or 1001 Jupyter's
	// clients do not reconnect.
	closeRestart  = websocket.StatusServiceRestart
	closeProtocol = websocket.StatusProtocolError
	// maxBinary is the largest binary message of a client: the header of a frame,
	// a sequence number and the data.
	maxBinary = frame.MessageHeaderSize + 8 + protocol.MaxInput
	// maxPings is the largest number of a client's pings that are answered per second.
	maxPings = 50
	// closeWait is how long a client may take to answer a close frame.
	closeWait = 5 * time.Second
)

// Socket is one WebSocket and its link to a node. Two goroutines serve it: one from the client to
// the node, one back. There is no queue between them and the two ends, so a slow end slows the
// other. Credit prevents that.
type Socket struct {
	server *Server
	who    noderpc.Principal
	route  string
	start  time.Time
	conn   *corkedConn
	ws     *websocket.Conn
	link   nodecall.Link
	// sending is set while the node accepts a frame. The client's pongs cannot be read then, so a
	// missing pong means nothing.
	sending atomic.Bool
	pinger  *time.Timer
	pings   pingLimit
	spans   openSpans
	open    openRequests

	mu    sync.Mutex // guards all fields below
	ready bool       // ws is set
	ended bool
	code  websocket.StatusCode
	why   string
}

// serveSocket answers the handshake and hello, and starts the two goroutines that serve the socket.
// They have small stacks. This goroutine's stack has grown during the handshake.
func (s *Socket) serveSocket(key string) {
	if err := s.welcome(key); err != nil {
		if s.ws != nil {
			s.fail(err)
		}
		if s.link != nil {
			_ = s.link.Close()
		}
		s.leave()
		return
	}
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		s.fail(s.pump())
	}()
	s.mu.Lock()
	if !s.ended {
		s.pinger = time.AfterFunc(s.server.cfg.Times.Ping, s.ping)
	}
	s.mu.Unlock()
	go s.serve(pumped)
}

func (s *Socket) welcome(key string) error {
	ws, err := accept(s.conn, key, s.pings.allow(&s.server.stats.PingsIgnored))
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.ws, s.ready = ws, true
	code, why, ended := s.code, s.why, s.ended
	s.mu.Unlock()
	if ended { // by a shutdown during the handshake
		s.close(code, why)
		return fault.New(fault.Restarting, "relay.upgrade", "the gateway is shut down")
	}
	return s.hello()
}

// serve reads from the client until the connection ends.
func (s *Socket) serve(pumped <-chan struct{}) {
	defer s.leave()
	s.fail(s.read())
	_ = s.link.Close()
	<-pumped
}

// leave releases everything that the socket holds. It is called once.
func (s *Socket) leave() {
	_ = s.conn.Close()
	s.spans.close()
	s.log()
	s.server.leave(s)
}

// hello waits for the first request, which must be hello, and opens the link. A
// client that sends nothing causes no work on the node.
func (s *Socket) hello() error {
	const op = "relay.hello"
	s.deadline(s.server.cfg.Times.Hello)
	buf := frame.GetBuffer()
	defer frame.PutBuffer(buf)
	typ, err := s.message(buf)
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
	ctx, cancel := context.WithTimeout(s.server.cfg.Base, s.server.cfg.Times.Hello)
	defer cancel()
	if s.link, err = s.server.cfg.Open(ctx, s.who); err != nil {
		_ = s.refuse(e.id, err)
		return err
	}
	if l, is := s.link.(detachedReporter); is && wantsDetached(*buf) {
		l.ReportDetached()
	}
	s.deadline(0)
	return s.answer(e.id, protocol.Welcome{
		Protocol: protocol.Subprotocol,
		Server:   s.server.cfg.Name,
	})
}

// read relays from the client to the node.
func (s *Socket) read() error {
	for {
		if err := s.readOne(); err != nil {
			return err
		}
	}
}

func (s *Socket) readOne() error {
	typ, src, err := s.ws.Reader(context.Background())
	if err != nil {
		return err
	}
	s.deadline(s.server.cfg.Times.Message)
	buf := frame.GetBuffer()
	defer frame.PutBuffer(buf)
	if err := fill(src, buf, limitOf(typ)); err != nil {
		return err
	}
	s.deadline(0)
	s.server.stats.MessagesIn.Add(1)
	if typ == websocket.MessageBinary {
		f, err := s.checkFrame(*buf)
		if err != nil {
			return err
		}
		return s.send(f)
	}
	e, err := parseEnvelope(*buf)
	if err != nil {
		if e.id == 0 {
			return err
		}
		return s.refuse(e.id, err)
	}
	err = s.server.operations.check(s.who, e.op)
	if err == nil && e.keyed && s.server.operations[e.op].Creates {
		err = protocol.CheckIdempotencyKey("relay.key", fieldKey, e.key)
	}
	if err == nil {
		err = s.server.cfg.Credentials.Meter(s.who)
	}
	if err == nil {
		err = s.open.add(e.id)
	}
	if err != nil {
		// A request without an id gets no reply, and no error.
		return s.refuse(e.id, err)
	}
	*buf = s.startSpan(e, *buf)
	return s.send(frame.Frame{Type: frame.Control, Body: *buf})
}

func (s *Socket) send(f frame.Frame) error {
	s.sending.Store(true)
	defer s.sending.Store(false)
	return s.link.Send(f)
}

// checkFrame rejects frames other than Input and Ack.
func (s *Socket) checkFrame(b []byte) (frame.Frame, error) {
	const op = "relay.frame"
	f, err := frame.ParseMessage(b)
	if err != nil {
		return f, err
	}
	switch {
	case f.Type == frame.Ack:
		if len(f.Body) != 8 || f.Flags != 0 || f.Body[0]&0x80 != 0 {
			return f, fault.New(fault.Malformed, op,
				"an Ack is one offset of 8 bytes, below 2^63, without flags")
		}
		return f, nil
	case f.Type != frame.Input:
		return f, fault.New(fault.Malformed, op,
			"a client sends frames of the types Input and Ack only")
	case len(f.Body) < 8 || f.Flags&^(frame.FlagEnd|frame.FlagPaste) != 0:
		return f, fault.New(fault.Malformed, op,
			"an Input frame begins with a sequence number of 8 bytes and has no flags except end and paste")
	}
	return f, s.server.operations.checkInput(s.who)
}

// pump relays from the node to the client.
func (s *Socket) pump() error {
	link, _ := s.link.(bufferedLink)
	for {
		if link != nil {
			link.Wait()
		}
		if err := s.pumpOne(link); err != nil {
			return err
		}
	}
}

func (s *Socket) pumpOne(link bufferedLink) error {
	f, err := nodecall.Next(s.link)
	if err != nil {
		return err
	}
	s.server.stats.MessagesOut.Add(1)
	s.open.answered(f)
	s.spans.reply(f)
	for _, id := range detachedRequests(f) {
		s.open.forgetID(id)
		s.spans.cut(id)
	}
	s.conn.cork()
	err = s.write(f)
	if link == nil || !link.Buffered() {
		if ferr := s.conn.uncork(); err == nil {
			err = ferr
		}
	}
	if s.conn.slowed.Load() {
		return fault.New(fault.Slow, "relay.write", "the client read nothing for %s",
			s.server.cfg.Times.Write)
	}
	return err
}

// write sends a frame from the node as a message.
func (s *Socket) write(f frame.Frame) error {
	if f.Type == frame.Control {
		return s.ws.Write(context.Background(), websocket.MessageText, f.Body)
	}
	buf := frame.GetBuffer()
	defer frame.PutBuffer(buf)
	*buf = frame.AppendMessage(*buf, f)
	return s.ws.Write(context.Background(), websocket.MessageBinary, *buf)
}

// ping checks that the client still answers, and schedules the next check.
func (s *Socket) ping() {
	if !s.server.cfg.Credentials.Valid(s.who) { // the credentials have expired
		s.fail(errEnded())
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.server.cfg.Times.Pong)
	defer cancel()
	err := s.ws.Ping(ctx)
	busy := s.conn.writing.Load() || s.sending.Load() // these have their own deadlines
	if err != nil && !busy {
		s.server.cfg.Observer.Slow()
		s.fail(fault.New(fault.Slow, "relay.ping", "the client did not answer a ping for %s",
			s.server.cfg.Times.Pong))
		return
	}
	if link, ok := s.link.(bufferedLink); ok {
		link.Shrink()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.pinger.Reset(s.server.cfg.Times.Ping)
	}
}

func (s *Socket) answer(id uint64, result any) error {
	if id == 0 {
		return nil
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return fault.Wrap(fault.Internal, "relay.answer", err)
	}
	return s.reply(protocol.Reply{ID: id, Result: raw})
}

func (s *Socket) refuse(id uint64, err error) error {
	if id == 0 {
		return nil
	}
	p := surface.PublicOf(err)
	s.server.cfg.Observer.Failed(err)
	return s.reply(protocol.Reply{ID: id, Error: &p})
}

func (s *Socket) reply(reply protocol.Reply) error {
	body, err := json.Marshal(reply)
	if err != nil {
		return fault.Wrap(fault.Internal, "relay.answer", err)
	}
	return s.ws.Write(context.Background(), websocket.MessageText, body)
}

// message reads a whole message into buf.
func (s *Socket) message(buf *[]byte) (websocket.MessageType, error) {
	typ, src, err := s.ws.Reader(context.Background())
	if err != nil {
		return typ, err
	}
	return typ, fill(src, buf, limitOf(typ))
}

// bufferedLink is a link that knows whether Next will return at once, so that the socket joins
// frames into one write. It needs little memory while it waits: Shrink releases the large buffers
// of a burst.
type bufferedLink interface {
	Buffered() bool
	Wait()
	Shrink()
}

// detachedReporter is a link to several nodes. After ReportDetached it sends the event detached when
// the link to one of them ends, and does not end itself.
type detachedReporter interface{ ReportDetached() }

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
			return fault.New(fault.TooLarge, "relay.read", "a message is over %d bytes", limit)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// deadline bounds the following reads; 0 means no bound. Once the socket has ended, close sets the
// deadline.
func (s *Socket) deadline(d time.Duration) {
	var t time.Time
	if d > 0 {
		t = time.Now().Add(d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		_ = s.conn.SetReadDeadline(t)
	}
}

// fail ends the connection with the close code of an error.
func (s *Socket) fail(err error) {
	var known *fault.Error
	switch {
	case websocket.CloseStatus(err) != -1:
		s.closeWith(websocket.CloseStatus(err), "client")
	case errors.As(err, &known) && known.Kind == fault.Canceled:
		// This side has closed the link, and has called end with the reason.
		s.closeWith(websocket.StatusNormalClosure, "client")
	case errors.As(err, &known):
		s.closeWith(websocket.StatusCode(known.Kind.Row().Close), string(known.Kind))
	case isTimeout(err):
		s.closeWith(websocket.StatusCode(fault.DeadlineExceeded.Row().Close),
			string(fault.DeadlineExceeded))
	case isGone(err):
		s.closeWith(websocket.StatusAbnormalClosure, "gone")
	default:
		s.closeWith(closeProtocol, "protocol error")
	}
}

// closeWith closes the connection once. Only the first call's reason is used.
func (s *Socket) closeWith(code websocket.StatusCode, why string) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended, s.code, s.why = true, code, why
	if s.pinger != nil {
		s.pinger.Stop()
	}
	ready := s.ready
	s.mu.Unlock()
	if ready {
		s.close(code, why)
	}
}

func (s *Socket) close(code websocket.StatusCode, why string) {
	// coder/websocket waits for the client's answer, and would read a frame that
	// never ends.
	_ = s.conn.SetReadDeadline(time.Now().Add(closeWait))
	_ = s.conn.uncork()
	if code == websocket.StatusAbnormalClosure || s.conn.broken.Load() {
		_ = s.ws.CloseNow()
	} else {
		_ = s.ws.Close(code, why)
	}
}

func (s *Socket) log() {
	s.mu.Lock()
	code, why := s.code, s.why
	s.mu.Unlock()
	s.server.cfg.Observer.Closed(int(code))
	s.server.cfg.Logger.LogAttrs(s.server.cfg.Base, slog.LevelInfo, "socket",
		slog.String("route", s.route), slog.Int("close", int(code)), slog.String("reason", why),
		slog.Int64("received", s.conn.read.Load()), slog.Int64("bytes", s.conn.wrote.Load()),
		slog.Duration("duration", time.Since(s.start)), slog.String("subject", s.who.Subject))
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// isGone reports whether err means that the connection has ended, rather than a protocol error.
func isGone(err error) bool {
	var op interface{ Temporary() bool } // net.OpError and similar errors
	return err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.As(err, &op)
}

// pingLimit counts pings in the present second. One goroutine uses it.
type pingLimit struct {
	second int64
	n      int
}

// allow returns a function that reports whether one more ping is answered.
func (p *pingLimit) allow(ignored *atomic.Int64) func() bool {
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
