package jittoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

const key = "a key of both servers"

// sign returns a token as LobeHub makes it.
func sign(key, claims string) string {
	signed := Prefix + base64.RawURLEncoding.EncodeToString([]byte(claims))
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// TestVerify accepts the tokens of the key and refuses all others.
func TestVerify(t *testing.T) {
	v, err := New(Config{Key: []byte(key), Issuers: []string{"https://chat.example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_800_000_000_000)
	claims := func(in time.Duration, iss, sub string) string {
		return fmt.Sprintf(`{"exp":%d,"iss":%q,"sub":%q}`, now.Add(in).UnixMilli(), iss, sub)
	}
	good := claims(time.Hour, "https://chat.example.org", "ada")
	u, err := v.Verify(sign(key, good), now)
	if err != nil || u.Subject != "ada" || !u.Until.Equal(now.Add(time.Hour)) {
		t.Fatal(u, err)
	}
	valid := sign(key, good)
	for name, token := range map[string]string{
		"another key": sign("another key of 16", good), "expired": sign(key, claims(0, u.Issuer, "ada")),
		"for long":       sign(key, claims(25*time.Hour, u.Issuer, "ada")),
		"another issuer": sign(key, claims(time.Hour, "https://b.example.org", "ada")),
		"no subject":     sign(key, claims(time.Hour, u.Issuer, "")),
		"control":        sign(key, claims(time.Hour, u.Issuer, "a\nb")),
		"cut":            valid[:len(valid)-2], "empty": Prefix, "no claims": sign(key, "x"),
		"large":         sign(key, claims(time.Hour, u.Issuer, strings.Repeat("a", maxToken))),
		"other claims":  valid[:len(Prefix)] + "e30" + valid[strings.LastIndex(valid, "."):],
		"no signature":  valid[:strings.LastIndex(valid, ".")+1],
		"a wrong place": "x" + valid,
	} {
		if _, err := v.Verify(token, now); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Config{Key: []byte("short")}); err == nil {
		t.Error("a short key is accepted")
	}
}
