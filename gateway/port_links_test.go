package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// link stores a preview link of the world's port and sends the requests of at to it. by is the
// subject that created it.
func (w *portWorld) link(l tenant.PortLink, password string) tenant.PortLink {
	w.t.Helper()
	l.Tenant, l.Session, l.Port = "t1", "s_"+portID, w.port
	if l.By == "" {
		l.By = "ann"
	}
	made, err := w.fake.keys.AddPortLink(context.Background(), l, password)
	if err != nil {
		w.t.Fatal(err)
	}
	w.awaitKeys()
	_, at, _ := strings.Cut(w.addr, ":")
	w.host = "l-" + made.ID + ".localhost:" + at
	return made
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func token(secret string) func(*http.Request) { return header("Authorization", "Bearer "+secret) }

// TestPublicLink: strangers reach the program behind a public link. The gateway's credentials do not
// reach the program, and the link decides which other pages use or show it.
func TestPublicLink(t *testing.T) {
	w := newPortWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Access-Control-Allow-Origin", "*")
		rw.Header().Set("X-Frame-Options", "DENY")
		rw.Header().Set("Cache-Control", "public, max-age=60")
		http.SetCookie(rw, &http.Cookie{Name: "own", Value: "1"})
		http.SetCookie(rw, &http.Cookie{Name: "wide", Value: "1", Domain: "localhost"})
		http.SetCookie(rw, &http.Cookie{Name: "sandgate-port", Value: "forged"})
		io.WriteString(rw, "hello")
	})
	made := w.link(tenant.PortLink{
		Public: true, Origins: []string{"https://app.example.org"},
		FrameAncestors: []string{"https://show.example.org"},
	}, "")
	resp := w.at("GET", "/x?y=1&sandgate_ticket=z", nil, func(r *http.Request) {
		token(tokenAll)(r)
		r.Header.Set("Cookie", "sandgate-port=a; own=1")
		r.Header.Set(ports.PasswordHeader, "secret")
	})
	if body := read(t, resp); resp.StatusCode != 200 || body != "hello" {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	r := <-w.seen
	if r.URL.String() != "/x?y=1" || r.Header.Get("Cookie") != "own=1" ||
		r.Header.Get("Authorization") != "" || r.Header.Get(ports.PasswordHeader) != "" ||
		strings.Contains(fmt.Sprint(r.Header), portID) {
		t.Errorf("the program got %s %v", r.URL, r.Header)
	}
	if c := resp.Cookies(); len(c) != 1 || c[0].Name != "own" {
		t.Errorf("the cookies are %v", c)
	}
	h := resp.Header
	if h.Get("Content-Security-Policy") != "frame-ancestors 'self' https://show.example.org" ||
		h.Get("X-Frame-Options") != "" || h.Get("Access-Control-Allow-Origin") != "" ||
		h.Get("Cache-Control") != "public, max-age=60" {
		t.Errorf("the header is %v", h)
	}
	// A program's own credentials pass.
	read(t, w.at("GET", "/", nil, header("Authorization", "Basic eDp5")))
	if r = <-w.seen; r.Header.Get("Authorization") != "Basic eDp5" {
		t.Errorf("the program got %v", r.Header)
	}
	resp = w.at("GET", "/", nil, header("Origin", "https://app.example.org"))
	if resp.StatusCode != 200 ||
		resp.Header.Get("Access-Control-Allow-Origin") != "https://app.example.org" {
		t.Errorf("from an allowed page: %d %v", resp.StatusCode, resp.Header)
	}
	<-w.seen
	resp = w.at("OPTIONS", "/", nil, func(r *http.Request) {
		r.Header.Set("Origin", "https://app.example.org")
		r.Header.Set("Access-Control-Request-Method", "PUT")
		r.Header.Set("Access-Control-Request-Headers", "x-a,\u00e9;y")
	})
	if resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Headers") != "x-a,y" {
		t.Errorf("the preflight: %d %v", resp.StatusCode, resp.Header)
	}
	for _, origin := range []string{"https://evil.example.org", "null"} {
		wantFault(t, w.at("POST", "/", nil, header("Origin", origin)), fault.PermissionDenied)
	}
	select {
	case r := <-w.seen:
		t.Errorf("the program got %s %s", r.Method, r.URL)
	default:
	}
	if strings.Contains(w.log.String(), made.ID) {
		t.Error("the id of a link is in the log")
	}
	// The link opens nothing else.
	for _, host := range []string{
		"9-" + portID + ".localhost", "l-" + made.ID + "x.localhost", "l-.localhost",
		"l-" + strings.Repeat("a", 26) + ".localhost",
	} {
		resp := w.at("GET", "/", nil, func(r *http.Request) { r.Host = host })
		if resp.StatusCode == 200 {
			t.Errorf("%s answers %d", host, resp.StatusCode)
		}
	}
}

