package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// issuer is an OpenID Connect provider that only publishes keys.
type issuer struct {
	t      *testing.T
	server *httptest.Server
	key    *ecdsa.PrivateKey
	asked  atomic.Int32 // for its keys
	away   atomic.Bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key}
	mux := http.NewServeMux()
	i.server = httptest.NewServer(mux)
	t.Cleanup(i.server.Close)
	mux.HandleFunc("/.well-known/openid-configuration",
		func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{
				"issuer": i.server.URL, "jwks_uri": i.server.URL + "/keys",
			})
		})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		if i.away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"},
		}})
	})
	return i
}

func (i *issuer) accept(s SignIn) *AccessTokens {
	i.t.Helper()
	s.Issuer, s.ClientID, s.PublicURL = i.server.URL, "sandgate", "https://a.test"
	p, err := newProvider(i.t.Context(), &s)
	if err != nil {
		i.t.Fatal(err)
	}
	return newAccessTokens(p)
}

// sign returns a token with claims that replace the valid ones.
func (i *issuer) sign(alg jose.SignatureAlgorithm, key any, kid string,
	replace map[string]any,
) string {
	i.t.Helper()
	claims := map[string]any{
		"iss": i.server.URL, "aud": []string{"other", "https://a.test/mcp"}, "sub": "ann",
		"exp": time.Now().Add(time.Minute).Unix(), "org": "acme", "groups": []string{"owner"},
	}
	maps.Copy(claims, replace)
	body, err := json.Marshal(claims)
	if err != nil {
		i.t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key},
		(&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", kid))
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(body)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

func manages(who noderpc.Principal) bool {
	return slices.Contains(who.Scopes, string(protocol.ScopeManage))
}

// TestAccessTokens accepts tokens of the provider for this server, and no others.
func TestAccessTokens(t *testing.T) {
	i := newIssuer(t)
	a := i.accept(SignIn{TenantClaim: "org", RoleClaim: "groups"})
	good := i.sign(jose.ES256, i.key, "k", nil)
	who, err := a.Open(t.Context(), good)
	if err != nil || who.Tenant != "acme" || who.Subject != "user:ann" ||
		!manages(who) ||
		time.Until(who.Until) > time.Minute || !IsJWT(good) {
		t.Fatalf("%+v %v", who, err)
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	change := func(claim string, value any) string {
		return i.sign(jose.ES256, i.key, "k", map[string]any{claim: value})
	}
	public, err := json.Marshal(jose.JSONWebKey{Key: i.key.Public()})
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(good, ".")
	for label, x := range map[string]struct {
		token string
		kind  fault.Kind
	}{
		"another audience":       {change("aud", "https://b.test/mcp"), fault.Unauthenticated},
		"a token of the sign-in": {change("aud", "sandgate"), fault.Unauthenticated},
		"no audience":            {change("aud", nil), fault.Unauthenticated},
		"another issuer":         {change("iss", "https://b.test"), fault.Unauthenticated},
		"an old token":           {change("exp", time.Now().Unix()-1), fault.Unauthenticated},
		"a token without an end": {change("exp", nil), fault.Unauthenticated},
		"a later token":          {change("nbf", time.Now().Unix()+3600), fault.Unauthenticated},
		"no user":                {change("sub", ""), fault.PermissionDenied},
		"no role":                {change("groups", []string{"staff"}), fault.PermissionDenied},
		"no tenant":              {change("org", nil), fault.PermissionDenied},
		"the operator's tenant":  {change("org", "local"), fault.PermissionDenied},
		"another key":            {i.sign(jose.ES256, stranger, "k", nil), fault.Unauthenticated},
		"the public key as secret": {
			i.sign(jose.HS256, public, "k", nil), fault.Unauthenticated,
		},
		"no signature": {
			"eyJhbGciOiJub25lIn0." + strings.Split(rest, ".")[0] + ".", fault.Unauthenticated,
		},
		"another header": {"eyJhbGciOiJFUzI1NiJ9." + rest, fault.Unauthenticated},
		"half a token":   {head + "..", fault.Unauthenticated},
	} {
		if who, err := a.Open(t.Context(), x.token); !fault.Is(err, x.kind) {
			t.Errorf("%s: %+v %v", label, who, err)
		}
	}
	other := i.accept(SignIn{Tenant: "t", Role: tenant.Viewer, Audience: "api"})
	if who, err := other.Open(t.Context(), change("aud", "api")); err != nil || who.Tenant != "t" ||
		manages(who) {
		t.Errorf("an audience of the configuration: %+v %v", who, err)
	}
	if _, err := other.Open(t.Context(), good); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("another audience than that of the configuration: %v", err)
	}
}

// TestHardening_KeysOfProvider: tokens with unknown keys cause few requests to the provider, and a
// provider that is away is not the fault of the token.
func TestHardening_KeysOfProvider(t *testing.T) {
	i := newIssuer(t)
	a := i.accept(SignIn{Tenant: "t", Role: tenant.Owner})
	for n := range 50 {
		token := i.sign(jose.ES256, i.key, fmt.Sprint(n), nil)
		if _, err := a.Open(t.Context(), token); !fault.Is(err, fault.Unauthenticated) {
			t.Fatalf("an unknown key: %v", err)
		}
	}
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
	if _, err := a.Open(t.Context(), i.sign(jose.ES256, i.key, "k", nil)); err != nil {
		t.Errorf("a known key: %v", err)
	}
	i.away.Store(true)
	b := i.accept(SignIn{Tenant: "t", Role: tenant.Owner})
	for range 2 {
		_, err := b.Open(t.Context(), i.sign(jose.ES256, i.key, "k", nil))
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("while the provider is away: %v", err)
		}
	}
}

// TestHardening_AudienceIsNotTheClient: a token of a sign-in is no access token.
func TestHardening_AudienceIsNotTheClient(t *testing.T) {
	_, err := newProvider(t.Context(), &SignIn{
		Issuer: "https://id.test", ClientID: "x", PublicURL: "https://a.test", Tenant: "t",
		Role: tenant.Owner, Audience: "x",
	})
	if fault.PublicOf(err).Field != "oidc.audience" {
		t.Errorf("%v", err)
	}
}
