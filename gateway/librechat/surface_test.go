package librechat

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/gateway/surface/surfacetest"
	"github.com/sandgate/sandgate/protocol"
)

// fixture is a surface with a node.
type fixture struct {
	*testing.T
	node    *node
	surface *Surface
	mux     *http.ServeMux
}

func newFixture(t *testing.T, change ...func(*Config)) *fixture {
	x := &fixture{T: t, node: newNode(t), mux: http.NewServeMux()}
	cfg := Config{
		Settings: Settings{
			Timeout: time.Minute, Retention: time.Hour, Tenant: "librechat",
		},
		Node: x.node, Auth: surfacetest.Keys{}, Log: slog.New(slog.DiscardHandler),
		Base: context.Background(), Call: time.Minute, Full: func() {},
		Go: func(f func()) bool { f(); return true },
	}
	for _, f := range change {
		f(&cfg)
	}
	x.surface = New(cfg)
	for _, r := range x.surface.Routes() {
		pattern := strings.NewReplacer(":session", "{session}", ":file", "{file}").Replace(r.Path)
		x.mux.HandleFunc(r.Method+" "+pattern, func(w http.ResponseWriter, req *http.Request) {
			call := &surface.Call{WriteError: r.WriteError}
			req = req.WithContext(surface.WithCall(req.Context(), call))
			if r.Authenticate != nil {
				ctx, who, err := r.Authenticate(req)
				if err != nil {
					call.Answer(w, err)
					return
				}
				call.Who = who
				req = req.WithContext(ctx)
			}
			r.Handler.ServeHTTP(w, req)
		})
	}
	return x
}

// send sends a request with a key and returns the response.
func (x *fixture) send(key, method, path, contentType string, body io.Reader,
	header ...string,
) *httptest.ResponseRecorder {
	x.Helper()
	r := httptest.NewRequest(method, Prefix+path, body)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("X-Api-Key", key)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	x.mux.ServeHTTP(w, r)
	return w
}

// exec runs a program and returns the answer. The status must be 200.
func (x *fixture) exec(key string, body map[string]any, header ...string) answer {
	x.Helper()
	text, _ := json.Marshal(body)
	w := x.send(key, "POST", "/exec", "application/json", bytes.NewReader(text), header...)
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
		x.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return a
}

// refused runs a program that must be refused, and returns the status and the error.
func (x *fixture) refused(key string, body map[string]any, header ...string) (int, errorBody) {
	x.Helper()
	text, _ := json.Marshal(body)
	w := x.send(key, "POST", "/exec", "application/json", bytes.NewReader(text), header...)
	return w.Code, x.errorOf(w)
}

func (x *fixture) errorOf(w *httptest.ResponseRecorder) (e errorBody) {
	x.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == "" || w.Code < 400 {
		x.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return e
}

// newForm returns a form: pairs of a field and its value. A field file:NAME is a file.
func newForm(pairs ...string) (contentType string, body io.Reader) {
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		if name, ok := strings.CutPrefix(pairs[i], "file:"); ok {
			part, _ := m.CreateFormFile("file", name)
			_, _ = io.WriteString(part, pairs[i+1])
			continue
		}
		_ = m.WriteField(pairs[i], pairs[i+1])
	}
	_ = m.Close()
	return m.FormDataContentType(), &b
}

// upload uploads one file and returns its reference.
func (x *fixture) upload(key, name, content string, fields ...string) map[string]any {
	x.Helper()
	contentType, body := newForm(append([]string{"file:" + name, content}, fields...)...)
	w := x.send(key, "POST", "/upload", contentType, body)
	var a uploadAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Message != messageSuccess ||
		len(a.Files) != 1 || a.Session != a.Storage || a.Files[0].Filename != name {
		x.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return map[string]any{
		"id": a.Files[0].FileID, "storage_session_id": a.Storage, "name": name,
	}
}

func exited(code int) protocol.Exit { return protocol.Exit{Code: code, Reason: "exited"} }
