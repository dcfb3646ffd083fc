package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// openSandbox makes requests as clients of OpenSandbox do.
type openSandbox struct {
	t       *testing.T
	ctx     context.Context
	base    string
	headers map[string]string
}

// do makes a request and decodes the JSON of the answer, if v is not nil.
func (c *openSandbox) do(method, path string, body, v any) (status int) {
	c.t.Helper()
	text, _ := json.Marshal(body)
	status, answer := c.send(method, path, "application/json", bytes.NewReader(text))
	if v != nil {
		if err := json.Unmarshal(answer, v); err != nil {
			c.t.Fatalf("%s %s: %d %s", method, path, status, answer)
		}
	}
	return status
}

func (c *openSandbox) send(method, path, kind string, body io.Reader) (int, []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.ctx, method, c.base+path, body)
	check(c.t, err)
	req.Header.Set("Content-Type", kind)
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	check(c.t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	check(c.t, err)
	return res.StatusCode, answer
}

// openSandboxEvent is an event of a command or of code.
type openSandboxEvent struct {
	Type, Text string
	Results    map[string]any
	Error      *struct{ Ename, Evalue string }
}

// openSandboxEvents are the events of one request.
type openSandboxEvents []openSandboxEvent

// events makes a request and reads its events.
func (c *openSandbox) events(path string, body any) (all openSandboxEvents) {
	c.t.Helper()
	text, _ := json.Marshal(body)
	status, answer := c.send("POST", path, "application/json", bytes.NewReader(text))
	if status != 200 {
		c.t.Fatalf("%s: %d %s", path, status, answer)
	}
	for line := range strings.SplitSeq(string(answer), "\n\n") {
		if line == "" {
			continue
		}
		var e openSandboxEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			c.t.Fatalf("%s: %q: %v", path, line, err)
		}
		all = append(all, e)
	}
	return all
}

