package usertoken

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sandgate/sandgate/protocol/fault"
)

func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, id string, claims map[string]any,
) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithHeader("kid", id)
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func public(t *testing.T, key crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// TestVerify checks each claim, the signature and the id of the key.
func TestVerify(t *testing.T) {
	verifyKey, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, other, _ := ed25519.GenerateKey(rand.Reader)
	v, err := New(Config{
		Keys: public(t, verifyKey), KeyID: "k1", Issuer: "librechat", Audience: "codeapi",
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	claims := func(change map[string]any) map[string]any {
		all := map[string]any{
			"iss": "librechat", "aud": "codeapi", "sub": "u1", "tenant_id": "t1",
			"nbf": now.Unix(), "exp": now.Add(MaxLife).Unix(),
		}
		for k, value := range change {
			if all[k] = value; value == nil {
				delete(all, k)
			}
		}
		return all
	}
	u, err := v.Verify(sign(t, jose.EdDSA, key, "k1", claims(nil)), now)
	if err != nil || u.Subject != "u1" || u.Tenant != "t1" ||
		u.Until.Unix() != now.Add(MaxLife+Leeway).Unix() {
		t.Errorf("%+v %v", u, err)
	}
	if _, err := v.Verify(sign(t, jose.EdDSA, key, "k1", claims(nil)),
		now.Add(-Leeway/2)); err != nil {
		t.Error("a clock that is late: ", err)
	}
	with := func(name string, value any) string {
		return sign(t, jose.EdDSA, key, "k1", claims(map[string]any{name: value}))
	}
	symmetric := []byte(strings.Repeat("k", 32))
	for name, token := range map[string]string{
		"another key":  sign(t, jose.EdDSA, other, "k1", claims(nil)),
		"another id":   sign(t, jose.EdDSA, key, "k2", claims(nil)),
		"symmetric":    sign(t, jose.HS256, symmetric, "k1", claims(nil)),
		"issuer":       with("iss", "x"),
		"audience":     with("aud", "x"),
		"no user":      with("sub", nil),
		"no end":       with("exp", nil),
		"long":         with("exp", now.Add(time.Hour).Unix()),
		"expired":      with("exp", now.Add(-time.Minute).Unix()),
		"early":        with("nbf", now.Add(time.Minute).Unix()),
		"control":      with("sub", "a\x00b"),
		"long subject": with("sub", strings.Repeat("x", 201)),
		"no token":     "eyJ.eyJ.x",
		"none":         "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ1MSJ9.",
	} {
		if u, err := v.Verify(token, now); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %+v %v", name, u, err)
		}
	}
}

// TestKeySet reads a key set with several keys, and refuses keys that are not public or too weak.
func TestKeySet(t *testing.T) {
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := ed25519.GenerateKey(rand.Reader)
	set, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: first, KeyID: "old"}, {Key: strong.Public(), KeyID: "new"},
	}})
	v, err := New(Config{Keys: set, Issuer: "i", Audience: "a"})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	token := sign(t, jose.RS256, strong, "new", map[string]any{
		"iss": "i", "aud": []string{"b", "a"}, "sub": "u", "exp": now.Add(time.Minute).Unix(),
	})
	if u, err := v.Verify(token, now); err != nil || u.Subject != "u" {
		t.Errorf("%+v %v", u, err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: strong}}})
	for name, text := range map[string][]byte{
		"nothing": nil, "text": []byte("x"), "weak": public(t, weak.Public()), "secret": secret,
	} {
		if _, err := New(Config{Keys: text}); fault.PublicOf(err).Field != "librechat.jwt_keys" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