// TestPrivateLink: only credentials of the tenant that may read open a private link.
func TestPrivateLink(t *testing.T) {
	w := newPortWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Cache-Control", "public, s-maxage=9, max-age=60")
		io.WriteString(rw, r.Header.Get("Authorization"))
	})
	made := w.link(tenant.PortLink{}, "")
	wantFault(t, w.at("GET", "/", nil, nil), fault.Unauthenticated)
	wantFault(t, w.at("GET", "/", nil, token(tokenOther)), fault.NotFound)
	wantFault(t, w.at("GET", "/", nil, token(tokenRun)), fault.PermissionDenied)
	view, err := w.g.auth.NewViewLinkToken(testTokens()[auth.HashToken(tokenAll)], "s_"+portID,
		"x", time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if resp := w.at("GET", "/", nil, token(view)); resp.StatusCode == 200 {
		t.Error("a share link opened a private link")
	}
	resp := w.at("GET", "/", nil, token(tokenViewer))
	if body := read(t, resp); resp.StatusCode != 200 || body != "" ||
		resp.Header.Get("Cache-Control") != "private, max-age=60" {
		t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
	}
	// A browser gets a ticket.
	path := "/v1/sessions/s_" + portID + "/ports/links/" + made.ID + "/ticket"
	wantFault(t, w.do("POST", path, tokenOther, nil, nil), fault.NotFound)
	wantFault(t, w.do("POST", path, tokenRun, nil, nil), fault.PermissionDenied)
	var reply linkTicketReply
	r := w.do("POST", path, tokenViewer, nil, nil)
	if err := json.Unmarshal([]byte(read(t, r)), &reply); err != nil || r.StatusCode != 201 {
		t.Fatal(r.StatusCode, err)
	}
	u, err := url.Parse(reply.URL)
	if err != nil || u.Hostname() != "l-"+made.ID+".localhost" {
		t.Fatal(reply, err)
	}
	resp = w.at("GET", "//evil.example.org/?a=1&"+u.RawQuery, nil, nil)
	if to := resp.Header.Get("Location"); resp.StatusCode != 303 ||
		to != "http://"+w.host+"//evil.example.org/?a=1" || len(resp.Cookies()) != 1 {
		t.Fatalf("%d to %q %v", resp.StatusCode, to, resp.Header)
	}
	c := resp.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Domain != "" {
		t.Errorf("the cookie is %+v", c)
	}
	wantFault(t, w.at("GET", "/?"+u.RawQuery, nil, nil), fault.Unauthenticated)
	with := func(change func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) { r.AddCookie(c); change(r) }
	}
	if resp := w.at("GET", "/", nil, with(func(*http.Request) {})); resp.StatusCode != 200 {
		t.Errorf("with the cookie: %d", resp.StatusCode)
	}
	wantFault(t, w.at("GET", "/", nil, with(header("Sec-Fetch-Site", "same-site"))),
		fault.PermissionDenied)
	// The cookie of one link does not open another.
	w.link(tenant.PortLink{}, "")
	wantFault(t, w.at("GET", "/", nil, with(func(*http.Request) {})), fault.Unauthenticated)
	if strings.Contains(w.log.String(), ports.TicketParam) {
		t.Error("a ticket is in the log")
	}
}

// TestLinkPassword: a password opens a link, by the gateway's page or a header, and can be tried only
// so often.
func TestLinkPassword(t *testing.T) {
	w := newPortWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "%s %s", r.Method, body)
	})
	made := w.link(tenant.PortLink{
		Public: true, FrameAncestors: []string{"*"},
	}, "correct horse")
	html := header("Accept", "text/html,*/*")
	resp := w.at("GET", "/a?b", nil, html)
	if body := read(t, resp); resp.StatusCode != 401 ||
		!strings.Contains(body, `name="sandgate_password"`) ||
		resp.Header.Get("Cache-Control") != "no-store" ||
		len(resp.Header["Content-Security-Policy"]) != 2 {
		t.Errorf("%d %s %v", resp.StatusCode, body, resp.Header)
	}
	form := func(password string, change func(*http.Request)) *http.Response {
		return w.at("POST", "/a?b", strings.NewReader(
			url.Values{ports.PasswordField: {password}}.Encode()), func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if change != nil {
				change(r)
			}
		})
	}
	wantFault(t, form("wrong horse", nil), fault.Unauthenticated)
	wantFault(t, form("correct horse", header("Sec-Fetch-Site", "same-site")),
		fault.Unauthenticated)
	resp = form("correct horse", nil)
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "http://"+w.host+"/a?b" ||
		len(resp.Cookies()) != 1 {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	c := resp.Cookies()[0]
	if c.SameSite != http.SameSiteNoneMode || !c.Secure || !c.Partitioned {
		t.Errorf("the cookie for a frame is %+v", c)
	}
	// With the cookie, a form of the program with the same field belongs to the program.
	resp = form("x", func(r *http.Request) { r.AddCookie(c) })
	if body := read(t, resp); body != "POST sandgate_password=x" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	resp = w.at("GET", "/", nil, header(ports.PasswordHeader, "correct horse"))
	if resp.StatusCode != 200 {
		t.Errorf("by header: %d", resp.StatusCode)
	}
	// A password that is too long is a try too, and needs no hash: the tries take no time here.
	refused, tooLong := false, strings.Repeat("x", tenant.MaxPassword+1)
	for range 20 {
		resp = w.at("GET", "/", nil, header(ports.PasswordHeader, tooLong))
		if refused = resp.StatusCode == 429; refused {
			break
		}
	}
	if !refused || resp.Header.Get("Retry-After") == "" {
		t.Errorf("guesses are not limited: %d %v", resp.StatusCode, resp.Header)
	}
	// The limit holds for the right password too, and not for visitors with a cookie.
	wantFault(t, form("correct horse", nil), fault.Exhausted)
	if resp = w.at("GET", "/", nil,
		func(r *http.Request) { r.AddCookie(c) }); resp.StatusCode != 200 {
		t.Errorf("with the cookie: %d", resp.StatusCode)
	}
	if text := w.log.String(); strings.Contains(text, "horse") || strings.Contains(text, made.ID) {
		t.Error("a password or the id of a link is in the log")
	}
}

