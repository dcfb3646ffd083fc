package files

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/envd/remote/remotetest"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

const token = "tok"

// signed marks the context of a request without the token.
type signed struct{}

type rig struct {
	t    *testing.T
	node *remotetest.Node
	url  string
}

func newRig(t *testing.T) *rig {
	base, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	r := &rig{t: t, node: remotetest.New(t)}
	mux := http.NewServeMux()
	h := New(Config{
		Config: remote.Config{Node: r.node, Base: base, Call: 10 * time.Second},
		Target: func(ctx context.Context) Target {
			return Target{
				Target: remote.Target{
					Session: remotetest.Session, Who: noderpc.Principal{Tenant: remotetest.Tenant},
				},
				Token: ctx.Value(signed{}) == nil, AccessToken: token,
			}
		},
	})
	handle := func(pattern string, do func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			if q.Header.Get("X-Access-Token") == "" {
				q = q.WithContext(context.WithValue(q.Context(), signed{}, true))
			}
			if err := do(w, q); err != nil {
				sandbox.WriteError(w, err, "")
			}
		})
	}
	handle("GET /files", h.Get)
	handle("POST /files", h.Post)
	handle("POST /files/compose", h.Compose)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// answer is a response with its body.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request with the token, unless a header says otherwise.
func (r *rig) send(method, target, body string, header ...string) answer {
	r.t.Helper()
	q, err := http.NewRequest(method, r.url+target, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("X-Access-Token", token)
	q.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(header); i += 2 {
		if q.Header.Set(header[i], header[i+1]); header[i+1] == "" {
			q.Header.Del(header[i])
		}
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		return answer{status: -1}
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, string(all)}
}

// failed checks that a response is an error in the form of E2B.
func (r *rig) failed(what string, a answer, status int, part string) {
	r.t.Helper()
	var e struct {
		Code    int
		Message string
	}
	err := json.Unmarshal([]byte(a.body), &e)
	if a.status != status || err != nil || e.Code != status || !strings.Contains(e.Message, part) {
		r.t.Errorf("%s: %d %.300s, want %d %s", what, a.status, a.body, status, part)
	}
}

// TestGet reads files as a whole, in parts and compressed.
func TestGet(t *testing.T) {
	r := newRig(t)
	text := strings.Repeat("0123456789", 1000)
	r.node.Store("/home/user/ü \".html", remotetest.File{Type: "file", Content: text})
	r.node.Store("/home/user/empty", remotetest.File{Type: "file"})
	r.node.Store("/home/user/d/x", remotetest.File{Type: "file"})
	file := "/files?path=" + url.QueryEscape("ü \".html")
	a := r.send("GET", file, "")
	if a.status != 200 || a.body != text || a.header.Get("Content-Length") != "10000" ||
		a.header.Get("Content-Type") != "text/html" || a.header.Get("Content-Disposition") !=
		"inline; filename*=utf-8''%C3%BC%20%22.html" {
		t.Errorf("%d %v", a.status, a.header)
	}
	if a := r.send("GET", "/files?path=~/empty&username=user", "", "Accept-Encoding",
		"gzip"); a.status != 200 || a.header.Get("Content-Length") != "0" || a.body != "" {
		t.Errorf("an empty file: %+v", a)
	}
	if a := r.send("HEAD", file, ""); a.status != 200 || a.header.Get("Content-Length") != "10000" {
		t.Errorf("HEAD: %+v", a)
	}
	for header, want := range map[string]string{
		"bytes=3-5": "206 345 bytes 3-5/10000", "bytes=-2": "206 89 bytes 9998-9999/10000",
		"bytes=9999-": "206 9 bytes 9999-9999/10000",
	} {
		a := r.send("GET", file, "", "Range", header, "Accept-Encoding", "gzip")
		if got := fmt.Sprint(a.status, " ", a.body, " ", a.header.Get("Content-Range")); got != want {
			t.Errorf("%s: %s", header, got)
		}
	}
	r.failed("a range beyond the end", r.send("GET", file, "", "Range", "bytes=10000-"), 416, "10000")
	if a := r.send("GET", file, "", "Range", "bytes=1-2", "If-Range", `"old"`); a.status != 200 &&
		a.status != 206 {
		t.Errorf("If-Range: %+v", a)
	}
	if a := r.send("GET", file, "", "If-None-Match", `"tag"`); a.status != 304 || a.body != "" {
		t.Errorf("If-None-Match: %+v", a)
	}
	a = r.send("GET", file, "", "Accept-Encoding", "gzip")
	z, err := gzip.NewReader(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(z); err != nil || string(plain) != text ||
		a.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("compressed: %v %v", a.header, err)
	}
	if n := r.node.Links(); n != 0 {
		t.Errorf("%d links remain", n)
	}
}

// TestGetRefuses sends requests for files that cannot be read.
func TestGetRefuses(t *testing.T) {
	r := newRig(t)
	r.node.Store("/home/user/d/x", remotetest.File{Type: "file"})
	for _, x := range []struct {
		query  string
		status int
		part   string
	}{
		{"path=none", 404, "path '/home/user/none' does not exist"},
		{"path=d", 400, "path '/home/user/d' is a directory"},
		{"", 400, "is a directory"},
		{"path=~other/x", 400, "home"},
		{"path=a%00b", 400, ""},
		{"path=d/x&username=nobody", 401, "nobody"},
	} {
		r.failed(x.query, r.send("GET", "/files?"+x.query, ""), x.status, x.part)
	}
	r.failed("a user in the header", r.send("GET", "/files?path=d/x", "", "Authorization",
		"Basic bm9ib2R5Og=="), 401, "nobody")
	r.failed("no encoding", r.send("GET", "/files?path=d/x", "", "Accept-Encoding",
		"br, identity;q=0"), 406, "gzip")
	r.node.Fail(fault.New(fault.SandboxLost, "x", "it ended"))
	if a := r.send("GET", "/files?path=d/x", ""); a.status != -1 {
		t.Errorf("after the end of the sandbox: %+v", a)
	}
}

// TestEncodingOf compares the encoding for headers of clients.
func TestEncodingOf(t *testing.T) {
	for header, want := range map[string]string{
		"": "plain", "gzip": "gzip", "gzip;q=0.5": "gzip", "gzip, deflate": "plain",
		"gzip, deflate, br": "plain", "identity": "plain", "*": "plain", "*;q=0": "refused",
		"gzip;q=0": "plain", "gzip;q=0, *;q=0": "refused", "gzip, *;q=0": "gzip",
		"gzip, br, identity;q=0": "gzip", "identity;q=0": "refused", "*;q=0, identity": "plain",
		"br": "plain", "nonsense;;": "plain", "identity;q=0, *": "gzip",
	} {
		compress, err := encodingOf(http.Header{"Accept-Encoding": {header}})
		got := "plain"
		if compress {
			got = "gzip"
		}
		if err != nil {
			got = "refused"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

// TestSigned checks that requests without a token need a signature of their own.
func TestSigned(t *testing.T) {
	r := newRig(t)
	r.node.Store("/home/user/f", remotetest.File{Type: "file", Content: "x"})
	sign := func(action string) string {
		return "/files?path=f&signature=" +
			url.QueryEscape(sandbox.Signature("f", action, "", token, ""))
	}
	none := []string{"X-Access-Token", ""}
	if a := r.send("GET", sign("read"), "", none...); a.status != 200 || a.body != "x" {
		t.Errorf("a signed read: %+v", a)
	}
	octets := append(none, "Content-Type", "application/octet-stream")
	if a := r.send("POST", sign("write"), "new", octets...); a.status != 200 {
		t.Errorf("a signed write: %+v", a)
	}
	r.failed("a signature of a read", r.send("POST", sign("read"), "bad", octets...), 401, "")
	r.failed("no signature", r.send("GET", "/files?path=f", "", none...), 401, "")
	r.failed("compose", r.send("POST", "/files/compose", "{}", none...), 401, "")
	if f := r.node.Get("/home/user/f"); f.Content != "new" {
		t.Errorf("the file is %+v", f)
	}
}

// form returns the body of a form and its type. Each pair is the name of a file and its content.
func form(t *testing.T, pairs ...string) (body, kind string) {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	_ = m.WriteField("other", "ignored")
	for i := 0; i < len(pairs); i += 2 {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", `form-data; name="file"; filename="`+pairs[i]+`"`)
		w, err := m.CreatePart(h)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, pairs[i+1])
	}
	_ = m.Close()
	return b.String(), m.FormDataContentType()
}

func compressed(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// TestPost writes files in each way.
func TestPost(t *testing.T) {
	r := newRig(t)
	large := strings.Repeat("large ", 100_000)
	r.node.Store("/home/user/run", remotetest.File{Type: "file", Content: "old", Mode: 0o755})
	r.node.Store("/home/user/link", remotetest.File{Type: "link", Target: "/home/user/run"})
	body, kind := form(t, "dir/a.txt", "one", "/abs/b", large)
	a := r.send("POST", "/files", body, "Content-Type", kind)
	if want := `[{"name":"a.txt","path":"/home/user/dir/a.txt","type":"file"},` +
		`{"name":"b","path":"/abs/b","type":"file"}]`; a.status != 200 || a.body != want {
		t.Errorf("%d %s", a.status, a.body)
	}
	body, kind = form(t, "ignored", "named")
	r.send("POST", "/files?path=c", body, "Content-Type", kind)
	body, kind = form(t, "gz", "zipped")
	r.send("POST", "/files", compressed(body), "Content-Type", kind, "Content-Encoding", "gzip")
	octets := "application/octet-stream"
	r.send("POST", "/files?path=o&username=user", large, "Content-Type", octets)
	r.send("POST", "/files?path=e", "", "Content-Type", octets)
	r.send("POST", "/files?path=z", compressed(large), "Content-Type", octets, "Content-Encoding",
		"gzip")
	r.send("POST", "/files?path=link", "new", "Content-Type", octets)
	for name, want := range map[string]remotetest.File{
		"/home/user/dir/a.txt": {Content: "one", Mode: 0o644}, "/abs/b": {Content: large, Mode: 0o644},
		"/home/user/c": {Content: "named", Mode: 0o644}, "/home/user/gz": {Content: "zipped", Mode: 0o644},
		"/home/user/o": {Content: large, Mode: 0o644}, "/home/user/e": {Mode: 0o644},
		"/home/user/z": {Content: large, Mode: 0o644}, "/home/user/run": {Content: "new", Mode: 0o755},
	} {
		if want.Type = "file"; r.node.Get(name) != want {
			t.Errorf("%s is %.100v", name, r.node.Get(name))
		}
	}
	if r.node.Get("/home/user/link").Type != "link" {
		t.Error("the link was replaced")
	}
}

// TestPostRefuses sends bodies that are not valid, and files that cannot be written.
func TestPostRefuses(t *testing.T) {
	r := newRig(t)
	r.node.Store("/home/user/d/x", remotetest.File{Type: "file", Content: "x"})
	octets := []string{"Content-Type", "application/octet-stream"}
	with := func(more ...string) []string { return append(more, octets...) }
	r.failed("no path", r.send("POST", "/files", "x", octets...), 400, "path")
	r.failed("a folder", r.send("POST", "/files?path=d", "x", octets...), 400,
		"path '/home/user/d' is a directory")
	r.failed("another type", r.send("POST", "/files?path=f", "x", "Content-Type", "text/plain"), 415,
		"multipart")
	r.failed("no boundary", r.send("POST", "/files?path=f", "x", "Content-Type",
		"multipart/form-data"), 415, "")
	r.failed("another encoding", r.send("POST", "/files?path=f", "x", with("Content-Encoding",
		"br")...), 400, "gzip")
	r.failed("no gzip", r.send("POST", "/files?path=f", "x", with("Content-Encoding", "gzip")...),
		400, "body")
	cut := compressed(strings.Repeat("x", 100_000))
	r.failed("gzip that is cut", r.send("POST", "/files?path=f", cut[:len(cut)-10],
		with("Content-Encoding", "gzip")...), 400, "body")
	r.failed("metadata", r.send("POST", "/files?path=f", "x", with("X-Metadata-Owner", "me")...), 400,
		"metadata")
	r.failed("a user", r.send("POST", "/files?path=f&username=nobody", "x", octets...), 401, "nobody")
	body, kind := form(t, "a", "1", "./a", "2")
	r.failed("one path twice", r.send("POST", "/files", body, "Content-Type", kind), 400,
		"/home/user/a")
	body, kind = form(t, "a", "1", "b", "2")
	r.failed("two files for the path", r.send("POST", "/files?path=p", body, "Content-Type", kind),
		400, "/home/user/p")
	body, kind = form(t, "", "1")
	r.failed("no name", r.send("POST", "/files", body, "Content-Type", kind), 400, "file name")
	body, kind = form(t, "q", strings.Repeat("1", 1000))
	r.failed("a form that is cut", r.send("POST", "/files", body[:len(body)-100], "Content-Type",
		kind), 400, "body")
	for _, name := range []string{"f", "q"} {
		if f := r.node.Get("/home/user/" + name); f.Type != "" {
			t.Errorf("%s was written: %.100v", name, f)
		}
	}
	r.node.Fill()
	r.failed("a full disk", r.send("POST", "/files?path=f", "x", octets...), 507, "disk")
	if n := r.node.Links(); n != 0 {
		t.Errorf("%d links remain", n)
	}
}

// TestCompose joins files.
func TestCompose(t *testing.T) {
	r := newRig(t)
	large := strings.Repeat("large ", 10_000)
	r.node.Store("/home/user/1", remotetest.File{Type: "file", Content: large})
	r.node.Store("/home/user/2", remotetest.File{Type: "file"})
	r.node.Store("/home/user/3", remotetest.File{Type: "file", Content: "end"})
	for body, want := range map[string]int{
		`{`: 400, `{}`: 400, `{"source_paths":[],"destination":"x"}`: 400,
		`{"source_paths":["1"]}`:                                       400,
		`{"source_paths":["1"],"destination":"1"}`:                     400,
		`{"source_paths":["1","none"],"destination":"x"}`:              404,
		`{"source_paths":["."],"destination":"x"}`:                     400,
		`{"source_paths":["1"],"destination":"x","username":"nobody"}`: 401,
	} {
		r.failed(body, r.send("POST", "/files/compose", body), want, "")
	}
	a := r.send("POST", "/files/compose", `{"source_paths":["1","2","3"],"destination":"out/all"}`)
	if a.status != 200 || a.body != `{"name":"all","path":"/home/user/out/all","type":"file"}` {
		t.Errorf("%+v", a)
	}
	if f := r.node.Get("/home/user/out/all"); f.Content != large+"end" {
		t.Errorf("the file has %d bytes", len(f.Content))
	}
	for _, name := range []string{"1", "2", "3"} {
		if r.node.Get("/home/user/"+name).Type != "" {
			t.Errorf("the source %s remains", name)
		}
	}
}
