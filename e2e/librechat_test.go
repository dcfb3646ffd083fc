package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// libreChat sends requests as LibreChat does, for one user.
type libreChat struct {
	t       *testing.T
	ctx     context.Context
	headers map[string]string
}

// libreChatRun is the answer to a run.
type libreChatRun struct {
	Session string `json:"session_id"`
	Storage string `json:"storage_session_id"`
	Stdout  string
	Stderr  string
	Files   []libreChatFile
	Code    *int
	Status  string
	Runtime string   `json:"runtime_session_id"`
	Reused  string   `json:"runtime_status"`
	Deleted []string `json:"deleted_files"`
	Error   string
}

type libreChatFile struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Storage  string `json:"storage_session_id"`
	Modified *struct {
		ID string `json:"id"`
	} `json:"modified_from"`
	Inherited bool `json:"inherited"`
}

// libreChatUser returns a user that a token of LibreChat states.
func libreChatUser(t *testing.T, ctx context.Context, name string) *libreChat {
	t.Helper()
	seed := sha256.Sum256([]byte("a key for tests")) // that of testdata/librechat.pem
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.EdDSA, Key: ed25519.NewKeyFromSeed(seed[:]),
	}, (&jose.SignerOptions{}).WithHeader("kid", "lc-codeapi-2026-05"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": "librechat", "aud": "codeapi", "sub": name, "tenant_id": "legacy",
		"exp": time.Now().Add(5 * time.Minute).Unix(),
	}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return &libreChat{t, ctx, map[string]string{"Authorization": "Bearer " + token}}
}

// do sends a request and returns the status and the body.
func (c *libreChat) do(method, path, kind string, body io.Reader) (int, http.Header, []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.ctx, method, server.URL+"/librechat/v1/"+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", kind)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, res.Header, text
}

// try runs a program and returns the status.
func (c *libreChat) try(body map[string]any) (run libreChatRun, status int) {
	c.t.Helper()
	text, _ := json.Marshal(body)
	status, _, answer := c.do("POST", "exec", "application/json", bytes.NewReader(text))
	if err := json.Unmarshal(answer, &run); err != nil {
		c.t.Fatalf("status %d: %s", status, answer)
	}
	return run, status
}

// run runs a program, which must be answered with the status 200.
func (c *libreChat) run(lang, code string, files ...any) libreChatRun {
	c.t.Helper()
	run, status := c.try(map[string]any{"lang": lang, "code": code, "files": files})
	if status != 200 {
		c.t.Fatalf("status %d: %+v", status, run)
	}
	return run
}

// upload uploads a file and returns its reference in the form of old clients.
func (c *libreChat) upload(name, content string) map[string]any {
	c.t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, _ := m.CreateFormFile("file", name)
	_, _ = io.WriteString(part, content)
	_ = m.Close()
	var a struct {
		Message string
		Session string `json:"session_id"`
		Files   []struct{ FileID string }
	}
	status, _, text := c.do("POST", "upload", m.FormDataContentType(), &b)
	if err := json.Unmarshal(text, &a); err != nil || status != 200 || a.Message != "success" {
		c.t.Fatalf("status %d: %s", status, text)
	}
	return map[string]any{"id": a.Files[0].FileID, "session_id": a.Session, "name": name}
}

// file returns the file of a run with a name.
func (r libreChatRun) file(t *testing.T, name string) libreChatFile {
	t.Helper()
	i := slices.IndexFunc(r.Files, func(f libreChatFile) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s: %+v", name, r)
	}
	return r.Files[i]
}

// TestLibreChat makes the requests of LibreChat: two users, stateless and stateful runs, files from
// run to run.
func TestLibreChat(t *testing.T) {
	ctx := deadline(t)
	ada, bob := libreChatUser(t, ctx, "ada"), libreChatUser(t, ctx, "bob")
	t.Run("programs", func(t *testing.T) { libreChatPrograms(t, ada) })
	t.Run("files", func(t *testing.T) { libreChatFiles(t, ada, bob) })
	t.Run("stateful", func(t *testing.T) { libreChatStateful(t, ada, bob) })
	t.Run("key", func(t *testing.T) {
		owner := &libreChat{t, ctx, map[string]string{"X-API-Key": server.Token}}
		r := owner.run("bash", "pwd; echo $HOME; cat a.txt", owner.upload("a.txt", "text"))
		if r.Stdout != "/mnt/data\n/mnt/data\ntext" {
			t.Errorf("%+v", r)
		}
	})
}

