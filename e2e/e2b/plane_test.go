package e2b

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestOlderRoutes sends the requests of older releases of the SDKs to the control plane.
func TestOlderRoutes(t *testing.T) {
	t.Parallel()
	d := server(t)
	a := d.api(t, "POST", "/sandboxes", map[string]any{
		"templateID": "base", "timeout": 60, "secure": false, "metadata": map[string]any{"of": "older"},
	})
	expect(t, "POST /sandboxes", a, 201, "sandboxID", "clientID", "envdVersion", "templateID")
	b := &box{t: t, ctx: deadline(t), d: d}
	check(t, json.Unmarshal(a.body, &b.info))
	path := "/sandboxes/" + b.info.SandboxID
	expect(t, "GET /sandboxes", d.api(t, "GET", "/sandboxes?metadata=of%3Dolder", nil), 200,
		b.info.SandboxID, `"state":"running"`, `"cpuCount"`, `"memoryMB"`)
	expect(t, "POST connect", d.api(t, "POST", path+"/connect", map[string]any{"timeout": 60}), 200)
	expect(t, "POST resume", d.api(t, "POST", path+"/resume", map[string]any{"timeout": 60}), 409)
	expect(t, "POST refreshes", d.api(t, "POST", path+"/refreshes", map[string]any{"duration": 100}),
		204)
	expect(t, "POST pause", d.api(t, "POST", path+"/pause", nil), 204)
	expect(t, "POST pause again", d.api(t, "POST", path+"/pause", nil), 409)
	expect(t, "POST resume", d.api(t, "POST", path+"/resume", map[string]any{"timeout": 60}), 201)
	expect(t, "POST v2 connect", d.api(t, "POST", "/v2"+path+"/connect", nil), 200)
	b.stream("process.Process/Start", start("echo logged")).process()
	expect(t, "GET logs", d.api(t, "GET", path+"/logs", nil), 200, "logs", "logEntries")
	expect(t, "GET v2 logs", d.api(t, "GET", "/v2"+path+"/logs", nil), 200, "logs")
	expect(t, "POST timeout 0", d.api(t, "POST", path+"/timeout", map[string]any{"timeout": 0}), 204)
	eventually(t, "it ends", func() bool { return d.api(t, "GET", path, nil).status == 404 })
	for name, body := range map[string]any{
		"no template": map[string]any{}, "a list": []int{1}, "a negative timeout": map[string]any{
			"templateID": "base", "timeout": -1,
		},
		"metadata that is no text": map[string]any{
			"templateID": "base", "metadata": map[string]any{"x": 1},
		},
	} {
		a := d.api(t, "POST", "/v2/sandboxes", body)
		expect(t, name, a, 400)
		if code, message := a.code(t); code != 400.0 || message == "" {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

// TestKeys sends keys in each form.
func TestKeys(t *testing.T) {
	t.Parallel()
	d := server(t)
	ctx := deadline(t)
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"a key":                   {[]string{"X-API-KEY", d.key}, 200},
		"a bearer token":          {[]string{"Authorization", "Bearer " + d.Token}, 200},
		"a key as a bearer token": {[]string{"Authorization", "Bearer " + d.key}, 200},
		"none":                    {nil, 401},
		"not hex":                 {[]string{"X-API-KEY", "e2b_xyz"}, 401},
		"another prefix":          {[]string{"X-API-KEY", "sk_00"}, 401},
		"an unknown key":          {[]string{"X-API-KEY", "e2b_0011223344"}, 401},
	} {
		a, err := d.send(ctx, "GET", "/v2/sandboxes", nil, c.headers...)
		check(t, err)
		expect(t, name, a, c.status)
		if c.status == 401 {
			if code, _ := a.code(t); code != 401.0 {
				t.Errorf("%s: %s", name, a.body)
			}
		}
	}
}

// TestEnvd sends the requests to envd that are neither Connect nor files.
func TestEnvd(t *testing.T) {
	t.Parallel()
	b := create(t, server(t), map[string]any{"envVars": map[string]string{"MINE": "yes"}})
	expect(t, "health", b.envd("GET", "/health", nil), 204)
	expect(t, "metrics", b.envd("GET", "/metrics", nil), 200, "cpu_count", "mem_total", "disk_used",
		`"ts"`)
	expect(t, "envs", b.envd("GET", "/envs", nil), 200, `"MINE":"yes"`)
	for _, path := range []string{"/init", "/freeze", "/unfreeze", "/fsfreeze"} {
		if a := b.envd("POST", path, map[string]any{}); a.status < 400 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	a, err := b.d.send(b.ctx, "OPTIONS", "/process.Process/List", nil, b.routed(49983, "Origin",
		"https://example.com", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "x-access-token,connect-protocol-version")...)
	check(t, err)
	if a.status >= 300 || a.header.Get("Access-Control-Allow-Origin") == "" ||
		!strings.Contains(strings.ToLower(a.header.Get("Access-Control-Allow-Headers")+"*"),
			"x-access-token") && a.header.Get("Access-Control-Allow-Headers") != "*" {
		t.Errorf("a preflight: %d %v", a.status, a.header)
	}
	proto := b.envd("POST", "/filesystem.Filesystem/Stat", []byte("\x0a\x04/tmp"), "Content-Type",
		"application/proto", "Connect-Protocol-Version", "1")
	if proto.status != 200 || proto.header.Get("Content-Type") != "application/proto" ||
		!strings.Contains(string(proto.body), "tmp") {
		t.Errorf("protobuf: %d %q", proto.status, proto.body)
	}
}

// execute runs code and returns the lines of the answer.
func (b *box) execute(body map[string]any) []map[string]any {
	b.t.Helper()
	a, err := b.d.send(b.ctx, "POST", "/execute", body,
		b.routed(49999, "X-Access-Token", b.info.EnvdAccessToken)...)
	check(b.t, err)
	if a.status != http.StatusOK {
		b.t.Fatalf("execute: %d %s", a.status, a.body)
	}
	if strings.ContainsFunc(string(a.body), func(r rune) bool { return r >= utf8.RuneSelf }) {
		b.t.Errorf("the answer is not ASCII: %q", a.body)
	}
	var lines []map[string]any
	for text := range strings.Lines(string(a.body)) {
		var l map[string]any
		check(b.t, json.Unmarshal([]byte(text), &l))
		lines = append(lines, l)
	}
	return lines
}

// TestInterpreterWithoutToken runs code without a token. It works only in a sandbox whose client did
// not ask for a secure one, and only without a wrong token and without a page of a browser.
func TestInterpreterWithoutToken(t *testing.T) {
	t.Parallel()
	d := server(t)
	made := func(path string, more map[string]any) *box {
		body := map[string]any{"templateID": "base", "timeout": 60}
		maps.Copy(body, more)
		a := d.api(t, "POST", path, body)
		expect(t, path, a, 201)
		b := &box{t: t, ctx: deadline(t), d: d}
		check(t, json.Unmarshal(a.body, &b.info))
		return b
	}
	open := made("/sandboxes", nil)
	for _, c := range []struct {
		name    string
		b       *box
		status  int
		headers []string
	}{
		{"an older client", open, 200, nil},
		{"a wrong token", open, 403, []string{"X-Access-Token", "wrong"}},
		{"a wrong traffic token", open, 403, []string{"E2B-Traffic-Access-Token", "wrong"}},
		{"a page", open, 403, []string{"Origin", "https://example.com"}},
		{"secure", made("/sandboxes", map[string]any{"secure": true}), 403, nil},
		{"version 2", made("/v2/sandboxes", map[string]any{"secure": false}), 403, nil},
		{"private ports", made("/sandboxes", map[string]any{
			"network": map[string]any{"allowPublicTraffic": false},
		}), 403, nil},
	} {
		a, err := d.send(c.b.ctx, "POST", "/execute", map[string]any{"code": "1"},
			c.b.routed(49999, c.headers...)...)
		check(t, err)
		expect(t, c.name, a, c.status)
	}
	anonymous := *open
	anonymous.info.EnvdAccessToken = ""
	expect(t, "commands", anonymous.envd("POST", "/process.Process/List", map[string]any{}), 401)
}

// TestExecute runs code as LiteLLM does, which has no SDK.
func TestExecute(t *testing.T) {
	t.Parallel()
	b := create(t, server(t), map[string]any{
		"templateID": "code-interpreter-v1", "secure": true, "allow_internet_access": false,
	})
	lines := b.execute(map[string]any{
		"code": "print('ü')\n'é'", "context_id": nil, "env_vars": map[string]string{},
	})
	var types []string
	for _, l := range lines {
		types = append(types, l["type"].(string))
		switch l["type"] {
		case "stdout":
			if l["text"] != "ü\n" || l["timestamp"] == nil {
				t.Errorf("stdout is %v", l)
			}
		case "result":
			if l["text"] != "é" || l["is_main_result"] != true {
				t.Errorf("the result is %v", l)
			}
		}
	}
	if got := strings.Join(types, " "); got != "number_of_executions stdout result end_of_execution" {
		t.Errorf("the lines are %s", got)
	}
	access := []string{"X-Access-Token", b.info.EnvdAccessToken}
	for _, c := range []struct {
		name, body string
		status     int
	}{
		{"a context and a language", `{"code":"1","context_id":"x","language":"python"}`, 400},
		{"an unknown context", `{"code":"1","context_id":"nothing"}`, 404},
		{"an unknown language", `{"code":"1","language":"klingon"}`, 500},
		{"no JSON", `{"code":`, 400},
		{"no code", `[]`, 400},
	} {
		a, err := b.d.send(b.ctx, "POST", "/execute", []byte(c.body), b.routed(49999, access...)...)
		check(t, err)
		expect(t, c.name, a, c.status)
	}
	traffic := b.routed(49999, "E2B-Traffic-Access-Token", b.info.TrafficAccessToken)
	a, err := b.d.send(b.ctx, "GET", "/contexts", nil, traffic...)
	check(t, err)
	expect(t, "contexts", a, 200, `"python"`)
	a, err = b.d.send(b.ctx, "GET", "/health", nil, traffic...)
	check(t, err)
	if a.status != 200 || !strings.Contains(string(a.body), "OK") {
		t.Errorf("health: %d %s", a.status, a.body)
	}
}
