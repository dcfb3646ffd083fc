package e2e

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// openWebUI sends requests as Open WebUI does, for one user and one chat. Parameters of the query are
// in the body too.
type openWebUI struct {
	*testing.T
	ctx        context.Context
	user, chat string
}

// terminalProcess is a process in an answer.
type terminalProcess struct {
	ID       string
	Status   string
	ExitCode *int `json:"exit_code"`
	Output   []struct{ Type, Data string }
	More     bool  `json:"truncated"`
	Next     int64 `json:"next_offset"`
	Detail   string
}

func (p terminalProcess) text() string {
	var b strings.Builder
	for _, o := range p.Output {
		b.WriteString(o.Data)
	}
	return b.String()
}

// send sends a request and returns the response with its body.
func (c *openWebUI) send(method, path, kind string, body io.Reader) (*http.Response, []byte) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.ctx, method, server.URL+"/openterminal"+path, body)
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+server.Token)
	req.Header.Set("X-User-Id", c.user)
	if c.chat != "" {
		req.Header.Set("X-Session-Id", c.chat)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.Fatal(err)
	}
	return res, text
}

// get sends a request with a query; values are pairs of a name and a value.
func (c *openWebUI) get(method, path string, values ...string) (int, []byte) {
	c.Helper()
	q := url.Values{}
	for i := 0; i < len(values); i += 2 {
		q.Add(values[i], values[i+1])
	}
	res, text := c.send(method, path+"?"+q.Encode(), "", nil)
	return res.StatusCode, text
}

// post sends a body, whose parameters in query are also in the query, and decodes the answer.
func (c *openWebUI) post(path string, body map[string]any, answer any, query ...string) int {
	c.Helper()
	q := url.Values{}
	for _, name := range query {
		q.Set(name, fmt.Sprint(body[name]))
	}
	raw, _ := json.Marshal(body)
	res, text := c.send("POST", path+"?"+q.Encode(), "application/json", bytes.NewReader(raw))
	if err := json.Unmarshal(text, answer); err != nil {
		c.Fatalf("%s: %d %s", path, res.StatusCode, text)
	}
	return res.StatusCode
}

// run runs a command and waits for it.
func (c *openWebUI) run(command string, wait any) (p terminalProcess) {
	c.Helper()
	if status := c.post("/execute", map[string]any{
		"command": command, "wait": wait, "tail": nil, "cwd": nil,
	}, &p, "wait"); status != 200 {
		c.Fatalf("%s: %d %s", command, status, p.Detail)
	}
	return p
}

// status reads the output of a process.
func (c *openWebUI) status(id string, values ...string) (p terminalProcess) {
	c.Helper()
	code, text := c.get("GET", "/execute/"+id+"/status", values...)
	if err := json.Unmarshal(text, &p); err != nil || code != 200 {
		c.Fatalf("%d %s", code, text)
	}
	return p
}

// TestOpenTerminal uses a sandbox as Open WebUI does.
func TestOpenTerminal(t *testing.T) {
	ctx := deadline(t)
	ada := &openWebUI{t, ctx, "ada", "chat-1"}
	for _, x := range []struct {
		name string
		test func(*testing.T, *openWebUI)
	}{
		{"commands", terminalCommands},
		{"output", terminalOutput},
		{"files", terminalFiles},
		{"searches", terminalSearches},
		{"users", terminalUsers},
		{"documents", terminalDocuments},
		{"ports", terminalPorts},
		{"socket", terminalSocket},
		{"tools", toolServer},
		{"engine", jupyterEngine},
	} {
		t.Run(x.name, func(t *testing.T) { x.test(t, &openWebUI{t, ctx, ada.user, ada.chat}) })
	}
}

