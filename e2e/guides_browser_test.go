package e2e

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/testenv"
)

// TestChatGuide starts the server of the quick start for chats, and presses the run
// buttons of its page. The second one uses the variables of the first one.
func TestChatGuide(t *testing.T) {
	t.Parallel()
	address, err := testenv.FreeAddress()
	check(t, err)
	_, port, _ := net.SplitHostPort(address)
	chat := exec.CommandContext(deadline(t), "node", guides+"/quickstart-chat/server.mjs")
	chat.Env = append(os.Environ(), "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token,
		"PORT="+port)
	chat.Stderr = os.Stderr
	out, err := chat.StdoutPipe()
	check(t, err)
	check(t, chat.Start())
	t.Cleanup(func() { _ = chat.Process.Kill(); _ = chat.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "a chat at ")
	if !found {
		t.Fatalf("the chat prints %q, %v", line, err)
	}
	pressRun(t, address, "3 prices", "sum: 16")
	var sessions struct{ Sessions []struct{ ID string } }
	_, err = server.Get(deadline(t), "/v1/sessions?name=chat-42", &sessions)
	check(t, err)
	if len(sessions.Sessions) != 1 {
		t.Fatalf("the conversation has %d sandboxes", len(sessions.Sessions))
	}
	code, err := server.JSON(deadline(t), http.MethodDelete,
		"/v1/sessions/"+sessions.Sessions[0].ID, nil, nil)
	if err != nil || code >= 300 {
		t.Errorf("deleting the sandbox: %d, %v", code, err)
	}
}

// TestBrowserGuide serves the page of the guide to browsers at an origin of its own,
// with tickets from the guide's program, and presses its button.
func TestBrowserGuide(t *testing.T) {
	t.Parallel()
	folder := guides + "/browser/"
	page, err := os.ReadFile(folder + "browser.html")
	check(t, err)
	script := filepath.Join(t.TempDir(), "browser.js")
	bundle(t, folder+"browser.ts", script)
	ctx := deadline(t)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "GET /":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write(bytes.ReplaceAll(page, []byte("SANDGATE_URL"), []byte(server.URL)))
		case "GET /browser.js":
			http.ServeFile(w, r, script)
		case "POST /ticket":
			ticket := exec.CommandContext(ctx, "bash", folder+"ticket.sh", "http://"+r.Host)
			ticket.Env = append(os.Environ(), "SANDGATE_URL="+server.URL,
				"SANDGATE_TOKEN="+server.Token)
			out, err := ticket.Output()
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
			}
			_, _ = w.Write(out)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	pressRun(t, site.URL, "line 3")
}

// pressRun opens a page in Chromium, presses its run buttons one after another, and
// waits for a text after each.
func pressRun(t *testing.T, address string, texts ...string) {
	t.Helper()
	script, err := filepath.Abs("testdata/guides/press.mjs")
	check(t, err)
	out, err := exec.CommandContext(deadline(t), "node",
		append([]string{script, address}, texts...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
