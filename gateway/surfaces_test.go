package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/gateway/surface/demo"
	textsurface "github.com/sandgate/sandgate/gateway/surface/text"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// demoWorld is a gateway with the demo surface and its routes.
func demoWorld(t *testing.T) (*world, *demo.Surface) {
	t.Helper()
	d := &demo.Surface{Left: make(chan error, 8)}
	return newWorld(t, func(c *Config) { c.Surfaces = []surface.Surface{d} }), d
}

// TestSurfaceStreamsOut reads each part of a response while the handler waits for the reader.
func TestSurfaceStreamsOut(t *testing.T) {
	w, _ := demoWorld(t)
	r := w.do("GET", "/demo/count/3", tokenAll, nil, nil)
	in := bufio.NewReader(r.Body)
	for i := range 3 {
		line, err := in.ReadString('\n')
		if err != nil || line != fmt.Sprintln(i) {
			t.Fatal(line, err)
		}
		if resp := w.do("POST", "/demo/next", tokenAll, nil, nil); resp.StatusCode != 200 {
			t.Fatal(resp.StatusCode)
		}
	}
	if rest := read(t, r); rest != "" || len(r.TransferEncoding) != 0 &&
		r.TransferEncoding[0] != "chunked" {
		t.Errorf("%q %v", rest, r.TransferEncoding)
	}
}

// TestSurfaceStreamsBothWays sends the next part of the body only when the last
// one has come back.
func TestSurfaceStreamsBothWays(t *testing.T) {
	w, _ := demoWorld(t)
	for _, chunked := range []bool{true, false} {
		body, send := io.Pipe()
		r := w.do("POST", "/demo/echo", tokenAll, body, func(q *http.Request) {
			if q.ContentLength = -1; !chunked {
				q.ContentLength = 30
			}
		})
		buf := make([]byte, 10)
		for i := range 3 {
			part := fmt.Sprintf("part %05d", i)
			if _, err := io.WriteString(send, part); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(r.Body, buf); err != nil || string(buf) != part {
				t.Fatalf("chunked %t: %q, %v", chunked, buf, err)
			}
		}
		_ = send.Close()
		if rest := read(t, r); rest != "" {
			t.Errorf("%q", rest)
		}
	}
}

// TestSurfaceCancellation disconnects while the handler waits: without a body, and after the body
// was read to its end.
func TestSurfaceCancellation(t *testing.T) {
	w, d := demoWorld(t)
	for name, head := range map[string]string{
		"GET": "GET /demo/wait HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + tokenAll +
			"\r\n\r\n",
		"POST": "POST /demo/wait HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + tokenAll +
			"\r\nContent-Length: 2\r\n\r\nok",
	} {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, head)
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil ||
			!strings.Contains(line, "200") {
			t.Fatal(name, line, err)
		}
		_ = c.Close()
		select {
		case err := <-d.Left:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s: the handler does not know that its client has left", name)
		}
	}
}

// TestSurfaceUpgrade takes the connection over. Bytes that the client sent with its request are not
// lost.
func TestSurfaceUpgrade(t *testing.T) {
	w, _ := demoWorld(t)
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(
		c, "GET /demo/upgrade HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: demo\r\n\r\nno header\nat all\n", tokenAll)
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, nil)
	if err != nil || r.StatusCode != 101 {
		t.Fatal(r, err)
	}
	for _, want := range []string{"no header\n", "at all\n"} {
		if line, err := in.ReadString('\n'); line != want {
			t.Fatalf("%q, %v", line, err)
		}
	}
	// A shutdown does not wait for the taken connection.
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("the connection is still open")
	}
}

