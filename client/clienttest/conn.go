package clienttest

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// conn is one client's WebSocket.
type conn struct {
	server *Server
	ws     *websocket.Conn
	ctx    context.Context

	// attached is guarded by the server's mu.
	attached map[uint32]*attachment
	work     sync.WaitGroup

	turn       sync.Mutex // held while a message is processed; guards all below
	detaches   bool       // the client handles the event detached
	unanswered []uint64   // the requests of a muted session
}

// attachment is a viewer on a connection.
type attachment struct {
	conn   *conn
	ch     uint32
	to     *channel
	reader *logReader
	writer string
	done   chan struct{} // closed when no more records are sent

	mu     sync.Mutex // guards all fields below
	sent   int64      // end of the sent part of the log
	lost   []byte     // the message about a loss, until it is sent
	lostAt int64      // the log up to this offset is sent before it
}

func (s *Server) socket(w http.ResponseWriter, r *http.Request) {
	// This comes before Accept, because after Accept the HTTP server does not wait for this
	// handler.
	s.work.Add(1)
	defer s.work.Done()
	ws, err := websocket.Accept(wholeWriter{w}, r,
		&websocket.AcceptOptions{Subprotocols: []string{protocol.Subprotocol}})
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	c := &conn{server: s, ws: ws, ctx: ctx, attached: make(map[uint32]*attachment)}
	s.mu.Lock()
	s.seen++
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	ws.SetReadLimit(frame.MaxBody)
	c.serve()
	cancel()
	s.mu.Lock()
	delete(s.conns, c)
	for _, a := range c.attached {
		c.drop(a)
	}
	s.mu.Unlock()
	c.work.Wait()
	_ = ws.CloseNow()
}

// drop ends an attachment. The server's mu is held.
func (c *conn) drop(a *attachment) {
	delete(c.attached, a.ch)
	a.reader.close()
	a.to.mu.Lock()
	delete(a.to.subscribers, a)
	a.to.mu.Unlock()
}

func (c *conn) text(body []byte) error { return c.ws.Write(c.ctx, websocket.MessageText, body) }

func (c *conn) serve() {
	for {
		kind, body, err := c.ws.Read(c.ctx)
		if err != nil {
			return
		}
		if !c.handleMessage(kind, body) {
			return
		}
	}
}

// handleMessage processes one message. It returns false when the connection ends.
func (c *conn) handleMessage(kind websocket.MessageType, body []byte) bool {
	c.turn.Lock()
	defer c.turn.Unlock()
	if kind == websocket.MessageBinary {
		f, err := frame.ParseMessage(body)
		if err != nil {
			return false
		}
		if err := c.frame(f); err != nil {
			p := fault.PublicOf(err)
			_ = c.ws.Close(websocket.StatusCode(p.Kind.Row().Close), p.Message)
			return false
		}
		return true
	}
	var req protocol.Request
	if json.Unmarshal(body, &req) != nil {
		return false
	}
	var start func()
	var result any
	var err error
	muted := c.muted(req)
	if req.Op == protocol.OpAttach {
		result, start, err = c.attach(req)
	} else {
		result, err = c.server.do(c, req)
	}
	switch {
	case req.ID == 0:
	case muted:
		c.unanswered = append(c.unanswered, req.ID)
	default:
		reply := protocol.Reply{ID: req.ID}
		if err != nil {
			p := fault.PublicOf(err)
			reply.Error = &p
		} else {
			reply.Result, _ = json.Marshal(result)
		}
		body, _ := json.Marshal(reply)
		if c.text(body) != nil {
			return false
		}
	}
	if start != nil {
		start()
	}
	return true
}

