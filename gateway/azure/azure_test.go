package azure

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/gateway/surface/surfacetest"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// node has the sessions by name. Its cells return a fixed result.
type node struct {
	sessions map[string]protocol.SessionCreate
	cells    []run.Spec
	result   protocol.RunResult
	err      error
}

func (n *node) Call(_ context.Context, _ noderpc.Principal, op string, params, result any) error {
	switch p := params.(type) {
	case protocol.SessionCreate:
		_, there := n.sessions[p.Name]
		n.sessions[p.Name] = p
		*result.(*protocol.Ensured) = protocol.Ensured{
			Session: protocol.Session{ID: p.Name}, Created: !there,
		}
		return n.err
	case protocol.SessionName:
		if _, there := n.sessions[p.Name]; there {
			*result.(*protocol.Session) = protocol.Session{ID: p.Name}
			return nil
		}
		return fault.New(fault.NotFound, "node", "no session")
	case protocol.SessionRef:
		delete(n.sessions, p.Session)
		return nil
	}
	return fault.New(fault.Unsupported, "node", "no %s", op)
}

func (n *node) Open(context.Context, noderpc.Principal) (nodecall.Link, error) {
	return nil, io.EOF
}

func (n *node) Cell(_ context.Context, spec run.Spec) (protocol.RunResult, error) {
	n.cells = append(n.cells, spec)
	return n.result, nil
}

func newNode() *node {
	return &node{
		sessions: map[string]protocol.SessionCreate{}, result: protocol.RunResult{Status: "ok"},
	}
}

// send sends a request and returns the status and the body.
func (n *node) send(method, path, body, key string) (int, string) {
	settings := surfaces.Defaults(surfaces.Azure)
	settings.UserHeader = "X-User"
	s := New(Config{
		Keys: surfacetest.Keys{}, Node: n, Cells: n, Settings: settings, Call: time.Minute,
	})
	user, _, _ := strings.Cut(key, " ")
	return surfacetest.Send(s, method, "/azure"+path, body, "Authorization", "Bearer "+user,
		"X-User", strings.TrimPrefix(key, user))
}

// TestSessionsOfIdentifiers: each key, user, pool and identifier has a session of its own, which
// begins in the folder of files.
func TestSessionsOfIdentifiers(t *testing.T) {
	n := newNode()
	const version = "&api-version=2025-02-02-preview"
	for _, x := range []struct{ path, key string }{
		{"/pool/executions?identifier=a", "ada"},
		{"/pool/executions?identifier=a", "ada"},
		{"/pool/executions?identifier=b", "ada"},
		{"/more/executions?identifier=a", "ada"},
		{"/pool/executions?identifier=a", "bob"},
		{"/pool/executions?identifier=a", "ada eve"},
	} {
		if status, body := n.send("POST", x.path+version, `{"code":"c"}`, x.key); status != 200 {
			t.Errorf("%d %s", status, body)
		}
	}
	if len(n.sessions) != 5 || len(n.cells) != 6+5 ||
		!strings.Contains(n.cells[0].Request.Code, "chdir('/mnt/data')") ||
		n.cells[1].Request.Code != "c" || n.cells[2].Request.Code != "c" ||
		n.cells[1].Request.TimeoutMS != 220_000 || n.cells[1].Request.Session == "" {
		t.Errorf("%d sessions, %d cells: %+v", len(n.sessions), len(n.cells), n.cells)
	}
	for range 2 { // the second finds none
		if status, _ := n.send("DELETE", "/pool/session?identifier=a"+version, "", "bob"); status != 204 {
			t.Errorf("deleted with %d", status)
		}
	}
	if len(n.sessions) != 4 {
		t.Errorf("%d sessions after one was deleted", len(n.sessions))
	}
	if _, body := n.send("GET", "/pool/files?identifier=new"+version, "", "ada"); body !=
		`{"value":[]}` || len(n.sessions) != 4 {
		t.Errorf("the files of a session that does not exist: %s", body)
	}
	n.send("POST", "/nodejs/executions?identifier=a"+version, `{"code":"c"}`, "ada")
	if c := n.cells[len(n.cells)-1].Request; c.Language != "javascript" {
		t.Errorf("the pool nodejs runs %s", c.Language)
	}
}

