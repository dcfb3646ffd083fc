package gateway

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/coder/websocket"
	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// upgrader gives websocket.Accept the connection that fasthttp has let go of.
type upgrader struct {
	header http.Header
	edge   *edge
	err    error
}

func (u *upgrader) Header() http.Header         { return u.header }
func (u *upgrader) Write(p []byte) (int, error) { return u.edge.Write(p) }
func (u *upgrader) WriteHeader(status int) {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = u.header.Write(&b)
	b.WriteString("\r\n")
	_, u.err = io.WriteString(u.edge, b.String())
}

func (u *upgrader) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return u.edge, bufio.NewReadWriter(bufio.NewReaderSize(u.edge, readBuffer), bufio.NewWriterSize(u.edge, writeBuffer)), u.err
}

// The buffers of a WebSocket, in bytes. Larger reads and writes bypass them.
const (
	readBuffer  = 128
	writeBuffer = 64
)

// has reports whether a header that is a list has the token.
func has(c *fiber.Ctx, name, token string) bool {
	for _, v := range c.Request().Header.PeekAll(name) {
		for t := range strings.SplitSeq(string(v), ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// checkHandshake refuses, in the server's own words, whatever
// websocket.Accept would refuse.
func checkHandshake(c *fiber.Ctx) error {
	const op = "gateway.upgrade"
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(c.Get("Sec-WebSocket-Key")))
	switch {
	case !c.Request().Header.IsHTTP11(), !has(c, fiber.HeaderConnection, "upgrade"), !has(c, fiber.HeaderUpgrade, "websocket"):
		return fault.New(fault.Malformed, op, "this route takes a WebSocket handshake")
	case c.Get("Sec-WebSocket-Version") != "13":
		return fault.New(fault.Malformed, op, "the only WebSocket version is 13")
	case err != nil || len(key) != 16:
		return fault.New(fault.Malformed, op, "Sec-WebSocket-Key is not 16 bytes in base64")
	case !slices.Contains(subprotocols(c), protocol.Subprotocol):
		return fault.Invalid(op, "Sec-WebSocket-Protocol", "the subprotocol %s must be offered", protocol.Subprotocol)
	}
	return nil
}

// socket turns the request into a relay. fasthttp sends no response and lets
// the connection go once the handler has returned.
func (g *Gateway) socket(q *request) error {
	if err := checkHandshake(q.Ctx); err != nil {
		return err
	}
	if q.conn == nil {
		return fault.New(fault.Internal, "gateway.upgrade", "the connection did not come through Serve")
	}
	r := newRelay(q)
	if err := g.join(r); err != nil {
		return err
	}
	// The request's memory is fasthttp's again when this returns.
	req := &http.Request{Method: "GET", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {q.Get("Sec-WebSocket-Key")}, "Sec-Websocket-Protocol": {protocol.Subprotocol},
	}}
	c := q.conn
	c.pending.Store(r)
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
		r.edge = newEdge(c, early, g.cfg.Times.Write)
		go r.begin(&upgrader{header: make(http.Header), edge: r.edge}, req)
	})
	return nil
}

func accept(u *upgrader, req *http.Request, ping func() bool) (*websocket.Conn, error) {
	ws, err := websocket.Accept(u, req, &websocket.AcceptOptions{
		Subprotocols: []string{protocol.Subprotocol},
		// The door has checked Origin, more strictly.
		InsecureSkipVerify: true,
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     onPing(ping),
	})
	if err != nil {
		return nil, fault.Wrap(fault.Canceled, "gateway.upgrade", err)
	}
	// The relay has limits of its own, with our close code.
	ws.SetReadLimit(-1)
	return ws, nil
}
