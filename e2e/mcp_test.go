package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// mcpHost is a host of a language model.
type mcpHost struct {
	t *testing.T
	s *mcp.ClientSession
}

// headers adds headers to requests, as hosts do by their configuration.
type headers map[string]string

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// openMCP connects a host with a token.
func openMCP(t *testing.T, token string, h headers, opts *mcp.ClientOptions) *mcpHost {
	t.Helper()
	all := headers{"Authorization": "Bearer " + token}
	for name, value := range h {
		all[name] = value
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	s, err := c.Connect(deadline(t), &mcp.StreamableClientTransport{
		Endpoint: server.URL + "/mcp", HTTPClient: &http.Client{Transport: all},
	}, nil)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return &mcpHost{t, s}
}

// call calls a tool. It returns the text and the result.
func (h *mcpHost) call(name string, args map[string]any) (string, *mcp.CallToolResult) {
	h.t.Helper()
	r, err := h.s.CallTool(deadline(h.t), &mcp.CallToolParams{Name: name, Arguments: args})
	check(h.t, err)
	var texts []string
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n"), r
}

// fine calls a tool that must succeed and answer with a text.
func (h *mcpHost) fine(name string, args map[string]any, want string) map[string]any {
	h.t.Helper()
	text, r := h.call(name, args)
	if r.IsError || !strings.Contains(text, want) {
		h.t.Fatalf("%s %v: error %v, text %q, should have %q", name, args, r.IsError, text, want)
	}
	var out map[string]any
	raw, err := json.Marshal(r.StructuredContent)
	check(h.t, err)
	check(h.t, json.Unmarshal(raw, &out))
	return out
}

// wrong calls a tool that must fail with a text.
func (h *mcpHost) wrong(name string, args map[string]any, want string) {
	h.t.Helper()
	if text, r := h.call(name, args); !r.IsError || !strings.Contains(text, want) {
		h.t.Errorf("%s %v: error %v, text %q, should have %q", name, args, r.IsError, text, want)
	}
}

type args = map[string]any

// TestMCPPackages uses the server with the packages of the protocol's project as they are: over
// HTTP and over the standard input and output of the command line, in both eras of the protocol.
func TestMCPPackages(t *testing.T) {
	program, err := Bin("sandgate")
	check(t, err)
	cmd := exec.CommandContext(deadline(t), "node", "testdata/mcp.mjs", "sdk http", "client http",
		"client current http", "sdk stdio", "client current stdio")
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token,
		"SANDGATE_PROGRAM="+program)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	kinds := 0
	for line := range strings.Lines(string(out)) {
		var l struct {
			Kind, Error string
			MS          int
		}
		check(t, json.Unmarshal([]byte(line), &l))
		kinds++
		t.Logf("%s: %d ms", l.Kind, l.MS)
		if l.Error != "" {
			t.Errorf("%s: %s", l.Kind, l.Error)
		}
	}
	if kinds != 5 {
		t.Errorf("%d kinds of clients\n%s", kinds, &stderr)
	}
}

