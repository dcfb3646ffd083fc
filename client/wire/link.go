package wire

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client/internal/hello"
	"github.com/sandgate/sandgate/client/internal/whole"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// link is one WebSocket of a Conn, or the part of it that belongs to one attached channel. A part ends
// with the WebSocket, or before it with its attachment.
type link struct {
	ws    *websocket.Conn
	out   chan outgoing
	ended context.Context
	end   context.CancelFunc
	whole *link // the link of the WebSocket; of a whole link itself
}

// part returns a new part of l.
func (l *link) part() *link {
	p := &link{ws: l.ws, out: l.out, whole: l.whole}
	p.ended, p.end = context.WithCancel(l.ended)
	return p
}

// ticketPrefix begins the subprotocol that carries a ticket.
const ticketPrefix = "ticket."

// dial opens a WebSocket and performs hello.
func (c *Conn) dial() (*link, error) {
	const op = "client.connect"
	ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
	defer cancel()
	header := http.Header{}
	c.client.authorize(header)
	subprotocols := []string{protocol.Subprotocol}
	if c.client.opts.Ticket != "" {
		subprotocols = append(subprotocols, ticketPrefix+c.client.opts.Ticket)
	}
	ws, resp, err := websocket.Dial(ctx, c.client.endpoint([]string{"v1", "ws"}),
		&websocket.DialOptions{
			HTTPClient: whole.Messages(c.client.opts.HTTP), HTTPHeader: header,
			Subprotocols: subprotocols,
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
			return nil, &hello.FinalError{Err: e}
		}
		return nil, e
	}
	ws.SetReadLimit(frame.MessageHeaderSize + frame.MaxBody + 64)
	if err := hello.Send(ctx, ws, protocol.Hello{
		Client: c.client.opts.Name, Events: []string{protocol.EventDetached},
	}); err != nil {
		_ = ws.CloseNow()
		return nil, err
	}
	l := &link{ws: ws, out: make(chan outgoing, outQueue)}
	l.whole = l
	l.ended, l.end = context.WithCancel(c.ctx)
	return l, nil
}

// write sends the queued messages in order.
func (l *link) write() {
	for {
		select {
		case m := <-l.out:
			ctx, cancel := context.WithTimeout(l.ended, writeTimeout)
			err := l.ws.Write(ctx, m.kind, m.body)
			cancel()
			if err != nil {
				l.end() // the reader notices and reports it
				return
			}
		case <-l.ended.Done():
			return
		}
	}
}

// ping detects a network that failed silently.
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

// send queues a message. It returns false if the link or ctx ended first.
func (l *link) send(ctx context.Context, kind websocket.MessageType, body []byte) bool {
	if l.ended.Err() != nil { // l may be a part, whose queue continues
		return false
	}
	select {
	case l.out <- outgoing{kind, body}:
		return true
	case <-l.ended.Done():
	case <-ctx.Done():
	}
	return false
}
