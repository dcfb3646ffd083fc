package gateway

import (
	"net"
	"net/http"
	"slices"

	"github.com/sandgate/sandgate/gateway/edge"
	"github.com/sandgate/sandgate/gateway/relay"
	"github.com/sandgate/sandgate/protocol/fault"
)

// socket turns the request into a WebSocket. It takes the connection over from net/http and
// returns, so that an idle WebSocket keeps no part of the request and none of net/http's buffers.
func (g *Gateway) socket(q *request) error {
	r := q.x.r
	key, err := relay.CheckHandshake(r.ProtoAtLeast(1, 1), r.Header)
	if err != nil {
		return err
	}
	if q.x.conn == nil {
		return fault.New(fault.Internal, "gateway.upgrade",
			"the connection did not come through Serve")
	}
	s, err := g.sockets.Join(q.who, q.route.Path, q.start)
	if err != nil {
		return err
	}
	_, buffered, err := http.NewResponseController(q.x.w).Hijack()
	if err != nil {
		s.Abandon()
		return fault.Wrap(fault.Internal, "gateway.upgrade", err)
	}
	q.x.answered = true
	q.streams = true // the relay logs the end
	early, _ := buffered.Peek(buffered.Reader.Buffered())
	if early = slices.Clone(early); len(early) == 0 {
		early = nil // it would keep a buffer alive
	}
	s.Serve(rawConn{q.x.conn.Raw(), q.x.conn}, early, key)
	return nil
}

// rawConn is a connection without the deadlines that conn sets for HTTP.
type rawConn struct {
	net.Conn
	owner *edge.Conn
}

func (c rawConn) Close() error { return c.owner.Close() }
