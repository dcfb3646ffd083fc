package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/protocol/fault"
)

const portID = "aaaabbbbccccddddeeeeffff22"

// portWorld is a gateway in front of a real HTTP server, which stands for a program in a sandbox.
type portWorld struct {
	*world
	port int
	host string // the host name of the port
	base string // the path of the port
	seen chan *http.Request
}

func newPortWorld(t *testing.T, handler http.HandlerFunc) *portWorld {
	t.Helper()
	w := &portWorld{
		world: newWorld(t, func(c *Config) { c.PortsDomain = "localhost" }),
		seen:  make(chan *http.Request, 16),
	}
	program := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case w.seen <- r:
		default:
		}
		handler(rw, r)
	}))
	t.Cleanup(program.Close)
	_, number, _ := net.SplitHostPort(program.Listener.Addr().String())
	w.port, _ = strconv.Atoi(number)
	w.fake.change(func() { w.fake.sessions["s_"+portID] = "t1" })
	_, at, _ := net.SplitHostPort(w.addr)
	w.host = number + "-" + portID + ".localhost:" + at
	w.base = "/v1/sessions/s_" + portID + "/ports/" + number
	return w
}

// at sends a request to the host name of the port.
func (w *portWorld) at(method, path string, body io.Reader,
	change func(*http.Request),
) *http.Response {
	w.t.Helper()
	r, err := http.NewRequest(method, "http://"+w.addr+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Host = w.host
	if change != nil {
		change(r)
	}
	resp, err := (&http.Transport{}).RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func bearer(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenAll) }

// cookie opens the port as a browser does, and returns the cookie that it gets.
func (w *portWorld) cookie(t *testing.T, embed bool) *http.Cookie {
	t.Helper()
	r := w.do("POST", "/v1/sessions/s_"+portID+"/ports", tokenAll,
		strings.NewReader(fmt.Sprintf(`{"port":%d,"embed":%v}`, w.port, embed)),
		func(r *http.Request) { r.Host = "127.0.0.1:" + strings.Split(w.addr, ":")[1] })
	var reply portReply
	if err := json.Unmarshal([]byte(read(t, r)), &reply); err != nil || r.StatusCode != 201 {
		t.Fatal(r.StatusCode, err)
	}
	u, err := url.Parse(reply.URL)
	if err != nil || u.Host != w.host || u.Path != "/" {
		t.Fatalf("the address is %s, %v", reply.URL, err)
	}
	resp := w.at("GET", "/deep/page?a=1&"+u.RawQuery+"&b=%20", nil, nil)
	if to := resp.Header.Get("Location"); resp.StatusCode != 303 || to != "http://"+w.host+
		"/deep/page?a=1&b=%20" {
		t.Fatalf("%d to %q", resp.StatusCode, to)
	}
	if len(resp.Cookies()) != 1 {
		t.Fatalf("the cookies are %v", resp.Header["Set-Cookie"])
	}
	if again := w.at("GET", "/?"+u.RawQuery, nil, nil); again.StatusCode != 401 {
		t.Errorf("a ticket was good twice: %d", again.StatusCode)
	}
	return resp.Cookies()[0]
}

// TestPortCredentials checks all credentials for a port, and that none of the gateway's credentials
// reaches the program.
func TestPortCredentials(t *testing.T) {
	w := newPortWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		http.SetCookie(rw, &http.Cookie{Name: "own", Value: "1"})
		http.SetCookie(rw, &http.Cookie{Name: "wide", Value: "1", Domain: "localhost"})
		http.SetCookie(rw, &http.Cookie{Name: "sandgate-port", Value: "forged"})
		rw.Header().Set("Clear-Site-Data", "*")
		rw.Header().Set("Access-Control-Allow-Origin", "*")
		io.WriteString(rw, "hello")
	})
	wantFault(t, w.at("GET", "/", nil, nil), fault.Unauthenticated)
	wantFault(t, w.at("GET", "/", nil,
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenViewer) }),
		fault.PermissionDenied)
	wantFault(t, w.at("GET", "/", nil,
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenOther) }),
		fault.NotFound)
	wantFault(t, w.do("GET", w.base+"/", tokenViewer, nil, nil), fault.PermissionDenied)
	wantFault(t, w.do("GET", w.base+"/", tokenOther, nil, nil), fault.NotFound)

	c := w.cookie(t, false)
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" ||
		c.MaxAge <= 0 {
		t.Errorf("the cookie is %+v", c)
	}
	framed := w.cookie(t, true)
	if framed.SameSite != http.SameSiteNoneMode || !framed.Secure || !framed.Partitioned {
		t.Errorf("the cookie for a frame is %+v", framed)
	}
	// Other pages may show the port in a frame only if the cookie is for that.
	for _, x := range []struct {
		cookies []*http.Cookie
		want    string
	}{
		{[]*http.Cookie{c}, "[frame-ancestors 'self']"},
		{[]*http.Cookie{framed}, "[]"},
		{[]*http.Cookie{c, framed}, "[]"},
		{[]*http.Cookie{framed, c}, "[]"},
	} {
		resp := w.at("GET", "/", nil, func(r *http.Request) {
			for _, cookie := range x.cookies {
				r.AddCookie(cookie)
			}
		})
		if got := fmt.Sprint(resp.Header["Content-Security-Policy"]); resp.StatusCode != 200 ||
			got != x.want {
			t.Fatalf("%d, the policy is %s, want %s", resp.StatusCode, got, x.want)
		}
		read(t, resp)
		<-w.seen
	}
	for _, x := range []struct {
		name   string
		change func(*http.Request)
		want   map[string]string
	}{
		{
			"bearer", func(r *http.Request) {
				bearer(r)
				r.Header.Set("X-Forwarded-For",
					"1.2.3.4")
			},
			map[string]string{"Authorization": "", "X-Forwarded-For": ""},
		},
		{"cookie", func(r *http.Request) {
			r.AddCookie(c)
			r.AddCookie(&http.Cookie{Name: "own", Value: "1"})
			r.Header.Set("Origin", "http://"+w.host)
		}, map[string]string{"Cookie": "own=1", "Origin": "http://localhost:" +
			strconv.Itoa(w.port)}},
		{
			"the program's own authorization",
			func(r *http.Request) { r.AddCookie(c); r.Header.Set("Authorization", "Basic eDp5") },
			map[string]string{"Authorization": "Basic eDp5", "Cookie": ""},
		},
		{
			"both", func(r *http.Request) { r.AddCookie(c); bearer(r) },
			map[string]string{"Authorization": "", "Cookie": ""},
		},
	} {
		resp := w.at("GET", "/x?y=1", nil, x.change)
		if body := read(t, resp); resp.StatusCode != 200 || body != "hello" {
			t.Errorf("%s: %d %s", x.name, resp.StatusCode, body)
			continue
		}
		r := <-w.seen
		for name, want := range x.want {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", x.name, name, got, want)
			}
		}
		if r.Host != "localhost:"+strconv.Itoa(w.port) || r.URL.String() != "/x?y=1" ||
			r.Header.Get("X-Forwarded-Host") != w.host {
			t.Errorf("%s: the program got %s %s %v", x.name, r.Host, r.URL, r.Header)
		}
		var names []string
		for _, c := range resp.Cookies() {
			names = append(names, c.Name)
		}
		if fmt.Sprint(names) != "[own]" || resp.Header.Get("Clear-Site-Data") != "" ||
			resp.Header.Get("X-Content-Type-Options") != "" {
			t.Errorf("%s: the answer has %v", x.name, resp.Header)
		}
	}
	// The cookie is valid for this port and nothing else.
	for name, change := range map[string]func(*http.Request){
		"another port": func(r *http.Request) {
			r.Host = "9" +
				r.Host[strings.Index(r.Host, "-"):]
		},
		"another session": func(r *http.Request) {
			r.Host = strings.Replace(r.Host, "aaaa", "aaab",
				1)
		},
		"forged": func(r *http.Request) {
			r.Header.Set("Cookie", "sandgate-port="+
				c.Value[:len(c.Value)-2]+"AA")
		},
		"later": func(r *http.Request) {
			r.Header.Set("Cookie", "sandgate-port=z"+
				c.Value)
		},
		"the API": func(r *http.Request) {
			r.Host, r.URL.Path = "localhost",
				"/v1/sessions"
		},
		"by path": func(r *http.Request) { r.Host, r.URL.Path = "localhost", w.base+"/" },
	} {
		resp := w.at("GET", "/", nil, func(r *http.Request) { r.AddCookie(c); change(r) })
		if resp.StatusCode != 401 && name != "by path" || name == "by path" &&
			resp.StatusCode != 200 {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
	}
	// Requests of pages of other origins with the cookie.
	for _, x := range []struct {
		method, site, mode, dest, origin string
		status                           int
	}{
		{"GET", "same-origin", "cors", "empty", "", 200},
		{"GET", "none", "navigate", "document", "", 200},
		{"GET", "cross-site", "navigate", "document", "", 200},
		{"GET", "same-site", "no-cors", "image", "", 403},
		{"GET", "cross-site", "cors", "empty", "", 403},
		{"POST", "same-site", "navigate", "document", "", 403},
		{"POST", "same-origin", "cors", "empty", "http://9-" + portID + ".localhost", 403},
		{"GET", "", "", "", "null", 403},
	} {
		resp := w.at(x.method, "/", nil, func(r *http.Request) {
			r.AddCookie(c)
			for name, value := range map[string]string{
				"Sec-Fetch-Site": x.site,
				"Sec-Fetch-Mode": x.mode, "Sec-Fetch-Dest": x.dest, "Origin": x.origin,
			} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
		})
		if resp.StatusCode != x.status {
			t.Errorf("%+v: %d", x, resp.StatusCode)
		}
	}
	// A ticket for a port does not open a WebSocket of the gateway.
	secret, _ := w.g.auth.PortTickets.Issue(context.Background(),
		testTokens()[auth.HashToken(tokenAll)], "s_"+portID+":1")
	if _, _, err := websocket.Dial(context.Background(), "ws://"+w.addr+"/v1/ws",
		&websocket.DialOptions{Subprotocols: []string{"sandgate.v1", auth.TicketPrefix +
			secret}}); err == nil {
		t.Error("a port's ticket opened the gateway's WebSocket")
	}
	if strings.Contains(w.log.String(), ports.TicketParam) {
		t.Error("a ticket is in the log")
	}
}

