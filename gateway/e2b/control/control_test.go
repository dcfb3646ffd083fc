package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// principals of the tests, by their keys.
func principals() map[string]noderpc.Principal {
	all := []string{
		string(protocol.ScopeRead), string(protocol.ScopeWrite), string(protocol.ScopeManage),
	}
	return map[string]noderpc.Principal{
		"alice": {Tenant: "a", Subject: "alice", Scopes: all},
		"bob":   {Tenant: "b", Subject: "bob", Scopes: all},
		"vic":   {Tenant: "a", Subject: "vic", Scopes: all[:1]},
		"link":  {Tenant: "a", Subject: "vic", Scopes: all[:1], Session: "s_x1"},
	}
}

// fakeNode has sessions in memory.
type fakeNode struct {
	mu       sync.Mutex
	sessions map[string]*fakeSession
	calls    []string
	next     int
	// closed is set if the server lets nothing out.
	closed bool
	// bounded is set if the server lets no session live forever.
	bounded bool
	fail    map[string]error
	answer  map[string]func(who noderpc.Principal, params any) (any, error)
}

type fakeSession struct {
	protocol.Session
	tenant  string
	created protocol.SessionCreate
}

func (f *fakeNode) Open(context.Context, noderpc.Principal) (nodecall.Link, error) {
	return nil, fault.New(fault.Unavailable, "fake.open", "no links")
}

func (f *fakeNode) Call(_ context.Context, who noderpc.Principal, op string,
	params, result any,
) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, op)
	if err := f.fail[op]; err != nil {
		return err
	}
	reply, err := f.reply(who, op, params)
	if err != nil {
		return err
	}
	if result == nil || reply == nil {
		return nil
	}
	text, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, result)
}

func (f *fakeNode) reply(who noderpc.Principal, op string, params any) (any, error) {
	if do := f.answer[op]; do != nil {
		return do(who, params)
	}
	switch p := params.(type) {
	case protocol.SessionCreate:
		return f.create(who, p)
	case protocol.SessionRef:
		return f.one(who, op, p)
	case protocol.SessionUpdate:
		s, err := f.find(who, op, p.Session)
		if err == nil && f.bounded && p.LifetimeSeconds != nil && *p.LifetimeSeconds < 0 {
			return nil, fault.Invalid(op, "lifetime_seconds", "never is not allowed")
		}
		if err == nil && p.LifetimeSeconds != nil && *p.LifetimeSeconds < 0 {
			s.ExpiresMS = 0
		} else if err == nil && p.LifetimeSeconds != nil {
			s.ExpiresMS = time.Now().UnixMilli() + *p.LifetimeSeconds*1000
		}
		return s, err
	case protocol.SessionHibernate:
		s, err := f.find(who, op, p.Session)
		if err == nil {
			s.State, s.Suspended = "hibernated", p.Suspend
		}
		return s, err
	case protocol.SessionQuery:
		return f.list(who, p)
	}
	if op == protocol.OpTemplateList {
		return protocol.TemplateList{Templates: []protocol.Template{{Name: "mine"}}}, nil
	}
	return nil, fault.New(fault.Unsupported, op, "the fake node has no %s", op)
}

func (f *fakeNode) create(who noderpc.Principal, p protocol.SessionCreate) (any, error) {
	const op = protocol.OpSessionCreate
	if slices.Contains(who.Scopes, string(protocol.ScopeManage)) {
		return nil, fault.Invalid(op, "labels", "the label cannot be set")
	}
	if f.closed && p.Network != nil && !p.Network.Off {
		field := "network"
		if p.Network.Allow != nil {
			field = "network.allow"
		}
		e := fault.New(fault.PermissionDenied, op, "nothing gets out").For(fault.CauseEgress)
		e.Field = field
		return nil, e
	}
	if p.Template != "" && p.Template != "mine" {
		return nil, &fault.Error{Kind: fault.NotFound, Op: op, Field: "template", Message: "there is no such template"}
	}
	if p.Snapshot != "" && p.Snapshot != "saved" && p.Snapshot != "n_1" {
		return nil, fault.New(fault.NotFound, op, "there is no such snapshot")
	}
	f.next++
	now := time.Now().UnixMilli()
	s := &fakeSession{tenant: who.Tenant, created: p, Session: protocol.Session{
		ID: fmt.Sprintf("s_x%d", f.next), State: "running", CreatedMS: now + int64(f.next),
		ActiveMS: now, ExpiresMS: now + p.LifetimeSeconds*1000, Labels: p.Labels,
		Template: p.Template, Network: p.Network, Volumes: p.Volumes, OnExpiry: p.OnExpiry,
		Limits: &protocol.Limits{CPUs: 1.5, MemoryBytes: 512 << 20, DiskBytes: 1 << 30},
	}}
	f.sessions[s.ID] = s
	return s.Session, nil
}