// TestExecutions checks the requests that are refused, and the time of one that asks for less.
func TestExecutions(t *testing.T) {
	const at = "/pool/executions?identifier=a&api-version=2025-02-02-preview"
	for body, want := range map[string]int{
		`{}`: 400, `x`: 400, `{"code":"c","timeoutInSeconds":-1}`: 400,
		`{"code":"c","executionType":"Asynchronous"}`:                501,
		`{"code":"c","codeInputType":"file"}`:                        501,
		`{"code":"` + strings.Repeat("c", protocol.MaxCode+1) + `"}`: 413,
	} {
		status, text := newNode().send("POST", at, body, "ada")
		var e errorBody
		err := json.Unmarshal([]byte(text), &e)
		if err != nil || status != want || e.Error.Code == "" {
			t.Errorf("%.40s: %d %s", body, status, text)
		}
	}
	for path, want := range map[string]int{
		"/pool/executions?identifier=a": 400, "/pool/executions?api-version=2025": 400,
		"/pool/executions?api-version=2025&identifier=%00": 400,
	} {
		if status, text := newNode().send("POST", path, `{"code":"c"}`, "ada"); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	n := newNode()
	n.send("POST", at, `{"code":"c","timeoutInSeconds":7}`, "ada")
	if c := n.cells[1].Request; c.TimeoutMS != 7000 {
		t.Errorf("%d ms", c.TimeoutMS)
	}
	n.err = fault.New(fault.Exhausted, "x", "full")
	if status, text := n.send("POST", at, `{"code":"c"}`, "ada"); status != 429 ||
		!strings.Contains(text, `"code":"TooManyRequests"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := n.send("POST", at, `{"code":"c"}`, "wrong"); status != 401 {
		t.Errorf("a wrong key: %d", status)
	}
}

// TestValues checks how the values of languages are answered.
func TestValues(t *testing.T) {
	shown := func(kind, mime, data string) protocol.RunEvent {
		return protocol.RunEvent{
			Type: kind, Data: map[string]json.RawMessage{mime: json.RawMessage(data)},
		}
	}
	for text, want := range map[string]string{
		"42": "42", "-1.5e+10": "-1.5e+10", "True": "true", "false": "false", "007": `"007"`,
		"[1]": `"[1]"`, "nan": `"nan"`, "'a'": `"'a'"`, strings.Repeat("1", 64): `"` + strings.Repeat("1", 64) + `"`,
	} {
		raw, _ := json.Marshal(text)
		if got := valueOf([]protocol.RunEvent{shown("result", "text/plain", string(raw))}); string(got) != want {
			t.Errorf("%s is %s", text, got)
		}
	}
	both := []protocol.RunEvent{
		shown("display", "image/png", `"AA=="`), shown("result", "text/plain", `"[<Line2D>]"`),
	}
	if got := valueOf(both); string(got) != `{"type":"image","format":"png","base64_data":"AA=="}` {
		t.Errorf("a picture is %s", got)
	}
	if got := valueOf([]protocol.RunEvent{shown("display", "text/plain", `"a"`)}); string(got) != `""` {
		t.Errorf("no value is %s", got)
	}
	o, err := outcomeOf(protocol.RunResult{
		Status: "error", Stderr: "w", TruncatedBytes: 3,
		Error: &protocol.RunEvent{EName: "E", EValue: "v"},
	}, time.Second)
	if err != nil || !o.failed || o.stderr != "w\nE: v\n3 bytes of output over the limit were left out.\n" {
		t.Errorf("%+v %v", o, err)
	}
}

// TestNamesOfFiles checks that no name leads out of the folder.
func TestNamesOfFiles(t *testing.T) {
	for name, want := range map[string]string{
		"a.txt": folder + "/a.txt", "/mnt/data/b/c d": folder + "/b/c d", "/etc/passwd": folder + "/etc/passwd",
		"../x": "", "": "", "/mnt/data": "", "a/../../x": "", "a\x00": "",
	} {
		got, err := clean(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", name, got, err)
		}
	}
}
