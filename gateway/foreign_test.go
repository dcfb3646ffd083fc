package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/internal/e2bname"
)

// sandboxWorld is a gateway with a sandbox of the tenant t1, whose id for clients of E2B is iabc.
func sandboxWorld(t *testing.T, options e2bname.Options) (w *world, access, traffic string) {
	t.Helper()
	w = newWorld(t, func(c *Config) { c.E2BDomain = "sbx.example" })
	w.fake.change(func() {
		w.fake.sessions["s_abc"] = "t1"
		w.fake.labels["s_abc"] = map[string]string{e2bname.LabelOptions: options.Label()}
	})
	w.awaitKeys()
	token := func(purpose string) string {
		text, err := w.g.auth.SandboxToken(purpose, "s_abc")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	return w, token(auth.SandboxAccess), token(auth.SandboxTraffic)
}

// at changes a request to one for a port of a sandbox, by the two headers.
func at(id, port string, header ...string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("E2b-Sandbox-Id", id)
		r.Header.Set("E2b-Sandbox-Port", port)
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
	}
}

// TestForeignAuthorization sends requests for a sandbox with all credentials that must not open it,
// and with those that open it, by headers and by host names.
func TestForeignAuthorization(t *testing.T) {
	w, access, traffic := sandboxWorld(t, e2bname.Options{PrivatePorts: true})
	host := func(name string, header ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.Host = name
			for i := 0; i+1 < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
		}
	}
	for name, c := range map[string]struct {
		path   string
		token  string
		change func(*http.Request)
		status int
	}{
		"health":          {"/health", "", at("iabc", "49983"), 204},
		"health by host":  {"/health", "", host("49983-iabc.sbx.example"), 204},
		"with more parts": {"/health", "", host("49983-iabc-x.sbx.example:8080"), 204},
		"sandbox host": {"/health", "", func(r *http.Request) {
			at("iabc", "49983")(r)
			r.Host = "sandbox.sbx.example"
		}, 204},
		"no token":         {"/envs", "", at("iabc", "49983"), 401},
		"wrong token":      {"/envs", "", at("iabc", "49983", "X-Access-Token", "no"), 401},
		"traffic token":    {"/envs", "", at("iabc", "49983", "X-Access-Token", traffic), 401},
		"key of the owner": {"/envs", tokenAll, at("iabc", "49983"), 401},
		"code, no token":   {"/health", "", at("iabc", "49999"), 403},
		"code, access":     {"/health", "", at("iabc", "49999", "X-Access-Token", access), 200},
		"code, traffic": {
			"/health", "",
			at("iabc", "49999", "E2b-Traffic-Access-Token", traffic), 200,
		},
		"program, no token": {"/", "", at("iabc", "80"), 403},
		"program, access":   {"/", "", at("iabc", "80", "X-Access-Token", access), 403},
		"no port":           {"/health", "", at("iabc", ""), 400},
		"port 0":            {"/health", "", at("iabc", "0"), 400},
		"port too large":    {"/health", "", at("iabc", "65536"), 400},
		"one header": {"/health", "", func(r *http.Request) {
			r.Header.Set("E2b-Sandbox-Id", "iabc")
		}, 400},
		"the other header": {"/health", "", func(r *http.Request) {
			r.Header.Set("E2b-Sandbox-Port", "49983")
		}, 400},
		"unknown sandbox":    {"/health", "", at("izzz", "49983"), 502},
		"impossible sandbox": {"/health", "", at("../../x", "49983"), 502},
		"unknown by host":    {"/health", "", host("49983-izzz.sbx.example"), 502},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.do("GET", c.path, c.token, nil, c.change)
			body := read(t, r)
			if r.StatusCode != c.status {
				t.Fatalf("status %d, want %d: %s", r.StatusCode, c.status, body)
			}
			if c.status < 400 {
				return
			}
			var e struct {
				Code    int
				Message string
			}
			if err := json.Unmarshal([]byte(body), &e); err != nil || e.Code != c.status ||
				e.Message == "" {
				t.Errorf("the body is %s", body)
			}
		})
	}
}

// TestForeignPorts reaches programs without a token, as pages of every origin do.
func TestForeignPorts(t *testing.T) {
	w, _, _ := sandboxWorld(t, e2bname.Options{})
	r := w.do("GET", "/", "", nil, at("iabc", "8000", "Origin", "https://any.example"))
	if r.StatusCode == 401 || r.StatusCode == 403 {
		t.Errorf("a public port answers %d: %s", r.StatusCode, read(t, r))
	}
	closed := w.do("GET", "/", "", nil, at("iabc", "1"))
	if body := read(t, closed); closed.StatusCode != 502 || !strings.Contains(body, `"port":1`) ||
		!strings.Contains(body, `"sandboxId":"iabc"`) {
		t.Errorf("a closed port answers %d: %s", closed.StatusCode, body)
	}
}

// TestForeignPreflight checks that pages of every origin may use the data plane, and that their
// preflight needs no credentials.
func TestForeignPreflight(t *testing.T) {
	w, _, _ := sandboxWorld(t, e2bname.Options{PrivatePorts: true})
	for _, port := range []string{"49983", "49999"} {
		r := w.do("OPTIONS", "/anything", "", nil, at("iabc", port, "Origin",
			"https://any.example", "Access-Control-Request-Method", "POST"))
		h := r.Header
		if r.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != "*" ||
			h.Get("Access-Control-Allow-Headers") != "*" {
			t.Errorf("%s: %d %v", port, r.StatusCode, h)
		}
	}
	r := w.do("OPTIONS", "/envs", "", nil, at("iabc", "49983", "Origin", "https://any.example"))
	if r.StatusCode != 401 {
		t.Errorf("OPTIONS that is no preflight: %d", r.StatusCode)
	}
}

// TestHexKey authenticates with the form of a key that clients of E2B accept.
func TestHexKey(t *testing.T) {
	w := newWorld(t, nil)
	_, secret := w.key("owner")
	if r := w.do("GET", "/v1", e2bname.HexKey(secret), nil, nil); r.StatusCode != 200 {
		t.Errorf("the key in hexadecimal form: %d", r.StatusCode)
	}
	if r := w.do("GET", "/v1", e2bname.HexKey(secret+"x"), nil, nil); r.StatusCode != 401 {
		t.Errorf("another key: %d", r.StatusCode)
	}
}
