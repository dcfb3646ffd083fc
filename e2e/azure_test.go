package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

// azureSession sends requests of clients of Azure's dynamic sessions, for one identifier.
type azureSession struct {
	*caller
	identifier string
}

// versions of the interface: AutoGen, LlamaIndex and LangChain's Python tool use the first, LangChain's
// shell tool and its backend for Deep Agents the second.
const (
	azureBefore = "2024-02-02-preview"
	azureNow    = "2025-02-02-preview"
)

func (s azureSession) url(path, version string) string {
	return path + "?identifier=" + s.identifier + "&api-version=" + version
}

// azureProperties is the answer to an execution of the first version.
type azureProperties struct {
	Status, Stdout, Stderr string
	Result                 json.RawMessage
}

// python runs code as AutoGen, LlamaIndex and LangChain do.
func (s azureSession) python(code string) azureProperties {
	s.t.Helper()
	var a struct{ Properties azureProperties }
	status := s.json("POST", s.url("/code/execute", azureBefore), map[string]any{
		"properties": map[string]any{
			"codeInputType": "inline", "executionType": "synchronous", "code": code,
			"timeoutInSeconds": 20,
		},
	}, &a)
	if status != 200 {
		s.t.Fatalf("%s: %d %+v", code, status, a)
	}
	return a.Properties
}

// send uploads a file and returns the answer.
func (s azureSession) send(path, version, name, content string, v any) int {
	s.t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, _ := m.CreateFormFile("file", name)
	_, _ = io.WriteString(part, content)
	_ = m.Close()
	res, text, err := s.do(s.ctx, "POST", s.url(path, version), m.FormDataContentType(), &b)
	check(s.t, err)
	if err := json.Unmarshal(text, v); err != nil {
		s.t.Fatalf("%d %s", res.StatusCode, text)
	}
	return res.StatusCode
}

// get downloads a file.
func (s azureSession) get(path, version string) (int, string) {
	s.t.Helper()
	res, text, err := s.do(s.ctx, "GET", s.url(path, version), "", nil)
	check(s.t, err)
	return res.StatusCode, string(text)
}

// TestAzureSessions makes the requests of AutoGen, LlamaIndex and LangChain.
func TestAzureSessions(t *testing.T) {
	ctx := deadline(t)
	key := func(tenant string) *caller {
		secret := otherTenant(t, ctx, tenant)
		return &caller{t, ctx, "/azure/pool", func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+secret)
		}}
	}
	ada, bob := key("azure"), key("azure-other")
	one := azureSession{ada, "one"}
	t.Run("python", func(t *testing.T) { azurePython(t, one) })
	t.Run("files", func(t *testing.T) { azureFiles(t, one, azureSession{bob, "one"}) })
	t.Run("shell", func(t *testing.T) { azureShell(t, one) })
	// A client that disconnects ends its code: the next code does not wait for it.
	gone, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = one.do(gone, "POST", one.url("/executions", azureNow), "application/json",
			strings.NewReader(`{"code": "open('begun', 'w').close()\nimport time\ntime.sleep(60)"}`))
	}()
	eventually(t, "the code runs", func() bool {
		status, _ := one.get("/files/begun", azureNow)
		return status == 200
	})
	cancel()
	<-ended
	if p := one.python("x"); p.Status != "Success" {
		t.Errorf("after a disconnection: %+v", p)
	}
	for name, other := range map[string]azureSession{
		"another identifier": {ada, "two"}, "another caller": {bob, "one"},
	} {
		if p := other.python("x"); p.Status != "Failure" || !strings.Contains(p.Stderr, "NameError") {
			t.Errorf("%s: %+v", name, p)
		}
	}
	res, _, err := one.do(ctx, "DELETE", one.url("/session", "2025-10-02-preview"), "", nil)
	check(t, err)
	if p := one.python("x"); res.StatusCode != 204 || p.Status != "Failure" {
		t.Errorf("a deleted session: %d, then %+v", res.StatusCode, p)
	}
	var refused struct {
		Error struct{ Code, Message, Target string }
	}
	if status := ada.json("POST", "/executions?api-version="+azureNow, map[string]any{"code": "1"},
		&refused); status != 400 || refused.Error.Code != "BadRequest" ||
		refused.Error.Target != "identifier" {
		t.Errorf("no identifier: %d %+v", status, refused)
	}
}

