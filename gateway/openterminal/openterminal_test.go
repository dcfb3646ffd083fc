package openterminal

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestDocument: clients make a tool of each operation, so each of them has a route, and each
// parameter a type and a description.
func TestDocument(t *testing.T) {
	type schema struct {
		Type, Description any
		Items             any
		Properties        map[string]schema
	}
	var d struct {
		Paths map[string]map[string]struct {
			ID          string `json:"operationId"`
			Description string
			Parameters  []struct {
				Name, In, Description string
				Schema                schema
			}
			RequestBody struct {
				Content map[string]struct{ Schema schema }
			}
		}
	}
	if err := json.Unmarshal(documentJSON, &d); err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{}
	for _, r := range New(Config{}).Routes() {
		routes[r.Method+" "+r.Path] = true
	}
	var names []string
	variable := regexp.MustCompile(`{process_id}`)
	for path, methods := range d.Paths {
		for method, o := range methods {
			names = append(names, o.ID)
			route := strings.ToUpper(method) + " " + Prefix + variable.ReplaceAllString(path, ":process")
			if !routes[route] {
				t.Errorf("there is no route %s", route)
			}
			properties := o.RequestBody.Content["application/json"].Schema.Properties
			for _, p := range o.Parameters {
				if p.Schema.Type == nil || p.Description == "" {
					t.Errorf("%s: %s has no type or no description", o.ID, p.Name)
				}
			}
			for name, p := range properties {
				if p.Type == nil || p.Description == nil {
					t.Errorf("%s: %s has no type or no description", o.ID, name)
				}
			}
			if o.Description == "" || len(o.Parameters)+len(properties) == 0 &&
				o.ID != "list_processes" {
				t.Errorf("%s is not described", o.ID)
			}
		}
	}
	slices.Sort(names)
	if want := []string{
		"display_file", "get_process_status", "glob_search", "grep_search", "kill_process",
		"list_files", "list_processes", "read_file", "replace_file_content", "run_command",
		"send_process_input", "write_file",
	}; !slices.Equal(names, want) {
		t.Errorf("the operations are %v", names)
	}
}

// node has sessions by name. It answers the operations that find them.
type node struct {
	sessions []protocol.Session
	query    protocol.SessionQuery
}

func (n *node) Open(context.Context, noderpc.Principal) (nodecall.Link, error) {
	return nil, fault.New(fault.Unavailable, "test", "there are no links")
}

func (n *node) Call(_ context.Context, _ noderpc.Principal, op string, params, result any) error {
	switch p := params.(type) {
	case protocol.SessionName:
		for _, v := range n.sessions {
			if v.Name == p.Name {
				*result.(*protocol.Session) = v
				return nil
			}
		}
	case protocol.SessionRef:
		for _, v := range n.sessions {
			if v.ID == p.Session && op == protocol.OpSessionGet {
				*result.(*protocol.Session) = v
				return nil
			}
		}
	case protocol.SessionQuery:
		n.query = p
		result.(*protocol.SessionList).Sessions = n.sessions
		return nil
	}
	return fault.New(fault.NotFound, "test", "it does not exist")
}

func session(id string, who noderpc.Principal, user, chat string) protocol.Session {
	p := conversation.Place{Surface: surfaces.OpenTerminal, User: user, Conversation: chat}
	return protocol.Session{ID: id, Name: p.Name(who), Labels: map[string]string{
		conversation.LabelSurface: p.Surface, conversation.LabelUser: user,
		conversation.LabelConversation: chat,
	}}
}

func newSurface(n *node) *Surface {
	return New(Config{
		Node: n, Settings: surfaces.Defaults(surfaces.OpenTerminal), Call: time.Minute,
	})
}