// libreChatPrograms runs programs of several languages.
func libreChatPrograms(t *testing.T, c *libreChat) {
	r := c.run("py",
		"import os, sys\nprint(os.getcwd(), 6*7)\nprint('e', file=sys.stderr)\nsys.exit(3)")
	if r.Stdout != "/mnt/data 42\n" || r.Stderr != "e\n" || *r.Code != 3 || len(r.Files) != 0 {
		t.Errorf("%+v", r)
	}
	for lang, code := range map[string]string{
		"js": "console.log(6 * 7)", "ts": "const n: number = 42\nconsole.log(n)",
		"bash": "python3 -c 'print(6*7)'",
		"php":  "<?php echo 6 * 7, \"\\n\";",
	} {
		if r := c.run(lang, code); r.Stdout != "42\n" || *r.Code != 0 {
			t.Errorf("%s: %+v", lang, r)
		}
	}
	if r := c.run("rs", "fn main() {}"); !strings.Contains(r.Stderr, "is not installed") {
		t.Errorf("a missing language: %+v", r)
	}
	r = c.run("bash", "head -c 3000000 /dev/zero | tr '\\0' x; echo e >&2")
	if len(r.Stdout) != 1<<20 || r.Stderr != "e\n1951424 bytes of output over the limit were left out.\n" {
		t.Errorf("large output: %d bytes, %q", len(r.Stdout), r.Stderr)
	}
	run, status := c.try(map[string]any{
		"lang": "py", "code": "import time\nprint('a', flush=True)\ntime.sleep(60)", "timeout": 1500,
	})
	if status != 200 || run.Status != "timeout" || run.Stdout != "a\n" ||
		!strings.Contains(run.Stderr, "over 1.5s") {
		t.Errorf("%d %+v", status, run)
	}
}

// libreChatFiles passes files between runs, and checks that another user reaches none of them.
func libreChatFiles(t *testing.T, ada, bob *libreChat) {
	table := ada.upload("in/sales.csv", "month,sold\n1,3\n2,5\n")
	r := ada.run("py", `import pandas, matplotlib.pyplot as plt
t = pandas.read_csv("/mnt/data/in/sales.csv")
t.plot("month")
plt.show()
open("sum.txt", "w").write(str(t.sold.sum()))
`, table)
	sum, plot := r.file(t, "sum.txt"), r.file(t, "plot_1.png")
	if !r.file(t, "in/sales.csv").Inherited || r.Status != "ok" || len(r.Files) != 3 {
		t.Errorf("%+v", r)
	}
	status, header, content := ada.do("GET", "download/"+plot.Storage+"/"+plot.ID, "", nil)
	if status != 200 || !bytes.HasPrefix(content, []byte("\x89PNG")) ||
		header.Get("Content-Disposition") != "attachment; filename=plot_1.png" {
		t.Errorf("%d %v", status, header)
	}
	next := ada.run("bash", "cat sum.txt; echo 9 >>sum.txt; rm in/sales.csv", table, map[string]any{
		"id": sum.ID, "storage_session_id": sum.Storage, "name": sum.Name, "kind": "user",
	})
	if m := next.file(t, "sum.txt").Modified; next.Stdout != "8" || m == nil || m.ID != sum.ID ||
		!slices.Equal(next.Deleted, []string{"in/sales.csv"}) {
		t.Errorf("%+v", next)
	}
	if other := ada.run("bash", "ls"); other.Stdout != "" {
		t.Errorf("another run sees %q", other.Stdout)
	}
	if _, status := bob.try(map[string]any{
		"lang": "bash", "code": "ls", "files": []any{table},
	}); status != http.StatusForbidden {
		t.Errorf("a foreign file: %d", status)
	}
	for _, path := range []string{"download/%s/%s", "sessions/%s/objects/%s"} {
		path = fmt.Sprintf(path, sum.Storage, sum.ID)
		if status, _, text := bob.do("GET", path, "", nil); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, text)
		}
		if status, _, text := ada.do("GET", path, "", nil); status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	var list []struct {
		Name     string
		Metadata map[string]string
	}
	_, _, text := ada.do("GET", "files/"+sum.Storage+"?detail=full", "", nil)
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 2 {
		t.Fatalf("%s", text)
	}
	status, _, _ = ada.do("DELETE", "files/"+sum.Storage+"/"+sum.ID, "", nil)
	gone, _, _ := ada.do("GET", "download/"+sum.Storage+"/"+sum.ID, "", nil)
	if status != 200 || gone != http.StatusNotFound {
		t.Errorf("deleted with %d, then %d", status, gone)
	}
}

