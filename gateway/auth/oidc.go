package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// SignIn configures an OpenID Connect provider, at which users of browsers
// sign in.
type SignIn struct {
	// Issuer is the provider's address, below which its description is published.
	Issuer string
	// ClientID and ClientSecret identify this server at the provider. A public
	// client has no secret.
	ClientID, ClientSecret string
	// PublicURL is this server's address in browsers. It must be https, because the cookies need
	// it; http is accepted for localhost.
	PublicURL string
	// Scopes are the requested scopes; openid is always added.
	Scopes []string
	// TenantClaim names the claim that contains the user's tenant. Without it
	// all users belong to Tenant.
	TenantClaim, Tenant string
	// RoleClaim names the claim, a string or a list, that contains the user's role. A user without
	// a role in this claim gets Role, or is rejected if Role is empty.
	RoleClaim string
	Role      tenant.Role
	// Audience is the audience of access tokens; empty means the address of the resource, which is
	// ResourcePath below PublicURL.
	Audience string
	// Life is how long a sign-in is valid. Default 8 h.
	Life time.Duration
	// HTTP sends the requests to the provider. The default trusts the system's
	// certificate authorities.
	HTTP *http.Client
}

const (
	// userPrefix distinguishes the token of a signed-in user from others.
	userPrefix = "sgs_"
	// userSubject begins the subject of a principal that has signed in.
	userSubject = "user:"
	// signInLife is how long a user may take at the provider.
	signInLife = 10 * time.Minute
	// providerTimeout is how long the provider may take for one answer, and
	// maxProviderBody is the largest answer, in bytes.
	providerTimeout = 10 * time.Second
	maxProviderBody = 1 << 20
	// maxReturn is the longest path to which a sign-in returns, in bytes.
	maxReturn = 1024
	// maxSubject is the longest name of a user, in bytes.
	maxSubject = 200

	// SessionCookie is the cookie of a signed-in user, SignInCookie the cookie of a sign-in in
	// progress.
	SessionCookie = "__Host-sandgate"
	SignInCookie  = "__Host-sandgate-signin"

	purposeCookie = "session cookie"
	purposeToken  = "session token"
	purposeSignIn = "sign-in cookie"
)

// OperatorTenant is the tenant of the server's own token. No claim of a provider can name it.
const OperatorTenant = tenant.Operator

// User is a user who has signed in.
type User struct {
	Tenant  string      `json:"tenant"`
	Subject string      `json:"subject"`
	Role    tenant.Role `json:"role"`
	// Until is when the sign-in ends, in Unix seconds. All credentials that were issued with it end
	// at the same time.
	Until int64 `json:"until"`
}

// Left returns how long the sign-in is still valid.
func (u User) Left() time.Duration { return time.Until(time.Unix(u.Until, 0)) }

// Principal returns the principal of the user.
func (u User) Principal() noderpc.Principal {
	return noderpc.Principal{
		Tenant: u.Tenant, Subject: u.Subject, Scopes: u.Role.Scopes(), Until: time.Unix(u.Until, 0),
	}
}

// attempt is a sign-in in progress. The browser stores it, sealed.
type attempt struct {
	State    string `json:"State"`
	Nonce    string `json:"Nonce"`
	Verifier string `json:"Verifier"`
	To       string `json:"To"`
}

// provider is an OpenID Connect provider. Its description is fetched by the
// first sign-in.
type provider struct {
	SignIn
	ctx context.Context

	mu   sync.Mutex // guards all fields below; a leaf
	oidc *oidc.Provider
	// failed is the last error of a request for the description, and again the time of the next
	// request. asking is closed when the present request ends; nil without one.
	failed error
	again  time.Time
	asking chan struct{}
	// used are the sign-ins that were finished in this process, with the time when their cookie
	// ends.
	used map[string]time.Time
}

