package e2b

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHeadersRoute sends requests whose headers name a sandbox only in part, wrongly, or not at all.
func TestHeadersRoute(t *testing.T) {
	t.Parallel()
	d := server(t)
	b := create(t, d, nil)
	id, port := "E2b-Sandbox-Id", "E2b-Sandbox-Port"
	for _, c := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"both", b.routed(49983), http.StatusNoContent},
		{"no port", []string{id, b.info.SandboxID}, http.StatusBadRequest},
		{"no id", []string{port, "49983"}, http.StatusBadRequest},
		{"a port that is no number", []string{id, b.info.SandboxID, port, "x"}, http.StatusBadRequest},
		{"port 0", []string{id, b.info.SandboxID, port, "0"}, http.StatusBadRequest},
		{"port 65536", []string{id, b.info.SandboxID, port, "65536"}, http.StatusBadRequest},
		{"an invalid id", []string{id, "../x", port, "49983"}, http.StatusBadGateway},
		{"an unknown id", []string{id, "i0123456789abcdefghij", port, "49983"}, http.StatusBadGateway},
	} {
		a, err := d.send(b.ctx, "GET", "/health", nil, c.headers...)
		check(t, err)
		expect(t, c.name, a, c.status)
		if c.status >= 400 {
			if code, message := a.code(t); code != float64(c.status) || message == "" {
				t.Errorf("%s: the body is %s", c.name, a.body)
			}
		}
	}
}

// TestGoneSandboxes distinguishes sandboxes that were killed, that expired and that never existed.
func TestGoneSandboxes(t *testing.T) {
	t.Parallel()
	d := server(t)
	killed, expired := create(t, d, nil), create(t, d, map[string]any{"timeout": 1})
	expect(t, "kill", d.api(t, "DELETE", "/sandboxes/"+killed.info.SandboxID, nil), 204)
	expect(t, "kill again", d.api(t, "DELETE", "/sandboxes/"+killed.info.SandboxID, nil), 404)
	eventually(t, "it expires", func() bool {
		return expired.envd("GET", "/health", nil).status == http.StatusBadGateway
	})
	expect(t, "killed", killed.envd("GET", "/health", nil), 502, "killed", killed.info.SandboxID)
	expect(t, "expired", expired.envd("GET", "/health", nil), 502, "expired")
	never := *killed
	never.info.SandboxID = "i0123456789abcdefghij"
	expect(t, "never", never.envd("GET", "/health", nil), 502, "never existed")
	for _, path := range []string{
		"/process.Process/List", "/filesystem.Filesystem/Stat", "/files?path=x",
	} {
		expect(t, path, killed.envd("POST", path, map[string]any{}), 502, "killed")
	}
	a, err := d.send(killed.ctx, "POST", "/execute", map[string]any{"code": "1"},
		killed.routed(49999, "X-Access-Token", killed.info.EnvdAccessToken)...)
	check(t, err)
	expect(t, "execute", a, 502, "killed")
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

// other returns the key of another tenant.
func other(t *testing.T, d *deployment) *deployment {
	t.Helper()
	var made struct{ Secret string }
	code, err := d.JSON(deadline(t), "POST", "/v1/keys", map[string]any{
		"role": "owner", "tenant": "other-" + strings.ToLower(t.Name()),
	}, &made)
	if err != nil || made.Secret == "" {
		t.Fatalf("a key: %d, %v", code, err)
	}
	o := *d
	o.key = "e2b_" + fmt.Sprintf("%x", made.Secret)
	return &o
}

// TestOtherTenants uses the key and the tokens of one tenant for another tenant's sandbox.
func TestOtherTenants(t *testing.T) {
	t.Parallel()
	d := server(t)
	b, o := create(t, d, nil), other(t, d)
	path := "/sandboxes/" + b.info.SandboxID
	for _, c := range []struct{ method, path string }{
		{"GET", path},
		{"DELETE", path},
		{"POST", path + "/timeout"},
		{"POST", path + "/pause"},
		{"POST", path + "/connect"},
		{"POST", "/v2" + path + "/connect"},
		{"POST", path + "/resume"},
		{"POST", path + "/refreshes"},
		{"POST", path + "/snapshots"},
		{"POST", path + "/fork"},
		{"GET", path + "/metrics"},
		{"GET", path + "/logs"},
		{"PUT", path + "/network"},
	} {
		var body any
		switch _, call, _ := strings.Cut(c.path, b.info.SandboxID); call {
		case "/timeout", "/connect", "/resume", "/fork":
			body = map[string]any{"timeout": 10}
		case "/refreshes":
			body = map[string]any{"duration": 10}
		case "/pause", "/snapshots", "/network":
			body = map[string]any{}
		}
		a := o.api(t, c.method, c.path, body)
		expect(t, c.method+" "+c.path, a, http.StatusNotFound)
		if code, _ := a.code(t); code != float64(404) {
			t.Errorf("%s %s: %s", c.method, c.path, a.body)
		}
	}
	var list []map[string]any
	check(t, json.Unmarshal(o.api(t, "GET", "/v2/sandboxes", nil).body, &list))
	if len(list) != 0 {
		t.Errorf("another tenant lists %v", list)
	}
	theirs := create(t, o, nil)
	mixed := *b
	mixed.info.EnvdAccessToken = theirs.info.EnvdAccessToken
	expect(t, "list with another token", mixed.envd("POST", "/process.Process/List",
		map[string]any{}), http.StatusUnauthorized)
	expect(t, "file with another token", mixed.envd("GET", "/files?path=/etc/hostname", nil),
		http.StatusUnauthorized)
	a, err := d.send(b.ctx, "POST", "/execute", map[string]any{"code": "1"},
		b.routed(49999, "X-Access-Token", theirs.info.EnvdAccessToken)...)
	check(t, err)
	if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
		t.Errorf("execute with another token: %d %s", a.status, a.body)
	}
	expect(t, "it is still there", b.envd("GET", "/health", nil), http.StatusNoContent)
}