// terminalCommands runs commands that succeed, fail, take long, need input and are ended.
func terminalCommands(t *testing.T, c *openWebUI) {
	p := c.run("echo out; echo err >&2; pwd; exit 3", 20)
	if p.Status != "done" || *p.ExitCode != 3 || p.text() != "out\nerr\n/home/user\n" || p.More {
		t.Errorf("%+v", p)
	}
	p = c.run("trap 'echo bye; exit 0' TERM; echo on; while :; do sleep 0.1; done", 0.5)
	if p.Status != "running" || p.ExitCode != nil || p.text() != "on\n" {
		t.Errorf("%+v", p)
	}
	if code, text := c.get("DELETE", "/execute/"+p.ID, "force", "false"); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	if p = c.status(p.ID, "offset", fmt.Sprint(p.Next)); p.Status != "done" ||
		!strings.HasSuffix(p.text(), "bye\n") {
		t.Errorf("the output of an ended process: %+v", p)
	}
	p = c.run("sleep 100; true", 0)
	if code, text := c.get("DELETE", "/execute/"+p.ID, "force", "true"); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	if p = c.status(p.ID); p.Status != "killed" {
		t.Errorf("%+v", p)
	}
	p = c.run("read a; echo got $a; cat", 0)
	for _, input := range []string{`x\n`, "y\x04"} {
		var a map[string]string
		if status := c.post("/execute/"+p.ID+"/input", map[string]any{
			"input": input, "process_id": p.ID,
		}, &a); status != 200 || a["status"] != "ok" {
			t.Errorf("%d %v", status, a)
		}
	}
	if p = c.status(p.ID, "wait", "20"); p.Status != "done" || p.text() != "got x\ny" {
		t.Errorf("%+v", p)
	}
	var failed terminalProcess
	if s := c.post("/execute/p999/input", map[string]any{"input": "x"}, &failed); s != 404 ||
		!strings.Contains(failed.Detail, "list_processes") {
		t.Errorf("%d %+v", s, failed)
	}
	if s := c.post("/execute", map[string]any{"command": 3}, &failed); s != 400 ||
		!strings.Contains(failed.Detail, "command") {
		t.Errorf("%d %+v", s, failed)
	}
	var all []terminalProcess
	if _, text := c.get("GET", "/execute"); json.Unmarshal(text, &all) != nil || len(all) != 4 {
		t.Errorf("%s", text)
	}
}

// terminalOutput reads a large output in parts.
func terminalOutput(t *testing.T, c *openWebUI) {
	p := c.run("seq 100000", 20)
	if !p.More || p.Status != "done" || !strings.HasPrefix(p.text(), "1\n2\n") {
		t.Errorf("%d bytes, %v", len(p.text()), p.Status)
	}
	text, parts := p.text(), 1
	for ; p.More; parts++ {
		p = c.status(p.ID, "offset", fmt.Sprint(p.Next))
		text += p.text()
	}
	if len(text) != 588895 || !strings.HasSuffix(text, "\n100000\n") || parts > 12 {
		t.Errorf("%d bytes in %d parts", len(text), parts)
	}
	p = c.status(p.ID, "tail", "2")
	if p.text() != "99999\n100000\n" || !p.More {
		t.Errorf("the tail: %+v", p)
	}
}

