// Package signin tests sign-ins with an independent provider: ory's fosite, which
// implements OpenID Connect. It is a module of its own, so that no other package depends on
// fosite's dependencies.
package signin

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v3"
	"github.com/ory/fosite"
	"github.com/ory/fosite/compose"
	"github.com/ory/fosite/handler/openid"
	"github.com/ory/fosite/storage"
	"github.com/ory/fosite/token/jwt"
	"golang.org/x/crypto/bcrypt"

	"github.com/sandgate/sandgate/e2e"
)

const secret = "what only the two know"

// session is a session of fosite, whose access tokens are JWTs.
type session struct {
	*openid.DefaultSession
	access *jwt.JWTClaims
}

func (s *session) GetJWTClaims() jwt.JWTClaimsContainer { return s.access }

func (s *session) GetJWTHeader() *jwt.Headers { return &jwt.Headers{} }

func (s *session) Clone() fosite.Session {
	access := *s.access
	return &session{s.DefaultSession.Clone().(*openid.DefaultSession), &access}
}

// hostReturn is where the provider sends the browser of an MCP host's user.
const hostReturn = "http://localhost:9/callback"

// provider is a server that uses fosite. The user of the client "stranger" is Bob, who has no role.
// Every other user is Ann.
func provider(t *testing.T, public string) *httptest.Server {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	hash, err := bcrypt.GenerateFromPassword([]byte(secret), bcrypt.MinCost)
	check(t, err)
	store := storage.NewMemoryStore()
	store.Clients["sandgate"] = &fosite.DefaultClient{
		ID: "sandgate", Secret: hash, RedirectURIs: []string{public + "/auth/callback"},
		ResponseTypes: []string{"code"}, GrantTypes: []string{"authorization_code"},
		Scopes: []string{"openid", "profile", "email"},
	}
	for _, id := range []string{"host", "stranger"} {
		store.Clients[id] = &fosite.DefaultClient{
			ID: id, Public: true, RedirectURIs: []string{hostReturn},
			ResponseTypes: []string{"code"}, GrantTypes: []string{"authorization_code"},
			Scopes: []string{"openid", "profile", "email"}, Audience: []string{public + "/mcp"},
		}
	}
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	config := &fosite.Config{
		GlobalSecret:  []byte(rand.Text() + rand.Text())[:32],
		IDTokenIssuer: srv.URL, EnforcePKCE: true,
	}
	getKey := func(context.Context) (any, error) { return key, nil }
	oauth := compose.Compose(config, store, &compose.CommonStrategy{
		CoreStrategy: compose.NewOAuth2JWTStrategy(getKey,
			compose.NewOAuth2HMACStrategy(config), config),
		OpenIDConnectTokenStrategy: compose.NewOpenIDConnectStrategy(getKey, config),
		Signer:                     &jwt.DefaultSigner{GetPrivateKey: getKey},
	}, compose.OAuth2AuthorizeExplicitFactory, compose.OpenIDConnectExplicitFactory,
		compose.OAuth2PKCEFactory)
	sessionOf := func(client string) *session {
		user, extra := "ann", map[string]any{"org": "acme", "groups": []string{"owner"}}
		if client == "stranger" {
			user, extra = "bob", map[string]any{"org": "acme", "groups": []string{"cooks"}}
		}
		return &session{&openid.DefaultSession{
			Subject: user,
			Claims: &jwt.IDTokenClaims{
				Issuer: srv.URL, Subject: user, RequestedAt: time.Now(),
				AuthTime: time.Now(), Extra: extra,
			},
			Headers: &jwt.Headers{},
		}, &jwt.JWTClaims{Issuer: srv.URL, Subject: user, Extra: extra}}
	}
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/openid-configuration",
		func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{
				"issuer": srv.URL, "authorization_endpoint": srv.URL + "/authorize",
				"token_endpoint": srv.URL + "/token", "jwks_uri": srv.URL + "/keys",
				"response_types_supported":              []string{"code"},
				"subject_types_supported":               []string{"public"},
				"id_token_signing_alg_values_supported": []string{"RS256"},
				"code_challenge_methods_supported":      []string{"S256"},
				"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "none"},
			})
		})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
			Key: key.Public(), Algorithm: "RS256",
			Use: "sig",
		}}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		ask, err := oauth.NewAuthorizeRequest(r.Context(), r)
		if err != nil {
			oauth.WriteAuthorizeError(r.Context(), w, ask, err)
			return
		}
		for _, s := range ask.GetRequestedScopes() {
			ask.GrantScope(s)
		}
		if resource := r.FormValue("resource"); resource != "" { // as in RFC 8707
			ask.GrantAudience(resource)
		}
		resp, err := oauth.NewAuthorizeResponse(r.Context(), ask,
			sessionOf(ask.GetClient().GetID()))
		if err != nil {
			oauth.WriteAuthorizeError(r.Context(), w, ask, err)
			return
		}
		oauth.WriteAuthorizeResponse(r.Context(), w, ask, resp)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		ask, err := oauth.NewAccessRequest(r.Context(), r, sessionOf(""))
		if err != nil {
			t.Logf("the provider rejects: %+v", err)
			oauth.WriteAccessError(r.Context(), w, ask, err)
			return
		}
		resp, err := oauth.NewAccessResponse(r.Context(), ask)
		if err != nil {
			t.Logf("the provider rejects: %+v", err)
			oauth.WriteAccessError(r.Context(), w, ask, err)
			return
		}
		oauth.WriteAccessResponse(r.Context(), w, ask, resp)
	})
	return srv
}

