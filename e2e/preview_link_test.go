package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// socketProgram answers each connection as a WebSocket that sends one message and then waits.
const socketProgram = `
import base64, hashlib, socket, threading
s = socket.create_server(('127.0.0.1', 8001))
print('listening', flush=True)
def serve(c):
    head = b''
    while not head.endswith(b'\r\n\r\n'): head += c.recv(1)
    key = [l.split(b': ')[1] for l in head.split(b'\r\n') if l.lower().startswith(b'sec-websocket-key')][0]
    accept = base64.b64encode(hashlib.sha1(key + b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest())
    c.sendall(b'HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + accept + b'\r\n\r\n')
    c.sendall(b'\x81\x02hi')
    while c.recv(100): pass
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
`

// previewRig is a server of its own with a session.
type previewRig struct {
	t       *testing.T
	ctx     context.Context
	srv     *Server
	client  *wire.Client
	session string
}

func newPreviewRig(t *testing.T) *previewRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	t.Cleanup(cancel)
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}")
	check(t, err)
	t.Cleanup(func() { check(t, srv.Stop()) })
	r := &previewRig{t: t, ctx: ctx, srv: srv}
	r.client, err = wire.New(srv.URL, srv.Token, wire.Options{})
	check(t, err)
	made, err := r.client.CreateSession(ctx, protocol.SessionCreate{Language: "python"})
	check(t, err)
	r.session = made.ID
	return r
}

