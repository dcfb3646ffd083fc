package gateway

import (
	"io"
	"net"
	"net/http"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/relay"
)

// socket turns the request into a WebSocket. fasthttp sends no response and
// releases the connection once the handler has returned.
func (g *Gateway) socket(q *request) error {
	key, err := relay.CheckHandshake(q.Request().Header.IsHTTP11(), handshakeHeader(q.Ctx))
	if err != nil {
		return err
	}
	if q.conn == nil {
		return fault.New(fault.Internal, "gateway.upgrade", "the connection did not come through Serve")
	}
	s, err := g.sockets.Join(q.who, q.route.Path, q.start)
	if err != nil {
		return err
	}
	c := q.conn
	c.pending.Store(s)
	q.streams = true
	q.Context().HijackSetNoResponse(true)
	q.Context().Hijack(func(nc net.Conn) {
		c.dry.Store(true)
		early, _ := io.ReadAll(nc)
		if len(early) == 0 {
			early = nil // which would hold a buffer
		}
		c.dry.Store(false)
		if c.pending.Swap(nil) == nil {
			return
		}
		s.Serve(rawConn{c.Conn, c}, early, key)
	})
	return nil
}

// rawConn is a connection without the deadlines that conn sets for HTTP.
type rawConn struct {
	net.Conn
	owner *conn
}

func (c rawConn) Close() error { return c.owner.Close() }

// handshakeHeader returns the headers of a WebSocket handshake.
func handshakeHeader(c *fiber.Ctx) http.Header {
	h := http.Header{}
	for _, name := range []string{"Connection", "Upgrade", "Sec-Websocket-Version", "Sec-Websocket-Key", "Sec-Websocket-Protocol"} {
		for _, v := range c.Request().Header.PeekAll(name) {
			h.Add(name, string(v))
		}
	}
	return h
}