func (f *fakeNode) find(who noderpc.Principal, op, id string) (*fakeSession, error) {
	s := f.sessions[id]
	if s == nil || s.tenant != who.Tenant {
		return nil, fault.New(fault.NotFound, op, "there is no such session")
	}
	return s, nil
}

func (f *fakeNode) one(who noderpc.Principal, op string, p protocol.SessionRef) (any, error) {
	s, err := f.find(who, op, p.Session)
	if err != nil {
		return nil, err
	}
	switch op {
	case protocol.OpSessionGet:
	case protocol.OpResume:
		s.State, s.Suspended = "running", false
	case protocol.OpSessionDelete:
		delete(f.sessions, s.ID)
		return nil, nil
	default:
		return nil, fault.New(fault.Unsupported, op, "the fake node has no %s", op)
	}
	return s.Session, nil
}

// list has pages of at most two sessions.
func (f *fakeNode) list(who noderpc.Principal, q protocol.SessionQuery) (any, error) {
	if q.Cursor != "" && f.sessions[q.Cursor] == nil {
		return nil, fault.Invalid(protocol.OpSessionList, "cursor", "it is not a cursor")
	}
	ids := slices.SortedFunc(maps.Keys(f.sessions), func(a, b string) int {
		if q.Order == protocol.OrderCreated {
			return int(f.sessions[a].CreatedMS - f.sessions[b].CreatedMS)
		}
		return int(f.sessions[b].CreatedMS - f.sessions[a].CreatedMS)
	})
	var l protocol.SessionList
	seen := q.Cursor == ""
	for _, id := range ids {
		s := f.sessions[id]
		has := s.tenant == who.Tenant
		for _, label := range q.Labels {
			key, value, exact := strings.Cut(label, ":")
			got, ok := s.Labels[key]
			has = has && ok && (!exact || got == value)
		}
		if seen && has {
			if len(l.Sessions) == min(2, q.Limit) {
				l.NextCursor = l.Sessions[len(l.Sessions)-1].ID
				break
			}
			l.Sessions = append(l.Sessions, s.Session)
		}
		seen = seen || id == q.Cursor
	}
	return l, nil
}

// rig is a control plane on a fake node.
type rig struct {
	t    *testing.T
	node *fakeNode
	// routes are matched in their order, as the gateway does.
	routes []surface.Route
}

func newRig(t *testing.T) *rig {
	t.Helper()
	node := &fakeNode{
		sessions: map[string]*fakeSession{}, fail: map[string]error{},
		answer: map[string]func(noderpc.Principal, any) (any, error){},
	}
	p := New(Config{
		Node: node, Log: slog.New(slog.DiscardHandler), Call: time.Minute, Domain: "sbx.test",
		Tokens: func(purpose, session string) (string, error) {
			return purpose + "-" + session, nil
		},
	})
	return &rig{t: t, node: node, routes: p.Routes()}
}

// matches reports whether a template of a path matches a request, and sets its parameters.
func matches(template string, r *http.Request) bool {
	want, got := strings.Split(template, "/"), strings.Split(r.URL.EscapedPath(), "/")
	if want[len(want)-1] == "*" && len(got) >= len(want) {
		want, got = want[:len(want)-1], got[:len(want)-1]
	}
	if len(want) != len(got) {
		return false
	}
	for i, part := range want {
		name, param := strings.CutPrefix(part, ":")
		if param {
			r.SetPathValue(name, got[i])
		} else if part != got[i] {
			return false
		}
	}
	return true
}