// methods are all methods of envd with a request that is valid.
func methods() map[string]map[string]any {
	missing := map[string]any{"pid": 999_999}
	return map[string]map[string]any{
		"process.Process/List":                   {},
		"process.Process/SendInput":              {"process": missing, "input": map[string]any{"stdin": "eA=="}},
		"process.Process/SendSignal":             {"process": missing, "signal": "SIGNAL_SIGTERM"},
		"process.Process/CloseStdin":             {"process": missing},
		"process.Process/Update":                 {"process": missing, "pty": map[string]any{"size": map[string]any{"cols": 1, "rows": 1}}},
		"filesystem.Filesystem/Stat":             {"path": "/etc/hostname"},
		"filesystem.Filesystem/MakeDir":          {"path": "of-raw"},
		"filesystem.Filesystem/Move":             {"source": "nothing", "destination": "x"},
		"filesystem.Filesystem/ListDir":          {"path": "/etc"},
		"filesystem.Filesystem/Remove":           {"path": "nothing"},
		"filesystem.Filesystem/CreateWatcher":    {"path": "/tmp"},
		"filesystem.Filesystem/GetWatcherEvents": {"watcherId": "none"},
		"filesystem.Filesystem/RemoveWatcher":    {"watcherId": "none"},
	}
}

// streams are the methods whose answer is a stream.
func streams() map[string]map[string]any {
	return map[string]map[string]any{
		"process.Process/Start":          start("true"),
		"process.Process/Connect":        {"process": map[string]any{"pid": 999_999}},
		"filesystem.Filesystem/WatchDir": {"path": "/tmp"},
	}
}

