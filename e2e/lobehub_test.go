package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// lobeHubUser makes requests as LobeHub does, for one user.
type lobeHubUser struct {
	t     *testing.T
	ctx   context.Context
	token string
}

// lobeHubAnswer has the fields of all answers.
type lobeHubAnswer struct {
	Session string `json:"session_id"`
	Created bool
	Stdout  string
	Stderr  string
	Code    int    `json:"exit_code"`
	Cut     bool   `json:"stdout_truncated"`
	Lease   int64  `json:"lease_expires_unix_ms"`
	ID      string `json:"task_id"`
	Status  string
	Result  *lobeHubResult
	Error   any
	Reason  string `json:"code"`
}

type lobeHubResult struct {
	Stdout string
	Stderr string
	Code   *int   `json:"exit_code"`
	Size   int    `json:"size_bytes"`
	Mime   string `json:"mime_type"`
}

func newLobeHubUser(t *testing.T, ctx context.Context, name string) *lobeHubUser {
	t.Helper()
	claims := fmt.Sprintf(`{"exp":%d,"iss":"https://chat.example.org","sub":%q}`,
		time.Now().Add(time.Hour).UnixMilli(), name)
	signed := "obx_jit_v1." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	h := hmac.New(sha256.New, []byte(lobeHubKey))
	h.Write([]byte(signed))
	return &lobeHubUser{t, ctx, signed + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))}
}

// do makes a request. Its body is nil for GET.
func (u *lobeHubUser) do(path string, body map[string]any) (a lobeHubAnswer, status int) {
	u.t.Helper()
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPost
		text, _ = json.Marshal(body)
	}
	req, err := http.NewRequestWithContext(u.ctx, method, server.URL+"/onlyboxes/api/v1/"+path,
		bytes.NewReader(text))
	check(u.t, err)
	req.Header.Set("Authorization", "Bearer "+u.token)
	res, err := http.DefaultClient.Do(req)
	check(u.t, err)
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		u.t.Fatalf("%s: status %d, not JSON: %v", path, res.StatusCode, err)
	}
	return a, res.StatusCode
}

// run runs a command in the session of a topic.
func (u *lobeHubUser) run(topic, command string, more map[string]any) (lobeHubAnswer, int) {
	u.t.Helper()
	body := map[string]any{
		"command": command, "session_id": "lobe-" + topic, "create_if_missing": true,
		"lease_ttl_sec": 900, "timeout_ms": 120_000,
	}
	for k, v := range more {
		body[k] = v
	}
	return u.do("commands/terminal", body)
}

// TestLobeHub makes the requests of LobeHub: commands, tasks, files, and two users.
func TestLobeHub(t *testing.T) {
	ctx := deadline(t)
	ada, bob := newLobeHubUser(t, ctx, "ada"), newLobeHubUser(t, ctx, "bob")
	t.Run("commands", func(t *testing.T) { lobeHubCommands(t, ada) })
	t.Run("tasks", func(t *testing.T) { lobeHubTasks(t, ada, bob) })
	t.Run("export", func(t *testing.T) { lobeHubExport(t, ada) })
	t.Run("users", func(t *testing.T) {
		if a, _ := bob.run("one", "cat ~/kept", nil); a.Code == 0 || !a.Created {
			t.Errorf("another user has the files of a session: %+v", a)
		}
		if a, _ := ada.run("two", "cat ~/kept", nil); a.Code == 0 || !a.Created {
			t.Errorf("another conversation has the files of a session: %+v", a)
		}
		other := &lobeHubUser{t, ctx, ada.token[:len(ada.token)-4] + "AAAA"}
		if a, status := other.run("one", ":", nil); status != http.StatusUnauthorized {
			t.Errorf("a wrong token: %d %+v", status, a)
		}
		key := &lobeHubUser{t, ctx, server.Token}
		if a, status := key.run("one", "ls ~/kept", nil); status != 200 || a.Code == 0 {
			t.Errorf("a key: %d %+v", status, a)
		}
	})
}

// lobeHubCommands runs commands: files that stay, code, large output, an error, a time-out, a command
// that is not the only one.
func lobeHubCommands(t *testing.T, ada *lobeHubUser) {
	a, status := ada.run("one", "echo text >~/kept; echo no >&2; exit 3", nil)
	if status != 200 || a.Code != 3 || a.Stderr != "no\n" || a.Session != "lobe-one" || !a.Created ||
		a.Lease <= time.Now().UnixMilli() {
		t.Errorf("%d %+v", status, a)
	}
	a, _ = ada.run("one", "cat ~/kept; head -c 3000000 /dev/zero | tr '\\0' x", nil)
	if a.Created || len(a.Stdout) != 3_000_005 || a.Cut {
		t.Errorf("%d bytes, %+v", len(a.Stdout), a.Cut)
	}
	ada.run("one", "cat >/tmp/a.ts <<'E'\nenum E { A = 42 }\nconst n: number = E.A\nconsole.log(n)\nE", nil)
	if a, _ = ada.run("one", "npx --yes tsx '/tmp/a.ts'", nil); a.Stdout != "42\n" || a.Code != 0 {
		t.Errorf("TypeScript: %+v", a)
	}
	if a, status := ada.run("one", "sleep 60", map[string]any{"timeout_ms": 300}); status !=
		http.StatusGatewayTimeout || a.Reason != "deadline_exceeded" {
		t.Errorf("a time-out: %d %+v", status, a)
	}
	if a, status := ada.run("none", ":", map[string]any{"create_if_missing": false}); status !=
		http.StatusNotFound || a.Reason != "session_not_found" {
		t.Errorf("no session: %d %+v", status, a)
	}
	ends := make(chan int, 1)
	go func() {
		_, status := ada.run("one", "touch /tmp/first; until test -e /tmp/second; do sleep 0.02; done", nil)
		ends <- status
	}()
	task, _ := ada.do("tasks", map[string]any{
		"capability": "terminalExec", "mode": "sync", "input": map[string]any{
			"session_id": "lobe-one", "command": "until test -e /tmp/first; do sleep 0.02; done",
		},
	})
	if task.Status != "succeeded" {
		t.Fatalf("%+v", task)
	}
	a, status = ada.run("one", ":", map[string]any{"timeout_ms": 100})
	if status != http.StatusConflict || a.Reason != "session_busy" {
		t.Errorf("a second command: %d %+v", status, a)
	}
	ada.do("tasks", map[string]any{"capability": "terminalExec", "input": map[string]any{
		"session_id": "lobe-one", "command": "touch /tmp/second",
	}})
	if status := <-ends; status != 200 {
		t.Errorf("the first command: %d", status)
	}
}

