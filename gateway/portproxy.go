package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/auth"
)

// maxPortHeader is the header of a program's response at most, in bytes.
const maxPortHeader = 256 << 10

// pathPolicy is what keeps a page that a program shows under the gateway's own
// host name from being the gateway's: its origin is none.
const pathPolicy = "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads"

// ofOrigin are headers of a response that speak for the whole origin, which
// under the gateway's host name is not the program's.
var ofOrigin = map[string]bool{
	"Set-Cookie": true, "Strict-Transport-Security": true, "Alt-Svc": true, "Clear-Site-Data": true, "Service-Worker-Allowed": true,
	"Nel": true, "Report-To": true, "Reporting-Endpoints": true, "Origin-Agent-Cluster": true, "Www-Authenticate": true,
	"Accept-Ch": true, "Critical-Ch": true, "Public-Key-Pins": true, "Referrer-Policy": true, "Sourcemap": true,
}

// hop are headers between two neighbours, which are not passed on.
var hop = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Connection": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Content-Length": true,
}

// proxy passes a request to a port, and the program's answer back.
func (g *Gateway) proxy(q *request) error {
	p := q.port
	if p.ticket {
		return g.clean(q)
	}
	upgrade := ""
	if has(q.Ctx, fiber.HeaderConnection, "upgrade") {
		upgrade = q.Get(fiber.HeaderUpgrade)
	}
	tcp, err := g.dialPort(q.who, p)
	if err != nil {
		return err
	}
	head := g.portHead(q, upgrade)
	limited := &headLimit{r: tcp, n: maxPortHeader}
	in := bufio.NewReaderSize(limited, 4<<10)
	failed := make(chan error, 1)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w := &noting{Writer: tcp}
		if err := sendRequest(w, head, q.body); err != nil {
			failed <- err
			if w.err == nil { // the client's fault
				tcp.Close()
			} // else the program listens no more: its answer may be on the way
		}
	}()
	var resp *http.Response
	for { // 100 and 103 are for the neighbour alone
		resp, err = http.ReadResponse(in, &http.Request{Method: q.Method()})
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	if err != nil {
		tcp.Close()
		<-sent
		select {
		case serr := <-failed:
			var known *fault.Error
			if errors.As(serr, &known) && (known.Op == "gateway.body") {
				return serr
			}
		default:
		}
		return &fault.Error{Kind: fault.Unavailable, Op: "gateway.port", Field: "port", Message: "the program on the port did not answer as HTTP does", RetryAfter: 1, Err: err}
	}
	limited.n = math.MaxInt64
	if q.body.length == 0 {
		<-sent
	} else if !closed(sent, sentGrace) {
		q.early = true // from here on the body is the sender's
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		if upgrade == "" || !strings.EqualFold(resp.Header.Get("Upgrade"), upgrade) || q.conn == nil {
			tcp.Close()
			return &fault.Error{Kind: fault.Unavailable, Op: "gateway.port", Message: "the program on the port has switched to another protocol than it was asked"}
		}
		<-sent
		g.hijack(q, tcp, in, g.switched(q, resp))
		return nil
	}
	g.answerPort(q, resp)
	body := &portBody{q: q, tcp: tcp, in: resp.Body, sent: sent, status: resp.StatusCode}
	if q.Method() == fiber.MethodHead || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified {
		tcp.Close()
		<-sent
		q.Response().SkipBody = true
		if resp.ContentLength >= 0 {
			q.Response().Header.SetContentLength(int(resp.ContentLength))
		}
		return nil
	}
	body.watch()
	q.streams = true
	q.Response().SetBodyStream(body, int(resp.ContentLength))
	return nil
}

// clean sends a browser that came with a ticket to the same address without.
func (g *Gateway) clean(q *request) error {
	h := &q.Response().Header
	to := q.port.prefix + q.port.uri(q.Ctx)
	if q.port.own { // a path may begin with two slashes
		to = g.ports.scheme + "://" + string(q.Request().Header.Host()) + to
	}
	h.Set(fiber.HeaderLocation, to)
	h.Set(fiber.HeaderCacheControl, "no-store")
	h.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	q.Status(fiber.StatusSeeOther)
	return nil
}