// newProvider checks the settings; nil settings mean no provider.
func newProvider(ctx context.Context, s *SignIn) (*provider, error) {
	const op = "auth.config"
	if s == nil {
		return nil, nil
	}
	c := *s
	orDefault(&c.Life, 8*time.Hour)
	u, err := url.Parse(c.PublicURL)
	local := err == nil && u.Scheme == "http" && loopback(u)
	if err != nil || u.Host == "" || u.Scheme != "https" && !local ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fault.Invalid(op, "oidc.public_url",
			"%q is not an address such as https://sandgate.example.com", c.PublicURL)
	}
	c.PublicURL = u.Scheme + "://" + u.Host
	if i, err := url.Parse(c.Issuer); err != nil || i.Host == "" || i.Scheme != "https" &&
		!(i.Scheme == "http" && loopback(i)) {
		return nil, fault.Invalid(op, "oidc.issuer",
			"%q is not an address such as https://id.example.com", c.Issuer)
	}
	if c.ClientID == "" {
		return nil, fault.Invalid(op, "oidc.client_id",
			"the provider must know this server by an id")
	}
	if c.Audience == c.ClientID {
		return nil, fault.Invalid(op, "oidc.audience",
			"it cannot be the client id: the tokens of a sign-in have that audience")
	}
	if c.TenantClaim == "" {
		if err := tenant.CheckName(op, c.Tenant); err != nil {
			return nil, fault.Invalid(op, "oidc.tenant", "users need a tenant, or tenant_claim")
		}
	}
	if c.Role == "" && c.RoleClaim == "" || c.Role != "" && !c.Role.Known() {
		return nil, fault.Invalid(op, "oidc.role", "users need a role of %v, or role_claim",
			tenant.Roles())
	}
	if !slices.Contains(c.Scopes, oidc.ScopeOpenID) {
		c.Scopes = append([]string{oidc.ScopeOpenID}, c.Scopes...)
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	bounded := *c.HTTP
	bounded.Transport, bounded.Timeout = limitedTransport{c.HTTP.Transport}, providerTimeout
	c.HTTP = &bounded
	return &provider{SignIn: c, ctx: oidc.ClientContext(ctx, c.HTTP)}, nil
}

// loopback reports whether an address is on this machine.
func loopback(u *url.URL) bool {
	return u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"
}

// limitedTransport reads at most maxProviderBody of an answer.
type limitedTransport struct{ http.RoundTripper }

func (l limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	next := l.RoundTripper
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxProviderBody), resp.Body}
	}
	return resp, err
}

// find returns the provider and this server's client configuration.
func (p *provider) find() (*oidc.Provider, *oauth2.Config, error) {
	found, err := p.description()
	if err != nil {
		return nil, nil, err
	}
	return found, &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: found.Endpoint(),
		RedirectURL: p.PublicURL + "/auth/callback", Scopes: p.Scopes,
	}, nil
}

