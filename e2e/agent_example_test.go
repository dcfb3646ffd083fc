package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// scriptedModel answers as a model that runs the code of the last message, and then repeats the result.
func scriptedModel(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var p struct {
			Model    string
			Messages []struct{ Role, Content string }
			Tools    []struct{ Function struct{ Name string } }
		}
		err := json.NewDecoder(r.Body).Decode(&p)
		if err != nil || r.URL.Path != "/v1/chat/completions" || p.Model != "scripted" ||
			r.Header.Get("Authorization") != "Bearer model-key" || p.Tools[0].Function.Name != "run_code" {
			t.Errorf("the model got %s %+v %v", r.URL.Path, p, err)
		}
		last := p.Messages[len(p.Messages)-1]
		message := map[string]any{"role": "assistant", "content": "It is " + last.Content}
		if last.Role == "user" {
			code, err := json.Marshal(map[string]any{"language": "python", "code": last.Content})
			check(t, err)
			message = map[string]any{
				"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
					"id": "call_1", "type": "function",
					"function": map[string]any{"name": "run_code", "arguments": string(code)},
				}},
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": message}}})
	}))
	t.Cleanup(s.Close)
	return s
}

// chatPart is a part of an answer of the example.
type chatPart struct {
	Type, ID, Text string
	Pictures       []string
	Files          []struct{ Path, URL string }
}

// TestAgentExample talks to the chat of examples/agent with a scripted model: a conversation keeps its
// session, which the run buttons of its page share, and no other conversation reaches it.
func TestAgentExample(t *testing.T) {
	model := scriptedModel(t)
	cmd := exec.CommandContext(deadline(t), "node", "../examples/agent/server.mjs")
	cmd.Env = append(os.Environ(), "PORT=0", "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token,
		"MODEL_URL="+model.URL+"/v1", "MODEL=scripted", "MODEL_KEY=model-key")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	address := strings.TrimSpace(strings.TrimPrefix(said, "a chat at "))

	post := func(path, body string) *http.Response {
		t.Helper()
		r, err := http.Post(address+path, "text/plain", strings.NewReader(body))
		check(t, err)
		t.Cleanup(func() { r.Body.Close() })
		return r
	}
	ask := func(conversation, code string) (id string, run, text chatPart) {
		t.Helper()
		lines := json.NewDecoder(post("/chat/"+conversation, code).Body)
		var parts []chatPart
		for {
			var p chatPart
			if err := lines.Decode(&p); err == io.EOF {
				break
			} else {
				check(t, err)
			}
			parts = append(parts, p)
		}
		if len(parts) != 3 || parts[0].Type != "conversation" || parts[1].Type != "run" {
			t.Fatalf("%s: %+v", code, parts)
		}
		return parts[0].ID, parts[1], parts[2]
	}
	id, run, text := ask("", "n = 41; open('made.csv', 'w').write('a,b'); n")
	if !strings.HasPrefix(text.Text, "It is 41") || len(run.Files) != 1 {
		t.Fatalf("%+v, %+v", run, text)
	}
	file, err := http.Get(run.Files[0].URL)
	check(t, err)
	defer file.Body.Close()
	if content, err := io.ReadAll(file.Body); err != nil || string(content) != "a,b" {
		t.Errorf("the file of the conversation: %s %v", content, err)
	}
	if _, _, text := ask(id, "n + 1"); text.Text != "It is 42" {
		t.Errorf("the next message: %+v", text)
	}
	if _, run, _ := ask("", "n"); !strings.Contains(run.Text, "NameError") {
		t.Errorf("another conversation: %+v", run)
	}

	var made struct{ Ticket string }
	check(t, json.NewDecoder(post("/ticket/"+id, "").Body).Decode(&made))
	body := strings.NewReader(`{"language":"python","code":"open('two.csv', 'w').write(str(n))"}`)
	req, err := http.NewRequestWithContext(deadline(t), "POST", server.URL+"/v1/run", body)
	check(t, err)
	req.Header.Set("Authorization", "Bearer "+made.Ticket)
	req.Header.Set("Origin", address)
	res, err := http.DefaultClient.Do(req)
	check(t, err)
	defer res.Body.Close()
	var pressed protocol.RunResult
	check(t, json.NewDecoder(res.Body).Decode(&pressed))
	if pressed.Status != "ok" || len(pressed.Files) != 1 || pressed.Files[0].URL == "" {
		t.Errorf("a run button of the page: %d %+v", res.StatusCode, pressed)
	}
	if r := post("/ticket/unknown", ""); r.StatusCode != http.StatusNotFound {
		t.Errorf("a ticket for an unknown conversation: %d", r.StatusCode)
	}
	page, err := http.Get(address)
	check(t, err)
	defer page.Body.Close()
	if html, err := io.ReadAll(page.Body); err != nil || !strings.Contains(string(html), "python") {
		t.Errorf("the page offers no languages: %s %v", html, err)
	}
}
