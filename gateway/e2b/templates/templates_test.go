package templates

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const hash = "0123456789abcdef"

// fakeNode keeps the templates that were uploaded, by tenant and name.
type fakeNode struct {
	mu        sync.Mutex
	templates map[string]protocol.Template
	// files are those of the last template: mode and content by name.
	files  map[string]string
	closed bool // the server lets nothing out
}

func (f *fakeNode) Call(_ context.Context, who noderpc.Principal, op string,
	params, result any,
) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := who.Tenant + "/" + params.(protocol.TemplateRef).Name
	t, ok := f.templates[name]
	if !ok {
		return fault.New(fault.NotFound, op, "there is no such template")
	}
	switch op {
	case protocol.OpTemplateGet:
		*result.(*protocol.Template) = t
	case protocol.OpTemplateDelete:
		delete(f.templates, name)
	}
	return nil
}

func (f *fakeNode) upload(_ context.Context, who noderpc.Principal, op string, params any,
	r io.Reader, _ any,
) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := tar.NewReader(r)
	files := map[string]string{}
	t := protocol.Template{
		Name: params.(protocol.TemplateRef).Name, State: "building", CreatedMS: 1000,
	}
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if h.Name == "template.json" {
			if err := json.Unmarshal(content, &t.Spec); err != nil {
				return err
			}
			continue
		}
		files[h.Name] = fmt.Sprintf("%o %s", h.Mode, content)
	}
	if f.closed && t.Spec.BuildNetwork != nil {
		e := fault.New(fault.PermissionDenied, op, "nothing gets out").For(fault.CauseEgress)
		e.Field = "build_network"
		return e
	}
	f.templates[who.Tenant+"/"+t.Name], f.files = t, files
	return nil
}

type rig struct {
	t    *testing.T
	node *fakeNode
	b    *Builder
}

func newRig(t *testing.T) *rig {
	node := &fakeNode{templates: map[string]protocol.Template{}}
	return &rig{t, node, New(Config{
		Node: node, Upload: node.upload, Call: time.Minute,
		Tokens: func(purpose, name string) (string, error) {
			return fmt.Sprintf("%x", purpose+name), nil
		},
	})}
}

// do makes a request as a tenant, checks the status, and decodes the body into result.
func (g *rig) do(status int, tenant, method, path, body string, result any) string {
	g.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r = r.WithContext(surface.WithCall(r.Context(), &surface.Call{
		Who: noderpc.Principal{Tenant: tenant}, WriteError: sandbox.WriteError,
	}))
	w := httptest.NewRecorder()
	mux := http.NewServeMux()
	for _, row := range g.b.Routes() {
		parts := strings.Split(row.Path, "/")
		for i, part := range parts {
			if name, ok := strings.CutPrefix(part, ":"); ok {
				parts[i] = "{" + name + "}"
			}
		}
		mux.Handle(row.Method+" "+strings.Join(parts, "/"), row.Handler)
	}
	mux.ServeHTTP(w, r)
	if w.Code != status {
		g.t.Fatalf("%s %s %s: %d, want %d: %s", method, path, body, w.Code, status, w.Body)
	}
	text := w.Body.String()
	if result != nil {
		if err := json.Unmarshal([]byte(text), result); err != nil {
			g.t.Fatalf("%s: %v", text, err)
		}
	}
	return text
}

// refuse makes a request whose error names a field or says something.
func (g *rig) refuse(status int, part, method, path, body string) {
	g.t.Helper()
	var e struct {
		Code    int
		Message string
	}
	g.do(status, "a", method, path, body, &e)
	if e.Code != status || !strings.Contains(e.Message, part) {
		g.t.Errorf("%s %s %s: %+v, want %q", method, path, body, e, part)
	}
}