// text returns the texts of the events of a type.
func (x openSandboxEvents) text(kind string) string {
	var b strings.Builder
	for _, e := range x {
		if e.Type == kind {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

func (x openSandboxEvents) find(kind string) *openSandboxEvent {
	i := slices.IndexFunc(x, func(e openSandboxEvent) bool { return e.Type == kind })
	if i < 0 {
		return nil
	}
	return &x[i]
}

// openSandboxState is a sandbox.
type openSandboxState struct {
	ID       string
	Status   struct{ State string }
	Metadata map[string]string
	Expires  string `json:"expiresAt"`
}

// TestOpenSandbox makes the requests of LiteLLM and of OpenSandbox's SDKs.
func TestOpenSandbox(t *testing.T) {
	ctx := deadline(t)
	c := &openSandbox{t, ctx, server.URL + "/opensandbox/v1", map[string]string{
		"OPEN-SANDBOX-API-KEY": server.Token,
	}}
	var s openSandboxState
	status := c.do("POST", "/sandboxes", map[string]any{
		"image": map[string]string{"uri": "opensandbox/code-interpreter"}, "timeout": 600,
		"entrypoint":     []string{"tail"},
		"resourceLimits": map[string]string{"cpu": "1", "memory": "2Gi"},
		"metadata":       map[string]string{"team": "x"}, "env": map[string]string{"A": "1"},
	}, &s)
	if status != http.StatusAccepted || s.Status.State != "Running" || s.Expires == "" {
		t.Fatalf("%d %+v", status, s)
	}
	var at struct {
		Endpoint string
		Headers  map[string]string
	}
	if status := c.do("GET", "/sandboxes/"+s.ID+"/endpoints/44772", nil, &at); status != 200 {
		t.Fatalf("%d %+v", status, at)
	}
	d := &openSandbox{t, ctx, "http://" + at.Endpoint, at.Headers}
	if status := d.do("GET", "/ping", nil, nil); status != 200 {
		t.Errorf("ping: %d", status)
	}
	t.Run("commands", func(t *testing.T) { openSandboxCommands(t, d) })
	t.Run("code", func(t *testing.T) { openSandboxCode(t, d) })
	t.Run("files", func(t *testing.T) { openSandboxFiles(t, d) })
	t.Run("life", func(t *testing.T) { openSandboxLife(t, c, s.ID) })
	t.Run("others", func(t *testing.T) { openSandboxOthers(t, c, d, s.ID) })
	if status := c.do("DELETE", "/sandboxes/"+s.ID, nil, nil); status != http.StatusNoContent {
		t.Errorf("the end: %d", status)
	}
	var e struct{ Code string }
	if status := d.do("GET", "/ping", nil, &e); status != 404 || e.Code != "not_found" {
		t.Errorf("after the end: %d %+v", status, e)
	}
}

// TestOpenSandboxPackage uses the server with the unmodified SDK of OpenSandbox.
func TestOpenSandboxPackage(t *testing.T) {
	cmd := exec.CommandContext(deadline(t), "node", "testdata/opensandbox.mjs")
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// openSandboxCommands runs commands: output, failures, time, background, a shell.
func openSandboxCommands(t *testing.T, d *openSandbox) {
	x := d.events("/command", map[string]any{"command": "echo $A; pwd; echo e >&2", "cwd": "/tmp"})
	if x.text("stdout") != "1\n/tmp\n" || x.text("stderr") != "e\n" || x[0].Type != "init" ||
		x.find("execution_complete") == nil {
		t.Errorf("%+v", x)
	}
	x = d.events("/command", map[string]any{"command": "head -c 3000000 /dev/zero; exit 3"})
	if e := x.find("error"); len(x.text("stdout")) != 3_000_000 || e == nil ||
		e.Error.Ename != "CommandExecError" || e.Error.Evalue != "3" {
		t.Errorf("%d bytes, %+v", len(x.text("stdout")), e)
	}
	x = d.events("/command", map[string]any{"command": "sleep 60", "timeout": 300})
	if e := x.find("error"); e == nil || e.Error.Evalue != "timeout" {
		t.Errorf("a time-out: %+v", x)
	}
	x = d.events("/command", map[string]any{
		"command":    "echo begin; until test -e /tmp/go; do sleep 0.02; done; exit 4",
		"background": true,
	})
	id := x.text("init")
	eventually(t, "the first output", func() bool {
		_, text := d.send("GET", "/command/"+id+"/logs", "", nil)
		return string(text) == "begin\n"
	})
	var state struct {
		Running bool
		Code    *int `json:"exit_code"`
	}
	d.do("GET", "/command/status/"+id, nil, &state)
	if !state.Running || state.Code != nil {
		t.Errorf("%+v", state)
	}
	d.events("/command", map[string]any{"command": "touch /tmp/go"})
	eventually(t, "the end", func() bool {
		d.do("GET", "/command/status/"+id, nil, &state)
		return !state.Running && *state.Code == 4
	})
	x = d.events("/command", map[string]any{"command": "sleep 60", "background": true})
	if status := d.do("DELETE", "/command?id="+x.text("init"), nil, nil); status != 200 {
		t.Errorf("a command is not ended: %d", status)
	}
	var shell struct {
		ID string `json:"session_id"`
	}
	d.do("POST", "/session", map[string]any{"cwd": "/tmp"}, &shell)
	d.events("/session/"+shell.ID+"/run", map[string]any{"command": "x=5"})
	x = d.events("/session/"+shell.ID+"/run", map[string]any{"command": "pwd; echo $x; false"})
	if x.text("stdout") != "/tmp\n5\n" || x.find("error") == nil {
		t.Errorf("a shell: %+v", x)
	}
	if status := d.do("DELETE", "/session/"+shell.ID, nil, nil); status != 200 {
		t.Errorf("a shell is not ended: %d", status)
	}
}

// openSandboxCode runs code: values, errors, contexts, an interrupt.
func openSandboxCode(t *testing.T, d *openSandbox) {
	code := func(context map[string]any, code string) openSandboxEvents {
		return d.events("/code", map[string]any{"code": code, "context": context})
	}
	python := map[string]any{"language": "python"}
	x := code(python, "a = 6\nprint('out')\na * 7")
	if r := x.find("result"); x.text("stdout") != "out\n" || r == nil || r.Results["text"] != "42" ||
		x.find("execution_complete") == nil || x.find("error") != nil {
		t.Errorf("%+v", x)
	}
	if x = code(python, "1 / (a - 6)"); x.find("error") == nil ||
		x.find("error").Error.Ename != "ZeroDivisionError" {
		t.Errorf("%+v", x)
	}
	x = code(python, "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
	if r := x.find("result"); r == nil || !strings.HasPrefix(fmt.Sprint(r.Results["image/png"]), "iVBOR") {
		t.Errorf("a picture: %+v", x)
	}
	var own map[string]any
	if status := d.do("POST", "/code/context", python, &own); status != 200 || own["id"] == "" {
		t.Fatalf("%d %+v", status, own)
	}
	if x = code(own, "a"); x.find("error") == nil || x.find("error").Error.Ename != "NameError" {
		t.Errorf("a context sees another one: %+v", x)
	}
	var list []map[string]any
	d.do("GET", "/code/contexts?language=python", nil, &list)
	if len(list) != 1 || list[0]["id"] != own["id"] {
		t.Errorf("%+v", list)
	}
	ends := make(chan openSandboxEvents, 1)
	go func() { ends <- code(own, "open('/tmp/runs', 'w')\nwhile True: pass") }()
	eventually(t, "the code", func() bool {
		return d.do("GET", "/files/info?path=/tmp/runs", nil, nil) == 200
	})
	id, _ := own["id"].(string)
	if status := d.do("DELETE", "/code?id="+id, nil, nil); status != 200 {
		t.Errorf("an interrupt: %d", status)
	}
	if x := <-ends; x.find("error") == nil || x.find("error").Error.Ename != "KeyboardInterrupt" {
		t.Errorf("interrupted: %+v", x)
	}
	if status := d.do("DELETE", "/code/contexts/"+id, nil, nil); status != 200 {
		t.Errorf("a context is not ended: %d", status)
	}
}

// openSandboxFiles writes, finds, changes and reads files.
func openSandboxFiles(t *testing.T, d *openSandbox) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for name, text := range map[string]string{"/tmp/d/a.txt": "one one", "/tmp/d/b.md": "two"} {
		part, _ := m.CreateFormFile("metadata", "metadata")
		_ = json.NewEncoder(part).Encode(map[string]any{"path": name, "mode": 640})
		part, _ = m.CreateFormFile("file", "x")
		_, _ = io.WriteString(part, text)
	}
	_ = m.Close()
	if status, text := d.send("POST", "/files/upload", m.FormDataContentType(), &b); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	type info struct {
		Path, Type string
		Size       int64
		Mode       int
	}
	var one map[string]info
	d.do("GET", "/files/info?path=/tmp/d/a.txt", nil, &one)
	if f := one["/tmp/d/a.txt"]; f.Size != 7 || f.Mode != 640 || f.Type != "file" {
		t.Errorf("%+v", one)
	}
	var found []info
	d.do("GET", "/files/search?path=/tmp/d&pattern="+url.QueryEscape("*.md"), nil, &found)
	if len(found) != 1 || found[0].Path != "/tmp/d/b.md" {
		t.Errorf("%+v", found)
	}
	for _, x := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/files/replace", map[string]any{
			"/tmp/d/a.txt": map[string]string{"old": "one", "new": "1"},
		}},
		{"POST", "/files/permissions", map[string]any{"/tmp/d/a.txt": map[string]any{"mode": 600}}},
		{"POST", "/directories", map[string]any{"/tmp/d/e/f": map[string]any{"mode": 755}}},
		{"POST", "/files/mv", []any{map[string]string{"src": "/tmp/d/a.txt", "dest": "/tmp/d/c"}}},
		{"DELETE", "/files?path=/tmp/d/b.md", nil},
		{"DELETE", "/directories?path=/tmp/d/e", nil},
	} {
		if status, text := d.send(x.method, x.path, "application/json", body(x.body)); status != 200 {
			t.Errorf("%s: %d %s", x.path, status, text)
		}
	}
	d.do("GET", "/directories/list?path=/tmp/d", nil, &found)
	if len(found) != 1 || found[0].Path != "/tmp/d/c" || found[0].Mode != 600 {
		t.Errorf("%+v", found)
	}
	if _, text := d.send("GET", "/files/download?path=/tmp/d/c", "", nil); string(text) != "1 1" {
		t.Errorf("%q", text)
	}
	d.headers["Range"] = "bytes=2-"
	defer delete(d.headers, "Range")
	if status, text := d.send("GET", "/files/download?path=/tmp/d/c", "", nil); string(text) != "1" ||
		status != http.StatusPartialContent {
		t.Errorf("%d %q", status, text)
	}
}

func body(v any) io.Reader {
	text, _ := json.Marshal(v)
	return bytes.NewReader(text)
}

// openSandboxLife lists, pauses, resumes, renews and labels a sandbox.
func openSandboxLife(t *testing.T, c *openSandbox, id string) {
	state := func() string {
		var s openSandboxState
		c.do("GET", "/sandboxes/"+id, nil, &s)
		return s.Status.State
	}
	if status := c.do("POST", "/sandboxes/"+id+"/pause", nil, nil); status != http.StatusAccepted ||
		state() != "Paused" {
		t.Errorf("pause: %d %s", status, state())
	}
	if status := c.do("POST", "/sandboxes/"+id+"/resume", nil, nil); status != http.StatusAccepted ||
		state() != "Running" {
		t.Errorf("resume: %d %s", status, state())
	}
	var s openSandboxState
	c.do("PATCH", "/sandboxes/"+id+"/metadata", map[string]any{"team": nil, "b": "2"}, &s)
	if len(s.Metadata) != 1 || s.Metadata["b"] != "2" {
		t.Errorf("%+v", s)
	}
	var list struct{ Items []openSandboxState }
	c.do("GET", "/sandboxes?metadata=b%3D2&state=Running", nil, &list)
	if len(list.Items) != 1 || list.Items[0].ID != id {
		t.Errorf("%+v", list)
	}
	status := c.do("POST", "/sandboxes/"+id+"/renew-expiration",
		map[string]any{"expiresAt": "2000-01-01T00:00:00Z"}, nil)
	if status != http.StatusBadRequest {
		t.Errorf("an end in the past: %d", status)
	}
}

// openSandboxOthers checks that other sessions, tokens and tenants do not reach a sandbox.
func openSandboxOthers(t *testing.T, c, d *openSandbox, id string) {
	other := openWith(t, server, protocol.SessionCreate{})
	if status := c.do("GET", "/sandboxes/"+other.id, nil, nil); status != 404 {
		t.Errorf("a session of another surface: %d", status)
	}
	wrong := &openSandbox{t, d.ctx, d.base, map[string]string{"X-EXECD-ACCESS-TOKEN": "x"}}
	if status := wrong.do("GET", "/ping", nil, nil); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
	wrong.base = strings.Replace(d.base, id, other.id, 1)
	wrong.headers = d.headers
	if status := wrong.do("GET", "/ping", nil, nil); status != http.StatusUnauthorized {
		t.Errorf("the token of another sandbox: %d", status)
	}
	for key, want := range map[string]int{
		"sgk_no": http.StatusUnauthorized, otherTenant(t, c.ctx, "opensandbox-other"): 404,
	} {
		ada := &openSandbox{t, c.ctx, c.base, map[string]string{"OPEN-SANDBOX-API-KEY": key}}
		for path, method := range map[string]string{
			"": "GET", "/endpoints/44772": "GET", "/pause": "POST",
		} {
			if status := ada.do(method, "/sandboxes/"+id+path, nil, nil); status != want {
				t.Errorf("another key: %s %d", path, status)
			}
		}
		var list struct{ Items []openSandboxState }
		if ada.do("GET", "/sandboxes", nil, &list); len(list.Items) != 0 {
			t.Errorf("another key sees %+v", list)
		}
	}
}
