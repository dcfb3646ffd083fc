package auth

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"
)

// TestSealedValues: a sealed value opens for its purpose, under its secret and
// until its end.
func TestSealedValues(t *testing.T) {
	keys := testAuthenticator(t, Config{}).Keys
	text, err := seal(keys, "one", time.Hour, "value")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok, err := unseal[string](keys, "one", text); got != "value" || !ok || err != nil {
		t.Errorf("%q %t %v", got, ok, err)
	}
	late, _ := seal(keys, "one", -time.Second, "value")
	for name, c := range map[string][2]string{
		"another purpose": {"two", text},
		"expired":         {"one", late},
		"changed":         {"one", text[:len(text)-2] + "AA"},
		"short":           {"one", text[:8]},
		"no base64":       {"one", "!" + text},
		"empty":           {"one", ""},
	} {
		if _, ok, err := unseal[string](keys, c[0], c[1]); ok || err != nil {
			t.Errorf("%s: %t %v", name, ok, err)
		}
	}
}

// TestSealedByEarlierRelease: values sealed by releases before HKDF open only for their purpose.
// TestGoldenSealed opens real ones.
func TestSealedByEarlierRelease(t *testing.T) {
	keys := testAuthenticator(t, Config{}).Keys
	aead, err := newAEAD(earlierSealKey(testSecret(), "one"), nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, _ := json.Marshal(sealed[string]{time.Now().Add(time.Hour).Unix(), "value"})
	nonce := make([]byte, aead.NonceSize())
	_, _ = rand.Read(nonce)
	text := base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, nil))
	if got, ok, _ := unseal[string](keys, "one", text); got != "value" || !ok {
		t.Errorf("%q %t", got, ok)
	}
	if _, ok, _ := unseal[string](keys, "two", text); ok {
		t.Error("it opens for another purpose")
	}
}
