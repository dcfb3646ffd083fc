package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestRanges compares ranges of a file with RFC 9110: one range, from the beginning or the end,
// If-Range, If-None-Match, and a range after the end.
func TestRanges(t *testing.T) {
	w := newWorld(t, nil)
	w.session()
	const path = "/v1/sessions/fixed/files/a"
	r := w.do("PUT", path, tokenAll, strings.NewReader("0123456789"), nil)
	read(t, r)
	w.fake.change(func() { w.fake.files["fixed/empty"] = nil })
	tag := `"` + etagFor([]byte("0123456789")) + `"`
	for _, x := range []struct {
		path, header, ifRange string
		status                int
		body, content         string
	}{
		{path, "", "", 200, "0123456789", ""},
		{path, "bytes=0-", "", 206, "0123456789", "bytes 0-9/10"},
		{path, "bytes=3-5", "", 206, "345", "bytes 3-5/10"},
		{path, "bytes=7-99", "", 206, "789", "bytes 7-9/10"},
		{path, "bytes=-3", "", 206, "789", "bytes 7-9/10"},
		{path, "bytes=-99", "", 206, "0123456789", "bytes 0-9/10"},
		{path, "bytes=10-", "", 416, "", "bytes */10"},
		{path, "bytes=5-3", "", 200, "0123456789", ""},
		{path, "bytes=-0", "", 200, "0123456789", ""},
		{path, "bytes=0-1,4-5", "", 200, "0123456789", ""},
		{path, "lines=1-2", "", 200, "0123456789", ""},
		{path, "bytes=3-5", tag, 206, "345", "bytes 3-5/10"},
		{path, "bytes=3-5", `"other"`, 200, "0123456789", ""},
		{path, "bytes=3-5", "Sat, 21 Nov 2026 03:00:00 GMT", 200, "0123456789", ""},
		{"/v1/sessions/fixed/files/empty", "bytes=0-", "", 200, "", ""},
	} {
		r := w.do("GET", x.path, tokenAll, nil, func(r *http.Request) {
			if x.header != "" {
				r.Header.Set("Range", x.header)
			}
			if x.ifRange != "" {
				r.Header.Set("If-Range", x.ifRange)
			}
		})
		body := read(t, r)
		if x.status == 416 {
			body = ""
		}
		if r.StatusCode != x.status || body != x.body ||
			r.Header.Get("Content-Range") != x.content {
			t.Errorf("%s %s %s: %d %q %q", x.path, x.header, x.ifRange, r.StatusCode, body,
				r.Header.Get("Content-Range"))
		}
		if x.status == 200 && x.path == path && (r.Header.Get("ETag") != tag ||
			r.Header.Get("Accept-Ranges") != "bytes") {
			t.Errorf("%s: the header is %v", x.header, r.Header)
		}
	}
	r = w.do("GET", path, tokenAll, nil,
		func(r *http.Request) { r.Header.Set("If-None-Match", tag) })
	if body := read(t, r); r.StatusCode != 304 || body != "" {
		t.Errorf("with its ETag: %d %q", r.StatusCode, body)
	}
}

// TestFileOps checks how requests that change a tree reach the node.
func TestFileOps(t *testing.T) {
	w := newWorld(t, nil)
	w.session()
	const base = "/v1/sessions/fixed/files"
	for _, x := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", base + "/?list", "", 200, `file.list {"session":"fixed","path":"."}`},
		{"GET", base + "//?list", "", 200, `file.list {"session":"fixed","path":"/"}`},
		{
			"GET", base + "/a/b/?list&limit=7&after=eA", "", 200,
			`file.list {"session":"fixed","path":"a/b","limit":7,"after":"eA"}`,
		},
		{
			"GET", base + "/a?list&depth=3", "", 200,
			`file.list {"session":"fixed","path":"a","depth":3}`,
		},
		{
			"POST", base + "/a/b", `{"op":"mkdir"}`, 201,
			`file.mkdir {"session":"fixed","path":"a/b"}`,
		},
		{
			"POST", base + "/a", `{"op":"move","to":"/tmp/x","overwrite":true}`, 200,
			`file.move {"session":"fixed","path":"a","to":"/tmp/x","overwrite":true}`,
		},
		{
			"POST", base + "/a", `{"op":"copy","to":"b"}`, 200,
			`file.copy {"session":"fixed","path":"a","to":"b"}`,
		},
		{
			"DELETE", base + "/a?recursive=true", "", 200,
			`file.remove {"session":"fixed","path":"a","recursive":true}`,
		},
		{"GET", base + "/a?list&limit=x", "", 400, ""},
		{"GET", base + "/a?list&depth=0", "", 400, ""},
		{"POST", base + "/a", `{"op":"format"}`, 400, ""},
		{"POST", base + "/a", `{"op":"move"}`, 400, ""},
		{"POST", base + "/a", `{"op":"move","to":"../x"}`, 400, ""},
		{"DELETE", base + "/a?recursive=perhaps", "", 400, ""},
		{"GET", base + "/", "", 400, ""},
		{"PUT", base + "/a?archive=rar", "x", 400, ""},
		{"PUT", base + "/a?mode=999", "x", 400, ""},
		{"PUT", base + "/a?mode=7777", "x", 400, ""},
	} {
		w.fake.change(func() { w.fake.asked = nil })
		var body *strings.Reader
		if body = strings.NewReader(x.body); x.body == "" {
			body = nil
		}
		var r *http.Response
		if body == nil {
			r = w.do(x.method, x.path, tokenAll, nil, nil)
		} else {
			r = w.do(x.method, x.path, tokenAll, body, nil)
		}
		text := read(t, r)
		w.fake.mu.Lock()
		asked := slices.Clone(w.fake.asked)
		w.fake.mu.Unlock()
		if r.StatusCode != x.status || x.want == "" && len(asked) > 0 || x.want != "" &&
			!slices.Equal(asked, []string{x.want}) {
			t.Errorf("%s %s: %d %s, the node was asked %q", x.method, x.path, r.StatusCode, text,
				asked)
		}
	}
	wantFault(t, w.do("DELETE", base+"/a", tokenViewer, nil, nil), fault.PermissionDenied)
	wantFault(t, w.do("PUT", base+"/a", tokenAll, strings.NewReader("x"),
		func(r *http.Request) { r.Header.Set("If-Match", "*") }), fault.InvalidArgument)
}
