package auth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// ResourcePath is the path of the resource that access tokens of the provider are for: that of MCP.
const ResourcePath = "/mcp"

// AccessTokens accepts access tokens that the OpenID Connect provider has issued for this server, in
// the form of JWTs.
type AccessTokens struct {
	p        *provider
	audience string
	pace     *pacedTransport

	mu   sync.Mutex // guards keys; a leaf
	keys *oidc.RemoteKeySet
}

// AccessTokens returns the acceptor of access tokens; nil if the server has no provider.
func (a *Authenticator) AccessTokens() *AccessTokens { return a.providerTokens }

func newAccessTokens(p *provider) *AccessTokens {
	if p == nil {
		return nil
	}
	t := &AccessTokens{p: p, audience: p.Audience}
	orDefault(&t.audience, t.Resource())
	t.pace = &pacedTransport{next: p.HTTP.Transport}
	return t
}

// Resource is the address of the resource, as clients have it.
func (t *AccessTokens) Resource() string { return t.p.PublicURL + ResourcePath }

// MetadataURL is the address of the resource's description, as RFC 9728 builds it.
func (t *AccessTokens) MetadataURL() string {
	return t.p.PublicURL + "/.well-known/oauth-protected-resource" + ResourcePath
}

// Issuer is the address of the provider.
func (t *AccessTokens) Issuer() string { return t.p.Issuer }

// Scopes are the scopes that clients ask the provider for.
func (t *AccessTokens) Scopes() []string { return t.p.Scopes }

// IsJWT reports whether a bearer token has the form of a JWT. No credential of this server has it.
func IsJWT(secret string) bool {
	return strings.HasPrefix(secret, "eyJ") && strings.Count(secret, ".") == 2
}

// Open returns the principal of an access token: the user that the same claims name at a sign-in.
// Errors: Unauthenticated, PermissionDenied for a user without a role, Unavailable while the provider
// does not answer.
func (t *AccessTokens) Open(ctx context.Context, secret string) (noderpc.Principal, error) {
	const op = "auth.access_token"
	found, err := t.p.description()
	if err != nil {
		return noderpc.Principal{}, err
	}
	keys, err := t.keySet(found)
	if err != nil {
		return noderpc.Principal{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*providerTimeout)
	defer cancel()
	token, err := oidc.NewVerifier(t.p.Issuer, keys, &oidc.Config{
		ClientID: t.audience, SupportedSigningAlgs: []string{
			oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256,
			oidc.PS384, oidc.PS512, oidc.EdDSA,
		},
	}).Verify(ctx, secret)
	var expired *oidc.TokenExpiredError
	switch {
	case err != nil && t.pace.away():
		return noderpc.Principal{}, &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: 10, Err: err,
			Message: "the keys of the OpenID Connect provider cannot be read",
		}
	case errors.As(err, &expired):
		return noderpc.Principal{}, &fault.Error{
			Kind: fault.Unauthenticated, Op: op, Message: "the access token has expired", Err: err,
		}
	case err != nil:
		return noderpc.Principal{}, &fault.Error{
			Kind: fault.Unauthenticated, Op: op, Err: err,
			Message: "the access token is not valid, or is not for " + t.audience,
		}
	}
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return noderpc.Principal{}, fault.Wrap(fault.Unauthenticated, op, err)
	}
	u, err := t.p.userOf(token.Subject, claims)
	u.Until = token.Expiry.Unix()
	return u.Principal(), err
}

// keySet returns the keys of the provider.
func (t *AccessTokens) keySet(found *oidc.Provider) (*oidc.RemoteKeySet, error) {
	var d struct {
		Keys string `json:"jwks_uri"`
	}
	if err := found.Claims(&d); err != nil {
		return nil, fault.Wrap(fault.Unavailable, "auth.access_token", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		client := *t.p.HTTP
		client.Transport = t.pace
		t.keys = oidc.NewRemoteKeySet(oidc.ClientContext(t.p.ctx, &client), d.Keys)
	}
	return t.keys, nil
}

// keyPause is the time between two requests for the provider's keys. A token with an unknown key
// causes a request, and anybody can send such a token.
const keyPause = 5 * time.Second

// pacedTransport sends at most one request in a keyPause.
type pacedTransport struct {
	next http.RoundTripper

	mu     sync.Mutex // guards all below; a leaf
	again  time.Time
	failed bool // the last request
}

// RoundTrip sends a request, or fails at once.
func (p *pacedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	now := time.Now()
	wait := now.Before(p.again)
	if !wait {
		p.again = now.Add(keyPause)
	}
	p.mu.Unlock()
	if wait {
		return nil, fault.New(fault.Exhausted, "auth.keys", "the keys were requested a moment ago")
	}
	resp, err := p.next.RoundTrip(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed = err != nil || resp.StatusCode != http.StatusOK
	return resp, err
}

// away reports whether the last request failed.
func (p *pacedTransport) away() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}