// TestMCPTools uses each tool as a host does.
func TestMCPTools(t *testing.T) {
	h := openMCP(t, server.Token, nil, nil)
	code := func(text string) args { return args{"code": text} }
	h.fine("run_code", code("a = 20\nprint('begin')\na + 1"), "begin\n21")
	h.fine("run_code", code("a + 22"), "42")
	h.wrong("run_code", code("a / 0"), "ZeroDivisionError")
	h.fine("run_code", args{"code": "const b = 6; b * 7", "language": "javascript"}, "42")
	h.wrong("run_code", args{"code": "while True: pass", "timeout_seconds": 1}, "stopped after 1 s")
	h.wrong("run_code", args{"code": 1}, "code")
	h.wrong("run_code", args{"code": "1", "timeout_seconds": 601}, "timeout_seconds")

	h.fine("run_command", args{"command": "echo out; echo err >&2", "unknown": 1}, "out\n[stderr]\nerr")
	h.wrong("run_command", args{"command": "exit 3"}, "[exit code 3]")
	h.wrong("run_command", args{"command": "sleep 60", "timeout_seconds": 1}, "stopped after 1 s")

	h.fine("write_file", args{"path": "dir/a.txt", "content": "one\ntwo\nthree\n"}, "14 bytes")
	h.fine("run_command", args{"command": "chmod 755 dir/a.txt"}, "[no output]")
	h.fine("edit_file", args{"path": "dir/a.txt", "old_text": "two", "new_text": "2"}, "1 times")
	h.fine("run_command", args{"command": "stat -c %a dir/a.txt"}, "755")
	h.wrong("edit_file", args{"path": "dir/a.txt", "old_text": "two", "new_text": "2"}, "not in the file")
	h.wrong("edit_file", args{"path": "dir/a.txt", "old_text": "e", "new_text": ""}, "3 times")
	x := h.fine("read_file", args{"path": "dir/a.txt", "start_line": 2, "line_count": 1},
		"2\n[the file continues at line 3]")
	if x["next_line"] != 3.0 || x["content"] != "2\n" {
		t.Errorf("lines: %v", x)
	}
	h.wrong("read_file", args{"path": "none"}, "no such file")
	h.wrong("read_file", args{"path": "../x"}, "..")
	h.fine("list_files", args{"depth": 2}, "dir/a.txt (12 bytes)")
	h.fine("search_files", args{"pattern": "^th.ee$", "files": "*.txt"}, "dir/a.txt:3:three")
	h.fine("search_files", args{"pattern": "nowhere"}, "[nothing found]")
	h.wrong("search_files", args{"pattern": "("}, "pattern")

	p := h.fine("start_process", args{"command": "echo ready; read -t 60 < <(sleep 60); echo late"}, "")
	id := p["process"].(string)
	out := h.fine("read_output", args{"process": id, "wait_seconds": 30}, "ready")
	h.fine("read_output", args{"process": id, "offset": out["next_offset"]}, "runs")
	h.fine("read_output", nil, id+" running: echo ready")
	h.fine("stop_process", args{"process": id}, "stopped")
	h.wrong("read_output", args{"process": id}, id)
	h.wrong("stop_process", args{"process": "k1"}, "k1")

	h.wrong("read_file", args{"path": "a", "session": "other"}, `no session "other"`)
	h.fine("fork_session", args{"new_session": "other"}, "copy")
	h.wrong("fork_session", args{"new_session": "other"}, "has a session")
	h.fine("run_code", args{"code": "a += 1; a", "session": "other"}, "21")
	h.fine("run_code", code("a"), "20")
	h.fine("close_session", args{"session": "other"}, "deleted")
	h.wrong("close_session", args{"session": "other"}, "other")
	h.fine("snapshot_session", args{"snapshot": "before"}, "kept for 7 days")
	h.wrong("snapshot_session", args{"snapshot": "before"}, "choose another name")
	h.fine("run_code", code("a = 0; a"), "0")
	h.fine("fork_session", args{"new_session": "back", "snapshot": "before"}, "copy of the snapshot")
	h.fine("run_code", args{"code": "a", "session": "back"}, "20")
	h.fine("close_session", args{"session": "back"}, "deleted")
	h.wrong("fork_session", args{"new_session": "b", "snapshot": "none"}, `no snapshot "none"`)
	stranger := openMCP(t, server.Token, headers{"X-Sandgate-User": "eve"}, nil)
	stranger.wrong("fork_session", args{"new_session": "b", "snapshot": "before"}, "no snapshot")
	h.wrong("preview_port", args{"port": 0}, "port")
	h.fine("close_session", nil, "deleted")
}