// lobeHubTasks begins tasks, reads them, and cancels one.
func lobeHubTasks(t *testing.T, ada, bob *lobeHubUser) {
	start := func(command string) lobeHubAnswer {
		t.Helper()
		a, status := ada.do("tasks", map[string]any{
			"capability": "terminalExec", "mode": "async", "wait_ms": 1, "timeout_ms": 60_000,
			"input": map[string]any{
				"command": command, "create_if_missing": true, "session_id": "lobe-one",
				"env": map[string]string{"SECRET": "s3"},
			},
		})
		if status != http.StatusAccepted || a.ID == "" || a.Error != nil {
			t.Fatalf("%d %+v", status, a)
		}
		return a
	}
	a := start("echo $SECRET; until test -e /tmp/go; do sleep 0.02; done; echo end")
	eventually(t, "the first output", func() bool {
		b, _ := ada.do("tasks/"+a.ID, nil)
		return b.Status == "running" && b.Result.Stdout == "s3\n"
	})
	for _, path := range []string{"tasks/" + a.ID, "tasks/" + a.ID + "/cancel"} {
		body := map[string]any{}
		if !strings.HasSuffix(path, "cancel") {
			body = nil
		}
		if b, status := bob.do(path, body); status != http.StatusNotFound {
			t.Errorf("another user's %s: %d %+v", path, status, b)
		}
	}
	ada.run("one", "touch /tmp/go", nil)
	eventually(t, "the end", func() bool {
		b, _ := ada.do("tasks/"+a.ID, nil)
		return b.Status == "succeeded" && b.Result.Stdout == "s3\nend\n" && *b.Result.Code == 0
	})
	long := start("sleep 60")
	b, status := ada.do("tasks/"+long.ID+"/cancel", map[string]any{})
	if status != 200 || b.Status != "canceled" {
		t.Errorf("cancelled: %d %+v", status, b)
	}
	if b, status := ada.do("tasks/"+long.ID, nil); status != 200 || b.Status != "canceled" {
		t.Errorf("a cancelled task: %d %+v", status, b)
	}
}

// lobeHubExport sends files to the object store.
func lobeHubExport(t *testing.T, ada *lobeHubUser) {
	ada.run("one", "mkdir -p /mnt/data; cd /mnt/data; echo a,b >t.csv; python3 - <<'E'\n"+
		"import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('plot.png')\nE", nil)
	export := func(name, kind, url string) (lobeHubAnswer, int) {
		return ada.do("tasks", map[string]any{
			"capability": "terminalResource", "mode": "sync", "wait_ms": 60_000,
			"input": map[string]any{
				"action": "export", "session_id": "lobe-one", "file_path": "/mnt/data/" + name,
				"signed_url": url,
				"headers": map[string]string{
					"x-amz-tag": "tag,", "Cookie": "a=b", "Content-Type": kind,
				},
			},
		})
	}
	put := func(url string) (lobeHubAnswer, int) { return export("t.csv", "text/csv", url) }
	a, status := put(lobeObjects.url + "/bucket/t.csv?sign=1")
	if status != 200 || a.Status != "succeeded" || a.Result.Size != 4 ||
		lobeObjects.stored("/bucket/t.csv") != "tag,text/csv|a,b\n" {
		t.Errorf("%d %+v %q", status, a, lobeObjects.stored("/bucket/t.csv"))
	}
	a, status = export("plot.png", "image/png", lobeObjects.url+"/bucket/plot.png")
	if status != 200 || a.Result.Mime != "image/png" ||
		!strings.HasPrefix(lobeObjects.stored("/bucket/plot.png"), "tag,image/png|\x89PNG") {
		t.Errorf("a picture: %d %+v", status, a)
	}
	a, status = put(lobeObjects.url + "/redirect/other")
	if status != http.StatusServiceUnavailable || lobeObjects.stored("/other") != "" {
		t.Errorf("a redirect: %d %+v", status, a)
	}
	for url, want := range map[string]int{
		server.URL + "/x": 403, "https://example.org/x": 403, "file:///etc/passwd": 400,
	} {
		if a, status := put(url); status != want {
			t.Errorf("%s: %d %+v", url, status, a)
		}
	}
}
