package files

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/envd/remote/remotetest"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// FuzzPost fails when an upload makes the gateway panic, or is refused as an error of the server.
func FuzzPost(f *testing.F) {
	const form = "multipart/form-data; boundary=b"
	file := "--b\r\nContent-Disposition: form-data; name=file; filename=\"/home/user/a\"\r\n\r\nx\r\n"
	f.Add(form, "", []byte(file+"--b--\r\n"))
	f.Add(form, "", []byte(file+file+"--b--\r\n"))
	f.Add(form, "", []byte("--b\r\nContent-Disposition: form-data; name=file\r\n\r\nx\r\n--b--"))
	f.Add(form, "gzip", []byte("\x1f\x8b\x08"))
	f.Add("application/octet-stream", "", []byte("x"))
	f.Add("multipart/form-data", "br", []byte(file))
	node := remotetest.New(f)
	h := New(Config{
		Config: remote.Config{Node: node, Base: f.Context(), Call: 10 * time.Second},
		Target: func(context.Context) Target {
			return Target{
				Target: remote.Target{
					Session: remotetest.Session, Who: noderpc.Principal{Tenant: remotetest.Tenant},
				},
				Token: true, AccessToken: token,
			}
		},
	})
	f.Fuzz(func(t *testing.T, kind, encoding string, body []byte) {
		r := httptest.NewRequest("POST", "/files", bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Content-Encoding", encoding)
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
		}()
		if err := h.Post(httptest.NewRecorder(), r); fault.Is(err, fault.Internal) {
			t.Errorf("%q: %v", kind, err)
		}
	})
}