// TestSurfaceAuthorization checks that a surface's routes use the same authorization as all others.
func TestSurfaceAuthorization(t *testing.T) {
	w, _ := demoWorld(t)
	wantFault(t, w.do("POST", "/demo/echo", "", nil, nil), fault.Unauthenticated)
	wantFault(t, w.do("POST", "/demo/echo", tokenViewer, nil, nil), fault.PermissionDenied)
	wantFault(t, w.do("POST", "/demo/echo", tokenAll, nil,
		func(r *http.Request) { r.Host = "evil.example" }), fault.PermissionDenied)
	wantFault(t, w.do("POST", "/demo/echo", tokenAll, nil,
		func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }),
		fault.PermissionDenied)
	wantFault(t, w.do("GET", "/demo/echo", tokenAll, nil, nil), fault.NotFound)
	r := w.do("GET", "/demo/who/x%20y", tokenViewer, nil, nil)
	if body := read(t, r); body != "vic x%20y" ||
		r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%q %v", body, r.Header)
	}
	if log := w.log.String(); !strings.Contains(log, "route=/demo/who/:name status=200 bytes=9") {
		t.Errorf("the access log is\n%s", log)
	}
	for name, r := range map[string]surface.Route{
		"no scope": {Method: "GET", Path: "/x", Handler: http.NotFoundHandler()},
		"unknown scope": {
			Method: "GET", Path: "/x", Access: "all",
			Handler: http.NotFoundHandler(),
		},
		"no handler": {Method: "GET", Path: "/x", Access: protocol.ScopeRead},
		"no method":  {Path: "/x", Access: protocol.ScopeRead, Handler: http.NotFoundHandler()},
		"no path": {
			Method: "GET", Access: protocol.ScopeRead,
			Handler: http.NotFoundHandler(),
		},
	} {
		if _, err := New(Config{Surfaces: []surface.Surface{oneRoute(r)}}, nearNode{},
			nil); !fault.Is(err, fault.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type oneRoute surface.Route

func (r oneRoute) Routes() []surface.Route { return []surface.Route{surface.Route(r)} }

// TestSurfaceLimits sends a body that is too large, one that pauses, and one to a route that takes
// none.
func TestSurfaceLimits(t *testing.T) {
	d := &demo.Surface{Left: make(chan error, 8)}
	w := newWorld(t, func(c *Config) {
		c.Surfaces, c.Times.Body, c.Limits.InFlight = []surface.Surface{d}, 100*time.Millisecond, 1
	})
	head := "POST /demo/size HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + tokenAll +
		"\r\n"
	wantFault(t, w.raw(head+"Content-Length: 99999999\r\n\r\n"), fault.TooLarge)
	wantFault(t, w.raw(head+"Transfer-Encoding: chunked\r\n\r\n100001\r\n"+
		strings.Repeat("x", 0x100001)+"\r\n0\r\n\r\n"), fault.TooLarge)
	wantFault(t, w.raw(head+"Content-Length: 9\r\n\r\nhalf"), fault.DeadlineExceeded)
	wantFault(t, w.do("GET", "/demo/wait", tokenAll, strings.NewReader("x"), nil), fault.Malformed)
	waiting := w.do("GET", "/demo/wait", tokenAll, nil, nil)
	wantFault(t, w.do("POST", "/demo/size", tokenAll, strings.NewReader("x"), nil), fault.Exhausted)
	_ = waiting.Body.Close()
	<-d.Left
	testenv.Eventually(t, "a free place", func() bool {
		n := w.g.places.UnderWay()
		return n == 0
	})
	if body := read(t, w.do("POST", "/demo/size", tokenAll, strings.NewReader("12345"),
		nil)); body != "5" {
		t.Errorf("%q", body)
	}
	// A handler that panics affects nothing else.
	wantFault(t, w.do("GET", "/demo/panic", tokenAll, nil, nil), fault.Internal)
}

// textWorld is a gateway with the surface text.
func textWorld(t *testing.T) *world {
	t.Helper()
	var w *world
	node := openFunc(func(ctx context.Context, who noderpc.Principal) (Link, error) {
		return surfaceNode{w.g}.Open(ctx, who)
	})
	w = newWorld(
		t, func(c *Config) { c.Surfaces = []surface.Surface{textsurface.Surface{Node: node}} })
	return w
}

// openFunc is a surface.Node.
type openFunc func(context.Context, noderpc.Principal) (Link, error)

func (f openFunc) Open(ctx context.Context, who noderpc.Principal) (Link, error) {
	return f(ctx,
		who)
}

// TestSmallSurface uses a surface of 30 lines: its output streams, its errors
// are the gateway's, and a client that disconnects interrupts its code.
func TestSmallSurface(t *testing.T) {
	w := textWorld(t)
	path := "/text/" + w.session()
	post := func(token, path, code string) *http.Response {
		return w.do("POST", path, token, strings.NewReader(code), nil)
	}
	if body := read(t, post(tokenAll, path,
		"print:one ;foreign:;stderr:two ;display:;print:three")); body != "one two three" {
		t.Errorf("the output is %q", body)
	}
	wantFault(t, post(tokenAll, "/text/other", "print:x"), fault.NotFound)
	wantFault(t, post(tokenViewer, path, "print:x"), fault.PermissionDenied)

	r := post(tokenAll, path, "print:early;loop")
	first := make([]byte, 5)
	if _, err := io.ReadFull(r.Body, first); err != nil || string(first) != "early" {
		t.Fatalf("while the cell runs: %q, %v", first, err)
	}
	_ = r.Body.Close()
	testenv.Eventually(t, "the cell is interrupted", func() bool {
		w.fake.mu.Lock()
		defer w.fake.mu.Unlock()
		return w.fake.stops == 1
	})

	// A response that cannot be completed is cut, so that its client notices.
	r = post(tokenAll, path, "print:part;die")
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); !errors.Is(err, io.ErrUnexpectedEOF) ||
		string(body) != "part" {
		t.Errorf("of a kernel that died: %q, %v", body, err)
	}
	testenv.Eventually(t, "the log names the error", func() bool {
		return strings.Contains(w.log.String(), "route=/text/:id status=200") &&
			strings.Contains(w.log.String(), "kernel_died")
	})
}