// TestPortByPath shows a page under the gateway's own host name. The page gets none of the
// gateway's rights.
func TestPortByPath(t *testing.T) {
	w := newPortWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		for _, name := range []string{
			"Set-Cookie", "Strict-Transport-Security", "Alt-Svc",
			"Clear-Site-Data", "Service-Worker-Allowed", "Access-Control-Allow-Origin",
			"Www-Authenticate", "Nel", "Report-To",
		} {
			rw.Header().Set(name, "x=1")
		}
		rw.Header().Set("Content-Security-Policy", "default-src *")
		rw.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/old" {
			rw.Header().Set("Location", "/new?x")
			rw.WriteHeader(302)
			return
		}
		io.WriteString(rw, r.URL.EscapedPath())
	})
	resp := w.do("GET", w.base+"/a%2fb//c?d=e", tokenAll, nil, func(r *http.Request) {
		r.Header.Set("Cookie", "notebook=secret")
		r.Header.Set("Referer", "http://x/y")
	})
	if body := read(t, resp); resp.StatusCode != 200 || body != "/a%2fb//c" {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	for _, name := range []string{
		"Set-Cookie", "Strict-Transport-Security", "Alt-Svc", "Clear-Site-Data",
		"Service-Worker-Allowed",
		"Nel", "Report-To", "Www-Authenticate",
	} {
		if resp.Header.Get(name) != "" {
			t.Errorf("the answer has %s: %s", name, resp.Header.Get(name))
		}
	}
	if p := resp.Header["Content-Security-Policy"]; len(p) != 2 ||
		!strings.HasPrefix(strings.Join(p, ";"), "default-src *;sandbox ") ||
		strings.Contains(p[1], "allow-same-origin") {
		t.Errorf("the policy is %q", p)
	}
	if resp.Header.Get("Access-Control-Allow-Origin") != "" ||
		resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the answer has %v", resp.Header)
	}
	r := <-w.seen
	if r.Header.Get("Cookie") != "" || r.Header.Get("Referer") != "" ||
		r.Header.Get("Authorization") != "" || r.Header.Get("X-Forwarded-Prefix") != w.base {
		t.Errorf("the program got %v", r.Header)
	}
	if resp := w.do("GET", w.base+"/old", tokenAll, nil,
		nil); resp.Header.Get("Location") != w.base+"/new?x" {
		t.Errorf("%d to %s", resp.StatusCode, resp.Header.Get("Location"))
	}
	for _, path := range []string{"/v1/sessions/s_" + portID + "/ports/0/", "/v1/sessions/s_" +
		portID + "/ports/65536/", "/v1/sessions/s_" + portID + "/ports/x/", "/v1/sessions/s_" +
		portID + "/ports/08/"} {
		wantFault(t, w.do("GET", path, tokenAll, nil, nil), fault.InvalidArgument)
	}
	wantFault(t, w.do("GET", "/v1/sessions/s_"+portID+"/ports/1/", tokenAll, nil, nil),
		fault.Unavailable)
}

