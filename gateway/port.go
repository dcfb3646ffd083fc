package gateway

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// portTarget is the port that a request is for.
type portTarget struct {
	session string
	port    int
	// prefix is the part of the path that is the gateway's: empty where the
	// port has a host name of its own.
	prefix string
	// own says that it has.
	own bool
	// ours says that the request's Authorization was for the gateway, and not
	// for the program; ticket that it came with a ticket.
	ours, ticket bool
}

// portDomain is where ports have host names: <port>-<session>.<host>.
type portDomain struct {
	scheme, host, port string
}

// parsePortDomain reads ports.example.org, with a scheme before it and a port
// behind it or not.
func parsePortDomain(s string) (portDomain, error) {
	d := portDomain{scheme: "http"}
	if s == "" {
		return portDomain{}, nil
	}
	rest := strings.ToLower(s)
	if scheme, host, ok := strings.Cut(rest, "://"); ok {
		d.scheme, rest = scheme, host
	}
	d.host, d.port, _ = strings.Cut(rest, ":")
	_, err := strconv.ParseUint(d.port, 10, 16)
	if d.scheme != "http" && d.scheme != "https" || d.host == "" || strings.Trim(d.host, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || d.port != "" && err != nil {
		return d, fault.Invalid("gateway.config", "ports_domain", "%q is no domain such as https://ports.example.org", s)
	}
	return d, nil
}

// sessionMark is what session ids begin with. A host name cannot hold it.
const sessionMark = "s_"

// target reads <port>-<session>.<domain>, with or without a port behind it.
func (d portDomain) target(host string) (*portTarget, bool) {
	if d.host == "" {
		return nil, false
	}
	name, _, _ := strings.Cut(strings.ToLower(host), ":")
	label, ok := strings.CutSuffix(name, "."+d.host)
	number, id, dash := strings.Cut(label, "-")
	port, valid := portNumber(number)
	if !ok || !dash || !valid || id == "" || !validID(id) || strings.Contains(id, "_") {
		return nil, false
	}
	return &portTarget{session: sessionMark + id, port: port, own: true}, true
}

// url is the address of a port for a browser that came to the gateway by host.
func (d portDomain) url(session string, port int, host string) string {
	id, ok := strings.CutPrefix(session, sessionMark)
	if d.host == "" || !ok || strings.ContainsAny(id, "_-") {
		return ""
	}
	name, at := host, d.port
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		name = host[:i]
		if at == "" && d.scheme == "http" {
			at = host[i+1:]
		}
	}
	if d.host == "localhost" && !slices.Contains([]string{"localhost", "127.0.0.1", "[::1]"}, name) {
		return "" // that would be the browser's machine, and not this one
	}
	if at != "" {
		at = ":" + at
	}
	return d.scheme + "://" + strconv.Itoa(port) + "-" + id + "." + d.host + at + "/"
}

func portNumber(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil && n > 0 && s[0] != '0'
}

// portOfPath is the port of a request by path, or of one for a raw tunnel.
func portOfPath(c *fiber.Ctx) (*portTarget, error) {
	const op = "gateway.port"
	id := c.Params("id")
	port, ok := portNumber(c.Params("port"))
	switch {
	case !validID(id):
		return nil, fault.New(fault.NotFound, op, "there is no such session")
	case !ok:
		return nil, fault.Invalid(op, "port", "a port is a number from 1 to 65535")
	}
	return &portTarget{session: id, port: port, prefix: "/v1/sessions/" + id + "/ports/" + strconv.Itoa(port)}, nil
}

// key names the port in tickets and cookies.
func (p *portTarget) key() string { return p.session + ":" + strconv.Itoa(p.port) }

// uri is the target that the program gets: the path without the gateway's
// part, and the query without the ticket.
func (p *portTarget) uri(c *fiber.Ctx) string {
	path, query, _ := bytes.Cut(c.Request().Header.RequestURI(), []byte("?"))
	path = bytes.TrimPrefix(path, []byte(p.prefix))
	if len(path) == 0 || path[0] != '/' {
		path = append([]byte("/"), path...)
	}
	if kept := withoutTicket(string(query)); kept != "" {
		return string(path) + "?" + kept
	}
	return string(path)
}

// ticketParam carries a ticket to a port, once.
const ticketParam = "sandgate_ticket"

func withoutTicket(query string) string {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if part != "" && name != ticketParam {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// portConn is a connection to a port, over a link of its own. Read is for one
// goroutine, Write and CloseWrite for one, Close for any.
type portConn struct {
	l    Link
	stop func() bool
	once sync.Once
	rest []byte
	end  bool
}

func (g *Gateway) dialPort(who noderpc.Principal, p *portTarget) (*portConn, error) {
	l, err := g.node.Open(g.base, who)
	if err != nil {
		return nil, err
	}
	c := &portConn{l: l, stop: context.AfterFunc(g.leaving, func() { _ = l.Close() })}
	late := time.AfterFunc(g.cfg.Times.Call, func() { _ = l.Close() })
	err = nodecall.Call(l, 1, protocol.OpPortOpen, 0, protocol.PortRef{Session: p.session, Port: p.port}, nil, nil)
	if !late.Stop() && err != nil {
		err = fault.New(fault.DeadlineExceeded, "gateway.port", "the node did not open the port in time")
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *portConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.end {
			return 0, io.EOF
		}
		f, err := nodecall.Next(c.l)
		if err != nil {
			return 0, err
		}
		if f.Type == stream.Data {
			c.rest, c.end = f.Body, f.Flags&stream.FlagEnd != 0
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *portConn) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		part := p[done:min(len(p), done+filePart)]
		if err := c.l.Send(stream.Frame{Type: stream.Data, Body: part}); err != nil {
			return done, err
		}
		done += len(part)
	}
	return len(p), nil
}

// wait returns once the link has ended. It is for Read's goroutine.
func (c *portConn) wait() {
	for {
		if _, err := nodecall.Next(c.l); err != nil {
			return
		}
	}
}

func (c *portConn) CloseWrite() error {
	return c.l.Send(stream.Frame{Type: stream.Data, Flags: stream.FlagEnd})
}

func (c *portConn) Close() error {
	c.once.Do(func() { c.stop(); _ = c.l.Close() })
	return nil
}
