package jupyter

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// request makes a request and returns the response, whose body is decoded into v.
func request(t *testing.T, method, url string, header http.Header, v any) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(deadline(t), method, url, nil)
	check(t, err)
	for name, values := range header {
		r.Header[name] = values
	}
	resp, err := http.DefaultClient.Do(r)
	check(t, err)
	defer resp.Body.Close()
	if v != nil {
		check(t, json.NewDecoder(resp.Body).Decode(v))
	}
	return resp
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// TestAuthorization tries the credentials of Jupyter's clients, and requests without enough of them.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	s := server(t)
	base := s.URL + "/jupyter"
	const kernels = "/api/kernels"
	socket := kernels + "/aaaaaaaa-aaaa-aaaa-aaaa-aaaaaa_k1/channels"
	for _, path := range []string{
		kernels, socket, "/api/kernelspecs", "/api/me", "/api/status", "/s/s_x/api/kernels",
		"/api/sessions", "/api/contents", "/api/contents/a", "/files/a", "/api/terminals",
		"/terminals/websocket/s_x_t1", "/s/s_x/terminals/websocket/t1",
		"/api/events/subscribe", "/s/s_x/api/events/subscribe",
	} {
		for _, h := range []http.Header{
			{},
			header("Authorization", "token wrong"), header("Authorization", "Basic x"),
			header("Cookie", "sandgate_jupyter=00ff"),
		} {
			var e struct{ Message, Reason string }
			r := request(t, "GET", base+path, h, &e)
			if r.StatusCode != http.StatusForbidden || e.Message == "" || e.Reason == "" {
				t.Errorf("%s with %v: status %d, %+v", path, h, r.StatusCode, e)
			}
		}
	}
	if r := request(t, "GET", s.URL+"/t/00ff"+kernels, nil, nil); r.StatusCode != 403 {
		t.Errorf("a wrong token in the path: status %d", r.StatusCode)
	}
	for _, path := range []string{"/", "/tree?", "/api"} {
		if r := request(t, "GET", base+path, nil, nil); r.StatusCode != 200 {
			t.Errorf("%s: status %d", path, r.StatusCode)
		}
	}
	token := header("Authorization", "Token "+s.Token)
	for _, h := range []http.Header{token, header("Authorization", "bearer "+s.Token)} {
		if r := request(t, "GET", base+kernels, h, nil); r.StatusCode != 200 {
			t.Errorf("%v: status %d", h, r.StatusCode)
		}
	}
	r := request(t, "GET", base+"/?token="+s.Token, nil, nil)
	var cookies []string
	xsrf := ""
	for _, c := range r.Cookies() {
		cookies = append(cookies, c.Name+"="+c.Value)
		if c.Name == "_xsrf" {
			xsrf = c.Value
		}
	}
	browser := header("Cookie", strings.Join(cookies, "; "))
	if r := request(t, "GET", base+kernels, browser, nil); r.StatusCode != 200 {
		t.Errorf("cookie: status %d", r.StatusCode)
	}
	if r := request(t, "POST", base+"/token", browser, nil); r.StatusCode != 403 {
		t.Errorf("cookie without _xsrf: status %d", r.StatusCode)
	}
	browser.Set("X-XSRFToken", xsrf)
	if r := request(t, "POST", base+"/token", browser, nil); r.StatusCode != 201 {
		t.Errorf("cookie with _xsrf: status %d", r.StatusCode)
	}
	upgrade := header("Upgrade", "websocket", "Connection", "Upgrade",
		"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==",
		"Authorization", "token "+s.Token)
	if r := request(t, "GET", base+socket, upgrade, nil); r.StatusCode != 404 {
		t.Errorf("the socket of an unknown kernel: status %d", r.StatusCode)
	}
	upgrade.Set("Origin", "https://other.example")
	if r := request(t, "GET", base+socket, upgrade, nil); r.StatusCode != 403 {
		t.Errorf("another origin: status %d", r.StatusCode)
	}
}

// TestPathToken opens servers with a token in the path, and with the token of another session.
func TestPathToken(t *testing.T) {
	t.Parallel()
	s := server(t)
	auth := header("Authorization", "token "+s.Token)
	var all, one struct{ Token, URL string }
	request(t, "POST", s.URL+"/jupyter/token", auth, &all)
	request(t, "POST", s.URL+"/jupyter/s/s_other/token", auth, &one)
	if strings.ToLower(all.URL) != all.URL || !strings.HasPrefix(all.URL, s.URL+"/t/") {
		t.Errorf("the address is %s", all.URL)
	}
	for url, want := range map[string]int{
		all.URL + "/api/kernels":               200,
		all.URL + "/api/kernelspecs":           200,
		one.URL + "/api/kernels":               404, // there is no such session
		one.URL + "/s/s_another/api/kernels":   403,
		s.URL + "/v1/sessions?t=" + all.Token:  401,
		s.URL + "/t/" + all.Token + "x/api/me": 403,
	} {
		if r := request(t, "GET", url, nil, nil); r.StatusCode != want {
			t.Errorf("status %d instead of %d", r.StatusCode, want)
		}
	}
	r := request(t, "GET", s.URL+"/v1/sessions", header("Authorization", "Bearer "+all.Token), nil)
	if r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token opens the REST interface: status %d", r.StatusCode)
	}
	if strings.Contains(s.Log(), all.Token) {
		t.Error("the log has the token")
	}
}