// TestMCPPreview visits a program through the address that preview_port gives.
func TestMCPPreview(t *testing.T) {
	h := openMCP(t, server.Token, nil, nil)
	defer h.call("close_session", nil)
	h.fine("write_file", args{"path": "www/index.html", "content": "hello"}, "5 bytes")
	h.fine("start_process", args{"command": "python3 -m http.server -d www 8000"}, "")
	for _, public := range []bool{true, false} {
		x := h.fine("preview_port", args{"port": 8000, "public": public}, "24 hours")
		u, err := url.Parse(x["url"].(string))
		check(t, err)
		visit := func(token string) (int, string) {
			r, err := http.NewRequestWithContext(deadline(t), "GET", server.URL+u.RequestURI(), nil)
			check(t, err)
			r.Host = u.Host // no name server has it
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			answer, err := http.DefaultTransport.RoundTrip(r)
			check(t, err)
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			check(t, err)
			return answer.StatusCode, string(text)
		}
		if status, text := visit(server.Token); status != 200 || text != "hello" {
			t.Errorf("public %v: %d %s", public, status, text)
		}
		if status, _ := visit(""); (status == 200) != public {
			t.Errorf("public %v, without a key: %d", public, status)
		}
	}
}

// TestMCPOutput checks long output, pictures, created files and progress.
func TestMCPOutput(t *testing.T) {
	notes := make(chan string, 100)
	h := openMCP(t, server.Token, nil, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context,
			r *mcp.ProgressNotificationClientRequest,
		) {
			notes <- r.Params.Message
		},
	})
	defer h.call("close_session", nil)
	x := h.fine("run_code", args{"code": "print('head'); print('x' * 100000); print('tail')"}, "bytes left out")
	path, _ := x["output_file"].(string)
	if s := x["stdout"].(string); !strings.HasPrefix(s, "head\n") || !strings.HasSuffix(s, "tail\n") ||
		len(s) > 32<<10 {
		t.Errorf("%d bytes of output", len(s))
	}
	h.fine("search_files", args{"pattern": "^tail", "path": path}, "tail")

	_, r := h.call("run_code", args{"code": `
import matplotlib.pyplot as plt
plt.plot([1, 2]); plt.show()
open('made.csv', 'w').write('a,b')`})
	var picture *mcp.ImageContent
	var link *mcp.ResourceLink
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.ImageContent:
			picture = c
		case *mcp.ResourceLink:
			link = c
		}
	}
	if picture == nil || picture.MIMEType != "image/png" || !strings.HasPrefix(string(picture.Data), "\x89PNG") {
		t.Errorf("no picture in %+v", r.Content)
	}
	if link == nil || link.Name != "made.csv" {
		t.Fatalf("no link in %+v", r.Content)
	}
	got, err := http.Get(link.URI)
	check(t, err)
	defer got.Body.Close()
	if got.StatusCode != 200 {
		t.Errorf("the link answers %d", got.StatusCode)
	}

	ctx, cancel := context.WithCancel(deadline(t))
	params := &mcp.CallToolParams{Name: "run_code", Arguments: args{
		"code": "import time\nkept = 1\nprint('begun', flush=True)\nwhile True: time.sleep(0.01)",
	}}
	params.SetProgressToken("p")
	go func() {
		for note := range notes {
			if strings.Contains(note, "begun") {
				cancel()
				return
			}
		}
	}()
	if _, err := h.s.CallTool(ctx, params); err == nil {
		t.Error("a cancelled call has a result")
	}
	begun := time.Now()
	h.fine("run_code", args{"code": "kept + 1"}, "2") // the cell before was interrupted
	if d := time.Since(begun); d > 2*time.Minute {
		t.Errorf("the interrupt took %v", d)
	}
}