// terminalFiles moves files in and out.
func terminalFiles(t *testing.T, c *openWebUI) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, _ := form.CreateFormFile("file", "sales.csv")
	_, _ = io.WriteString(part, "month,sold\n1,3\n2,5\n")
	_ = form.Close()
	res, text := c.send("POST", "/files/upload?directory=%2Fhome%2Fuser%2Fin",
		form.FormDataContentType(), &b)
	if res.StatusCode != 200 || !strings.Contains(string(text), `"/home/user/in/sales.csv"`) {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	p := c.run("python3 -c 'import pandas; pandas.read_csv(\"in/sales.csv\").plot(\"month\")."+
		"figure.savefig(\"in/plot.png\")'", 60)
	if p.Status != "done" || *p.ExitCode != 0 {
		t.Fatalf("%+v", p)
	}
	for _, path := range []string{
		"/files/read?path=in/plot.png", "/files/view?path=in/plot.png",
		"/files/serve/home/user/in/plot.png",
	} {
		res, text = c.send("GET", path, "", nil)
		if res.Header.Get("Content-Type") != "image/png" || !bytes.HasPrefix(text, []byte("\x89PNG")) ||
			!strings.HasPrefix(res.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s: %d %v", path, res.StatusCode, res.Header)
		}
	}
	raw, _ := json.Marshal(map[string]any{"paths": []string{"/home/user/in"}})
	res, text = c.send("POST", "/files/archive", "application/json", bytes.NewReader(raw))
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil || len(z.File) != 2 || z.File[1].Name != "in/sales.csv" {
		t.Errorf("%d %v %+v", res.StatusCode, err, z)
	}
	var a map[string]any
	for _, x := range []struct {
		path, want string
		body       map[string]any
	}{
		{"/files/write", "/home/user/new/a.txt", map[string]any{"path": "new/a.txt", "content": "a\nb\na\n"}},
		{"/files/replace", "/home/user/new/a.txt", map[string]any{
			"path": "new/a.txt", "replacements": []any{
				map[string]any{"target": "a", "replacement": "c", "start_line": 2},
			},
		}},
		{"/files/mkdir", "/home/user/new/sub", map[string]any{"path": "/home/user/new/sub"}},
	} {
		if status := c.post(x.path, x.body, &a); status != 200 || a["path"] != x.want {
			t.Errorf("%s: %d %v", x.path, status, a)
		}
	}
	if s := c.post("/files/replace", map[string]any{"path": "new/a.txt", "replacements": []any{
		map[string]any{"target": "z", "replacement": ""},
	}}, &a); s != 400 || a["detail"] == nil {
		t.Errorf("%d %v", s, a)
	}
	if s := c.post("/files/move", map[string]any{
		"source":      "/home/user/new/a.txt",
		"destination": "/home/user/in/sales.csv",
	}, &a); s != 409 {
		t.Errorf("%d %v", s, a)
	}
	if s := c.post("/files/cwd", map[string]any{"path": "/home/user/new"}, &a); s != 200 {
		t.Errorf("%d %v", s, a)
	}
	if _, text := c.get("GET", "/files/read", "path", "a.txt", "start_line", "2"); string(text) !=
		`{"path":"/home/user/new/a.txt","total_lines":3,"content":"b\nc\n"}` {
		t.Errorf("%s", text)
	}
	if p := c.run("pwd", 20); p.text() != "/home/user/new\n" {
		t.Errorf("the working folder: %+v", p)
	}
	if status, text := c.get("DELETE", "/files/delete", "path", "sub"); status != 200 ||
		!strings.Contains(string(text), "directory") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := c.get("GET", "/files/read", "path", "sub"); status != 404 {
		t.Errorf("%d %s", status, text)
	}
	if s := c.post("/files/cwd", map[string]any{"path": "~"}, &a); s != 200 {
		t.Errorf("%d %v", s, a)
	}
}

