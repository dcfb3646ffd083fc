package interpreter

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestContexts creates, lists, restarts and removes contexts.
func TestContexts(t *testing.T) {
	n := &fakeNode{files: map[string]bool{"/tmp": true}, kernels: []protocol.Channel{
		{ID: "k1", Kind: "kernel", Language: "python"}, {ID: "p2", Kind: "process"},
	}}
	r := newRig(t, n)
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/health", "", `"OK"`},
		{"POST", "/contexts", `{"language":" Go ","cwd":"/tmp"}`, `{"id":"k3","language":"go","cwd":"/tmp"}`},
		{"POST", "/contexts", ``, `{"id":"k4","language":"python","cwd":"/home/user"}`},
		{
			"POST", "/contexts", `{"language":"TS","cwd":"/home/user"}`,
			`{"id":"k5","language":"typescript","cwd":"/home/user"}`,
		},
		{"GET", "/contexts", "", `[{"id":"python","language":"python","cwd":"/home/user"},` +
			`{"id":"javascript","language":"javascript","cwd":"/home/user"},` +
			`{"id":"k3","language":"go","cwd":"/tmp"},` +
			`{"id":"k4","language":"python","cwd":"/home/user"},` +
			`{"id":"k5","language":"javascript","cwd":"/home/user"}]`},
		{"POST", "/contexts/k4/restart", "", `null`},
		{"POST", "/contexts/python/restart?source=ci", "", `null`},
		{"POST", "/contexts/javascript/restart", "", `null`},
		{"DELETE", "/contexts/k4", "", `null`},
		{"DELETE", "/contexts/python", "", `null`},
	} {
		if status, body := r.do(c.method, c.path, c.body); status != 200 || body != c.want {
			t.Errorf("%s %s: %d %s, want %s", c.method, c.path, status, body, c.want)
		}
	}
	restarts := 0
	for _, op := range n.asked {
		if op == protocol.OpRestart {
			restarts++
		}
	}
	if restarts != 2 {
		t.Errorf("%d restarts; a default kernel that does not run needs none", restarts)
	}
	var left []string
	for _, k := range n.kernels {
		left = append(left, k.ID)
	}
	if !slices.Equal(left, []string{"p2", "k3", "k5"}) {
		t.Errorf("%v are left", left)
	}
	for _, c := range []struct{ method, path string }{
		{"DELETE", "/contexts/k4"},
		{"DELETE", "/contexts/p2"},
		{"POST", "/contexts/k4/restart"},
		{"DELETE", "/contexts/js"},
	} {
		if status, body := r.do(c.method, c.path, ""); status != 404 ||
			!strings.Contains(body, "does not exist") {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
	}
	if keys := n.opened; keys[0].Key == "" || keys[0].Key == keys[1].Key || keys[1].Cwd != "" {
		t.Errorf("%+v", keys)
	}
}

// TestLanguages checks the kernel of each language that a client may name.
func TestLanguages(t *testing.T) {
	for name, want := range map[string]string{
		"": "python", " Python": "python", "JS": "javascript", "javascript": "javascript",
		"ts": "javascript", "TypeScript ": "javascript", "java": "java", "bash": "bash",
		"go": "golang", "php": "php", "sql": "sql", "r": "r",
	} {
		n := &fakeNode{run: func(l *fakeLink, cell uint32, _ protocol.Execute) {
			l.records(ended(cell, "ok"))
		}}
		body, _ := json.Marshal(map[string]string{"code": "1", "language": name})
		if status, text := newRig(t, n).do("POST", "/execute", string(body)); status != 200 ||
			n.opened[0].Language != want || n.opened[0].Key != "" {
			t.Errorf("%q: %d %s %+v", name, status, text, n.opened)
		}
	}
	for _, id := range []string{"python", "go", "sql"} {
		if k, err := ofContext(id); err != nil || k.channel != "" {
			t.Errorf("%s: %+v %v", id, k, err)
		}
	}
}