// TestMCPIsolation checks that conversations and users do not see each other.
func TestMCPIsolation(t *testing.T) {
	ctx := deadline(t)
	c, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	key, err := c.CreateKey(ctx, protocol.KeyCreate{Role: "owner", Tenant: "mcp-other"})
	check(t, err)
	set := args{"code": "secret = 1", "session": "same"}
	get := args{"code": "'secret' in globals()", "session": "same"}
	first := openMCP(t, server.Token, headers{"X-Sandgate-Conversation": "one"}, nil)
	first.fine("run_code", set, "")
	defer first.call("close_session", args{"session": "same"})
	for label, h := range map[string]*mcpHost{
		"conversation": openMCP(t, server.Token, headers{"X-Sandgate-Conversation": "two"}, nil),
		"user": openMCP(t, server.Token, headers{
			"X-Sandgate-Conversation": "one", "X-Sandgate-User": "ada",
		}, nil),
		"connection": openMCP(t, server.Token, nil, nil),
		"key":        openMCP(t, key.Secret, headers{"X-Sandgate-Conversation": "one"}, nil),
	} {
		if text, r := h.call("run_code", get); r.IsError || !strings.Contains(text, "False") {
			t.Errorf("another %s gets %q", label, text)
		}
		h.call("close_session", args{"session": "same"})
	}
	again := openMCP(t, server.Token, headers{"X-Sandgate-Conversation": "one"}, nil)
	again.fine("run_code", get, "True")
}

// TestMCPGatewayDies kills the gateway during a call of a client with a connection. The response
// ends, and the next gateway serves the connection with the state that the session has.
func TestMCPGatewayDies(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	connection := ""
	post := func(method, params string) *http.Response {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + "}"
		r, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/mcp",
			strings.NewReader(body))
		check(t, err)
		answer, err := headers{
			"Authorization": "Bearer " + server.Token, "Content-Type": "application/json",
			"Accept": "application/json, text/event-stream", "Mcp-Session-Id": connection,
			"Mcp-Protocol-Version": "2025-11-25",
		}.RoundTrip(r)
		check(t, err)
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	run := func(code, want string) {
		t.Helper()
		text, err := io.ReadAll(post("tools/call",
			`{"name":"run_code","arguments":{"code":"`+code+`"}}`).Body)
		check(t, err)
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, should have %s", code, text, want)
		}
	}
	connection = post("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},`+
		`"clientInfo":{"name":"test","version":"1"}}`).Header.Get("Mcp-Session-Id")
	if connection == "" {
		t.Fatal("the connection has no id")
	}
	post("notifications/initialized", "{}")
	run("kept = 41", "new")
	call := bufio.NewReader(post("tools/call", `{"name":"run_code","_meta":{"progressToken":1},`+
		`"arguments":{"code":"import time\nprint('begun', flush=True)\ntime.sleep(2)\nkept += 1"}}`).Body)
	for line := ""; !strings.Contains(line, "begun"); {
		var err error
		line, err = call.ReadString('\n')
		check(t, err)
	}
	check(t, server.ReplaceGateway(ctx))
	if text, err := io.ReadAll(call); err == nil {
		t.Errorf("the response continues: %s", text)
	}
	run("kept", `"text":"42"`)
}

// TestMCPInspector lists and calls tools with the command line of the MCP Inspector.
func TestMCPInspector(t *testing.T) {
	inspect := func(v any, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(deadline(t), "node", append([]string{
			"../node_modules/@modelcontextprotocol/inspector-cli/build/cli.js", "--cli",
			server.URL + "/mcp",
			"--transport", "http", "--header", "Authorization: Bearer " + server.Token,
		}, args...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s\n%s", args, err, out, &stderr)
		}
		if err := json.Unmarshal(out, v); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	var list struct {
		Tools []struct{ Name, Description string }
	}
	inspect(&list, "--method", "tools/list")
	if len(list.Tools) < 10 || list.Tools[0].Description == "" {
		t.Errorf("%+v", list)
	}
	var result struct {
		IsError bool
		Content []struct{ Type, Text string }
	}
	inspect(&result, "--method", "tools/call", "--tool-name", "run_code",
		"--tool-arg", "code=print(6*7)")
	if result.IsError || len(result.Content) == 0 || !strings.Contains(result.Content[0].Text, "42") {
		t.Errorf("%+v", result)
	}
}