func request(who noderpc.Principal, target string, header ...string) *http.Request {
	r := httptest.NewRequest("GET", target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r.WithContext(surface.WithCall(r.Context(), &surface.Call{Who: who}))
}

// TestRecent: a request without a conversation gets the session of its own user that was used last,
// whatever labels other sessions have.
func TestRecent(t *testing.T) {
	who := noderpc.Principal{Tenant: "t", Subject: "k"}
	forged := session("s_forged", noderpc.Principal{Tenant: "t", Subject: "other"}, "ada", "c")
	n := &node{sessions: []protocol.Session{
		forged, session("s_bob", who, "bob", "c"), session("s_new", who, "ada", "c2"),
		session("s_old", who, "ada", "c1"),
	}}
	s := newSurface(n)
	for _, x := range []struct{ user, chat, want string }{
		{"ada", "", "s_new"},
		{"ada", "c1", "s_old"},
		{"bob", "", "s_bob"},
		{"eve", "", ""},
		{"ada", "c3", ""},
	} {
		c, err := s.recent(request(who, "/", "X-User-Id", x.user, "X-Session-Id", x.chat))
		if err != nil || c.session.ID != x.want {
			t.Errorf("%+v gets %q, %v", x, c.session.ID, err)
		}
	}
	if !n.query.Descending || n.query.Order != protocol.OrderActive {
		t.Errorf("the order is %+v", n.query)
	}
}

// TestTerminalOfAnother: a terminal is found only with the key and the user that have opened it.
func TestTerminalOfAnother(t *testing.T) {
	who := noderpc.Principal{Tenant: "t", Subject: "k"}
	other := noderpc.Principal{Tenant: "t", Subject: "l"}
	s := newSurface(&node{sessions: []protocol.Session{session("s_1", who, "ada", "c")}})
	for _, x := range []struct {
		who   noderpc.Principal
		query string
		found bool
	}{
		{who, "?user_id=ada", true},
		{who, "?user_id=bob", false},
		{who, "", false},
		{other, "?user_id=ada", false},
	} {
		x.who.Scopes = []string{string(protocol.ScopeManage)}
		c, err := s.caller(request(who, "/"+x.query), x.who)
		if err == nil {
			_, _, err = c.owned(context.Background(), "s_1_t2")
		}
		if (err == nil) != x.found || err != nil && !fault.Is(err, fault.NotFound) {
			t.Errorf("%+v: %v", x, err)
		}
	}
	if _, err := s.caller(request(who, "/"), who); !fault.Is(err, fault.PermissionDenied) {
		t.Errorf("a key without the scope: %v", err)
	}
}

// TestQueries reads parameters as clients send them.
func TestQueries(t *testing.T) {
	r := httptest.NewRequest("GET", "/?wait=0.5&tail=null&force=True&max=9999&bad=x&none=-1", nil)
	if d, err := wait(r); err != nil || d != 500*time.Millisecond {
		t.Error(d, err)
	}
	if n, err := number(r, "tail", 0, 10); err != nil || n != 0 {
		t.Error(n, err)
	}
	if n, err := number(r, "max", 0, 10); err != nil || n != 10 {
		t.Error(n, err)
	}
	if on, err := flag(r, "force", false); err != nil || !on {
		t.Error(on, err)
	}
	for _, name := range []string{"bad", "none"} {
		if _, err := number(r, name, 0, 10); fault.PublicOf(err).Field != name {
			t.Error(name, err)
		}
	}
	if d, err := wait(httptest.NewRequest("GET", "/?wait=1e9", nil)); err != nil || d != maxWait {
		t.Error(d, err)
	}
	if _, err := wait(httptest.NewRequest("GET", "/?wait=NaN", nil)); err == nil {
		t.Error("no number is a time")
	}
	var v struct{ Command string }
	with := func(text string) error {
		r := httptest.NewRequest("POST", "/", strings.NewReader(text))
		return body(r, &v)
	}
	if err := with(`{"command":"x","wait":3,"tail":null}`); err != nil || v.Command != "x" {
		t.Error(err)
	}
	if err := with(`{"command":3}`); !strings.EqualFold(fault.PublicOf(err).Field, "command") {
		t.Error(err)
	}
	if err := with(`[`); !fault.Is(err, fault.Malformed) {
		t.Error(err)
	}
}

// TestPaths resolves the paths of requests in the working folder.
func TestPaths(t *testing.T) {
	c := &call{session: protocol.Session{Labels: map[string]string{labelFolder: "/srv"}}}
	for text, want := range map[string]string{
		"a": "/srv/a", "/a/../b": "/b", "~": home, "~/x": home + "/x", ".": "/srv",
		"../../..": "/", "": "", "a\x00": "", "a\xff": "",
	} {
		got, err := c.path("path", text)
		if (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	c.session.Labels[labelFolder] = "relative"
	if c.folder() != home {
		t.Errorf("the folder is %q", c.folder())
	}
}

// TestTexts checks the parts of texts that answers have.
func TestTexts(t *testing.T) {
	for n, want := range map[int]string{1: "c\n", 2: "b\nc\n", 9: "a\nb\nc\n"} {
		if got := lastLines("a\nb\nc\n", n); got != want {
			t.Errorf("%d lines: %q", n, got)
		}
	}
	for text, want := range map[string]string{
		`a\n\tb\x03\\n`: "a\n\tb\x03\\n", `\q`: `\q`, "a\n": "a\n",
	} {
		if got := unescape(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
	x := replacement{Target: "a", Replacement: "x", StartLine: 2, EndLine: 2}
	if got, err := x.apply("a\na\na\n"); err != nil || got != "a\nx\na\n" {
		t.Errorf("%q %v", got, err)
	}
	x.EndLine = 0
	if _, err := x.apply("a\na\na\n"); fault.PublicOf(err).Field != "target" {
		t.Errorf("two places: %v", err)
	}
	if x.Multiple = true; true {
		if got, err := x.apply("a\na\na"); err != nil || got != "a\nx\nx" {
			t.Errorf("%q %v", got, err)
		}
	}
	for pattern, want := range map[string]bool{
		"*.py": true, "deep/*": true, "x.p?": true, "[xy].py": true, "[!x].py": false, "*.p": false,
		"[": false,
	} {
		if got := globs([]string{pattern}).match("s/deep/x.py") ||
			globs([]string{pattern}).match("deep/x.py"); got != want {
			t.Errorf("%q matches: %v", pattern, got)
		}
	}
}

// TestErrors: an error has a detail with the field and the way on.
func TestErrors(t *testing.T) {
	w := httptest.NewRecorder()
	writeError(w, fault.Invalid("x", "path", "it is wrong"), "trace")
	text, _ := io.ReadAll(w.Body)
	var e errorBody
	if err := json.Unmarshal(text, &e); err != nil || w.Code != 400 ||
		!strings.HasPrefix(e.Detail, "path: it is wrong") || e.Trace != "trace" {
		t.Errorf("%d %s", w.Code, text)
	}
}