// TestPortHTTP forwards all kinds of HTTP: large bodies in both directions, concurrently, HEAD,
// ranges, interim responses, events as they happen, all methods.
func TestPortHTTP(t *testing.T) {
	next := make(chan struct{})
	left := make(chan struct{})
	w := newPortWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hash":
			sum := sha256.New()
			n, err := io.Copy(sum, r.Body)
			fmt.Fprintf(rw, "%d %x %v", n, sum.Sum(nil), err)
		case "/zeros":
			io.CopyN(rw, readerFunc(func(p []byte) (int, error) { clear(p); return len(p), nil }),
				64<<20)
		case "/range":
			http.ServeContent(rw, r, "x.txt", time.Unix(1700000000, 0),
				strings.NewReader("0123456789"))
		case "/early":
			rw.Header().Set("Link", "</x.css>; rel=preload")
			rw.WriteHeader(http.StatusEarlyHints)
			fmt.Fprint(rw, "late")
		case "/events":
			rw.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(rw, "data: %d\n\n", i)
				rw.(http.Flusher).Flush()
				<-next
			}
			<-r.Context().Done()
			close(left)
		case "/refuse":
			rw.WriteHeader(413)
		case "/echo":
			http.NewResponseController(rw).EnableFullDuplex()
			io.Copy(rw, r.Body)
		case "/cut":
			rw.Header().Set("Content-Length", "1000")
			rw.Write([]byte("half"))
			rw.(http.Flusher).Flush()
			c, _, _ := rw.(http.Hijacker).Hijack()
			c.Close()
		case "/garbage":
			c, _, _ := rw.(http.Hijacker).Hijack()
			io.WriteString(c, "no HTTP at all\r\n\r\n")
			c.Close()
		case "/endless":
			c, b, _ := rw.(http.Hijacker).Hijack()
			for {
				if _, err := b.WriteString("HTTP/1.1 200 OK\r\n" +
					strings.Repeat("X-A: b\r\n", 1000)); err != nil {
					break
				}
			}
			c.Close()
		default:
			fmt.Fprint(rw, r.Method)
		}
	})
	body := random(5_000_000)
	want := fmt.Sprintf("%d %x <nil>", len(body), sha256.Sum256(body))
	for _, chunked := range []bool{false, true} {
		resp := w.at("POST", "/hash", bytes.NewReader(body), func(r *http.Request) {
			bearer(r)
			if chunked {
				r.ContentLength = -1
			}
		})
		if got := read(t, resp); got != want {
			t.Errorf("chunked %v: %d %s", chunked, resp.StatusCode, got)
		}
	}
	resp := w.at("POST", "/hash", bytes.NewReader(body),
		func(r *http.Request) { bearer(r); r.Header.Set("Expect", "100-continue") })
	if got := read(t, resp); got != want {
		t.Errorf("with 100-continue: %d %s", resp.StatusCode, got)
	}
	if n, err := io.Copy(io.Discard, w.at("GET", "/zeros", nil, bearer).Body); n != 64<<20 ||
		err != nil {
		t.Errorf("%d bytes came, %v", n, err)
	}
	resp = w.at("GET", "/range", nil,
		func(r *http.Request) { bearer(r); r.Header.Set("Range", "bytes=3-5") })
	if got := read(t, resp); resp.StatusCode != 206 || got != "345" ||
		resp.Header.Get("Content-Range") != "bytes 3-5/10" {
		t.Errorf("%d %q %v", resp.StatusCode, got, resp.Header)
	}
	resp = w.at("HEAD", "/range", nil, bearer)
	if got := read(t, resp); resp.StatusCode != 200 || got != "" || resp.ContentLength != 10 ||
		resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %q %d %v", resp.StatusCode, got, resp.ContentLength, resp.Header)
	}
	if got := read(t, w.at("GET", "/early", nil, bearer)); got != "late" {
		t.Errorf("after early hints came %q", got)
	}
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		if got := read(t, w.at(m, "/", nil, bearer)); got != m {
			t.Errorf("%s became %q", m, got)
		}
	}
	resp = w.at("GET", "/events", nil, bearer)
	lines := bufio.NewReader(resp.Body)
	for i := range 3 {
		if line, err := lines.ReadString('\n'); line != fmt.Sprintf("data: %d\n", i) || err != nil {
			t.Errorf("event %d is %q, %v", i, line, err)
		}
		lines.ReadString('\n')
		next <- struct{}{}
	}
	resp.Body.Close() // the program learns that the client has disconnected
	select {
	case <-left:
	case <-time.After(2 * time.Minute):
		t.Error("the program was not told that its client had left")
	}
	resp = w.at("POST", "/refuse", bytes.NewReader(make([]byte, 600<<10)), bearer)
	if resp.StatusCode != 413 {
		t.Errorf("an early refusal became %d", resp.StatusCode)
	}
	// Both directions at once, much more data than all windows together.
	resp = w.at("POST", "/echo",
		io.LimitReader(readerFunc(func(p []byte) (int, error) { return len(p), nil }), 32<<20),
		bearer)
	if n, err := io.Copy(io.Discard, resp.Body); n != 32<<20 || err != nil {
		t.Errorf("%d bytes came back, %v", n, err)
	}
	cut, err := http.NewRequest("GET", "http://"+w.addr+"/cut", nil)
	if err != nil {
		t.Fatal(err)
	}
	cut.Host = w.host
	bearer(cut)
	if resp, err := (&http.Transport{}).RoundTrip(cut); err == nil {
		if got, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("an answer that was cut looks whole: %q", got)
		}
		resp.Body.Close()
	}
	wantFault(t, w.at("GET", "/garbage", nil, bearer), fault.Unavailable)
	wantFault(t, w.at("GET", "/endless", nil, bearer), fault.Unavailable)
}