// TestSignInWithARealProvider follows all steps: to the provider and back, to a cookie, to a
// token, to a session of the user's tenant. A code is valid once.
func TestSignInWithARealProvider(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	id := provider(t, "http://localhost")
	file := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	srv, err := e2e.Start(ctx, fmt.Sprintf(`pool: {size: 1, languages: [bash], memory: 0}
oidc:
  issuer: %s
  client_id: sandgate
  client_secret_file: %s
  public_url: http://localhost
  tenant_claim: org
  role_claim: groups
`, id.URL, file))
	check(t, err)
	defer func() { check(t, srv.Stop()) }()

	// The client does not apply a browser's rules for cookies: the cookies are for https, and
	// for localhost, which browsers trust.
	jar := map[string]string{}
	send := func(method, address, origin, bearer, body string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
		check(t, err)
		for name, value := range jar {
			if strings.HasPrefix(address, srv.URL) {
				req.AddCookie(&http.Cookie{Name: name, Value: value})
			}
		}
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		check(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		for _, c := range resp.Cookies() {
			jar[c.Name] = c.Value
		}
		return resp
	}
	follow := func(resp *http.Response) string {
		t.Helper()
		if resp.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s answers %d", resp.Request.URL.Path, resp.StatusCode)
		}
		return strings.Replace(resp.Header.Get("Location"), "http://localhost/", srv.URL+"/", 1)
	}
	back := follow(send("GET", follow(send("GET", srv.URL+"/auth/login?to=/s/x", "", "", "")), "",
		"", ""))
	if u, err := url.Parse(back); err != nil || u.Path != "/auth/callback" ||
		u.Query().Get("code") == "" {
		t.Fatalf("the provider redirects the browser to %s", back)
	}
	attempt := jar["__Host-sandgate-signin"]
	if to := follow(send("GET", back, "", "", "")); to != "/s/x" {
		t.Errorf("the last address of the browser is %s", to)
	}
	var user struct{ Token, Tenant, Subject, Role string }
	resp := send("POST", srv.URL+"/auth/token", srv.URL, "", "")
	check(t, json.NewDecoder(resp.Body).Decode(&user))
	if user.Tenant != "acme" || user.Subject != "user:ann" || user.Role != "owner" {
		t.Fatalf("%d %+v", resp.StatusCode, user)
	}
	if resp := send("POST", srv.URL+"/v1/sessions", "", user.Token,
		`{"language":"bash"}`); resp.StatusCode != http.StatusCreated {
		t.Errorf("a session: %d", resp.StatusCode)
	}
	// The address in a log is useless, because its code is valid once.
	jar["__Host-sandgate-signin"] = attempt
	if resp := send("GET", back, "", "", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the code a second time: %d", resp.StatusCode)
	}
	if log := srv.Log(); strings.Contains(log, user.Token) || strings.Contains(log, secret) {
		t.Error("the log has a secret")
	}
}

// TestSignInInChromium signs in and out as a user does, with the cookies that a browser
// accepts.
func TestSignInInChromium(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, public := serve(ctx, t, "role: viewer")
	out, err := exec.CommandContext(ctx, "node", "browser.mjs", public).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// A gateway's audit entries reach the node a moment later.
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		audit, err := os.ReadFile(filepath.Join(srv.Dir, "data", "audit", "audit.jsonl"))
		check(t, err)
		if strings.Contains(string(audit),
			`"event":"auth.signin","tenant":"acme","subject":"user:ann"`) {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatal("the audit log has no sign-in")
		}
	}
}

// TestAccessTokensOfAHost connects hosts of MCP that know only the server's address: they find the
// provider, send the user there, and use its access token. A user without a role is refused.
func TestAccessTokensOfAHost(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	srv, public := serve(ctx, t, "role_claim: groups")
	out, err := exec.CommandContext(ctx, "node", "host.mjs", public, hostReturn).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, srv.Complaints())
	}
}

// serve starts a server with a provider, and returns it and its address in browsers.
func serve(ctx context.Context, t *testing.T, roles string) (*e2e.Server, string) {
	t.Helper()
	srv, err := e2e.Start(ctx, "pool: {size: 1, languages: [bash], memory: 0}")
	check(t, err)
	t.Cleanup(func() { check(t, srv.Stop()) })
	// The provider needs the server's address, which is known now.
	check(t, srv.Halt(syscall.SIGTERM))
	public := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	id := provider(t, public)
	file := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	config, err := os.ReadFile(srv.Config)
	check(t, err)
	check(t, os.WriteFile(srv.Config, fmt.Appendf(config, `oidc:
  {issuer: "%s", client_id: sandgate, client_secret_file: "%s", public_url: "%s", tenant_claim: org, %s}
`, id.URL, file, public, roles), 0o644))
	check(t, srv.Boot(ctx))
	return srv, public
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
