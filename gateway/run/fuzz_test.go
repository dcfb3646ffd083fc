package run

import (
	"bytes"
	"net/http/httptest"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// FuzzForm fails when the body of a run makes the gateway panic, has more files than the limit, or
// is refused as an error of the server.
func FuzzForm(f *testing.F) {
	const form = "multipart/form-data; boundary=b"
	request := "--b\r\nContent-Disposition: form-data; name=request\r\n\r\n{\"code\":\"1\"}\r\n"
	file := "--b\r\nContent-Disposition: form-data; name=file; filename=\"a/b\"\r\n\r\nx\r\n"
	f.Add(form, []byte(request+file+"--b--\r\n"))
	f.Add(form, []byte(request+request+"--b--\r\n"))
	f.Add(form, []byte(file+file+"--b"))
	f.Add("multipart/form-data", []byte(request))
	f.Add("multipart/form-data; boundary=\"\"", []byte("--\r\n\r\n--"))
	f.Add("application/json", []byte(`{"code":"1","files":[{"path":"a"}]}`))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		r := httptest.NewRequest("POST", "/v1/run", bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		p, err := decode(r)
		if fault.Is(err, fault.Internal) {
			t.Errorf("%q: %v", kind, err)
		}
		if err == nil && r.MultipartForm != nil && len(p.Files) > maxFiles {
			t.Errorf("%d files", len(p.Files))
		}
	})
}