// description returns what the provider says about itself. While one request for it is under way, or
// shortly after one has failed, others fail at once: they would only hold places.
func (p *provider) description() (*oidc.Provider, error) {
	p.mu.Lock()
	switch {
	case p.oidc != nil:
		defer p.mu.Unlock()
		return p.oidc, nil
	case p.asking != nil && p.failed != nil, p.asking == nil && time.Now().Before(p.again):
		defer p.mu.Unlock()
		return nil, p.failed
	case p.asking != nil:
		asking := p.asking
		p.mu.Unlock()
		<-asking // at most providerTimeout
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.oidc, p.failed
	}
	p.asking = make(chan struct{})
	p.mu.Unlock()
	// The provider keeps the context for later requests, so that it has no
	// deadline. The client has one.
	found, err := oidc.NewProvider(p.ctx, p.Issuer)
	if err != nil {
		err = &fault.Error{
			Kind: fault.Unavailable, Op: "auth.signin", RetryAfter: 10, Err: err,
			Message: "the OpenID Connect provider does not answer correctly",
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oidc, p.failed, p.again = found, err, time.Now().Add(providerTimeout)
	close(p.asking)
	p.asking = nil
	return found, err
}

// maxUsed bounds the finished sign-ins that a process remembers.
const maxUsed = 10_000

// use reports whether a sign-in was not finished before. Each sign-in asks the provider once.
func (p *provider) use(state string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if _, ok := p.used[state]; ok {
		return false
	}
	if len(p.used) >= maxUsed {
		maps.DeleteFunc(p.used, func(_ string, end time.Time) bool { return now.After(end) })
		if len(p.used) >= maxUsed {
			return false
		}
	}
	if p.used == nil {
		p.used = map[string]time.Time{}
	}
	p.used[state] = now.Add(signInLife)
	return true
}

// OffersSignIn reports whether users can sign in.
func (a *Authenticator) OffersSignIn() bool { return a.provider != nil }

func (a *Authenticator) offered() (*provider, error) {
	if a.provider == nil {
		return nil, fault.New(fault.NotFound, "auth.signin",
			"this server has no OpenID Connect provider; see oidc.issuer")
	}
	return a.provider, nil
}

// BeginSignIn returns the provider's address to which the browser is redirected, and the cookie
// that it stores meanwhile. returnTo is the path of this server to which the browser returns.
func (a *Authenticator) BeginSignIn(returnTo string) (
	address string, cookie *http.Cookie, err error,
) {
	p, err := a.offered()
	if err != nil {
		return "", nil, err
	}
	_, client, err := p.find()
	if err != nil {
		return "", nil, err
	}
	t := attempt{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		To: localPath(returnTo),
	}
	text, err := seal(a.Keys, purposeSignIn, signInLife, t)
	if err != nil {
		return "", nil, err
	}
	address = client.AuthCodeURL(t.State, oidc.Nonce(t.Nonce),
		oauth2.S256ChallengeOption(t.Verifier))
	return address, newCookie(SignInCookie, text, signInLife), nil
}

// localPath returns to if it is a path of this server, to which a browser may be redirected.
// Otherwise it returns "/".
func localPath(to string) string {
	if len(to) > maxReturn || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") ||
		strings.HasPrefix(to, "/auth/") ||
		strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) {
		return "/"
	}
	return to
}

func newCookie(name, value string, life time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
}

// removedCookie returns a cookie that removes the cookie of that name from the browser.
func removedCookie(name string) *http.Cookie {
	c := newCookie(name, "", 0)
	c.MaxAge, c.Expires = -1, time.Unix(1, 0)
	return c
}

// Callback is the request of a browser that the provider has redirected back.
type Callback struct {
	// Cookie is the value of the cookie named SignInCookie.
	Cookie string
	// State, Code and Error are the parameters of the query.
	State, Code, Error string
}

// SignInResult is the result of a sign-in.
type SignInResult struct {
	User User
	// To is the path of this server to which the browser returns.
	To string
	// Cookies must be set, also after an error.
	Cookies []*http.Cookie
}

// FinishSignIn completes the sign-in of a browser that the provider has redirected back.
func (a *Authenticator) FinishSignIn(ctx context.Context, c Callback) (SignInResult, error) {
	const op = "auth.signin"
	var out SignInResult
	p, err := a.offered()
	if err != nil {
		return out, err
	}
	t, ok, err := unseal[attempt](a.Keys, purposeSignIn, c.Cookie)
	if err != nil {
		return out, err
	}
	if !ok || subtle.ConstantTimeCompare([]byte(t.State), []byte(c.State)) != 1 {
		return out, fault.New(fault.Unauthenticated, op,
			"this sign-in did not begin in this browser, or took longer than %s; sign in again",
			signInLife)
	}
	out.Cookies = append(out.Cookies, removedCookie(SignInCookie))
	if c.Error != "" {
		return out, fault.New(fault.Unauthenticated, op, "the provider did not sign you in: %.80s",
			printableASCII(c.Error))
	}
	if !p.use(t.State) {
		return out, fault.New(fault.Unauthenticated, op,
			"this sign-in was finished already; sign in again")
	}
	u, err := p.user(ctx, c.Code, t)
	if err != nil {
		return out, err
	}
	u.Until = time.Now().Add(p.Life).Unix()
	text, err := seal(a.Keys, purposeCookie, p.Life, u)
	if err != nil {
		return out, err
	}
	out.User, out.To = u, t.To
	out.Cookies = append(out.Cookies, newCookie(SessionCookie, text, p.Life))
	return out, nil
}

// SignOut returns the cookie that ends a sign-in in the browser.
func SignOut() *http.Cookie { return removedCookie(SessionCookie) }

func printableASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, s)
}