// files returns a compressed tar of names and contents.
func files(t *testing.T, pairs ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(pairs); i += 2 {
		h := &tar.Header{
			Name: pairs[i], Size: int64(len(pairs[i+1])), Mode: 0o640, Typeflag: tar.TypeReg,
		}
		if strings.HasSuffix(pairs[i], "/") {
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		if strings.HasSuffix(pairs[i], ".link") {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, pairs[i+1], 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = w.Write([]byte(pairs[i+1]))
		}
	}
	if w.Close() != nil || z.Close() != nil {
		t.Fatal("no tar")
	}
	return b.String()
}

// send uploads files under the hash.
func (g *rig) send(content string) {
	g.t.Helper()
	var l fileLink
	g.do(201, "a", "GET", "/templates/app/files/"+hash, "", &l)
	_, path, _ := strings.Cut(l.URL, "://example.com")
	g.do(200, "nobody", "PUT", path, content, nil)
}

// ask requests a build and returns the path of its start.
func (g *rig) ask(body string) (path string, q requested) {
	g.t.Helper()
	g.do(202, "a", "POST", "/v3/templates", body, &q)
	return "/v2/templates/" + q.Template + "/builds/" + q.Build, q
}

func TestBuild(t *testing.T) {
	g := newRig(t)
	start, q := g.ask(`{"name":"app:v1.0","tags":["latest"],"cpuCount":2,"memoryMB":512}`)
	if q.Template != "app" || strings.Join(q.Tags, " ") != "v1.0 latest" || len(q.Build) != 36 {
		t.Errorf("%+v", q)
	}
	status := strings.TrimPrefix(start, "/v2") + "/status"
	var s statusBody
	g.do(200, "a", "GET", status, "", &s)
	if s.Status != "waiting" || s.Entries == nil {
		t.Errorf("%+v", s)
	}
	g.send(files(t, "src/", "", "src/a.py", "print()", "src/b/c.txt", "c", "other", "x"))
	var l fileLink
	g.do(201, "a", "GET", "/templates/app/files/"+hash, "", &l)
	if !l.Present {
		t.Error("the files are not present")
	}
	g.do(202, "a", "POST", start, `{"fromImage":"e2bdev/base","force":true,"startCmd":"serve",
		"readyCmd":"[ -f x ]","steps":[
		{"type":"ENV","args":["A","1","B","2"]},
		{"type":"USER","args":["root"]},
		{"type":"COPY","args":["src/","lib","","0755"],"filesHash":"`+hash+`","gzip":true},
		{"type":"WORKDIR","args":["work"]},
		{"type":"RUN","args":["echo it's","root"]}]}`, nil)
	for _, name := range []string{"a/app--v1-dot-0", "a/app--latest"} {
		spec := g.node.templates[name].Spec
		if spec.Env["B"] != "2" || spec.Limits.CPUs != 2 || spec.Limits.MemoryBytes != 512<<20 ||
			len(spec.Run) != 2 || spec.Run[0] != "mkdir -p '/home/user/work' # step 4" ||
			spec.Run[1] != "cd '/home/user/work' || exit # step 5\necho it's" ||
			spec.BuildNetwork == nil || BuildID(g.node.templates[name]) != q.Build {
			t.Errorf("%s: %+v", name, spec)
		}
		service := spec.Services[0]
		if service.Ready.Log == "" || !strings.Contains(service.Cmd, "serve") ||
			service.Cwd != "/home/user/work" {
			t.Errorf("%+v", service)
		}
	}
	if len(g.node.files) != 2 || g.node.files["files/home/user/lib/a.py"] != "755 print()" ||
		g.node.files["files/home/user/lib/b/c.txt"] != "755 c" {
		t.Errorf("%v", g.node.files)
	}
	g.refuse(409, "started before", "POST", start, `{}`)
	g.checkStatus(status)
	g.do(204, "a", "DELETE", "/templates/tags", `{"name":"app","tags":["latest"]}`, nil)
	if len(g.node.templates) != 1 {
		t.Errorf("%v", g.node.templates)
	}
	g.refuse(404, "no such template", "DELETE", "/templates/tags",
		`{"name":"app","tags":["latest"]}`)
}

// checkStatus checks the state of the build of TestBuild, which has two native templates.
func (g *rig) checkStatus(path string) {
	t := g.t
	set := func(name, state, log, failure string) {
		one := g.node.templates[name]
		one.State, one.Log, one.Error = state, log, failure
		g.node.templates[name] = one
	}
	set("a/app--v1-dot-0", "building", "$ mkdir # step 4\nline\npart", "")
	var s statusBody
	g.do(200, "a", "GET", path+"?logsOffset=1", "", &s)
	if s.Status != "building" || len(s.Entries) != 1 || s.Entries[0].Message != "line" ||
		s.Entries[0].Step != "4" {
		t.Errorf("%+v", s)
	}
	set("a/app--v1-dot-0", "ready", "$ mkdir # step 4\nline\n", "")
	g.do(200, "a", "GET", path, "", &s)
	if s.Status != "building" {
		t.Errorf("one of two builds is ready: %+v", s)
	}
	set("a/app--latest", "failed", "$ cd # step 5\nno\n", "it failed")
	g.do(200, "a", "GET", path, "", &s)
	if s.Status != "error" || s.Reason.Message != "it failed" || s.Reason.Step != "5" ||
		len(s.Entries) != 2 {
		t.Errorf("%+v", s)
	}
	set("a/app--latest", "ready", "", "")
	var logs struct{ Logs []entry }
	g.do(200, "a", "GET", path, "", &s)
	g.do(200, "a", "GET", strings.TrimSuffix(path, "status")+"logs?direction=backward&limit=1", "",
		&logs)
	if s.Status != "ready" || len(logs.Logs) != 0 {
		t.Errorf("%+v %+v", s, logs)
	}
	g.refuse(400, "direction", "GET", strings.TrimSuffix(path, "status")+"logs?direction=up", "")
	g.refuse(400, "logsOffset", "GET", path+"?logsOffset=-1", "")
	var e struct{ Message string }
	g.do(404, "b", "GET", path, "", &e)
	var tags struct {
		Build string `json:"buildID"`
	}
	g.do(201, "a", "POST", "/templates/tags", `{"target":"app:latest","tags":["v1.0"]}`, &tags)
	g.do(201, "a", "POST", "/templates/tags", `{"target":"app:latest","tags":["v2"]}`, &tags)
	if got := g.node.templates["a/app--v2"]; BuildID(got) != tags.Build || len(got.Spec.Run) != 2 {
		t.Errorf("%+v", got)
	}
	g.do(204, "a", "DELETE", "/templates/tags", `{"name":"app","tags":["v2"]}`, nil)
	old := g.node.templates["a/app--latest"]
	old.Name, old.Spec.Description = "old", descriptionOf+"old"
	g.node.templates["a/old"] = old
	g.refuse(501, "tags", "POST", "/templates/tags", `{"target":"old","tags":["v2"]}`)
	delete(g.node.templates, "a/old")
	g.refuse(400, "tags", "POST", "/templates/tags", `{"target":"app:latest","tags":[]}`)
	g.refuse(404, "no such template", "POST", "/templates/tags", `{"target":"app","tags":["v2"]}`)
}

// TestTarget checks where the files of COPY steps go.
func TestTarget(t *testing.T) {
	for _, c := range []struct{ src, dest, name, want string }{
		{"a.txt", "/home/user/b.txt", "a.txt", "/home/user/b.txt"},
		{"a.txt", "/home/user/data/", "a.txt", "/home/user/data/a.txt"},
		{"a.txt", ".", "a.txt", "/home/user/a.txt"},
		{"a.txt", "/home/user", "a.txt", "/home/user/a.txt"},
		{"./d/a.txt", "x", "d/a.txt", "/home/user/x"},
		{"d", "x", "d/e/f", "/home/user/x/e/f"},
		{"d/", "~/x", "d/e", "/home/user/x/e"},
		{".", "/srv", "d/e", "/srv/d/e"},
		{"d/*.py", "x", "d/m.py", "/home/user/x/m.py"},
		{"*", "x", "d/e", "/home/user/x/d/e"},
		{"d/[ab]", "x", "d/a", "/home/user/x/a"},
		{"d", "x", "dd/e", ""},
	} {
		b := builder{workdir: home}
		if err := b.copy("steps[0]", step{Args: []string{c.src, c.dest}, Hash: hash}); err != nil {
			t.Fatal(err)
		}
		if to, ok := b.copies[0].target(c.name, true); to != c.want || ok != (c.want != "") {
			t.Errorf("COPY %s %s puts %s at %q, want %q", c.src, c.dest, c.name, to, c.want)
		}
	}
}

func TestStartCommands(t *testing.T) {
	for _, c := range []struct {
		start, ready string
		port         int
		run          int
	}{
		{"serve", "", 0, 0},
		{"serve", `[ -n "$(ss -Htuln sport = :8000)" ]`, 8000, 0},
		{"", "[ -f x ]", 0, 1},
	} {
		p, err := planOf(startRequest{Start: c.start, Ready: c.ready})
		started := err == nil && len(p.spec.Services) == 1
		if err != nil || len(p.spec.Run) != c.run || (c.start != "") != started {
			t.Fatalf("%+v: %+v, %v", c, p, err)
		}
		if c.start != "" && c.port > 0 && p.spec.Services[0].Ready.Port != c.port {
			t.Errorf("%+v: %+v", c, p.spec.Services[0])
		}
	}
}

func TestInvalidBuilds(t *testing.T) {
	g := newRig(t)
	for field, body := range map[string]string{
		"name":      `{"name":""}`,
		"_x":        `{"name":"_x"}`,
		"a--b":      `{"name":"a--b"}`,
		"tags":      `{"name":"a:B"}`,
		"a build":   `{"name":"a","tags":["1","2","3","4","5","6","7","8","9"]}`,
		"too long":  `{"name":"` + strings.Repeat("a", 60) + `:v1"}`,
		"cpuCount":  `{"name":"a","cpuCount":0}`,
		"memoryMB":  `{"name":"a","memoryMB":-1}`,
		"color":     `{"name":"a","color":1}`,
		"JSON":      `{`,
		"tags: thi": `{"name":"a","tags":"x"}`,
	} {
		g.refuse(400, field, "POST", "/v3/templates", body)
	}
	start, q := g.ask(`{"name":"app"}`)
	if strings.Join(q.Tags, " ") != "default" {
		t.Errorf("%+v", q)
	}
	for _, c := range []struct {
		status      int
		field, body string
	}{
		{501, "fromImage", `{"fromImage":"python:3"}`},
		{501, "fromTemplate", `{"fromTemplate":"other"}`},
		{400, "fromTemplate", `{"fromImage":"e2bdev/base","fromTemplate":"base"}`},
		{400, "steps[0].type", `{"steps":[{"type":"ADD","args":[]}]}`},
		{400, "steps[0].args", `{"steps":[{"type":"RUN","args":[]}]}`},
		{400, "steps[0].args", `{"steps":[{"type":"ENV","args":["A","1","B"]}]}`},
		{400, "steps[0].args", `{"steps":[{"type":"USER","args":["bob"]}]}`},
		{400, "steps[0].filesHash", `{"steps":[{"type":"COPY","args":["a","b"]}]}`},
		{400, "steps[0].args", `{"steps":[{"type":"COPY","args":["../a","b"],"filesHash":"` + hash + `"}]}`},
		{400, "steps[0].args", `{"steps":[{"type":"COPY","args":["a","b","","9"],"filesHash":"` + hash + `"}]}`},
		{400, "filesHash", `{"steps":[{"type":"COPY","args":["a","b"],"filesHash":"` + hash + `"}]}`},
		{400, "color", `{"color":1}`},
	} {
		g.refuse(c.status, c.field, "POST", start, c.body)
	}
	copyA := `{"steps":[{"type":"COPY","args":["a","b"],"filesHash":"` + hash + `"}]}`
	for part, content := range map[string]string{
		"not a tar":        "no",
		"no files":         files(t, "other", "x"),
		"not a regular":    files(t, "a.link", "/etc/passwd"),
		"below the folder": files(t, "../a", "x"),
	} {
		g.send(content)
		g.refuse(400, part, "POST", start, copyA)
	}
	g.node.closed = true
	g.send(files(t, "a", "x"))
	g.do(202, "a", "POST", start, copyA, nil)
	spec := g.node.templates["a/app"].Spec
	if spec.BuildNetwork != nil || g.node.files["files/home/user/b"] != "640 x" {
		t.Errorf("%+v %v", spec, g.node.files)
	}
	g.refuse(404, "no build", "POST", "/v2/templates/app/builds/none", `{}`)
	g.refuse(400, "hash", "GET", "/templates/app/files/xyz", "")
	g.refuse(404, "address", "PUT", "/templates/files/61/"+hash+"/wrong", "x")
	g.refuse(404, "address", "PUT", "/templates/files/zz/"+hash+"/wrong", "x")
	g.refuse(400, "tags", "DELETE", "/templates/tags", `{"name":"app"}`)
	other := strings.Replace(start, "/app/", "/other/", 1)
	g.refuse(404, "no build", "POST", other, `{}`)
}

// TestStore checks the bounds of the store.
func TestStore(t *testing.T) {
	s := newStore()
	big := make([]byte, maxArchive)
	for i := range maxArchives / maxArchive {
		if err := s.put(key{"a", fmt.Sprint(i)}, big); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.put(key{"a", "one more"}, []byte{1}); !fault.Is(err, fault.Exhausted) {
		t.Errorf("%v", err)
	}
	if err := s.put(key{"a", "0"}, []byte{1}); err != nil { // it replaces a larger one
		t.Error(err)
	}
	if _, ok := s.archive(key{"b", "0"}); ok {
		t.Error("another tenant has the archive")
	}
	old := s.archives[key{"a", "1"}]
	old.at = old.at.Add(-2 * keep)
	s.archives[key{"a", "1"}] = old
	for i := range maxBuilds {
		if err := s.keepBuild(key{"a", fmt.Sprint(i)}, &request{at: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := s.archive(key{"a", "1"}); ok {
		t.Error("an old archive was kept")
	}
	if err := s.keepBuild(key{"a", "x"}, &request{}); !fault.Is(err, fault.Exhausted) {
		t.Errorf("%v", err)
	}
}
