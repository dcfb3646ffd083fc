package bridge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRun passes messages of both eras on, and the answers back.
func TestRun(t *testing.T) {
	var seen []string
	handle := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := r.Header
		seen = append(seen, fmt.Sprint(h.Get("Authorization"), "|", h.Get("Mcp-Session-Id"), "|",
			h.Get("Mcp-Protocol-Version"), "|", h.Get("Mcp-Method"), "|", h.Get("Mcp-Name")))
		switch text := string(body); {
		case r.Method == http.MethodDelete:
		case strings.Contains(text, "notifications/"):
			w.WriteHeader(http.StatusAccepted)
		case strings.Contains(text, "initialize"):
			w.Header().Set("Mcp-Session-Id", "c1")
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": keepalive\n\nevent: message\n",
				`data: {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}`, "\n\n")
		case strings.Contains(text, "refused"):
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"kind":"unauthenticated","message":"no such key"}}`)
		case strings.Contains(text, "cut"):
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"jsonrpc":"2.0","method":"notifications/progress"}`, "\n\n")
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{\"jsonrpc\":\"2.0\",\n\"id\":5,\"result\":{}}")
		}
	}
	server := httptest.NewServer(http.HandlerFunc(handle))
	defer server.Close()
	say := func(line string) string {
		t.Helper()
		seen = nil
		var out bytes.Buffer
		b := New(Config{
			URL: server.URL, Header: http.Header{"Authorization": {"Bearer k"}},
			HTTP: server.Client(), In: strings.NewReader(line), Out: &out,
		})
		if err := b.Run(context.Background()); err != nil {
			t.Error(err)
		}
		return out.String()
	}
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n"
	out := say(begin + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, "2025-11-25") ||
		seen[0] != "Bearer k||||" || seen[1] != "Bearer k|c1|2025-11-25||" || len(seen) != 3 {
		t.Errorf("%q after %v", out, seen)
	}
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":2,"method":"refused"}`: "401 Unauthorized: no such key",
		"no message": "-32700",
	} {
		if out := say(line); !strings.Contains(out, want) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: %q, should have %q", line, out, want)
		}
	}
	call := strings.Replace(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"cut",`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"VERSION"}}}`, "VERSION", stateless, 1)
	if out := say(call); !strings.Contains(out, "was lost during the call") ||
		seen[0] != "Bearer k||"+stateless+"|tools/call|cut" {
		t.Errorf("a cut answer: %q after %v", out, seen)
	}
	server.Close()
	if out := say(`{"jsonrpc":"2.0","id":2,"method":"x"}`); !strings.Contains(out, "cannot be reached") {
		t.Errorf("without a server: %q", out)
	}
}
