package surface

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestFormPart checks the errors of a part: those of the form are malformed, others stay.
func TestFormPart(t *testing.T) {
	tooLarge := fault.New(fault.TooLarge, "x", "too much")
	for _, c := range []struct {
		err  error
		want fault.Kind
	}{
		{errors.New("multipart: no boundary"), fault.Malformed},
		{tooLarge, fault.TooLarge},
	} {
		content := io.MultiReader(strings.NewReader("text"), iotest.ErrReader(c.err))
		part := FormPart{Reader: content, Op: "x.y"}
		text, err := io.ReadAll(part)
		if string(text) != "text" || !fault.Is(err, c.want) {
			t.Errorf("%q, %v; want text, and %s", text, err, c.want)
		}
	}
	if text, err := io.ReadAll(FormPart{Reader: strings.NewReader("all")}); string(text) != "all" ||
		err != nil {
		t.Errorf("%q, %v; want all of it", text, err)
	}
}

// TestDownload checks that a whole file is sent as an attachment, and that a response whose content
// ends early is cut.
func TestDownload(t *testing.T) {
	d := Download{Name: "a/ü b.txt", Type: "text/plain", Size: 4}
	send := func(content io.Reader) (res *http.Response, err error) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.Send(w, r.WithContext(WithCall(r.Context(), new(Call))), content)
		}))
		defer s.Close()
		if res, err = http.Get(s.URL); err != nil {
			return nil, err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err == nil && string(text) != "text" {
			t.Errorf("the content is %q", text)
		}
		return res, err
	}
	res, err := send(strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "attachment; filename*=utf-8''%C3%BC%20b.txt"
	if got := res.Header.Get("Content-Disposition"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if res.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Error("a browser may guess the type")
	}
	if _, err := send(io.MultiReader(strings.NewReader("te"),
		iotest.ErrReader(errors.New("lost")))); err == nil {
		t.Error("a part was taken for the file")
	}
}