// TestPortWebSocket opens a WebSocket to a program; a shutdown cuts it.
func TestPortWebSocket(t *testing.T) {
	w := newPortWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" && r.Header.Get("Origin") != "http://"+r.Host {
			rw.WriteHeader(403)
			return
		}
		c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}})
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(-1)
		for {
			kind, b, err := c.Read(context.Background())
			if err != nil || c.Write(context.Background(), kind, b) != nil {
				return
			}
		}
	})
	c := w.cookie(t, false)
	for name, o := range map[string]*websocket.DialOptions{
		"by name": {Host: w.host, HTTPHeader: http.Header{
			"Cookie": {c.String()},
			"Origin": {"http://" + w.host},
		}, Subprotocols: []string{"chat", "ticket.secret"}},
		"by path": {
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + tokenAll}},
			Subprotocols: []string{"chat"},
		},
	} {
		path := "/socket"
		if name == "by path" {
			path = w.base + path
		}
		ws, resp, err := websocket.Dial(context.Background(), "ws://"+w.addr+path, o)
		if err != nil {
			t.Fatal(name, resp, err)
		}
		defer ws.CloseNow()
		ws.SetReadLimit(-1)
		if ws.Subprotocol() != "chat" {
			t.Errorf("%s: the subprotocol is %q", name, ws.Subprotocol())
		}
		for _, n := range []int{0, 5, 70_000, 2_000_000} {
			sent := random(n)
			if err := ws.Write(context.Background(), websocket.MessageBinary, sent); err != nil {
				t.Fatal(err)
			}
			if _, got, err := ws.Read(context.Background()); err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("%s: %d of %d bytes, %v", name, len(got), n, err)
			}
		}
	}
	_, resp, err := websocket.Dial(context.Background(), "ws://"+w.addr+"/socket",
		&websocket.DialOptions{Host: w.host, HTTPHeader: http.Header{
			"Cookie": {c.String()},
			"Origin": {"http://evil.localhost"},
		}})
	if err == nil || resp.StatusCode != 403 {
		t.Errorf("a foreign page opened a WebSocket: %v", err)
	}
	start := time.Now()
	if err := w.stop(); err != nil || time.Since(start) > w.g.cfg.Times.Drain*2/3 {
		t.Errorf("the shutdown took %s, %v", time.Since(start), err)
	}
}

// TestPortTunnel carries bytes that are not HTTP.
func TestPortTunnel(t *testing.T) {
	w := newPortWorld(t, func(http.ResponseWriter, *http.Request) {})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.WriteString(c, "220 ready\r\n") // the program sends first
				io.Copy(c, c)
			}()
		}
	}()
	path := fmt.Sprintf("/v1/sessions/s_%s/ports/%d", portID, ln.Addr().(*net.TCPAddr).Port)
	wantFault(t, w.do("GET", path, tokenAll, nil, nil), fault.Malformed)
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(
		c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nearly", path, tokenAll)
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	want := "220 ready\r\nearly"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != want {
		t.Fatalf("%q, %v", got, err)
	}
	sent := random(3_000_000)
	go func() { c.Write(sent); c.(*net.TCPConn).CloseWrite() }()
	back, err := io.ReadAll(in)
	if err != nil || !bytes.Equal(back, sent) {
		t.Errorf("%d of %d bytes came back, %v", len(back), len(sent), err)
	}
}
