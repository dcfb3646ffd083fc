package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// caller sends requests to a surface with one key.
type caller struct {
	t      *testing.T
	ctx    context.Context
	prefix string
	// key sets the credentials of a request.
	key func(*http.Request)
}

// do sends a request and returns the response with its body. The client may give up with ctx.
func (c *caller) do(ctx context.Context, method, path, kind string, body io.Reader,
) (*http.Response, []byte, error) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, server.URL+c.prefix+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	if c.key != nil {
		c.key(req)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, text, err
}

// json sends a body as JSON, reads the answer into v and returns the status.
func (c *caller) json(method, path string, body, v any) int {
	c.t.Helper()
	var r io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		check(c.t, err)
		r = bytes.NewReader(raw)
	}
	res, text, err := c.do(c.ctx, method, path, "application/json", r)
	check(c.t, err)
	if err := json.Unmarshal(text, v); err != nil {
		c.t.Fatalf("status %d: %s", res.StatusCode, text)
	}
	return res.StatusCode
}

// otherTenant returns a key of a tenant that no other test uses.
func otherTenant(t *testing.T, ctx context.Context, tenant string) string {
	t.Helper()
	c, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	key, err := c.CreateKey(ctx, protocol.KeyCreate{Role: "owner", Tenant: tenant})
	check(t, err)
	t.Cleanup(func() { _ = c.RevokeKey(context.WithoutCancel(ctx), key.Key.ID) })
	return key.Secret
}

// sessions returns how many sessions of a surface a key can see.
func (c *caller) sessions(secret, surface string) int {
	c.t.Helper()
	k, err := wire.New(server.URL, secret, wire.Options{})
	check(c.t, err)
	list, err := k.Sessions(c.ctx)
	check(c.t, err)
	n := 0
	for _, s := range list {
		if s.Labels["surface"] == surface {
			n++
		}
	}
	return n
}

// abandon sends a request whose program runs for a minute, disconnects once the program's sandbox
// exists, and waits until it is gone.
func (c *caller) abandon(secret, surface, path string, body any) {
	c.t.Helper()
	raw, err := json.Marshal(body)
	check(c.t, err)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.do(ctx, "POST", path, "application/json", bytes.NewReader(raw))
		ended <- err
	}()
	eventually(c.t, "the program has a sandbox", func() bool {
		return c.sessions(secret, surface) == 1
	})
	cancel()
	if err := <-ended; err == nil {
		c.t.Error("the request of a client that has gone was answered")
	}
	eventually(c.t, "the sandbox of an abandoned program is deleted", func() bool {
		return c.sessions(secret, surface) == 0
	})
}

// difyRun is the answer to a run of Dify.
type difyRun struct {
	Code    int
	Message string
	Data    *struct {
		Stdout, Stderr, Error string
		ExitCode              int `json:"exit_code"`
	}
}

// TestDify makes the requests of Dify: code nodes in both languages and a template node.
func TestDify(t *testing.T) {
	ctx := deadline(t)
	key := otherTenant(t, ctx, "dify")
	c := &caller{t, ctx, "/dify", func(r *http.Request) { r.Header.Set("X-Api-Key", key) }}
	run := func(language, code string) (r difyRun) {
		t.Helper()
		status := c.json("POST", "/v1/sandbox/run", map[string]any{
			"language": language, "code": code, "preload": "", "enable_network": true,
		}, &r)
		if status != 200 || r.Code == 0 && r.Data == nil {
			t.Fatalf("%d %+v", status, r)
		}
		return r
	}
	const template = `
def main(**inputs):
    import jinja2
    template = jinja2.Template('''{% for n in numbers %}<{{ n }}>
{% endfor %}%time''')
    return template.render(**inputs)

import json
from base64 import b64decode

output = main(**json.loads(b64decode('eyJudW1iZXJzIjogWzEsIDJdfQ==').decode('utf-8')))
print(f'''<<RESULT>>{output}<<RESULT>>''')
`
	if d := run("python3", template).Data; d.Stdout != "<<RESULT>><1>\n<2>\n%time<<RESULT>>\n" ||
		d.Error != "" || d.ExitCode != 0 {
		t.Errorf("a template: %+v", d)
	}
	const javaScript = `function main({n}) { return { double: n * 2 } }
output = main(JSON.parse(Buffer.from('eyJuIjogMjF9', 'base64').toString()))
console.error('a warning')
console.log('<<RESULT>>' + JSON.stringify(output) + '<<RESULT>>')
`
	if d := run("nodejs", javaScript).Data; d.Stdout != "<<RESULT>>{\"double\":42}<<RESULT>>\n" ||
		d.Stderr != "a warning\n" || d.Error != "" {
		t.Errorf("JavaScript: %+v", d)
	}
	if d := run("python3", "def f():\n    1/0\nprint('before')\nf()").Data; d.Stdout != "before\n" ||
		d.ExitCode != 1 || !strings.HasPrefix(d.Error, "Traceback (most recent call last):\n"+
		"  File \"main.py\", line 4, in <module>\n    f()\n") ||
		!strings.HasSuffix(d.Error, "\nZeroDivisionError: division by zero\n") {
		t.Errorf("an error: %+v", d)
	}
	if d := run("python3", "import urllib.request\n"+
		"urllib.request.urlopen('http://example.com', timeout=5)").Data; d.ExitCode != 1 {
		t.Errorf("the network without a policy: %+v", d)
	}
	if r := run("python3", "print('x' * 5_000_000)"); r.Code != -400 || r.Data != nil ||
		!strings.Contains(r.Message, "over the limit") {
		t.Errorf("too much output: %d %s", r.Code, r.Message)
	}
	c.abandon(key, "dify", "/v1/sandbox/run", map[string]any{
		"language": "python3", "code": "import time\ntime.sleep(60)",
	})
	var health string
	open := &caller{t, ctx, "/dify", nil}
	if status := open.json("GET", "/health", nil, &health); status != 200 || health != "ok" {
		t.Errorf("health: %d %s", status, health)
	}
	var refused difyRun
	if status := open.json("POST", "/v1/sandbox/run", map[string]any{}, &refused); status != 401 ||
		refused.Code != -401 {
		t.Errorf("without a key: %d %+v", status, refused)
	}
}