func (c *conn) attach(req protocol.Request) (any, func(), error) {
	var p protocol.Attach
	if err := json.Unmarshal(req.Params, &p); err != nil {
		return nil, nil, err
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	known := c.server.sessions[p.Session]
	if known == nil || known.channels[p.Channel] == nil {
		return nil, nil, fault.New(fault.NotFound, req.Op, "there is no such channel")
	}
	if c.attached[req.Ch] != nil {
		return nil, nil, fault.New(fault.Conflict, req.Op, "channel number %d is in use", req.Ch)
	}
	ch := known.channels[p.Channel]
	reader, err := ch.log.reader(p.Epoch, p.Offset, p.Window)
	if err != nil {
		return nil, nil, err
	}
	at := reader.pos // nobody else uses it yet
	a := &attachment{conn: c, ch: req.Ch, to: ch, reader: reader, writer: p.Writer, sent: at}
	a.done = make(chan struct{})
	c.attached[req.Ch] = a
	ch.mu.Lock()
	ch.subscribers[a] = struct{}{}
	taken := ch.writers[p.Writer]
	if p.Cols > 0 {
		ch.size = protocol.Resize{Cols: p.Cols, Rows: p.Rows}
	}
	ch.mu.Unlock()
	public := ch.public()
	return protocol.Attached{
		Epoch: public.Epoch, Offset: at, Channel: public,
		Input: taken,
	}, func() { c.work.Go(a.send) }, nil
}

func (a *attachment) send() {
	defer close(a.done)
	for {
		offset, records, err := a.reader.next(a.conn.ctx)
		if err != nil {
			return
		}
		body := frame.AppendRecords(nil, offset, records)
		m := frame.AppendMessage(nil, frame.Frame{
			Type: frame.Records, Channel: a.ch,
			Body: body,
		})
		if a.conn.ws.Write(a.conn.ctx, websocket.MessageBinary, m) != nil {
			return
		}
		a.mu.Lock()
		a.sent = offset
		if frame.Kind(records[4]) != frame.KindGap { // a gap occupies no offset
			a.sent += int64(len(records))
		}
		a.tellLost()
		a.mu.Unlock()
	}
}

// lose sends the message about a loss after the content of the log up to end.
func (a *attachment) lose(body []byte, end int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost, a.lostAt = body, end
	a.tellLost()
}

// tellLost sends the message about a loss once everything before it was sent. mu is held.
func (a *attachment) tellLost() {
	if a.lost != nil && a.sent >= a.lostAt {
		_ = a.conn.text(a.lost)
		a.lost = nil
	}
}

func (c *conn) frame(f frame.Frame) error {
	c.server.mu.Lock()
	a := c.attached[f.Channel]
	c.server.mu.Unlock()
	if a == nil || len(f.Body) < 8 {
		return nil
	}
	n := binary.BigEndian.Uint64(f.Body)
	switch f.Type {
	case frame.Ack:
		return a.reader.ack(int64(n))
	case frame.Input:
		if !a.to.take(a.writer, n, f.Body[8:], f.Flags&frame.FlagEnd != 0) {
			return fault.New(fault.Malformed, "input", "input %d came too early", n)
		}
		body := binary.BigEndian.AppendUint64(nil, n)
		_ = c.ws.Write(c.ctx, websocket.MessageBinary,
			frame.AppendMessage(nil, frame.Frame{
				Type: frame.Ack, Channel: f.Channel,
				Body: body,
			}))
	}
	return nil
}

// do performs an operation on a channel. The server's mu is held.
func (c *conn) do(req protocol.Request) (any, error) {
	if req.Op == protocol.OpHello {
		var p protocol.Hello
		_ = json.Unmarshal(req.Params, &p)
		c.detaches = slices.Contains(p.Events, protocol.EventDetached)
		return protocol.Welcome{Protocol: protocol.Subprotocol, Server: "test"}, nil
	}
	a := c.attached[req.Ch]
	if a == nil {
		return nil, fault.New(fault.NotFound, req.Op, "channel %d is not attached", req.Ch)
	}
	ch, script := a.to, c.server.script
	var about protocol.Complete
	_ = json.Unmarshal(req.Params, &about)
	switch req.Op {
	case protocol.OpDetach:
		c.drop(a)
		return struct{}{}, nil
	case protocol.OpExecute:
		var p protocol.Execute
		_ = json.Unmarshal(req.Params, &p)
		return ch.execute(p)
	case protocol.OpInterrupt:
		ch.interrupt()
		return struct{}{}, nil
	case protocol.OpRestart:
		return struct{}{}, nil
	case protocol.OpResize:
		var p protocol.Resize
		_ = json.Unmarshal(req.Params, &p)
		ch.mu.Lock()
		ch.size = p
		ch.mu.Unlock()
		select {
		case ch.signals <- "SIGWINCH":
		default:
		}
		return struct{}{}, nil
	case protocol.OpSignal:
		var p protocol.Signal
		_ = json.Unmarshal(req.Params, &p)
		select {
		case ch.signals <- p.Signal:
		default:
		}
		return struct{}{}, nil
	case protocol.OpInput:
		var p protocol.InputReply
		_ = json.Unmarshal(req.Params, &p)
		ch.mu.Lock()
		running := ch.running
		ch.mu.Unlock()
		if running == nil || running.Number != p.Cell {
			return nil, fault.New(fault.Conflict, req.Op, "cell %d is not running", p.Cell)
		}
		running.answers <- p
		return struct{}{}, nil
	case protocol.OpComplete:
		if script.Complete != nil {
			return script.Complete(about), nil
		}
		return message.Reply{Status: "ok"}, nil
	case protocol.OpInspect:
		if script.Inspect != nil {
			return script.Inspect(about), nil
		}
		return message.Reply{Status: "ok"}, nil
	case protocol.OpIsComplete:
		if script.IsComplete != nil {
			return script.IsComplete(about.Code), nil
		}
		return message.Reply{Status: "ok", IsComplete: "complete"}, nil
	case protocol.OpVariables:
		if script.Variables != nil {
			return script.Variables(), nil
		}
		return message.Reply{Status: "ok"}, nil
	}
	return nil, fault.New(fault.Unsupported, req.Op, "there is no operation %q", req.Op)
}

// wholeWriter makes a WebSocket report the loss of a connection inside a message. The library takes
// io.EOF inside a frame for the end of the message.
type wholeWriter struct{ http.ResponseWriter }

func (w wholeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return wholeConn{c}, rw, nil
}

// wholeConn is a connection that never ends with io.EOF.
type wholeConn struct{ net.Conn }

func (c wholeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