// terminalSearches finds files by content and by name.
func terminalSearches(t *testing.T, c *openWebUI) {
	c.run("mkdir -p s/deep; echo 'def f1(): pass' >s/deep/x.py; echo nothing >s/y.txt", 20)
	for query, want := range map[string]string{
		`grep?path=s&query=f%5Cd%5C(`:                                       `"matches":[{"file":"/home/user/s/deep/x.py","line":1,"content":"def f1(): pass"}]`,
		`grep?path=s&query=PASS&match_per_line=false&case_insensitive=true`: `"matches":[{"file":"/home/user/s/deep/x.py"}]`,
		`grep?path=s&query=f1(&regex=false&include=*.txt`:                   `"matches":[]`,
		`glob?path=s&pattern=**/*.py`:                                       `"path":"deep/x.py","type":"file","size":15`,
		`glob?path=s&pattern=deep&type=directory`:                           `"path":"deep","type":"directory"`,
		`list?directory=s`:                                                  `"name":"y.txt","type":"file","size":8`,
		`display?path=s/y.txt`:                                              `{"exists":true,"path":"/home/user/s/y.txt"}`,
	} {
		if res, text := c.send("GET", "/files/"+query, "", nil); res.StatusCode != 200 ||
			!strings.Contains(string(text), want) {
			t.Errorf("%s: %d %s", query, res.StatusCode, text)
		}
	}
	if res, text := c.send("GET", "/files/grep?query=(", "", nil); res.StatusCode != 400 {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}

// terminalDocuments reads the text of documents.
func terminalDocuments(t *testing.T, c *openWebUI) {
	c.run(`python3 - <<'E'
from docx import Document
from openpyxl import Workbook
from reportlab.pdfgen.canvas import Canvas
document = Document()
document.add_paragraph("a paragraph")
document.add_table(1, 2).rows[0].cells[1].text = "a cell"
document.save("a.docx")
book = Workbook()
book.active.append(["name", 7])
book.save("a.XLSX")
page = Canvas("a.pdf")
page.drawString(100, 100, "on the page")
page.showPage()
page.save()
import zipfile
with zipfile.ZipFile("a.pptx", "w") as slides:
    slides.writestr("ppt/slides/slide1.xml", '<p xmlns:a="x"><a:p><a:t>a slide</a:t></a:p></p>')
open("broken.pdf", "wb").write(bytes(100))
E`, 60)
	for name, want := range map[string]string{
		"a.docx": "a paragraph\n\ta cell\n", "a.XLSX": "[sheet Sheet]\nname\t7\n",
		"a.pdf": "[page 1]\non the page\n", "a.pptx": "[slide 1]\na slide\n",
	} {
		var a struct{ Content string }
		status, text := c.get("GET", "/files/read", "path", name)
		if err := json.Unmarshal(text, &a); err != nil || status != 200 || a.Content != want {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	status, text := c.get("GET", "/files/read", "path", "broken.pdf")
	if status != 400 || !strings.Contains(string(text), "cannot be read: Pdf") {
		t.Errorf("a broken document: %d %s", status, text)
	}
}

// terminalUsers: another user and another chat see neither files nor processes.
func terminalUsers(t *testing.T, c *openWebUI) {
	p := c.run("echo secret >secret.txt; sleep 100", 0)
	for _, other := range []*openWebUI{
		{t, c.ctx, "bob", c.chat}, {t, c.ctx, c.user, "chat-2"},
	} {
		if status, text := other.get("GET", "/files/read", "path", "secret.txt"); status != 404 {
			t.Errorf("%+v reads %d %s", other, status, text)
		}
		if status, text := other.get("DELETE", "/execute/"+p.ID); status != 404 {
			t.Errorf("%+v ends a process: %d %s", other, status, text)
		}
	}
}

// terminalPorts reaches a port, also without the chat.
func terminalPorts(t *testing.T, c *openWebUI) {
	c.run("mkdir -p www; echo page >www/index.html; cd www; python3 -m http.server 8123", 0)
	any := &openWebUI{t, c.ctx, c.user, ""}
	eventually(t, "the port", func() bool {
		_, text := any.get("GET", "/ports")
		return strings.Contains(string(text), `"port":8123`)
	})
	for _, from := range []*openWebUI{c, any} {
		if res, text := from.send("GET", "/proxy/8123/index.html?a=b", "", nil); res.StatusCode !=
			200 || string(text) != "page\n" {
			t.Errorf("%d %s", res.StatusCode, text)
		}
	}
	bob := &openWebUI{t, c.ctx, "bob", ""}
	if _, text := bob.get("GET", "/ports"); string(text) != `{"ports":[]}` {
		t.Errorf("%s", text)
	}
	terminalUpgrade(t, c, bob)
}

// terminalUpgrade opens a WebSocket to a program through the proxy. Another user does not reach it.
func terminalUpgrade(t *testing.T, c, bob *openWebUI) {
	c.run(`node -e 'new (require("ws").WebSocketServer)({port: 8124}).on("connection",
		(s, r) => s.on("message", (m) => s.send(r.url + " " + m)))'`, 0)
	eventually(t, "the program", func() bool {
		_, text := c.get("GET", "/ports")
		return strings.Contains(string(text), `"port":8124`)
	})
	dial := func(user *openWebUI) (*websocket.Conn, error) {
		ws, _, err := websocket.Dial(c.ctx, strings.Replace(server.URL, "http", "ws", 1)+
			"/openterminal/proxy/8124/path?a=b", &websocket.DialOptions{HTTPHeader: http.Header{
			"Authorization": {"Bearer " + server.Token}, "X-User-Id": {user.user},
			"X-Session-Id": {user.chat},
		}})
		return ws, err
	}
	ws, err := dial(c)
	check(t, err)
	defer ws.CloseNow()
	check(t, ws.Write(c.ctx, websocket.MessageText, []byte("text")))
	if _, text, err := ws.Read(c.ctx); err != nil || string(text) != "/path?a=b text" {
		t.Errorf("%s %v", text, err)
	}
	if other, err := dial(bob); err == nil {
		other.CloseNow()
		t.Error("another user reaches the program")
	}
}

// terminalSocket types into a terminal. Its WebSocket has the user in the query and the key in the
// first message.
func terminalSocket(t *testing.T, c *openWebUI) {
	var terminal struct{ ID string }
	if s := c.post("/api/terminals", map[string]any{}, &terminal); s != 200 || terminal.ID == "" {
		t.Fatalf("%d", s)
	}
	dial := func(user, token string) *websocket.Conn {
		ws, _, err := websocket.Dial(c.ctx, "ws"+strings.TrimPrefix(server.URL, "http")+
			"/openterminal/api/terminals/"+terminal.ID+"?user_id="+user, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		first, _ := json.Marshal(map[string]string{"type": "auth", "token": token})
		if err := ws.Write(c.ctx, websocket.MessageText, first); err != nil {
			t.Fatal(err)
		}
		return ws
	}
	for _, x := range []struct {
		user, token string
		code        websocket.StatusCode
	}{{c.user, "wrong", 4001}, {"bob", server.Token, 4004}, {"", server.Token, 4004}} {
		if _, _, err := dial(x.user, x.token).Read(c.ctx); websocket.CloseStatus(err) != x.code {
			t.Errorf("%+v: %v", x, err)
		}
	}
	ws := dial(c.user, server.Token)
	size := `{"type":"resize","cols":123,"rows":45}`
	if err := ws.Write(c.ctx, websocket.MessageText, []byte(size)); err != nil {
		t.Fatal(err)
	}
	if err := ws.Write(c.ctx, websocket.MessageBinary, []byte("stty size; exit\n")); err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for {
		kind, data, err := ws.Read(c.ctx)
		if err != nil {
			if websocket.CloseStatus(err) != websocket.StatusNormalClosure ||
				!strings.Contains(shown.String(), "45 123") {
				t.Errorf("%v after %q", err, shown.String())
			}
			return
		}
		if kind != websocket.MessageBinary {
			t.Errorf("a text: %s", data)
		}
		shown.Write(data)
	}
}

// toolServer uses the operations of the document for tool servers. Variables of the path are in the
// body too.
func toolServer(t *testing.T, c *openWebUI) {
	ask := func(method, path string, body map[string]any) (answer map[string]any, text string) {
		raw, _ := json.Marshal(body)
		req, err := http.NewRequestWithContext(c.ctx, method, server.URL+path, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if body == nil {
			req.Body, req.ContentLength = nil, 0
		}
		req.Header.Set("Authorization", "Bearer "+server.Token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		all, _ := io.ReadAll(res.Body)
		if res.StatusCode > 299 {
			t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, all)
		}
		_ = json.Unmarshal(all, &answer) // a file is none
		return answer, string(all)
	}
	document, _ := ask("GET", "/v1/tools/openapi.json", nil)
	if _, ok := document["paths"].(map[string]any)["/v1/sessions/{session}/exec"]; !ok {
		t.Fatalf("%v", document)
	}
	run, _ := ask("POST", "/v1/run", map[string]any{
		"code": "open('a.txt', 'w').write('text'); x = 6", "keep_seconds": 60, "language": nil,
	})
	session, _ := run["session"].(string)
	path := "/v1/sessions/" + session
	run, _ = ask("POST", "/v1/run", map[string]any{"session": session, "code": "x * 7"})
	if data, _ := json.Marshal(run["data"]); !strings.Contains(string(data), "42") {
		t.Errorf("%v", run)
	}
	run, _ = ask("POST", path+"/exec", map[string]any{"session": session, "cmd": "cat a.txt"})
	if run["stdout"] != "text" {
		t.Errorf("%v", run)
	}
	if _, text := ask("GET", path+"/files/a.txt", nil); text != "text" {
		t.Errorf("%q", text)
	}
	link, _ := ask("POST", path+"/files/links", map[string]any{"session": session, "path": "a.txt"})
	if link["url"] == nil {
		t.Errorf("%v", link)
	}
	ask("DELETE", path, nil)
}