// portHead is the request's head as the program gets it: without what is the
// gateway's, and as if it had been sent to the port itself.
func (g *Gateway) portHead(q *request, upgrade string) []byte {
	p := q.port
	local := "localhost:" + strconv.Itoa(p.port)
	host := string(q.Request().Header.Host())
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", q.Method(), p.uri(q.Ctx), local)
	named := map[string]bool{}
	for _, v := range q.Request().Header.PeekAll(fiber.HeaderConnection) {
		for name := range strings.SplitSeq(string(v), ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	q.Request().Header.VisitAll(func(k, v []byte) {
		name := http.CanonicalHeaderKey(string(k))
		value := string(v)
		switch {
		case hop[name], named[name], strings.HasPrefix(name, "X-Forwarded-"):
			return
		case name == "Host", name == "Expect", name == "Forwarded", name == "Content-Type" && value == "":
			return
		case name == "Authorization" && (p.ours || !p.own):
			return
		case name == "Cookie":
			if value = otherCookies(value, g.portCookieName(p)); value == "" || !p.own {
				return
			}
		case name == "Sec-Websocket-Protocol":
			if value = withoutTickets(value); value == "" {
				return
			}
		case name == "Origin":
			if _, rest, ok := strings.Cut(value, "://"); ok && strings.EqualFold(rest, host) {
				value = "http://" + local
			}
		case name == "Referer":
			if !p.own {
				return
			}
		}
		fmt.Fprintf(&b, "%s: %s\r\n", name, value)
	})
	scheme := "http"
	if p.own {
		scheme = g.ports.scheme
	}
	fmt.Fprintf(&b, "X-Forwarded-Host: %s\r\nX-Forwarded-Proto: %s\r\n", host, scheme)
	if p.prefix != "" {
		fmt.Fprintf(&b, "X-Forwarded-Prefix: %s\r\n", p.prefix)
	}
	switch {
	case upgrade != "":
		fmt.Fprintf(&b, "Connection: Upgrade\r\nUpgrade: %s\r\n", upgrade)
	default:
		b.WriteString("Connection: close\r\n")
	}
	switch n := q.body.length; {
	case n > 0:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", n)
	case n < 0:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case q.Method() == fiber.MethodPost || q.Method() == fiber.MethodPut || q.Method() == fiber.MethodPatch:
		b.WriteString("Content-Length: 0\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

func otherCookies(header, ours string) string {
	var kept []string
	for part := range strings.SplitSeq(header, ";") {
		part = strings.TrimSpace(part)
		if name, _, _ := strings.Cut(part, "="); part != "" && name != ours {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "; ")
}

func withoutTickets(header string) string {
	var kept []string
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimSpace(part); part != "" && !strings.HasPrefix(part, auth.TicketPrefix) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ", ")
}

// noting keeps the error of a write.
type noting struct {
	io.Writer
	err error
}

func (w *noting) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = err
	return n, err
}

func sendRequest(w io.Writer, head []byte, body *body) error {
	if _, err := w.Write(head); err != nil {
		return err
	}
	buf := make([]byte, filePart)
	switch {
	case body.length > 0:
		_, err := io.CopyBuffer(w, struct{ io.Reader }{body}, buf)
		return err
	case body.length < 0:
		chunked := httputil.NewChunkedWriter(w)
		if _, err := io.CopyBuffer(chunked, struct{ io.Reader }{body}, buf); err != nil {
			return err
		}
		if err := chunked.Close(); err != nil {
			return err
		}
		_, err := io.WriteString(w, "\r\n")
		return err
	}
	return nil
}

// answerPort makes the response's head of the program's.
func (g *Gateway) answerPort(q *request, resp *http.Response) {
	h := &q.Response().Header
	h.Del("X-Content-Type-Options")
	h.SetNoDefaultContentType(true)
	q.Status(resp.StatusCode)
	for _, line := range g.portHeader(q, resp) {
		h.Add(line[0], line[1])
	}
}

// portHeader are the lines of a program's response that are passed on.
func (g *Gateway) portHeader(q *request, resp *http.Response) (lines [][2]string) {
	p := q.port
	named := map[string]bool{}
	for _, v := range resp.Header["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			named[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range resp.Header {
		if hop[name] || named[name] || name == "Date" {
			continue
		}
		if !p.own && (ofOrigin[name] || strings.HasPrefix(name, "Access-Control-")) {
			continue
		}
		for _, v := range values {
			switch name {
			case "Set-Cookie":
				if !cookieMayPass(v, g.portCookieName(p)) {
					continue
				}
			case "Location":
				v = g.location(q, v)
			}
			lines = append(lines, [2]string{name, v})
		}
	}
	if !p.own {
		lines = append(lines, [2]string{"Content-Security-Policy", pathPolicy}, [2]string{"X-Content-Type-Options", "nosniff"},
			[2]string{"Referrer-Policy", "no-referrer"}, [2]string{"Cross-Origin-Opener-Policy", "same-origin"})
	}
	return lines
}

// cookieMayPass keeps a program from replacing the gateway's cookie, and from
// setting one for its neighbours.
func cookieMayPass(line, ours string) bool {
	name, _, _ := strings.Cut(line, "=")
	if strings.TrimSpace(name) == ours {
		return false
	}
	for part := range strings.SplitSeq(line, ";") {
		attribute, _, _ := strings.Cut(part, "=")
		if strings.EqualFold(strings.TrimSpace(attribute), "Domain") {
			return false
		}
	}
	return true
}

// location keeps a redirect below the port: the program knows itself as
// localhost, and nothing of a path before its own.
func (g *Gateway) location(q *request, to string) string {
	for _, self := range []string{"http://localhost:", "http://127.0.0.1:"} {
		if rest, ok := strings.CutPrefix(to, self+strconv.Itoa(q.port.port)); ok && (rest == "" || rest[0] == '/') {
			to = "/" + strings.TrimPrefix(rest, "/")
		}
	}
	if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
		return q.port.prefix + to
	}
	return to
}

// sentGrace is how much later than the answer the end of a request may be
// noticed; beyond it the program has answered before it has read all.
const sentGrace = 100 * time.Millisecond

func closed(c <-chan struct{}, within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// headLimit ends after n bytes.
type headLimit struct {
	r io.Reader
	n int64
}

func (l *headLimit) Read(p []byte) (int, error) {
	if l.n <= 0 {
		return 0, fault.New(fault.TooLarge, "gateway.port", "the header of the program's answer is over %d bytes", maxPortHeader)
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.n)])
	l.n -= int64(n)
	return n, err
}

// portBody is a response on its way. When it fails the response is cut.
type portBody struct {
	q      *request
	tcp    *portConn
	in     io.ReadCloser
	sent   chan struct{}
	unseen func()
	status int
	n      int64
	err    error
}

// watch ends the connection to the program when the client hangs up while the
// program says nothing.
func (b *portBody) watch() {
	b.unseen = func() {}
	if b.q.conn == nil || b.q.early || !b.q.body.whole() {
		return // it is being read from: that notices
	}
	gone, stop := b.q.conn.watch()
	done := make(chan struct{})
	go func() {
		select {
		case <-gone:
			b.tcp.Close()
		case <-done:
		}
	}()
	b.unseen = func() { close(done); stop() }
}

func (b *portBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	b.n += int64(n)
	if err != nil && err != io.EOF {
		b.err = fault.Wrap(fault.Unavailable, "gateway.port", err)
	}
	return n, err
}

func (b *portBody) Close() error {
	b.unseen()
	b.tcp.Close()
	if b.q.early && b.q.conn != nil {
		_ = b.q.conn.SetReadDeadline(time.Unix(1, 0))
	}
	<-b.sent
	b.q.finish(b.status, b.n, b.err)
	return nil
}

// switched is the head of the answer to an upgrade.
func (g *Gateway) switched(q *request, resp *http.Response) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n", resp.Header.Get("Upgrade"))
	for _, line := range g.portHeader(q, resp) {
		fmt.Fprintf(&b, "%s: %s\r\n", line[0], line[1])
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// tunnel connects the client to a port, byte by byte.
func (g *Gateway) tunnel(q *request) error {
	if !has(q.Ctx, fiber.HeaderConnection, "upgrade") || !strings.EqualFold(q.Get(fiber.HeaderUpgrade), "tcp") || q.conn == nil {
		return fault.New(fault.Malformed, "gateway.port", "this route takes Upgrade: tcp; what the program shows is at the same address with a slash at its end")
	}
	tcp, err := g.dialPort(q.who, q.port)
	if err != nil {
		return err
	}
	g.hijack(q, tcp, tcp, []byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"))
	return nil
}

// hijack answers with head and carries bytes both ways until both have ended,
// or the gateway leaves.
func (g *Gateway) hijack(q *request, tcp *portConn, from io.Reader, head []byte) {
	if !g.begin() {
		tcp.Close()
		return
	}
	c := q.conn
	q.streams = true
	q.finish(fiber.StatusSwitchingProtocols, 0, nil)
	q.Context().HijackSetNoResponse(true)
	q.Context().Hijack(func(nc net.Conn) {
		c.dry.Store(true)
		early, _ := io.ReadAll(nc)
		c.dry.Store(false)
		go func() {
			defer g.wg.Done()
			defer c.Close()
			defer tcp.Close()
			defer context.AfterFunc(g.leaving, func() { _ = c.Conn.Close() })()
			if _, err := c.Write(head); err != nil {
				return
			}
			up := make(chan struct{})
			go func() {
				defer close(up)
				_, err := tcp.Write(early)
				if err == nil {
					_, err = io.CopyBuffer(struct{ io.Writer }{tcp}, struct{ io.Reader }{c.Conn}, make([]byte, 16<<10))
				}
				if err != nil || tcp.CloseWrite() != nil {
					tcp.Close()
				}
			}()
			_, err := io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{from}, make([]byte, 16<<10))
			if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && err == nil {
				// The program has said all: what the client still has to say
				// may take as long as the node lets it.
				_ = half.CloseWrite()
				go func() {
					tcp.wait()
					_ = c.Conn.Close()
				}()
			} else {
				_ = c.Conn.Close()
			}
			<-up
		}()
	})
}

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
