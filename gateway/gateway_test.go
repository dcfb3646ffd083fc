package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestMain fails when the tests have leaked goroutines.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	end := time.Now().Add(30 * time.Second) // fasthttp's idle workers end within 10 s
	for code == 0 && runtime.NumGoroutine() > before+2 {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "%d goroutines are left, %d were there before:\n%s\n",
				runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			code = 1
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	os.Exit(code)
}

// do makes a request on its own connection.
func (w *world) do(method, path, token string, body io.Reader,
	change func(*http.Request),
) *http.Response {
	w.t.Helper()
	req, err := http.NewRequest(method, "http://"+w.addr+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Close = true
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func read(t testing.TB, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("body: %v", err)
	}
	return string(b)
}

// wantFault checks that r is an error of the kind, in the form that all errors have.
func wantFault(t testing.TB, r *http.Response, kind fault.Kind) fault.Public {
	t.Helper()
	body := read(t, r)
	var e struct {
		Error fault.Public `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("status %d, body %q: %v", r.StatusCode, body, err)
	}
	if e.Error.Kind != kind || r.StatusCode != kind.Row().HTTP || e.Error.Message == "" {
		t.Fatalf("got status %d, %+v; want %s", r.StatusCode, e.Error, kind)
	}
	return e.Error
}

// raw sends bytes and reads the response.
func (w *world) raw(text string) *http.Response {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		w.t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		w.t.Fatalf("%q: %v", text, err)
	}
	return r
}

// samplePath replaces the parameters of a path template.
func samplePath(template string) string {
	return strings.NewReplacer(":id", "fixed", ":port", "80", ":pid", "7", ":channel", "k1", "*",
		"a.txt").Replace(template)
}

// TestAbuse22_Authorization tries every route of the table with all credentials that must not open
// it.
func TestAbuse22_Authorization(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.AllowedOrigins = []string{"https://ok.example"} })
	w.session()
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	origin := func(o string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set(
				"Origin", o)
		}
	}
	seen := map[string]bool{}
	for _, r := range w.g.routes {
		name := r.Method + " " + r.Path
		seen[name] = true
		if r.ownHost || r.match != nil { // another protocol, which has its own test
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := samplePath(r.Path)
			request := func(token string, change func(*http.Request)) *http.Response {
				return w.do(r.Method, path, token, nil, change)
			}
			expect := func(what string, resp *http.Response, kind fault.Kind) {
				t.Helper()
				// HEAD has no body to check, and other protocols have bodies of their own.
				if r.Method == "HEAD" || r.writeError != nil {
					if resp.StatusCode != kind.Row().HTTP {
						t.Errorf("%s: %d", what, resp.StatusCode)
					}
					return
				}
				wantFault(t, resp, kind)
			}
			for _, h := range []string{
				"evil.example", "localhost.evil.example",
				"127.0.0.1.evil.example", "user@localhost", "127.0.0.2:1",
			} {
				expect("host "+h, request(tokenAll, host(h)), fault.PermissionDenied)
			}
			if r.Public {
				if resp := request("", origin("https://evil.example")); resp.StatusCode != 200 &&
					resp.StatusCode != 404 {
					t.Errorf("a public route answers %d", resp.StatusCode)
				}
				return
			}
			for _, o := range []string{
				"https://evil.example", "null", "http://" + w.addr +
					".evil.example", "http://127.0.0.1:1", "https://ok.example.evil",
				"http://ok.example", "http://" + w.addr + "/", "file://",
			} {
				if r.Public { // a script without secrets, for pages of all origins
					resp := request("", origin(o))
					if got := resp.Header.Get("Access-Control-Allow-Origin"); got != "*" ||
						resp.Header.Get("Access-Control-Allow-Credentials") != "" {
						t.Errorf("origin %s: %d, %v", o, resp.StatusCode, resp.Header)
					}
					continue
				}
				expect("origin "+o, request(tokenAll, origin(o)), fault.PermissionDenied)
			}
			// DNS rebinding: Host and Origin both say evil.
			expect("rebinding",
				request(tokenAll,
					func(q *http.Request) {
						q.Host = "evil.example"
						q.Header.Set("Origin",
							"http://evil.example")
					}), fault.PermissionDenied)
			if r.Access == protocol.ScopeOpen {
				if resp := request("", nil); resp.StatusCode >= 400 && resp.StatusCode != 404 &&
					(r.Path != "/readyz" || resp.StatusCode != 503) {
					t.Errorf("an open route answers %d", resp.StatusCode)
				}
				return
			}
			expect("no credentials", request("", nil), fault.Unauthenticated)
			expect("wrong token", request("wrong", nil), fault.Unauthenticated)
			expect("empty token",
				request("", func(q *http.Request) { q.Header.Set("Authorization", "Bearer ") }),
				fault.Unauthenticated)
			if r.authenticate == nil { // else the protocol may have it
				expect("basic", request("", func(q *http.Request) { q.SetBasicAuth("a", tokenAll) }),
					fault.Unauthenticated)
			}
			expect("cookie", request("",
				func(q *http.Request) {
					q.AddCookie(&http.Cookie{
						Name:  "token",
						Value: tokenAll,
					})
				}), fault.Unauthenticated)
			expect("query", w.do(r.Method, path+"?token="+tokenAll, "", nil, nil),
				fault.Unauthenticated)
			for token, scopes := range map[string][]protocol.Scope{
				tokenViewer: {protocol.ScopeRead}, tokenRun: {protocol.ScopeRun},
			} {
				if r.Access == protocol.ScopeAny || r.Access == scopes[0] {
					continue
				}
				expect("scope "+token, request(token, nil), fault.PermissionDenied)
			}
		})
	}
	open := 0
	for _, r := range w.g.routes {
		if r.Access == protocol.ScopeOpen && !r.ownHost {
			open++
		}
	}
	if open != 38 {
		t.Errorf("%d routes are open, the list says 38", open)
	}
	wantFault(t, w.do("GET", "/v1/nothing", tokenAll, nil, nil), fault.NotFound)
	wantFault(t, w.do("PUT", "/v1/run", tokenAll, nil, nil), fault.NotFound)
	wantFault(t, w.do("GET", "/v1/nothing", "", nil, host("evil.example")), fault.PermissionDenied)
}

func TestCrossOrigin(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.AllowedOrigins = []string{"https://ok.example"} })
	r := w.do("GET", "/v1", tokenAll, nil,
		func(q *http.Request) { q.Header.Set("Origin", "https://ok.example") })
	if r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "https://ok.example" ||
		r.Header.Get("Vary") != "Origin" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	r = w.do("OPTIONS", "/v1/run", "", nil,
		func(q *http.Request) { q.Header.Set("Origin", "https://ok.example") })
	for _, name := range []string{"Authorization", "Content-Type", "Idempotency-Key", "If-Match"} {
		if r.StatusCode != 204 ||
			!strings.Contains(r.Header.Get("Access-Control-Allow-Headers"), name) {
			t.Errorf("%s: %d %v", name, r.StatusCode, r.Header)
		}
	}
	r = w.do("GET", "/v1", tokenAll, nil,
		func(q *http.Request) { q.Header.Set("Origin", "http://"+w.addr) })
	if r.StatusCode != 200 || r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("same origin: %d %v", r.StatusCode, r.Header)
	}
}

// TestUnparsable sends requests that no HTTP client would send. Every answer has the form of all
// errors. The connection is closed, so that no further request can hide after it.
func TestUnparsable(t *testing.T) {
	w := newWorld(t, nil)
	auth := "Authorization: Bearer " + tokenAll + "\r\n"
	for name, c := range map[string]struct {
		text string
		kind fault.Kind
	}{
		"garbage": {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", fault.Malformed},
		"method":  {"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n", fault.Malformed},
		"connect": {"CONNECT evil:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", fault.Malformed},
		"absolute target": {
			"GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
			fault.Malformed,
		},
		"two hosts": {
			"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n",
			fault.Malformed,
		},
		// HTTP/1.1 requires a Host. net/http rejects the request before authorization.
		"no host":      {"GET /healthz HTTP/1.1\r\nAccept: x\r\n\r\n", fault.Malformed},
		"empty host":   {"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n", fault.PermissionDenied},
		"no host, old": {"GET /healthz HTTP/1.0\r\n\r\n", fault.PermissionDenied},
		"two origins": {
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\nOrigin: http://localhost\r\n\r\n", fault.Malformed,
		},
		"two lengths": {"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n" + auth +
			"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", fault.Malformed},
		"length and chunk": {"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n" + auth +
			"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", fault.Malformed},
		"odd encoding": {"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n" + auth +
			"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", fault.Malformed},
		"folded": {
			"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n c\r\n\r\n",
			fault.Malformed,
		},
		"negative length": {"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n" + auth +
			"Content-Length: -5\r\n\r\n", fault.Malformed},
		"large header": {"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: " +
			strings.Repeat("a", 40<<10) + "\r\n\r\n", fault.TooLarge},
		"body on get": {"GET /v1 HTTP/1.1\r\nHost: localhost\r\n" + auth +
			"Content-Length: 60\r\n\r\nGET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n____________________", fault.Malformed},
		"body too large": {"POST /v1/tickets HTTP/1.1\r\nHost: localhost\r\n" + auth +
			"Content-Length: 99999999\r\n\r\n" + strings.Repeat("{", 9000), fault.TooLarge},
		"chunks too large": {"POST /v1/tickets HTTP/1.1\r\nHost: localhost\r\n" + auth +
			"Transfer-Encoding: chunked\r\n\r\n3000\r\n" + strings.Repeat(" ", 0x3000) +
			"\r\n0\r\n\r\n", fault.TooLarge},
		"bad chunk": {"POST /v1/tickets HTTP/1.1\r\nHost: localhost\r\n" + auth +
			"Transfer-Encoding: chunked\r\n\r\nzz\r\n", fault.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.raw(c.text)
			wantFault(t, r, c.kind)
			if c.kind == fault.Malformed && !r.Close {
				t.Error("the connection stays open")
			}
		})
	}
}

func TestUnreadBodyEndsTheConnection(t *testing.T) {
	w := newWorld(t, nil)
	hidden := "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + tokenAll +
		"\r\n\r\n"
	body := strings.Repeat(" ", 16<<10) + hidden
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(all, []byte("HTTP/1.1 ")); n != 1 {
		t.Errorf("%d responses:\n%s", n, all)
	}
}

func TestREST(t *testing.T) {
	w := newWorld(t, nil)
	r := w.do("POST", "/v1/sessions", tokenAll,
		strings.NewReader(`{"language":"python","name":"x"}`), nil)
	if body := read(t, r); r.StatusCode != 201 || !strings.Contains(body, `"id":"s1"`) {
		t.Fatalf("%d %s", r.StatusCode, body)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/sessions", "", 200, `"id":"s1"`},
		{"GET", "/v1/sessions/s1", "", 200, `"id":"s1"`},
		{"GET", "/v1/sessions/s1/channels", "", 200, `"k1"`},
		{"POST", "/v1/sessions/s1/channels", `{"kind":"kernel"}`, 201, `"k1"`},
		{"GET", "/v1", "", 200, `"sandgate.v1"`},
		{"GET", "/v1/status", "", 200, `"gateway"`},
		{"GET", "/healthz", "", 200, "ok"},
		{"GET", "/", "", 200, "<h1>Sandgate"},
		{"DELETE", "/v1/sessions/s1", "", 200, "{}"},
	} {
		var body io.Reader
		if c.body != "" {
			body = strings.NewReader(c.body)
		}
		r := w.do(c.method, c.path, tokenAll, body, nil)
		if b := read(t, r); r.StatusCode != c.status || !strings.Contains(b, c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, r.StatusCode, b)
		}
	}
	wantFault(t, w.do("GET", "/v1/sessions/s1", tokenAll, nil, nil), fault.NotFound)
	w.session()
	// A session of another tenant, a session that does not exist and an impossible id look the
	// same.
	mine := wantFault(t, w.do("GET", "/v1/sessions/fixed", tokenOther, nil, nil), fault.NotFound)
	none := wantFault(t, w.do("GET", "/v1/sessions/nothere", tokenOther, nil, nil), fault.NotFound)
	odd := wantFault(t, w.do("GET", "/v1/sessions/a%2e%2eb", tokenOther, nil, nil), fault.NotFound)
	if mine != none || none != odd {
		t.Errorf("%v, %v and %v can be told apart", mine, none, odd)
	}
	p := wantFault(t, w.do("POST", "/v1/sessions", tokenAll, strings.NewReader(`{"langauge":"x"}`),
		nil), fault.InvalidArgument)
	if p.Field != "langauge" {
		t.Errorf("field %q", p.Field)
	}
	p = wantFault(t, w.do("POST", "/v1/sessions", tokenAll, strings.NewReader(`{"language":5}`),
		nil), fault.InvalidArgument)
	if p.Field != "language" {
		t.Errorf("field %q", p.Field)
	}
	wantFault(t, w.do("POST", "/v1/sessions", tokenAll, strings.NewReader(`{"language":`), nil),
		fault.Malformed)
	wantFault(t, w.do("POST", "/v1/sessions", tokenAll, strings.NewReader(`{} {}`), nil),
		fault.Malformed)
	w.fake.change(func() {
		w.fake.fail = &fault.Error{
			Kind: fault.Exhausted, Message: "all sandboxes are in use",
			RetryAfter: 7,
		}
	})
	r = w.do("POST", "/v1/sessions", tokenAll, nil, nil)
	if wantFault(t, r, fault.Exhausted); r.Header.Get("Retry-After") != "7" {
		t.Errorf("retry after %q", r.Header.Get("Retry-After"))
	}
	if log := w.log.String(); strings.Contains(log, tokenAll) ||
		!strings.Contains(log, "route=/v1/sessions/:id") || !strings.Contains(log, "subject=ann") {
		t.Errorf("log:\n%s", log)
	}
}

func TestNodeAway(t *testing.T) {
	w := newWorld(t, nil)
	w.node()
	r := w.do("GET", "/healthz", "", nil, nil)
	if wantFault(t, r, fault.Unavailable); r.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	wantFault(t, w.do("GET", "/v1/sessions", tokenAll, nil, nil), fault.Unavailable)
}

func TestTickets(t *testing.T) {
	// One tenant may have 2 of them.
	w := newWorld(t, func(c *Config) { c.Limits.Tickets = 16 })
	wantFault(t, w.do("POST", "/v1/tickets", tokenViewer, strings.NewReader(`{"scopes":["admin"]}`),
		nil), fault.PermissionDenied)
	for range 2 {
		if r := w.do("POST", "/v1/tickets", tokenViewer, nil, nil); r.StatusCode != 201 {
			t.Fatal(r.StatusCode)
		}
	}
	wantFault(t, w.do("POST", "/v1/tickets", tokenViewer, nil, nil), fault.Exhausted)
}

func TestConnectionLimit(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Limits.Connections = 2 })
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 200 {
			t.Fatal(r, err)
		}
		open = append(open, c)
	}
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, r, fault.Exhausted)
	_ = open
	if n := w.g.Stats().Refused; n != 1 {
		t.Errorf("refused %d", n)
	}
}

func TestAbuse19_Slowloris(t *testing.T) {
	w := newWorld(
		t, func(c *Config) {
			c.Times.Header = 100 * time.Millisecond
			c.Times.Body = 100 * time.Millisecond
		})
	w.session()
	const put = "PUT /v1/sessions/fixed/files/a HTTP/1.1\r\nHost: localhost\r\n" +
		"Authorization: Bearer " + tokenAll + "\r\n"
	for name, text := range map[string]string{
		"header": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-",
		"body":   put + "Content-Length: 20000\r\n\r\n" + strings.Repeat("a", 9000),
		"chunk":  put + "Transfer-Encoding: chunked\r\n\r\n5\r\nab",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			wantFault(t, w.raw(text), fault.DeadlineExceeded)
			if d := time.Since(start); d > time.Minute {
				t.Errorf("took %s", d)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if answer, err := io.ReadAll(c); err != nil || len(answer) != 0 {
			t.Errorf("a connection without a request got %q, %v", answer, err)
		}
	})
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	if len(w.fake.files) != 0 {
		t.Error("a file was written")
	}
}

func TestShutdownDrains(t *testing.T) {
	w := newWorld(t, nil)
	w.session()
	pr, pw := io.Pipe()
	got := make(chan error, 1)
	go func() {
		req, _ := http.NewRequest("PUT", "http://"+w.addr+"/v1/sessions/fixed/files/late", pr)
		req.Header.Set("Authorization", "Bearer "+tokenAll)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			if resp.StatusCode != 200 || !resp.Close {
				err = fmt.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
			}
			_ = resp.Body.Close()
		}
		got <- err
	}()
	_, _ = pw.Write([]byte("first "))
	w.fake.await(t, "the upload", func() bool { return w.fake.uploads == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- w.stop() }()
	testenv.Eventually(t, "the shutdown", w.g.draining.Load)
	_, _ = pw.Write([]byte("second"))
	_ = pw.Close()
	if err := <-got; err != nil {
		t.Errorf("a request under way: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", w.addr); err == nil {
		t.Error("the port is still open")
	}
	if err := w.g.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	n := Remote(nil)
	for name, c := range map[string]Config{
		"token":  {Tokens: map[string]noderpc.Principal{"abc": {Tenant: "t"}}},
		"tenant": {Tokens: map[string]noderpc.Principal{auth.HashToken("a"): {}}},
		"scope": {Tokens: map[string]noderpc.Principal{auth.HashToken("a"): {
			Tenant: "t",
			Scopes: []string{"all"},
		}}},
		"host":   {AllowedHosts: []string{"http://x"}},
		"origin": {AllowedOrigins: []string{"*"}},
		"path":   {AllowedOrigins: []string{"https://x/"}},
	} {
		if _, err := New(c, n, nil); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var e *fault.Error
	if _, err := New(Config{}, nil, nil); !errors.As(err, &e) {
		t.Error("no node, no error")
	}
}
