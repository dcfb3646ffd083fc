package e2e

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// ragflowRun is the answer to a run of RAGFlow.
type ragflowRun struct {
	Status, Stdout, Stderr string
	ExitCode               int      `json:"exit_code"`
	Limit                  string   `json:"resource_limit_type"`
	Time                   float64  `json:"time_used_ms"`
	Memory                 *float64 `json:"memory_used_kb"`
	Artifacts              []struct {
		Name    string
		MIME    string `json:"mime_type"`
		Size    int
		Content []byte `json:"content_b64"`
	}
	Result *struct {
		Present bool
		Value   json.RawMessage
		Type    string
	}
	Detail any
}

// TestRAGFlow makes the requests of RAGFlow's self-managed provider.
func TestRAGFlow(t *testing.T) {
	ctx := deadline(t)
	key := otherTenant(t, ctx, "ragflow")
	// RAGFlow sends no credential of its own: its endpoint is http://x:KEY@host/ragflow.
	c := &caller{t, ctx, "/ragflow", func(r *http.Request) { r.SetBasicAuth("x", key) }}
	run := func(language, code string, arguments any) (r ragflowRun) {
		t.Helper()
		status := c.json("POST", "/run", map[string]any{
			"code_b64": base64.StdEncoding.EncodeToString([]byte(code)), "language": language,
			"arguments": arguments,
		}, &r)
		if status != 200 {
			t.Fatalf("%d %+v", status, r)
		}
		return r
	}
	r := run("python", `import matplotlib.pyplot as plt

def main(name, numbers):
    print("called")
    plt.plot(numbers)
    plt.savefig("artifacts/plot.png")
    open("table.csv", "w").write("a,b\n1,2\n")
    open("notes.txt", "w").write("no artifact")
    return {"name": name, "sum": sum(numbers)}

if __name__ == "__main__":
    raise SystemExit("the code is a module")
`, map[string]any{"name": "é", "numbers": []int{1, 2, 3}})
	if r.Status != "success" || r.Stdout != "called\n" || r.ExitCode != 0 || r.Result == nil ||
		string(r.Result.Value) != `{"name":"\u00e9","sum":6}` || !r.Result.Present ||
		r.Result.Type != "json" || r.Time <= 0 || r.Memory == nil || *r.Memory < 1000 {
		t.Errorf("%+v %s", r, r.Result.Value)
	}
	var names []string
	for _, a := range r.Artifacts {
		names = append(names, a.Name+" "+a.MIME)
		if a.Size != len(a.Content) || a.Name == "plot.png" &&
			!strings.HasPrefix(string(a.Content), "\x89PNG") {
			t.Errorf("%s has %d bytes", a.Name, len(a.Content))
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"plot.png image/png", "table.csv text/csv"}) {
		t.Errorf("the artifacts are %v", names)
	}
	for name, code := range map[string]string{
		"declared": "const main = async ({n}) => { await null; return [n * 2]; }",
		"ES":       "export async function main({n}) { return [n * 2] }",
	} {
		r = run("nodejs", code, map[string]any{"n": 21})
		if r.Status != "success" || r.Result == nil || string(r.Result.Value) != "[42]" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	r = run("nodejs", "exports.main = () => { console.log('x'); throw new Error('bad') }", nil)
	if r.Status != "program_error" || r.Stdout != "" || r.ExitCode != 1 || r.Result != nil ||
		!strings.HasPrefix(r.Stderr, "Error: bad\n    at exports.main (/home/user/main.js:1:") {
		t.Errorf("an error: %+v", r)
	}
	r = run("python", "def main(**arguments):\n    return {1, 2}", nil)
	if r.Status != "program_error" || !strings.Contains(r.Stderr, "not JSON serializable") {
		t.Errorf("a value that is no JSON: %+v", r)
	}
	r = run("python", "def main():\n    print('x' * 5_000_000)", nil)
	if r.Status != "resource_limit_exceeded" || r.Limit != "output" || r.Stdout != "" {
		t.Errorf("too much output: %s %s", r.Status, r.Limit)
	}
	c.abandon(key, "ragflow", "/run", map[string]any{
		"code_b64": base64.StdEncoding.EncodeToString([]byte("while True: pass")),
	})
	open := &caller{t, ctx, "/ragflow", nil}
	var health struct{ Status string }
	if status := open.json("GET", "/healthz", nil, &health); status != 200 || health.Status != "ok" {
		t.Errorf("health: %d %s", status, health.Status)
	}
	if status := open.json("POST", "/run", map[string]any{}, &r); status != 401 || r.Detail == "" {
		t.Errorf("without a key: %d %+v", status, r)
	}
}