// TestLinkEnds: visitors learn why a link has ended: it expired, it was revoked, or it lost its creator
// or its session. Its open WebSockets are cut.
func TestLinkEnds(t *testing.T) {
	w := newPortWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ws" {
			return
		}
		c, err := websocket.Accept(rw, r, nil)
		if err != nil {
			return
		}
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, b) != nil {
				return
			}
		}
	})
	key, _ := w.key(tenant.Owner)
	for _, x := range []struct {
		name, message string
		link          tenant.PortLink
		end           func(l tenant.PortLink) error
	}{
		{
			"expired", "the link has expired",
			tenant.PortLink{Public: true, Expires: time.Now().Add(3 * time.Second)},
			func(tenant.PortLink) error { return nil },
		},
		{
			"revoked", "the link was revoked",
			tenant.PortLink{Public: true},
			func(l tenant.PortLink) error {
				return w.fake.keys.EndPortLink(context.Background(), "t1", l.Session, l.ID)
			},
		},
		{
			"session", "the session behind this link has ended",
			tenant.PortLink{Public: true},
			func(l tenant.PortLink) error {
				return w.fake.keys.EndSessionLinks(context.Background(), l.Session)
			},
		},
		{
			"creator", "the link has ended with the credentials that created it",
			tenant.PortLink{Public: true, By: key.Subject()},
			func(tenant.PortLink) error {
				return w.fake.keys.Revoke(context.Background(), "t1", key.ID)
			},
		},
	} {
		l := w.link(x.link, "")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		c, _, err := websocket.Dial(ctx, "ws://"+w.addr+"/ws",
			&websocket.DialOptions{Host: w.host})
		if err != nil {
			t.Fatal(x.name, err)
		}
		if err := c.Write(ctx, websocket.MessageText, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, b, err := c.Read(ctx); err != nil || string(b) != "x" {
			t.Fatal(x.name, string(b), err)
		}
		if err := x.end(l); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Read(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("%s: the WebSocket was not cut: %v", x.name, err)
		}
		got := wantFault(t, w.at("GET", "/", nil, nil), fault.NotFound)
		if got.Message != x.message {
			t.Errorf("%s: %q", x.name, got.Message)
		}
		page := read(t, w.at("GET", "/", nil, header("Accept", "text/html")))
		if !strings.Contains(page, strings.ToUpper(x.message[:1])+x.message[1:]) {
			t.Errorf("%s: %s", x.name, page)
		}
	}
}

// TestLinkErrorPages: visitors learn why they get no answer, and nothing about the session.
func TestLinkErrorPages(t *testing.T) {
	w := newPortWorld(t, func(http.ResponseWriter, *http.Request) {})
	w.link(tenant.PortLink{Public: true}, "")
	w.fake.change(func() { delete(w.fake.sessions, "s_"+portID) })
	got := wantFault(t, w.at("GET", "/", nil, nil), fault.NotFound)
	if got.Message != "the session behind this link no longer exists" ||
		strings.Contains(got.Message, portID) {
		t.Errorf("%+v", got)
	}
	w.fake.change(func() { w.fake.sessions["s_"+portID] = "t1" })
	w.port = 1
	w.link(tenant.PortLink{Public: true}, "")
	resp := w.at("GET", "/", nil, header("Accept", "text/html"))
	if body := read(t, resp); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" ||
		resp.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
		strings.Contains(body, portID) {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

// TestLinkVisits: the requests of one link do not use up the gateway.
func TestLinkVisits(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	w := newPortWorld(t, func(http.ResponseWriter, *http.Request) {
		began <- struct{}{}
		<-end
	})
	w.link(tenant.PortLink{Public: true}, "")
	const most = 100
	done := make(chan int, most)
	for range most {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+w.addr+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = w.host
		go func() {
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
			if err != nil {
				done <- 0
				return
			}
			resp.Body.Close()
			done <- resp.StatusCode
		}()
		<-began
	}
	wantFault(t, w.at("GET", "/", nil, nil), fault.Exhausted)
	close(end)
	for range most {
		if status := <-done; status != 200 {
			t.Errorf("a request within the limit got %d", status)
		}
	}
}
