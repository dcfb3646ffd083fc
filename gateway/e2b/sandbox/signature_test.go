package sandbox

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestSignature compares signatures with those that openssl computes.
func TestSignature(t *testing.T) {
	for _, x := range []struct{ path, action, user, token, ends, want string }{
		{
			"/home/user/a.txt", "read", "", "tok", "",
			"v1_Zkbb3914oLJLvMBzCAHQhm2ydBLxbSx2eQUR/kLdvIY",
		},
		{
			"/home/user/a.txt", "read", "user", "tok", "1800000000",
			"v1_Gml9VX4EmH7uKuRohmnsu1MXtbOyYcC+T3qCeV7vKaY",
		},
		{"", "write", "", "tok", "", "v1_XfYYOx0ojDc6kqfLnaJuiYLWXCK2SaWCthv8+gv5kbo"},
		{
			"a b+ü.txt", "write", "user", "0123456789abcdef", "1764000000",
			"v1_BUx2MYpKIjhHiIaGLQxiltxlgSGwRbd19OEgVzKVtg4",
		},
	} {
		if got := Signature(x.path, x.action, x.user, x.token, x.ends); got != x.want {
			t.Errorf("%+v: %s", x, got)
		}
	}
}

// TestCheckSignature checks requests whose signature is valid for something else, or for nothing.
func TestCheckSignature(t *testing.T) {
	const token = "tok"
	now := time.Unix(1_800_000_000, 0)
	query := func(pairs ...string) string {
		q := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			q.Add(pairs[i], pairs[i+1])
		}
		return q.Encode()
	}
	read := Signature("/a", "read", "user", token, "1800000000")
	for _, x := range []struct {
		method, query string
		ok            bool
	}{
		{"GET", query("path", "/a", "signature", Signature("/a", "read", "", token, "")), true},
		{"HEAD", query("path", "/a", "signature", Signature("/a", "read", "", token, "")), true},
		{"POST", query("path", "/a", "signature", Signature("/a", "write", "", token, "")), true},
		{"POST", query("signature", Signature("", "write", "", token, "")), true},
		{"GET", query("path", "/a", "username", "user", "signature_expiration", "1800000000",
			"signature", read), true},
		{"POST", query("path", "/a", "username", "user", "signature_expiration", "1800000000",
			"signature", read), false},
		{"GET", query("path", "/b", "username", "user", "signature_expiration", "1800000000",
			"signature", read), false},
		{"GET", query("path", "/a", "username", "root", "signature_expiration", "1800000000",
			"signature", read), false},
		{"GET", query("path", "/a", "username", "user", "signature_expiration", "1800000001",
			"signature", read), false},
		{"GET", query("path", "/a", "username", "user", "signature", read), false},
		{"GET", query("path", "/a", "signature_expiration", "1799999999", "signature",
			Signature("/a", "read", "", token, "1799999999")), false},
		{"GET", query("path", "/a", "signature_expiration", "soon", "signature",
			Signature("/a", "read", "", token, "soon")), false},
		{"GET", query("path", "/a", "signature", Signature("/a", "read", "", "other", "")), false},
		{"GET", query("path", "/a", "path", "/b", "signature",
			Signature("/a", "read", "", token, "")), false},
		{"GET", query("path", "/a", "signature", "v1_"), false},
		{"GET", query("path", "/a", "signature", ""), false},
		{"GET", query("path", "/a"), false},
	} {
		r := httptest.NewRequest(x.method, "/files?"+x.query, nil)
		err := CheckSignature(r, token, now)
		if (err == nil) != x.ok || err != nil && !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s %s: %v", x.method, x.query, err)
		}
	}
	// Some clients do not escape the plus sign.
	plus := "signature=" + Signature("/p3", "read", "", token, "") + "&path=/p3"
	if !strings.Contains(plus, "+") {
		t.Fatal("the signature has no plus sign")
	}
	if err := CheckSignature(httptest.NewRequest("GET", "/files?"+plus, nil), token,
		now); err != nil {
		t.Error(err)
	}
	empty := "signature=" + url.QueryEscape(Signature("/a", "read", "", "", "")) + "&path=/a"
	if CheckSignature(httptest.NewRequest("GET", "/files?"+empty, nil), "", now) == nil {
		t.Error("a sandbox without a token accepts signatures")
	}
}