// user exchanges the code of a callback for the user.
func (p *provider) user(ctx context.Context, code string, t attempt) (User, error) {
	const op = "auth.signin"
	found, client, err := p.find()
	if err != nil {
		return User{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.HTTP), 2*providerTimeout)
	defer cancel()
	refused := func(err error) error {
		return &fault.Error{
			Kind: fault.Unauthenticated, Op: op,
			Message: "the provider's answer is not valid; sign in again", Err: err,
		}
	}
	token, err := client.Exchange(ctx, code, oauth2.VerifierOption(t.Verifier))
	if err != nil {
		return User{}, refused(err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := found.Verifier(&oidc.Config{ClientID: p.ClientID}).Verify(ctx, raw)
	if err != nil {
		return User{}, refused(err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(t.Nonce)) != 1 {
		return User{}, refused(fault.New(fault.Unauthenticated, op, "the nonce is not ours"))
	}
	var claims map[string]json.RawMessage
	if err := id.Claims(&claims); err != nil {
		return User{}, refused(err)
	}
	return p.userOf(id.Subject, claims)
}

// userOf returns the user that the provider's claims describe.
func (p *provider) userOf(subject string, claims map[string]json.RawMessage) (User, error) {
	const op = "auth.signin"
	u := User{Tenant: p.Tenant, Subject: userSubject + subject, Role: p.Role}
	if subject == "" || len(subject) > maxSubject || !utf8.ValidString(subject) ||
		strings.ContainsFunc(subject, unicode.IsControl) {
		return User{}, fault.New(fault.PermissionDenied, op,
			"the provider's name for you cannot be used here").For(fault.CauseSignIn)
	}
	if p.TenantClaim != "" {
		names := texts(claims[p.TenantClaim])
		if len(names) != 1 || tenant.CheckName(op, names[0]) != nil {
			return User{}, fault.New(fault.PermissionDenied, op,
				"the provider's claims do not name your tenant").For(fault.CauseSignIn)
		}
		if names[0] == OperatorTenant {
			return User{}, fault.New(fault.PermissionDenied, op,
				"the provider's claims name the tenant of the operator").For(fault.CauseSignIn)
		}
		u.Tenant = names[0]
	}
	if p.RoleClaim != "" {
		said := texts(claims[p.RoleClaim])
		for _, r := range tenant.Roles() {
			if slices.Contains(said, string(r)) {
				u.Role = r
				break
			}
		}
	}
	if u.Role == "" {
		return User{}, fault.New(fault.PermissionDenied, op,
			"the provider's claims do not name a role of this server").For(fault.CauseSignIn)
	}
	return u, nil
}

// texts returns the strings of a claim that is a string or a list of strings.
func texts(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	var all []string
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// bySessionCookie authenticates a signed-in user by the cookie. Only pages of this server may use
// it.
func (a *Authenticator) bySessionCookie(r Request) (Identity, error) {
	const op = "auth.authenticate"
	none := fault.New(fault.Unauthenticated, op,
		"this browser has not signed in, or the sign-in has ended")
	if a.provider == nil || r.SessionCookie == "" {
		return Identity{}, none
	}
	if !r.SameOrigin {
		return Identity{}, fault.New(fault.PermissionDenied, op,
			"only pages of this server may use this")
	}
	u, ok, err := unseal[User](a.Keys, purposeCookie, r.SessionCookie)
	if err == nil && !ok {
		err = none
	}
	if err != nil {
		return Identity{}, err
	}
	return Identity{Who: u.Principal(), User: &u}, nil
}

// NewUserToken returns a bearer token for a signed-in user, valid as long as
// the sign-in.
func (a *Authenticator) NewUserToken(u User) (string, error) {
	text, err := seal(a.Keys, purposeToken, u.Left(), u)
	return userPrefix + text, err
}

// openUserToken returns the principal of a user's token.
func (a *Authenticator) openUserToken(secret string) (noderpc.Principal, error) {
	u, ok, err := unseal[User](a.Keys, purposeToken, strings.TrimPrefix(secret, userPrefix))
	if err != nil {
		return noderpc.Principal{}, err
	}
	if !ok || a.provider == nil {
		return noderpc.Principal{}, errToken()
	}
	return u.Principal(), nil
}