// TestViewer: a key that may only read reads lists and files, and changes nothing.
func TestViewer(t *testing.T) {
	t.Parallel()
	s := server(t)
	var session, key struct{ ID, Secret string }
	post(t, s.URL+"/v1/sessions", s.Token, `{"language": "python"}`, &session)
	post(t, s.URL+"/v1/keys", s.Token, `{"role": "viewer"}`, &key)
	base := s.URL + "/jupyter/s/" + session.ID
	auth := header("Authorization", "token "+key.Secret)
	for _, path := range []string{
		"/api/kernels", "/api/sessions", "/api/contents", "/api/terminals",
	} {
		if r := request(t, "GET", base+path, auth, nil); r.StatusCode != http.StatusOK {
			t.Errorf("GET %s: status %d", path, r.StatusCode)
		}
	}
	for _, c := range []string{
		"POST /api/kernels", "POST /api/sessions", "POST /api/terminals", "POST /api/contents",
		"PUT /api/contents/a", "PATCH /api/contents/a", "DELETE /api/contents/a",
		"PATCH /api/sessions/a", "DELETE /api/sessions/a", "DELETE /api/terminals/t1",
		"POST /api/contents/a/checkpoints", "GET /terminals/websocket/t1",
		"GET /api/kernels/a-a-a-a-a_k1/channels", "POST /api/events",
	} {
		method, path, _ := strings.Cut(c, " ")
		if r := request(t, method, base+path, auth, nil); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s: status %d", c, r.StatusCode)
		}
	}
}

// TestEventsOfOthers: no credentials of another tenant or session get the events of a session, and a
// viewer gets them.
func TestEventsOfOthers(t *testing.T) {
	t.Parallel()
	s, ctx := server(t), deadline(t)
	var a, b struct{ ID string }
	post(t, s.URL+"/v1/sessions", s.Token, `{"language": "python"}`, &a)
	post(t, s.URL+"/v1/sessions", s.Token, `{"language": "python"}`, &b)
	key := func(body string) string {
		var k struct{ Secret string }
		post(t, s.URL+"/v1/keys", s.Token, body, &k)
		return k.Secret
	}
	foreign, viewer := key(`{"role": "owner", "tenant": "events"}`), key(`{"role": "viewer"}`)
	run := key(`{"role": "run"}`)
	at := func(session string) string { return "/jupyter/s/" + session }
	dial := func(path, secret string) (*websocket.Conn, int) {
		ws, r, err := websocket.Dial(ctx, strings.Replace(s.URL, "http", "ws", 1)+path+
			"/api/events/subscribe?token="+secret, nil)
		if err != nil && r == nil {
			t.Fatal(err)
		}
		return ws, r.StatusCode
	}
	if _, status := dial(at(a.ID), foreign); status != http.StatusNotFound {
		t.Errorf("the session of another tenant: status %d", status)
	}
	if _, status := dial("/jupyter", run); status != http.StatusForbidden {
		t.Errorf("a key that may not read: status %d", status)
	}
	if r := request(t, "POST", s.URL+at(a.ID)+"/api/events",
		header("Authorization", "token "+foreign), nil); r.StatusCode != http.StatusNotFound {
		t.Errorf("an event for the session of another tenant: status %d", r.StatusCode)
	}
	readers := map[string]*websocket.Conn{}
	for _, c := range [][]string{
		{"own", at(a.ID), s.Token},
		{"viewer", at(a.ID), viewer},
		{"other session", at(b.ID), s.Token},
		{"wide", "/jupyter", s.Token},
		{"foreign", "/jupyter", foreign},
	} {
		ws, status := dial(c[1], c[2])
		if status != http.StatusSwitchingProtocols {
			t.Fatalf("%s: status %d", c[0], status)
		}
		defer ws.CloseNow()
		readers[c[0]] = ws
	}
	request(t, "GET", s.URL+at(a.ID)+"/api/contents", header("Authorization", "token "+s.Token), nil)
	// The last event of each subscriber follows those that it must not get.
	const last = `{"schema_id": "https://example.org/last", "version": 1, "data": {"last": true}}`
	for _, c := range [][]string{
		{at(a.ID), s.Token}, {at(b.ID), s.Token}, {"/jupyter", s.Token}, {"/jupyter", foreign},
	} {
		post(t, s.URL+c[0]+"/api/events", c[1], last, nil)
	}
	for name, want := range map[string]string{
		"own": "", "viewer": "", "other session": "-", "wide": a.ID, "foreign": "-",
	} {
		seen := "-"
		for {
			_, text, err := readers[name].Read(ctx)
			check(t, err)
			var e struct {
				Action, Path string
				Last         bool
			}
			check(t, json.Unmarshal(text, &e))
			if e.Action == "get" && (name != "wide" || e.Path == a.ID) {
				seen = e.Path
			}
			if e.Last {
				break
			}
		}
		if seen != want {
			t.Errorf("%s sees %q, want %q", name, seen, want)
		}
	}
}