// do makes a request as the user and returns the response, whose body is decoded into result.
func (g *rig) do(user, method, path, body string, result any) *httptest.ResponseRecorder {
	g.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r = r.WithContext(surface.WithCall(r.Context(), &surface.Call{
		Who: principals()[user], WriteError: sandbox.WriteError,
	}))
	w := httptest.NewRecorder()
	for _, route := range g.routes {
		if route.Method == method && matches(route.Path, r) {
			route.Handler.ServeHTTP(w, r)
			break
		}
	}
	if result != nil {
		text, _ := io.ReadAll(w.Result().Body)
		if err := json.Unmarshal(text, result); err != nil {
			g.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return w
}

// want makes a request and compares the status.
func (g *rig) want(status int, user, method, path, body string, result any) http.Header {
	g.t.Helper()
	w := g.do(user, method, path, body, nil)
	text := w.Body.String()
	if w.Code != status {
		g.t.Fatalf("%s %s %s: %d, want %d: %s", method, path, body, w.Code, status, text)
	}
	if result != nil {
		if err := json.Unmarshal([]byte(text), result); err != nil {
			g.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return w.Header()
}

// refuse makes a request that fails, and checks the form of the error and a part of its message.
func (g *rig) refuse(status int, message, user, method, path, body string) {
	g.t.Helper()
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	w := g.do(user, method, path, body, &e)
	if w.Code != status || e.Code != status || !strings.Contains(e.Message, message) {
		g.t.Errorf("%s %s %s: %d, want %d with %q: %+v", method, path, body, w.Code, status, message, e)
	}
}

// create creates a sandbox of alice's and returns its id.
func (g *rig) create(body string) string {
	g.t.Helper()
	var s sandboxBody
	g.want(201, "alice", "POST", "/v2/sandboxes", body, &s)
	return s.ID
}

// last returns the newest session.
func (g *rig) last() *fakeSession {
	return g.node.sessions[fmt.Sprintf("s_x%d", g.node.next)]
}

// took returns the operations since the last call.
func (g *rig) took() []string {
	calls := g.node.calls
	g.node.calls = nil
	return calls
}

func TestCreate(t *testing.T) {
	g := newRig(t)
	var s map[string]any
	h := g.want(201, "alice", "POST", "/v2/sandboxes", `{"templateID":"base","timeout":60,
		"metadata":{"user":"x y"},"envVars":{"A":"1"},"secure":true,
		"volumeMounts":[{"name":"data","path":"/home/user/data"}]}`, &s)
	if calls := g.took(); !slices.Equal(calls, []string{protocol.OpSessionCreate}) {
		t.Errorf("it took %v", calls)
	}
	want := map[string]any{
		"sandboxID": "ix1", "templateID": "base", "alias": "base", "clientID": "sandgate",
		"envdVersion": "0.5.7", "envdAccessToken": "access-s_x1",
		"trafficAccessToken": "traffic-s_x1", "domain": "sbx.test",
	}
	if !maps.Equal(s, want) || h.Get("Content-Type") != "application/json" {
		t.Errorf("%v", s)
	}
	c := g.last().created
	if c.Template != "" || c.LifetimeSeconds != 60 || c.Env["A"] != "1" || c.Network == nil ||
		c.Labels["user"] != "x y" || c.Labels[e2bname.LabelTemplate] != "base" ||
		len(c.Volumes) != 1 || c.Volumes[0].Path != "/home/user/data" {
		t.Errorf("%+v", c)
	}
	g.create(`{"templateID":"code-interpreter-v1"}`)
	if c := g.last().created; c.LifetimeSeconds != 300 || c.Template != "" {
		t.Errorf("%+v", c)
	}
	g.create(`{"templateID":"mine:default"}`)
	if c := g.last().created; c.Template != "mine" {
		t.Errorf("%+v", c)
	}
	g.create(`{"templateID":"n_1"}`)
	if c := g.last().created; c.Snapshot != "n_1" {
		t.Errorf("%+v", c)
	}
	g.create(`{"templateID":"saved"}`)
	if c := g.last().created; c.Snapshot != "saved" || c.Template != "" {
		t.Errorf("%+v", c)
	}
	g.refuse(404, "base, code-interpreter-v1, mine", "alice", "POST", "/sandboxes", `{"templateID":"none"}`)
	g.node.fail[protocol.OpSessionCreate] = &fault.Error{
		Kind: fault.Exhausted, Message: "full", RetryAfter: 3,
	}
	w := g.do("alice", "POST", "/sandboxes", `{"templateID":"base"}`, nil)
	if w.Code != 429 || w.Header().Get("Retry-After") != "3" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestNetworkOfRequest(t *testing.T) {
	g := newRig(t)
	for body, want := range map[string]string{
		`{}`:                                    `true`,
		`{"allow_internet_access":true}`:        `true`,
		`{"allow_internet_access":false}`:       `false`,
		`{"network":{"denyOut":["0.0.0.0/0"]}}`: `false`,
		`{"network":{"denyOut":["192.0.2.1","198.51.100.7/24"]}}`:               `{"deny":["192.0.2.1/32","198.51.100.0/24"]}`,
		`{"network":{"allowOut":["a.test"]}}`:                                   `true`,
		`{"network":{"allowOut":["a.test","1.2.3.4/32"],"denyOut":["::/0"]}}`:   `{"allow":["a.test","1.2.3.4"]}`,
		`{"allow_internet_access":false,"network":{"allowOut":["*.a.test"]}}`:   `{"allow":["*.a.test"]}`,
		`{"network":{"allowOut":["0.0.0.0/0"],"denyOut":["0.0.0.0/0"]}}`:        `true`,
		`{"network":{"allowPublicTraffic":false,"allowOut":[],"denyOut":null}}`: `true`,
	} {
		id := g.create(`{"templateID":"base",` + strings.TrimPrefix(strings.Replace(body, "{}", `{"timeout":9}`, 1), "{"))
		text, _ := json.Marshal(g.last().created.Network)
		if string(text) != want {
			t.Errorf("%s: %s, want %s", body, text, want)
		}
		var d detailBody
		g.want(200, "alice", "GET", "/sandboxes/"+id, "", &d)
		if d.Internet != (want != "false") || (want == "true") != (d.Network.DenyOut == nil) ||
			d.Network.Public == strings.Contains(body, "allowPublicTraffic") {
			t.Errorf("%s: %+v", body, d)
		}
	}
	g.node.closed = true
	g.create(`{"templateID":"base"}`)
	if g.last().created.Network != nil {
		t.Error("a sandbox of a closed server has a network")
	}
	g.refuse(501, "exceptions", "alice", "POST", "/sandboxes",
		`{"templateID":"base","network":{"allowOut":["192.0.2.1"],"denyOut":["192.0.2.0/24"]}}`)
	g.refuse(400, "network.denyOut", "alice", "POST", "/sandboxes",
		`{"templateID":"base","network":{"denyOut":["a.test"]}}`)
	g.refuse(403, "network.allowOut", "alice", "POST", "/sandboxes",
		`{"templateID":"base","network":{"allowOut":["a.test"],"denyOut":["0.0.0.0/0"]}}`)
}

func TestInvalidRequests(t *testing.T) {
	g := newRig(t)
	id := g.create(`{"templateID":"base"}`)
	many := strings.Builder{}
	for i := range protocol.MaxLabels {
		fmt.Fprintf(&many, `,"k%d":""`, i)
	}
	for _, c := range []struct {
		status                    int
		field, method, path, body string
	}{
		{400, "JSON", "POST", "/sandboxes", ``},
		{400, "JSON", "POST", "/sandboxes", `{`},
		{400, "JSON", "POST", "/sandboxes", `{"templateID":"base"} {}`},
		{400, "templateID", "POST", "/sandboxes", `{}`},
		{400, "templateID", "POST", "/sandboxes", `{"templateID":1}`},
		{400, "templateID", "POST", "/sandboxes", `{"templateID":"` + strings.Repeat("x", 300) + `"}`},
		{400, "color", "POST", "/sandboxes", `{"templateID":"base","color":1}`},
		{400, "timeout", "POST", "/sandboxes", `{"templateID":"base","timeout":0}`},
		{400, "timeout", "POST", "/sandboxes", `{"templateID":"base","timeout":-1}`},
		{400, "timeout", "POST", "/sandboxes", `{"templateID":"base","timeout":1.5}`},
		{400, "timeout", "POST", "/sandboxes", `{"templateID":"base","timeout":3000000000}`},
		{400, "metadata", "POST", "/sandboxes", `{"templateID":"base","metadata":{"sandgate.e2b.options":"{}"}}`},
		{400, "metadata", "POST", "/sandboxes", `{"templateID":"base","metadata":{"a":"b"` + many.String() + `}}`},
		{400, "metadata", "POST", "/sandboxes", `{"templateID":"base","metadata":{"a":1}}`},
		{400, "metadata", "POST", "/sandboxes", `{"templateID":"base","metadata":{"` +
			strings.Repeat("k", 65) + `":""}}`},
		{400, "metadata", "POST", "/sandboxes", `{"templateID":"base","metadata":{"` +
			strings.Repeat(" ", 43) + `":""}}`},
		{400, "envVars", "POST", "/sandboxes", `{"templateID":"base","envVars":[]}`},
		{400, "volumeMounts", "POST", "/sandboxes", `{"templateID":"base","volumeMounts":[{"name":"a"}]}`},
		{400, "network.denyOut", "POST", "/sandboxes", `{"templateID":"base","network":{"denyOut":["1.1.1.1/33"]}}`},
		{400, "network.allowOut", "POST", "/sandboxes", `{"templateID":"base","network":{"allowOut":["10.0.0.0/8"]}}`},
		{400, "network.allowOut", "POST", "/sandboxes", `{"templateID":"base","network":{"allowOut":["a/b"]}}`},
		{400, "x: there is no such field", "POST", "/sandboxes", `{"templateID":"base","network":{"x":1}}`},
		{501, "network.rules", "POST", "/sandboxes", `{"templateID":"base","network":{"rules":{"a.test":[{}]}}}`},
		{501, "network.egressProxy", "POST", "/sandboxes", `{"templateID":"base","network":{"egressProxy":{"address":"a:1"}}}`},
		{501, "network.maskRequestHost", "POST", "/sandboxes", `{"templateID":"base","network":{"maskRequestHost":"a"}}`},
		{501, "network.httpsPorts", "POST", "/sandboxes", `{"templateID":"base","network":{"httpsPorts":[1]}}`},
		{501, "iam", "POST", "/sandboxes", `{"templateID":"base","iam":{"tokens":{"a":{}}}}`},
		{501, "mcp", "POST", "/sandboxes", `{"templateID":"base","mcp":{}}`},
		{501, "autoPauseMemory", "POST", "/sandboxes", `{"templateID":"base","autoPauseMemory":false}`},
		{400, "autoResume", "POST", "/sandboxes", `{"templateID":"base","autoResume":{"enabled":true}}`},
		{400, "autoResume", "POST", "/sandboxes", `{"templateID":"base","autoResume":{"policy":"on"}}`},
		{400, "timeout", "POST", "/sandboxes/" + id + "/connect", `{"timeout":0}`},
		{400, "timeout", "POST", "/sandboxes/" + id + "/timeout", `{}`},
		{400, "timeout", "POST", "/sandboxes/" + id + "/timeout", `{"timeout":-5}`},
		{400, "JSON", "POST", "/sandboxes/" + id + "/timeout", ``},
		{400, "duration", "POST", "/sandboxes/" + id + "/refreshes", `{"duration":0}`},
		{409, "not paused", "POST", "/sandboxes/" + id + "/resume", `{}`},
		{400, "limit", "GET", "/v2/sandboxes?limit=0", ``},
		{400, "limit", "GET", "/v2/sandboxes?limit=x", ``},
		{400, "order", "GET", "/v2/sandboxes?order=up", ``},
		{400, "state", "GET", "/v2/sandboxes?state=dead", ``},
		{400, "startedAfter", "GET", "/v2/sandboxes?startedAfter=now", ``},
		{400, "nextToken", "GET", "/v2/sandboxes?nextToken=x", ``},
		{400, "metadata", "GET", "/v2/sandboxes?metadata=%25zz", ``},
		{400, "metadata", "GET", "/v2/sandboxes?metadata=sandgate.e2b.options%3Dx", ``},
	} {
		g.refuse(c.status, c.field, "alice", c.method, c.path, c.body)
	}
}

// TestOwner checks that the sandboxes of another tenant, and ids that cannot exist, are not found.
func TestOwner(t *testing.T) {
	g := newRig(t)
	id := g.create(`{"templateID":"base"}`)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""},
		{"POST", "/connect", "{}"},
		{"POST", "/resume", "{}"},
		{"POST", "/pause", ""},
		{"POST", "/timeout", `{"timeout":5}`},
		{"POST", "/timeout", `{"timeout":0}`},
		{"POST", "/refreshes", "{}"},
		{"DELETE", "", ""},
	} {
		g.refuse(404, "no such sandbox", "bob", c.method, "/sandboxes/"+id+c.path, c.body)
		for _, wrong := range []string{"s_x1", "x1", "I1", "i", "i%2Fx"} {
			g.refuse(404, "no sandbox", "alice", c.method, "/sandboxes/"+wrong+c.path, c.body)
		}
	}
	var list []listedBody
	g.want(200, "bob", "GET", "/v2/sandboxes", "", &list)
	if len(list) != 0 {
		t.Errorf("%+v", list)
	}
	g.refuse(403, "one session", "link", "GET", "/sandboxes/"+id, "")
	// A viewer gets no token, with which it could write.
	var d detailBody
	g.want(200, "vic", "GET", "/sandboxes/"+id, "", &d)
	if d.Envd != "" || d.Traffic != "" {
		t.Errorf("a viewer got %+v", d.tokens)
	}
	g.want(200, "alice", "GET", "/sandboxes/"+id, "", &d)
	if d.Envd == "" || d.Traffic == "" {
		t.Error("the owner got no tokens")
	}
}

func TestLifecycle(t *testing.T) {
	g := newRig(t)
	id := g.create(`{"templateID":"base","timeout":100}`)
	left := func() int64 { return (g.last().ExpiresMS - time.Now().UnixMilli() + 999) / 1000 }
	var s sandboxBody
	g.want(200, "alice", "POST", "/sandboxes/"+id+"/connect", `{"timeout":10}`, &s)
	if s.ID != id || s.Envd == "" || left() != 100 {
		t.Errorf("connect shortened the life to %d: %+v", left(), s)
	}
	g.want(200, "alice", "POST", "/v2/sandboxes/"+id+"/connect", ``, &s)
	if left() != 300 {
		t.Errorf("connect without a timeout: %d", left())
	}
	g.want(204, "alice", "POST", "/sandboxes/"+id+"/refreshes", `{"duration":20}`, nil)
	if left() != 300 {
		t.Errorf("a refresh shortened the life to %d", left())
	}
	g.want(204, "alice", "POST", "/sandboxes/"+id+"/refreshes", `{"duration":400}`, nil)
	if left() != 400 {
		t.Errorf("a refresh: %d", left())
	}
	g.want(204, "alice", "POST", "/sandboxes/"+id+"/timeout", `{"timeout":30}`, nil)
	if left() != 30 {
		t.Errorf("a timeout: %d", left())
	}
	var d map[string]any
	g.want(200, "alice", "GET", "/sandboxes/"+id, "", &d)
	for _, name := range []string{"startedAt", "endAt"} {
		if _, err := time.Parse(time.RFC3339, d[name].(string)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d["cpuCount"] != 2.0 || d["memoryMB"] != 512.0 || d["diskSizeMB"] != 1024.0 ||
		d["state"] != "running" || d["domain"] != "sbx.test" ||
		d["lifecycle"].(map[string]any)["onTimeout"] != "kill" {
		t.Errorf("%v", d)
	}
	g.want(204, "alice", "POST", "/sandboxes/"+id+"/timeout", `{"timeout":0}`, nil)
	g.refuse(404, "sandbox", "alice", "DELETE", "/sandboxes/"+id, "")
	id = g.create(`{"templateID":"base"}`)
	g.want(204, "alice", "DELETE", "/sandboxes/"+id, "", nil)
	g.refuse(404, "sandbox", "alice", "GET", "/sandboxes/"+id, "")
	id = g.create(`{"templateID":"base"}`)
	for reason, want := range map[string]string{"expired": "has expired", "memory": "was killed"} {
		g.last().State, g.last().Reason = "lost", reason
		g.refuse(404, want, "alice", "POST", "/sandboxes/"+id+"/connect", "{}")
	}
}

func TestPause(t *testing.T) {
	g := newRig(t)
	id := g.create(`{"templateID":"base"}`)
	path := "/sandboxes/" + id
	left := func() int64 { return (g.last().ExpiresMS - time.Now().UnixMilli() + 999) / 1000 }
	g.refuse(501, "memory", "alice", "POST", path+"/pause", `{"memory":false}`)
	g.want(204, "alice", "POST", path+"/pause", "", nil)
	if s := g.last(); !s.Suspended || s.ExpiresMS != 0 {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct{ path, body string }{
		{"/pause", ""},
		{"/timeout", `{"timeout":5}`},
		{"/refreshes", ""},
		{"/fork", ""},
		{"/snapshots", ""},
	} {
		g.refuse(409, "paused", "alice", "POST", path+c.path, c.body)
	}
	var d detailBody
	g.want(200, "alice", "GET", path, "", &d)
	var list []listedBody
	g.want(200, "alice", "GET", "/v2/sandboxes?state=paused", "", &list)
	if d.State != "paused" || d.End != stamp(g.last().ActiveMS) || len(list) != 1 {
		t.Errorf("%+v %+v", d, list)
	}
	g.want(200, "alice", "GET", "/sandboxes", "", &list)
	if len(list) != 0 {
		t.Errorf("the list of running sandboxes has %+v", list)
	}
	g.refuse(501, "memory", "alice", "POST", path+"/connect", `{"memory":false}`)
	var s sandboxBody
	g.want(201, "alice", "POST", path+"/connect", `{"timeout":50}`, &s)
	if g.last().Suspended || left() != 50 || s.ID != id {
		t.Errorf("%+v", g.last())
	}
	g.node.bounded = true
	g.want(204, "alice", "POST", path+"/pause", "", nil)
	g.want(201, "alice", "POST", path+"/resume", `{"timeout":70}`, &s)
	if g.last().Suspended || left() != 70 {
		t.Errorf("%+v", g.last())
	}
	g.node.bounded = false
	g.node.fail[protocol.OpHibernate] = fault.New(fault.DiskFull, "x", "the disk is full")
	g.refuse(507, "disk", "alice", "POST", path+"/pause", "")
	if left() != 70 && left() != 69 {
		t.Errorf("after a pause that failed, %d seconds are left", left())
	}
	delete(g.node.fail, protocol.OpHibernate)
	id = g.create(`{"templateID":"base","autoPause":true,"autoPauseMemory":true,
		"autoResume":{"enabled":false}}`)
	g.want(200, "alice", "GET", "/sandboxes/"+id, "", &d)
	if g.last().OnExpiry != protocol.OnExpirySuspend || d.Lifecycle.OnTimeout != "pause" ||
		d.Lifecycle.AutoResume {
		t.Errorf("%+v %+v", g.last(), d)
	}
	// A sandbox that every request resumes is not suspended, and keeps its time.
	id = g.create(`{"templateID":"base","autoPause":true,"autoResume":{"policy":"any"}}`)
	g.want(204, "alice", "POST", "/sandboxes/"+id+"/pause", "", nil)
	g.want(200, "alice", "GET", "/sandboxes/"+id, "", &d)
	if s := g.last(); s.OnExpiry != protocol.OnExpiryHibernate || s.Suspended || s.ExpiresMS == 0 ||
		d.State != "paused" || !d.Lifecycle.AutoResume {
		t.Errorf("%+v %+v", g.last(), d)
	}
}

func TestList(t *testing.T) {
	g := newRig(t)
	for i := range 5 {
		g.create(fmt.Sprintf(`{"templateID":%q,"metadata":{"n":"%d","all":"a&b=c d",
			"of the:user":"y"}}`,
			[]string{"base", "mine"}[i%2], i))
	}
	g.node.sessions["s_native"] = &fakeSession{tenant: "a", Session: protocol.Session{ID: "s_native"}}
	list := func(query string) (ids []string, h http.Header) {
		var all []listedBody
		h = g.want(200, "alice", "GET", "/v2/sandboxes?"+query, "", &all)
		for _, s := range all {
			ids = append(ids, s.ID)
		}
		return ids, h
	}
	for query, want := range map[string]string{
		"":                          "[ix5 ix4 ix3 ix2 ix1]",
		"order=asc":                 "[ix1 ix2 ix3 ix4 ix5]",
		"state=running":             "[ix5 ix4 ix3 ix2 ix1]",
		"state=paused":              "[]",
		"state=paused,running":      "[ix5 ix4 ix3 ix2 ix1]",
		"state=paused&state=paused": "[]",
		"template=mine":             "[ix4 ix2]",
		"metadata=n%3D3":            "[ix4]",
		// The value is encoded twice in the parameter, which is itself encoded.
		"metadata=all%3Da%252526b%25253Dc%252520d%26n%3D1": "[ix2]",
		"metadata=a%25253Ab%3Dx":                           "[]",
		"metadata=of%252520the%25253Auser%3Dy":             "[ix5 ix4 ix3 ix2 ix1]",
		"metadata=other%3Dx":                               "[]",
	} {
		ids, h := list(query)
		if fmt.Sprint(ids) != want || h.Get("X-Next-Token") != "" {
			t.Errorf("%s: %v, want %s", query, ids, want)
		}
	}
	after := stamp(g.node.sessions["s_x3"].CreatedMS)
	if ids, _ := list("startedAfter=" + after); fmt.Sprint(ids) != "[ix5 ix4]" {
		t.Errorf("after %s: %v", after, ids)
	}
	first, h := list("limit=3")
	rest, end := list("limit=3&nextToken=" + h.Get("X-Next-Token"))
	if fmt.Sprint(first, rest) != "[ix5 ix4 ix3] [ix2 ix1]" || end.Get("X-Next-Token") != "" {
		t.Errorf("pages: %v %v", first, rest)
	}
	g.node.sessions["s_x2"].State = "lost"
	var all []listedBody
	g.want(200, "alice", "GET", "/sandboxes", "", &all)
	if len(all) != 4 || all[0].Metadata["n"] != "4" || len(all[0].Metadata) != 3 ||
		all[0].Metadata["of the:user"] != "y" ||
		all[0].Volumes == nil || all[0].State != "running" {
		t.Errorf("%+v", all)
	}
}

// TestMetadataKeys checks that every key has a label of its own and comes back.
func TestMetadataKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, key := range []string{
		"user", "a.b/c_d-E", "of the user", "a:b", "ä", e2bname.EncodedKey + "x", e2bname.LabelOf("a:b"),
	} {
		label := e2bname.LabelOf(key)
		if seen[label] || e2bname.KeyOf(label) != key {
			t.Errorf("%q becomes %q and %q", key, label, e2bname.KeyOf(label))
		}
		seen[label] = true
	}
	if e2bname.LabelOf("user") != "user" {
		t.Error("a plain key was encoded")
	}
}
