package gateway

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// accessToken returns an access token of the provider.
func (l *liar) accessToken(t *testing.T, replace map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": l.srv.URL, "aud": "http://localhost/mcp", "sub": "ann@example.com",
		"exp": time.Now().Add(time.Hour).Unix(), "org": "acme", "groups": []string{"owner"},
	}
	maps.Copy(claims, replace)
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return oidctest.SignIDToken(l.key, "k", "RS256", string(text))
}

// TestAccessTokensOfMCP: a host without credentials finds the provider, and its access tokens open the
// path of MCP and no other.
func TestAccessTokensOfMCP(t *testing.T) {
	l := newLiar(t)
	w := signInWorld(t, l, nil)
	const list = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":` +
		`"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	post := func(token string) *http.Response {
		t.Helper()
		return w.do("POST", "/mcp", token, strings.NewReader(list), func(r *http.Request) {
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
		})
	}
	found := post("")
	_, address, _ := strings.Cut(found.Header.Get("Www-Authenticate"), `resource_metadata="`)
	path, ok := strings.CutPrefix(strings.TrimSuffix(address, `"`), "http://localhost")
	if found.StatusCode != http.StatusUnauthorized || !ok {
		t.Fatalf("without a token: %d, the description is at %q", found.StatusCode, address)
	}
	for _, path := range []string{path, "/.well-known/oauth-protected-resource"} {
		var d struct {
			Resource string
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
		}
		r := w.do("GET", path, "", nil, nil)
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil ||
			d.Resource != "http://localhost/mcp" || len(d.Servers) != 1 ||
			d.Servers[0] != l.srv.URL || len(d.Scopes) == 0 ||
			r.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %+v %v", path, r.StatusCode, d, err)
		}
	}
	for label, x := range map[string]struct {
		token  string
		status int
	}{
		"a token":          {l.accessToken(t, nil), http.StatusOK},
		"another audience": {l.accessToken(t, map[string]any{"aud": "sandgate"}), 401},
		"a user without a role": {
			l.accessToken(t, map[string]any{"groups": []string{"cooks"}}), 403,
		},
		"a viewer": {l.accessToken(t, map[string]any{"groups": "viewer"}), 403},
		"a key":    {"sgk_x", 401},
	} {
		if r := post(x.token); r.StatusCode != x.status {
			text, _ := io.ReadAll(r.Body)
			t.Errorf("%s: %d %s", label, r.StatusCode, text)
		}
	}
	for _, path := range []string{"/v1", "/v1/sessions"} {
		if r := w.do("GET", path, l.accessToken(t, nil), nil, nil); r.StatusCode != 401 {
			t.Errorf("%s with a token for MCP: %d", path, r.StatusCode)
		}
	}
	other := newWorld(t, nil)
	other.awaitKeys()
	r := other.do("GET", "/.well-known/oauth-protected-resource/mcp", "", nil, nil)
	if r.StatusCode != http.StatusNotFound {
		t.Errorf("the description without a provider: %d", r.StatusCode)
	}
	r = other.do("POST", "/mcp", l.accessToken(t, nil), strings.NewReader(list), nil)
	if r.StatusCode != 401 || strings.Contains(r.Header.Get("Www-Authenticate"), "metadata") {
		t.Errorf("a token without a provider: %d %v", r.StatusCode, r.Header)
	}
}