// libreChatStateful keeps the files of a conversation, for its user alone.
func libreChatStateful(t *testing.T, ada, bob *libreChat) {
	run := func(c *libreChat, hint string) libreChatRun {
		t.Helper()
		r, status := c.try(map[string]any{
			"lang": "bash", "code": "echo x >>log; cat log; ls | wc -l",
			"runtime_session_hint": hint,
		})
		if status != 200 {
			t.Fatalf("%d %+v", status, r)
		}
		return r
	}
	first, second := run(ada, "c1"), run(ada, "c1")
	// The folder has the log only: short Bash code needs no file.
	if first.Stdout != "x\n1\n" || second.Stdout != "x\nx\n1\n" || first.Reused != "new" ||
		second.Reused != "reused" || first.Runtime != second.Runtime ||
		second.file(t, "log").Modified.ID != first.file(t, "log").ID {
		t.Errorf("%+v\n%+v", first, second)
	}
	python, _ := ada.try(map[string]any{
		"lang": "py", "runtime_session_hint": "c1",
		"code": "import os; print(__file__, sorted(os.listdir('.'))); open('n', 'w').write('1')",
	})
	if python.Stdout != "/mnt/data/main.py ['log', 'main.py']\n" || len(python.Files) != 1 ||
		python.Files[0].Name != "n" {
		t.Errorf("%+v", python)
	}
	libreChatTurns(t, ada)
	for name, r := range map[string]libreChatRun{
		"another conversation": run(ada, "c2"), "another user": run(bob, "c1"),
	} {
		if r.Stdout != "x\n1\n" || r.Runtime == first.Runtime {
			t.Errorf("%s: %+v", name, r)
		}
	}
	ada.headers["X-CodeAPI-Expected-Profile"] = "stateful"
	defer delete(ada.headers, "X-CodeAPI-Expected-Profile")
	if r, status := ada.try(map[string]any{"lang": "bash", "code": "ls"}); status !=
		http.StatusConflict || r.Error != "execution_profile_mismatch" {
		t.Errorf("%d %+v", status, r)
	}
}

// libreChatTurns makes two runs of a conversation at once. Each sees if the other one runs.
func libreChatTurns(t *testing.T, c *libreChat) {
	runs := make(chan libreChatRun, 2)
	for range 2 {
		go func() {
			r, _ := c.try(map[string]any{
				"lang": "bash", "code": "ls now; touch now; sleep 0.3; rm now; echo end",
				"runtime_session_hint": "turns",
			})
			runs <- r
		}()
	}
	for range 2 {
		if r := <-runs; r.Stdout != "end\n" || len(r.Files) != 0 {
			t.Errorf("a run beside another one: %+v", r)
		}
	}
}

// TestLibreChatPackage uses the server with the tools of LibreChat's own package.
func TestLibreChatPackage(t *testing.T) {
	cmd := exec.CommandContext(deadline(t), "node", "testdata/librechat.mjs")
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+server.URL, "SANDGATE_TOKEN="+server.Token)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