// TestTokensAreRequired calls each method of envd without a token and with a wrong one.
func TestTokensAreRequired(t *testing.T) {
	t.Parallel()
	d := server(t)
	b := create(t, d, nil)
	for _, token := range []string{"", "wrong", d.key, b.info.EnvdAccessToken + "x"} {
		wrong := *b
		wrong.info.EnvdAccessToken = token
		for method, request := range methods() {
			expect(t, method, wrong.envd("POST", "/"+method, request), http.StatusUnauthorized,
				"unauthenticated")
		}
		for method, request := range streams() {
			raw, err := json.Marshal(request)
			check(t, err)
			a := wrong.envd("POST", "/"+method, envelope(0, raw), "Content-Type",
				"application/connect+json")
			if a.status != http.StatusUnauthorized && !strings.Contains(string(a.body),
				"unauthenticated") {
				t.Errorf("%s: %d %s", method, a.status, a.body)
			}
		}
		for _, path := range []string{"/files?path=/etc/hostname", "/metrics", "/envs"} {
			expect(t, path, wrong.envd("GET", path, nil), http.StatusUnauthorized)
		}
		expect(t, "upload", wrong.envd("POST", "/files?path=x", []byte("x"), "Content-Type",
			"application/octet-stream"), http.StatusUnauthorized)
	}
	for _, path := range []string{"/execute", "/contexts"} {
		a, err := d.send(b.ctx, "POST", path, map[string]any{"code": "1"}, b.routed(49999)...)
		check(t, err)
		if a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
			t.Errorf("%s without a token: %d %s", path, a.status, a.body)
		}
	}
}

// TestInvalidCalls sends each method of envd the wrong codec, messages that are cut, too large or no
// JSON, and unknown fields.
func TestInvalidCalls(t *testing.T) {
	t.Parallel()
	b := create(t, server(t), nil)
	large := []byte(`{"path":"` + strings.Repeat("x", 64<<20) + `"}`)
	for method, request := range methods() {
		path := "/" + method
		expect(t, method+", a wrong codec", b.envd("POST", path, []byte("{}"), "Content-Type",
			"text/plain"), http.StatusUnsupportedMediaType)
		expect(t, method+", no JSON", b.envd("POST", path, []byte(`{"path":`)), 400,
			"invalid_argument")
		expect(t, method+", another type", b.envd("POST", path, []byte(`[1]`)), 400,
			"invalid_argument")
		expect(t, method+", GET", b.envd("GET", path, nil), http.StatusMethodNotAllowed)
		request["noSuchField"] = map[string]any{"x": []int{1}}
		if a := b.envd("POST", path, request); a.status == 400 && strings.Contains(string(a.body),
			"noSuchField") {
			t.Errorf("%s, an unknown field: %d %s", method, a.status, a.body)
		}
	}
	expect(t, "a large message", b.envd("POST", "/filesystem.Filesystem/Stat", large), 429,
		"resource_exhausted")
	expect(t, "an unknown method", b.envd("POST", "/process.Process/Fly", map[string]any{}), 404)
	for method, request := range streams() {
		path := "/" + method
		raw, err := json.Marshal(request)
		check(t, err)
		whole := envelope(0, raw)
		for name, body := range map[string][]byte{
			"a cut message": whole[:len(whole)-3], "no message": {}, "half a head": whole[:3],
			"a length above the limit": envelope(0, raw)[:1:1],
			"no JSON":                  envelope(0, []byte("{")), "two messages": append(whole, whole...),
		} {
			if name == "a length above the limit" {
				body = append(body, 0x7f, 0xff, 0xff, 0xff, '{')
			}
			if name == "two messages" && method == "process.Process/Start" {
				continue // it may have started before the second one is read
			}
			a := b.envd("POST", path, body, "Content-Type", "application/connect+json",
				"Connect-Protocol-Version", "1", "Connect-Timeout-Ms", "3000")
			if a.status != http.StatusOK || !strings.Contains(string(a.body), `"error"`) {
				t.Errorf("%s, %s: %d %q", method, name, a.status, a.body)
			}
		}
	}
	expect(t, "afterwards", b.envd("GET", "/health", nil), http.StatusNoContent)
}
