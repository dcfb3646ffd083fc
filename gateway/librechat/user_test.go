package librechat

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sandgate/sandgate/gateway/librechat/usertoken"
)

// signed returns the token of a user, and the public key in PEM.
func signed(t *testing.T, claims map[string]any) (token string, public []byte) {
	t.Helper()
	seed := sha256.Sum256([]byte("a key for tests"))
	key := ed25519.NewKeyFromSeed(seed[:])
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", "k1"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{
		"iss": "librechat", "aud": "codeapi", "exp": time.Now().Add(time.Minute).Unix(),
	}
	for k, v := range claims {
		all[k] = v
	}
	if token, err = jwt.Signed(signer).Claims(all).Serialize(); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return token, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// TestCredentials finds the users of all kinds of credentials.
func TestCredentials(t *testing.T) {
	ada, public := signed(t, map[string]any{"sub": "ada", "tenant_id": "x"})
	other, _ := signed(t, map[string]any{"sub": "ada", "tenant_id": "y"})
	late, _ := signed(t, map[string]any{"sub": "ada", "exp": time.Now().Add(-time.Hour).Unix()})
	verifier, err := usertoken.New(usertoken.Config{
		Keys: public, KeyID: "k1", Issuer: "librechat", Audience: "codeapi",
	})
	if err != nil {
		t.Fatal(err)
	}
	x := newFixture(t, func(c *Config) { c.Tokens = verifier })
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:key1"))
	seen := map[string]string{}
	for _, try := range []struct{ name, header, value, tenant, same string }{
		{"key", "X-API-Key", "key1", "key1", ""},
		{"bearer", "Authorization", "Bearer key1", "key1", "key"},
		{"basic", "Authorization", basic, "key1", "key"},
		{"another key", "X-API-Key", "key2", "key2", ""},
		{"user", "Authorization", "Bearer " + ada, "librechat", ""},
		{"same user", "Authorization", "bearer " + ada, "librechat", "user"},
		{"user of another tenant", "Authorization", "Bearer " + other, "librechat", ""},
	} {
		r := httptest.NewRequest("GET", Prefix+"/files/x", nil)
		r.Header.Set(try.header, try.value)
		ctx, who, err := x.surface.authenticate(r)
		if err != nil || who.Tenant != try.tenant {
			t.Errorf("%s: %+v %v", try.name, who, err)
			continue
		}
		key := userOf(r.WithContext(ctx)).Key
		if try.same != "" && seen[try.same] != key {
			t.Errorf("%s is not the user of %s", try.name, try.same)
		}
		for name, other := range seen {
			if try.same == "" && other == key {
				t.Errorf("%s is the user of %s", try.name, name)
			}
		}
		if try.same == "" {
			seen[try.name] = key
		}
	}
	for name, value := range map[string]string{
		"an old token": "Bearer " + late, "a wrong key": "Bearer wrong", "nothing": "",
		"a cut token": "Bearer " + ada[:len(ada)-3],
	} {
		r := httptest.NewRequest("GET", Prefix+"/files/x", nil)
		r.Header.Set("Authorization", value)
		w := httptest.NewRecorder()
		x.mux.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || x.errorOf(w).Error != "unauthenticated" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestRate refuses runs over the limit, in the form that clients read.
func TestRate(t *testing.T) {
	full := 0
	x := newFixture(t, func(c *Config) { c.Runs, c.Full = 2, func() { full++ } })
	now := time.Now()
	for range 2 {
		if err := x.surface.rates.admit(digest("key", "ada", "key:ada"), now); err != nil {
			t.Fatal(err)
		}
	}
	code, e := x.refused("ada", map[string]any{"lang": "py", "code": "x"})
	if code != http.StatusTooManyRequests || e.Error != errorRate || e.RetryAfter < 1 ||
		e.RetryAfter > 15 || full != 1 {
		t.Errorf("%d %+v, counted %d", code, e, full)
	}
	if err := x.surface.rates.admit("bob", now); err != nil {
		t.Error("another user: ", err)
	}
	if err := x.surface.rates.admit(digest("key", "ada", "key:ada"), now.Add(15*time.Second)); err != nil {
		t.Error("later: ", err)
	}
}

// TestOpenRoutes: the state of the server needs no credentials.
func TestOpenRoutes(t *testing.T) {
	x := newFixture(t)
	if w := x.send("", "GET", "/health", "", nil); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
