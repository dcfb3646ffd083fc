package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/surfaces"
	"github.com/sandgate/sandgate/protocol"
)

// TestBasicOnEverySurface: the password of HTTP Basic is a key on every surface for chat
// applications, because many of them can send nothing else. A wrong password is refused.
func TestBasicOnEverySurface(t *testing.T) {
	w := newWorld(t, nil)
	w.session()
	tried := map[string]bool{}
	for _, r := range w.g.routes {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		if surfaces.Has(name, "network") && r.Access != protocol.ScopeOpen && r.match == nil {
			tried[name] = true
			for password, want := range map[string]bool{tokenAll: true, "wrong": false} {
				resp := w.do(r.Method, samplePath(r.Path), "", nil, func(q *http.Request) {
					q.SetBasicAuth("any", password)
				})
				if got := resp.StatusCode != http.StatusUnauthorized; got != want {
					t.Errorf("%s %s with the password %q: %d", r.Method, r.Path, password,
						resp.StatusCode)
				}
			}
		}
	}
	for _, name := range []string{surfaces.LibreChat, surfaces.MCP} {
		if !tried[name] {
			t.Errorf("no route of %s was tried", name)
		}
	}
}