// azurePython keeps variables, and returns values, output, errors and pictures.
func azurePython(t *testing.T, s azureSession) {
	for code, want := range map[string]string{
		"x = 6 * 7\nx":           "42",
		"['a', 'b']":             `"['a', 'b']"`,
		"None":                   `""`,
		"import os; os.getcwd()": `"'/mnt/data'"`,
	} {
		if p := s.python(code); p.Status != "Success" || string(p.Result) != want || p.Stderr != "" {
			t.Errorf("%s: %+v %s", code, p, p.Result)
		}
	}
	if p := s.python("print(x)"); p.Stdout != "42\n" || string(p.Result) != `""` {
		t.Errorf("%+v", p)
	}
	if p := s.python("print('a')\n1/0"); p.Status != "Failure" || p.Stdout != "a\n" ||
		!strings.Contains(p.Stderr, "ZeroDivisionError: division by zero") ||
		strings.Contains(p.Stderr, "\x1b") {
		t.Errorf("an error: %+v", p)
	}
	var picture struct {
		Type, Format string
		Data         []byte `json:"base64_data"`
	}
	p := s.python("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
	if err := json.Unmarshal(p.Result, &picture); err != nil || picture.Type != "image" ||
		picture.Format != "png" || !bytes.HasPrefix(picture.Data, []byte("\x89PNG")) {
		t.Errorf("a picture: %v %.200s", err, p.Result)
	}
	if p := s.python("print('y' * 5_000_000)"); len(p.Stdout) > 4<<20 ||
		!strings.Contains(p.Stderr, "bytes of output over the limit were left out") {
		t.Errorf("long output: %d bytes, %s", len(p.Stdout), p.Stderr)
	}
	var e struct {
		Status, Identifier string
		Result             struct {
			Stderr string
			Value  json.RawMessage `json:"executionResult"`
		}
	}
	s.json("POST", s.url("/executions", azureNow), map[string]any{"code": "x + 1"}, &e)
	if e.Status != "Succeeded" || string(e.Result.Value) != "43" || e.Identifier != "one" {
		t.Errorf("the later version: %+v %s", e, e.Result.Value)
	}
	s.json("POST", s.url("/executions", azureNow), map[string]any{
		"code": "import time\ntime.sleep(60)", "timeoutInSeconds": 1,
	}, &e)
	if e.Status != "Failed" || !strings.Contains(e.Result.Stderr, "over 1s") {
		t.Errorf("a time-out: %+v", e)
	}
}

// azureFiles passes files in both versions, and none to another caller.
func azureFiles(t *testing.T, s, other azureSession) {
	type before struct {
		Value []struct {
			Properties struct {
				Filename string
				Size     int
			}
		}
	}
	type now struct {
		Name  string
		Size  int `json:"sizeInBytes"`
		Value []now
	}
	var up before
	status := s.send("/files/upload", azureBefore, "/mnt/data/in/a b.txt", "text", &up)
	if status != 200 || up.Value[0].Properties.Filename != "in/a b.txt" ||
		up.Value[0].Properties.Size != 4 {
		t.Errorf("%d %+v", status, up)
	}
	if status, text := s.get("/files/content/in/a%20b.txt", azureBefore); text != "text" {
		t.Errorf("%d %s", status, text)
	}
	var later now
	if status := s.send("/files", azureNow, "b.csv", "x,y", &later); status != 200 ||
		later.Name != "b.csv" || later.Size != 3 {
		t.Errorf("%d %+v", status, later)
	}
	p := s.python("open('c.txt', 'w').write(open('in/a b.txt').read() + open('b.csv').read())")
	if status, text := s.get("/files/c.txt/content", azureNow); status != 200 || text != "textx,y" {
		t.Errorf("%+v, then %d %s", p, status, text)
	}
	var old before
	s.json("GET", s.url("/files", azureBefore), nil, &old)
	s.json("GET", s.url("/files", azureNow), nil, &later)
	if len(old.Value) != 2 || len(later.Value) != 2 || later.Value[0].Name != "b.csv" ||
		old.Value[1].Properties.Filename != "c.txt" || later.Value[1].Size != 7 {
		t.Errorf("%+v %+v", old, later)
	}
	other.json("GET", other.url("/files", azureNow), nil, &later)
	if status, _ := other.get("/files/c.txt/content", azureNow); status != 404 ||
		len(later.Value) != 0 {
		t.Errorf("another caller: %d %+v", status, later)
	}
	if status, text := s.get("/files/content/..%2F..%2Fetc%2Fpasswd", azureBefore); status != 400 {
		t.Errorf("a file outside: %d %s", status, text)
	}
	res, _, err := s.do(s.ctx, "DELETE", s.url("/files/b.csv", azureNow), "", nil)
	check(t, err)
	if status, _ := s.get("/files/b.csv", azureNow); res.StatusCode != 204 || status != 404 {
		t.Errorf("deleted with %d, then %d", res.StatusCode, status)
	}
}

// azureShell runs commands as LangChain's shell tool does.
func azureShell(t *testing.T, s azureSession) {
	var e struct {
		Status string
		Result struct{ Stdout, Stderr string }
	}
	s.json("POST", s.url("/executions", azureNow), map[string]any{
		"shellCommand": "cat c.txt; echo e >&2; exit 3",
	}, &e)
	if e.Status != "3" || e.Result.Stdout != "textx,y" || e.Result.Stderr != "e\n" {
		t.Errorf("%+v", e)
	}
}