// start starts a program that outlives its connection.
func (r *previewRig) start(argv ...string) {
	r.t.Helper()
	conn, err := r.client.Connect(r.ctx)
	check(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	_, err = conn.Start(r.ctx, protocol.ChannelOpen{Session: r.session, Argv: argv})
	check(r.t, err)
}

func (r *previewRig) link(p protocol.PortLinkCreate) protocol.PortLink {
	r.t.Helper()
	p.Session = r.session
	if p.Port == 0 {
		p.Port = 8000
	}
	l, err := r.client.CreatePortLink(r.ctx, p)
	check(r.t, err)
	return l
}

// visit requests an address of a link, without following redirects.
func (r *previewRig) visit(address, method string, body io.Reader,
	header ...string,
) (status int, text string, h http.Header) {
	r.t.Helper()
	u, err := url.Parse(address)
	check(r.t, err)
	req, err := http.NewRequestWithContext(r.ctx, method, r.srv.URL+u.RequestURI(), body)
	check(r.t, err)
	req.Host = u.Host
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	check(r.t, err)
	b, err := io.ReadAll(resp.Body)
	check(r.t, err)
	check(r.t, resp.Body.Close())
	return resp.StatusCode, string(b), resp.Header
}

// gone returns the message with which a link has ended.
func (r *previewRig) gone(address string) string {
	r.t.Helper()
	status, text, _ := r.visit(address, "GET", nil)
	var e struct{ Error fault.Public }
	if status != 404 || json.Unmarshal([]byte(text), &e) != nil {
		r.t.Errorf("%s answers %d %s", address, status, text)
	}
	return e.Error.Message
}

// TestPreviewLinks visits python -m http.server through links: public and private ones, with a
// password and an expiry, while the session hibernates and the node restarts.
func TestPreviewLinks(t *testing.T) {
	t.Parallel()
	r := newPreviewRig(t)
	_, err := r.client.Upload(r.ctx, r.session, "www/index.html", 0, strings.NewReader("hello"))
	check(t, err)
	public := r.link(protocol.PortLinkCreate{Visibility: "public", WaitSeconds: 60})
	// The request waits for the program.
	if _, err := r.client.WaitPort(r.ctx, r.session, 8000, 1); !fault.Is(err,
		fault.DeadlineExceeded) {
		t.Errorf("the wait for a port without a program ended with %v", err)
	}
	impatient := r.link(protocol.PortLinkCreate{Visibility: "public"})
	if status, text, _ := r.visit(impatient.URL, "GET", nil, "Accept", "text/html"); status != 503 ||
		!strings.Contains(text, "No program answers on port 8000 yet") {
		t.Errorf("before the program starts: %d %s", status, text)
	}
	answered := make(chan string, 1)
	go func() {
		_, text, _ := r.visit(public.URL, "GET", nil)
		answered <- text
	}()
	r.start("python3", "-m", "http.server", "-d", "www", "8000")
	if p, err := r.client.WaitPort(r.ctx, r.session, 8000, 60); err != nil || p.Port != 8000 {
		t.Errorf("the wait for the port: %+v, %v", p, err)
	}
	if got := <-answered; got != "hello" {
		t.Errorf("the request that waited got %q", got)
	}

	private := r.link(protocol.PortLinkCreate{})
	if status, text, _ := r.visit(private.URL, "GET", nil); status != 401 {
		t.Errorf("a stranger at a private link: %d %s", status, text)
	}
	viewer, err := r.client.CreateKey(r.ctx, protocol.KeyCreate{Role: "viewer"})
	check(t, err)
	foreign, err := r.client.CreateKey(r.ctx, protocol.KeyCreate{Role: "owner", Tenant: "other"})
	check(t, err)
	if status, text, _ := r.visit(private.URL, "GET", nil, "Authorization",
		"Bearer "+viewer.Secret); status != 200 || text != "hello" {
		t.Errorf("a viewer at a private link: %d %s", status, text)
	}
	if status, _, _ := r.visit(private.URL, "GET", nil, "Authorization",
		"Bearer "+foreign.Secret); status != 404 {
		t.Errorf("another tenant at a private link: %d", status)
	}
	u, err := r.client.OpenPortLink(r.ctx, r.session, private.ID)
	check(t, err)
	status, _, h := r.visit(u.URL, "GET", nil)
	cookie, _, _ := strings.Cut(h.Get("Set-Cookie"), ";")
	if status != 303 || h.Get("Location") != private.URL {
		t.Fatalf("the ticket: %d %v", status, h)
	}
	if status, _, _ := r.visit(private.URL, "GET", nil, "Cookie", cookie); status != 200 {
		t.Errorf("with the cookie: %d", status)
	}

	locked := r.link(protocol.PortLinkCreate{Visibility: "public", Password: "correct horse"})
	if status, _, _ := r.visit(locked.URL, "GET", nil, "Sandgate-Link-Password",
		"wrong horse"); status != 401 {
		t.Errorf("a wrong password: %d", status)
	}
	if status, text, _ := r.visit(locked.URL, "GET", nil, "Sandgate-Link-Password",
		"correct horse"); status != 200 || text != "hello" {
		t.Errorf("the password: %d %s", status, text)
	}

	_, err = r.client.HibernateSession(r.ctx, r.session)
	check(t, err)
	if status, text, _ := r.visit(public.URL, "GET", nil); status != 200 || text != "hello" {
		t.Errorf("the request after a hibernation: %d %s", status, text)
	}
	check(t, r.srv.Halt(syscall.SIGTERM))
	check(t, r.srv.Boot(r.ctx))
	if status, text, _ := r.visit(public.URL, "GET", nil); status != 200 || text != "hello" {
		t.Errorf("the request after a restart: %d %s", status, text)
	}
	if status, _, _ := r.visit(private.URL, "GET", nil, "Cookie", cookie); status != 200 {
		t.Errorf("the cookie after a restart: %d", status)
	}
	all, err := r.client.PortLinks(r.ctx, r.session)
	check(t, err)
	if len(all) != 4 || all[0].URL != public.URL || !all[3].Password {
		t.Errorf("the links are %+v", all)
	}
	r.ends(public)
}

// ends ends links in all ways.
func (r *previewRig) ends(public protocol.PortLink) {
	t := r.t
	t.Helper()
	forks, err := r.client.ForkSession(r.ctx, protocol.SessionFork{Session: r.session})
	check(t, err)
	if links, err := r.client.PortLinks(r.ctx, forks.Sessions[0].ID); err != nil ||
		len(links) != 0 {
		t.Errorf("the fork has the links %+v, %v", links, err)
	}
	if err := r.client.DeletePortLink(r.ctx, forks.Sessions[0].ID, public.ID); !fault.Is(err,
		fault.NotFound) {
		t.Errorf("a link was revoked through another session: %v", err)
	}

	_, err = r.client.Upload(r.ctx, r.session, "ws.py", 0, strings.NewReader(socketProgram))
	check(t, err)
	r.start("python3", "ws.py")
	short := r.link(protocol.PortLinkCreate{
		Port: 8001, Visibility: "public", ExpiresSeconds: 5, WaitSeconds: 60,
	})
	revoked := r.link(protocol.PortLinkCreate{Port: 8001, Visibility: "public", WaitSeconds: 60})
	dial := func(l protocol.PortLink) *websocket.Conn {
		t.Helper()
		u, err := url.Parse(l.URL)
		check(t, err)
		ws, _, err := websocket.Dial(r.ctx, "ws"+strings.TrimPrefix(r.srv.URL, "http")+"/",
			&websocket.DialOptions{Host: u.Host})
		check(t, err)
		if _, b, err := ws.Read(r.ctx); err != nil || string(b) != "hi" {
			t.Fatalf("the program sent %q, %v", b, err)
		}
		return ws
	}
	first, second := dial(revoked), dial(short)
	check(t, r.client.DeletePortLink(r.ctx, r.session, revoked.ID))
	for name, ws := range map[string]*websocket.Conn{"revoked": first, "expired": second} {
		if _, _, err := ws.Read(r.ctx); err == nil || r.ctx.Err() != nil {
			t.Errorf("the WebSocket of the %s link is open: %v", name, err)
		}
	}
	if got := r.gone(revoked.URL); got != "the link was revoked" {
		t.Errorf("the revoked link: %q", got)
	}
	if got := r.gone(short.URL); got != "the link has expired" {
		t.Errorf("the expired link: %q", got)
	}
	if got := r.command("link", "create", r.session, "8000", "--public"); !strings.Contains(
		got, "http://l-") {
		t.Errorf("link create printed %q", got)
	}
	if got := r.command("link", "list", r.session); !strings.Contains(got, public.URL) {
		t.Errorf("link list printed %q", got)
	}
	check(t, r.client.DeleteSession(r.ctx, r.session))
	for r.ctx.Err() == nil { // links end in the background
		if got := r.gone(public.URL); got == "the session behind this link has ended" {
			return
		}
	}
	t.Error("the links of a deleted session do not end")
}

// command runs the command line and returns what it prints.
func (r *previewRig) command(args ...string) string {
	r.t.Helper()
	bin, err := Bin("sandgate")
	check(r.t, err)
	cmd := exec.CommandContext(r.ctx, bin, args...)
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+r.srv.URL, "SANDGATE_TOKEN="+r.srv.Token)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		r.t.Error(fmt.Errorf("%v: %w: %s", args, err, complaints.String()))
	}
	return out.String()
}
