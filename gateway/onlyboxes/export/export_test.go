package export

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestCheck refuses addresses and headers before anything is sent.
func TestCheck(t *testing.T) {
	x, err := New(Config{Hosts: []string{"s3.example.org", "*.store.example:9000"}})
	if err != nil {
		t.Fatal(err)
	}
	for address, kind := range map[string]fault.Kind{
		"https://s3.example.org/b/k?sign=1": "", "http://a.store.example:9000/": "",
		"https://store.example.org/": fault.PermissionDenied, "file:///x": fault.InvalidArgument,
		"https://s3.example.org:8443/": fault.PermissionDenied, "x": fault.InvalidArgument,
		"https://u:p@s3.example.org/":  fault.InvalidArgument,
		"https://169.254.169.254/x":    fault.PermissionDenied,
		"https://s3.example.org@b.org": fault.InvalidArgument,
	} {
		if err := x.Check(address, nil); fault.KindOf(err) != kind && (err != nil || kind != "") {
			t.Errorf("%s: %v, should be %q", address, err, kind)
		}
	}
	headers := map[string]string{"X-Amz-A": "b\r\nHost: c"}
	if err := x.Check("https://s3.example.org/", headers); fault.PublicOf(err).Field != "headers" {
		t.Error("a header with two lines: ", err)
	}
}

// TestPrivateAddress: a host that the operator has named is not reached at a private address, unless
// the operator has named that as well.
func TestPrivateAddress(t *testing.T) {
	var got http.Header
	store := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
	}))
	defer store.Close()
	host := strings.TrimPrefix(store.URL, "http://")
	headers := map[string]string{"x-amz-a": "1", "Authorization": "no", "Content-MD5": "m"}
	for _, private := range []bool{false, true} {
		cfg := Config{Hosts: []string{host}}
		if private {
			cfg.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}
		x, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = x.Export(context.Background(), store.URL, headers, strings.NewReader("abc"), 3, "text/x")
		if (err == nil) != private || (got != nil) != private {
			t.Errorf("private %v: %v", private, err)
		}
	}
	if got.Get("X-Amz-A") != "1" || got.Get("Content-Md5") != "m" || got.Get("Authorization") != "" ||
		got.Get("Content-Type") != "text/x" {
		t.Errorf("%v", got)
	}
}
