package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// certificateFor issues a certificate for the names.
func certificateFor(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	chain, key, err := testenv.Certificate(time.Now().Add(time.Hour), names...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newTLSWorld is newWorld with certificates for localhost and for *.sbx.test.
func newTLSWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := newWorld(t, func(c *Config) {
		c.Certificates = []tls.Certificate{
			certificateFor(t, "localhost"), certificateFor(t, "sbx.test", "*.sbx.test"),
		}
		if change != nil {
			change(c)
		}
	})
	w.session()
	return w
}

// trust returns the configuration of a client that trusts the gateway's present certificates.
func (w *world) trust(name string, protocols ...string) *tls.Config {
	roots := x509.NewCertPool()
	for _, c := range w.g.tls.Load().Certificates {
		roots.AddCert(c.Leaf)
	}
	return &tls.Config{RootCAs: roots, ServerName: name, NextProtos: protocols}
}

// secure returns a client of the port with TLS. It speaks HTTP/2 if streams is set.
func (w *world) secure(streams bool) *http.Client {
	t := &http.Transport{
		TLSClientConfig: w.trust("localhost"), ForceAttemptHTTP2: streams,
		MaxConnsPerHost: 1, DisableCompression: true,
	}
	w.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

// ask makes a request on the port with TLS.
func (w *world) ask(c *http.Client, method, path string, body io.Reader,
	change func(*http.Request),
) *http.Response {
	w.t.Helper()
	req, err := http.NewRequest(method, "https://"+w.tls+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Host = "localhost"
	req.Header.Set("Authorization", "Bearer "+tokenAll)
	if change != nil {
		change(req)
	}
	resp, err := c.Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// TestTLS speaks HTTP/1.1, HTTP/2 and a WebSocket on the port with TLS. It also sends what the port
// refuses: TLS 1.1 and requests without TLS.
func TestTLS(t *testing.T) {
	w := newTLSWorld(t, nil)
	for _, streams := range []bool{false, true} {
		c := w.secure(streams)
		r := w.ask(c, "PUT", "/v1/sessions/fixed/files/a", strings.NewReader("text"), nil)
		if r.StatusCode != 200 || (r.ProtoMajor == 2) != streams {
			t.Errorf("%s: %s", r.Proto, r.Status)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if got := read(t, w.ask(c, "GET", "/v1/sessions/fixed/files/a", nil, nil)); got != "text" {
			t.Errorf("%s: the file has %q", r.Proto, got)
		}
		wantFault(t, w.ask(c, "GET", "/v1", nil, func(r *http.Request) { r.Host = "evil.test" }),
			fault.PermissionDenied)
	}
	ws, _, err := websocket.Dial(context.Background(), "wss://"+w.tls+"/v1/ws",
		&websocket.DialOptions{
			Subprotocols: []string{protocol.Subprotocol}, HTTPClient: w.secure(false),
			HTTPHeader: http.Header{"Authorization": {"Bearer " + tokenAll}}, Host: "localhost",
		})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, ws}
	c.hello()
	_ = ws.CloseNow()

	for name, want := range map[string]string{
		"localhost": "localhost", "49983-i0.sbx.test": "sbx.test", "unknown.test": "localhost",
	} {
		conn, err := tls.Dial("tcp", w.tls, &tls.Config{
			ServerName: name, InsecureSkipVerify: true, // it is the certificate that is checked
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("%s gets the certificate of %s", name, got)
		}
		_ = conn.Close()
	}
	old := w.trust("localhost")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if conn, err := tls.Dial("tcp", w.tls, old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is accepted")
	}
	plain := &world{t: t, addr: w.tls}
	if e := wantFault(t, plain.raw("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		fault.Malformed); !strings.Contains(e.Message, "https://") {
		t.Errorf("a request without TLS: %s", e.Message)
	}
	if got := w.do("GET", "/healthz", "", nil, nil).StatusCode; got != 200 {
		t.Errorf("the port without TLS: %d", got)
	}
}

// TestCertificatesChange changes the certificates under an HTTP/2 connection and a WebSocket, which
// continue. New connections get the new ones.
func TestCertificatesChange(t *testing.T) {
	w := newTLSWorld(t, nil)
	c := w.secure(true)
	if r := w.ask(c, "GET", "/v1", nil, nil); r.StatusCode != 200 {
		t.Fatal(r.Status)
	}
	before := w.trust("localhost")
	changed := w.g.cfg.changeable()
	changed.Certificates = []tls.Certificate{certificateFor(t, "localhost")}
	if err := w.g.Reload(changed); err != nil {
		t.Fatal(err)
	}
	if r := w.ask(c, "GET", "/v1", nil, nil); r.StatusCode != 200 {
		t.Error(r.Status)
	}
	if got := w.g.Stats().Connections; got != 1 {
		t.Errorf("%d connections, want the one that was open", got)
	}
	if conn, err := tls.Dial("tcp", w.tls, before); err == nil {
		_ = conn.Close()
		t.Error("the previous certificate is still used")
	}
	conn, err := tls.Dial("tcp", w.tls, w.trust("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// TestStreams has 300 requests under way on one connection.
func TestStreams(t *testing.T) {
	w := newTLSWorld(t, func(c *Config) { c.Limits.InFlight = 4096 }) // a tenant has a quarter
	c := w.secure(true)
	if r := w.ask(c, "GET", "/v1", nil, nil); r.ProtoMajor != 2 {
		t.Fatal(r.Proto)
	}
	const n = 300
	ends := make(chan error, n)
	var writers []*io.PipeWriter
	for i := range n {
		pr, pw := io.Pipe()
		writers = append(writers, pw)
		go func() {
			req, _ := http.NewRequest("PUT",
				fmt.Sprintf("https://%s/v1/sessions/fixed/files/f%d", w.tls, i), pr)
			req.Host = "localhost"
			req.Header.Set("Authorization", "Bearer "+tokenAll)
			r, err := c.Do(req)
			if err == nil {
				if r.StatusCode != 200 {
					err = errors.New(r.Status)
				}
				_ = r.Body.Close()
			}
			ends <- err
		}()
	}
	w.fake.await(t, "all uploads", func() bool { return w.fake.uploads == n })
	if got := w.g.Stats().Connections; got != 1 {
		t.Errorf("%d connections", got)
	}
	for i, pw := range writers {
		fmt.Fprint(pw, i)
		_ = pw.Close()
	}
	for range n {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	for i := range n {
		if got, _ := w.file(fmt.Sprintf("fixed/f%d", i)); got != fmt.Sprint(i) {
			t.Fatalf("file %d has %q", i, got)
		}
	}
}

// TestStreamBounds sends requests of HTTP/2 that are ambiguous, too large or too slow. Each ends
// without the others on its connection.
func TestStreamBounds(t *testing.T) {
	w := newTLSWorld(t, func(c *Config) {
		c.Times.Body, c.Times.Write = 100*time.Millisecond, 100*time.Millisecond
	})
	c := w.secure(true)
	wantFault(t, w.ask(c, "GET", "/v1", nil, func(r *http.Request) {
		r.Header.Add("Authorization", "Bearer x")
	}), fault.Malformed)
	wantFault(t, w.ask(c, "GET", "/v1", nil, func(r *http.Request) {
		r.Header["Origin"] = []string{"http://a.test", "http://b.test"}
	}), fault.Malformed)
	large, err := http.NewRequest("GET", "https://"+w.tls+"/v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	large.Header.Set("X-Large", strings.Repeat("x", 32<<10))
	if _, err := c.Do(large); err == nil || !strings.Contains(err.Error(), "advertised limit") {
		t.Errorf("a large header: %v", err) // its client knows the limit
	}
	pr, pw := io.Pipe()
	defer pw.Close()
	go fmt.Fprint(pw, "a part")
	wantFault(t, w.ask(c, "PUT", "/v1/sessions/fixed/files/slow", pr, nil), fault.DeadlineExceeded)
	wantFault(t, w.ask(c, "POST", "/v1/sessions", bytes.NewReader(make([]byte, 64<<20)), nil),
		fault.TooLarge)
	r := w.ask(c, "GET", "/v1/sessions/fixed/files/source:99000000", nil, nil)
	testenv.Eventually(t, "the client that reads nothing is cut", w.slow)
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		t.Error("a response that was cut looks complete")
	}
	if r := w.ask(c, "GET", "/v1", nil, nil); r.StatusCode != 200 {
		t.Error(r.Status)
	}
	if got := w.g.Stats().Connections; got != 1 {
		t.Errorf("%d connections", got)
	}
	if _, ok := w.file("fixed/slow"); ok {
		t.Error("a file was written from a part of a body")
	}
}

// framer opens a connection of HTTP/2.
func (w *world) framer() (net.Conn, *http2.Framer) {
	w.t.Helper()
	c, err := tls.Dial("tcp", w.tls, w.trust("localhost", "h2"))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	out := bufio.NewWriterSize(c, 64<<10)
	f := http2.NewFramer(flusher{out}, bufio.NewReader(c))
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		w.t.Fatal(err)
	}
	if err := f.WriteSettings(); err != nil {
		w.t.Fatal(err)
	}
	return c, f
}

// flusher sends what its writer holds back once that is a good part.
type flusher struct{ *bufio.Writer }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil && f.Buffered() > 32<<10 {
		err = f.Flush()
	}
	return n, err
}

// headerBlock encodes the header of a request.
func headerBlock(path string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{
		{":method", "GET"},
		{":scheme", "https"},
		{":authority", "localhost"},
		{":path", path},
		{"authorization", "Bearer " + tokenAll},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	return b.Bytes()
}

// TestStreamFloods sends floods of frames. The gateway ends the connection of each, and answers
// other clients meanwhile. Two floods only cost the client what it sends, if the gateway keeps up:
// settings have one answer at a time, and requests that are reset have a limit of those that run.
func TestStreamFloods(t *testing.T) {
	w := newTLSWorld(t, nil)
	c := w.secure(true)
	block := headerBlock("/v1")
	for name, flood := range map[string]func(*http2.Framer, uint32) error{
		"rapid reset": func(f *http2.Framer, i uint32) error {
			if err := f.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 2*i + 1, BlockFragment: block, EndHeaders: true, EndStream: true,
			}); err != nil {
				return err
			}
			return f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		},
		"settings": func(f *http2.Framer, _ uint32) error { return f.WriteSettings() },
		"pings":    func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) },
		"continuation": func(f *http2.Framer, i uint32) error {
			if i == 0 {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block})
			}
			return f.WriteContinuation(1, false, bytes.Repeat([]byte{0x40, 1, 'x', 1, 'y'}, 1000))
		},
	} {
		t.Run(name, func(t *testing.T) {
			conn, f := w.framer()
			err := error(nil)
			stays, most := name == "settings" || name == "rapid reset", uint32(1_000_000)
			if stays {
				most = 50_000
			}
			for i := uint32(0); err == nil && i < most; i++ {
				err = flood(f, i)
				if n := w.g.places.UnderWay(); n > 513 {
					t.Fatalf("%d requests run", n)
				}
			}
			if err == nil && !stays || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection stays open: %v", err)
			}
			_ = conn.Close()
			if r := w.ask(c, "GET", "/v1", nil, nil); r.StatusCode != 200 {
				t.Error(r.Status)
			}
		})
	}
	testenv.Eventually(t, "their places are free", func() bool {
		n := w.g.places.UnderWay()
		return n == 0
	})
}
