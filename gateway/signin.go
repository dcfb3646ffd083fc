package gateway

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/oauth2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
)

// SignIn lets users of browsers in by an OpenID Connect provider.
type SignIn struct {
	// Issuer is the provider's address, below which its description is found.
	Issuer string
	// ClientID and ClientSecret are what the provider knows this server by. A
	// public client has no secret.
	ClientID, ClientSecret string
	// PublicURL is this server's address as browsers have it. It is https,
	// since the cookie is for that alone; http goes with localhost.
	PublicURL string
	// Scopes are asked for; openid is always among them.
	Scopes []string
	// TenantClaim names the claim that says whose tenant a user is of. Without
	// it all are of Tenant.
	TenantClaim, Tenant string
	// RoleClaim names the claim, a text or a list, that says which role a user
	// has; who has none there has Role, or is turned away if that is empty.
	RoleClaim string
	Role      tenant.Role
	// Life is how long a sign-in lasts. Default 8 h.
	Life time.Duration
	// HTTP asks the provider. Default one that trusts the system's roots.
	HTTP *http.Client
}

const (
	// userPrefix tells a signed-in user's token from others.
	userPrefix = "sgs_"
	// userSubject begins the subject of a principal that has signed in.
	userSubject = "user:"
	// signInLife is how long a user may take at the provider.
	signInLife = 10 * time.Minute
	// providerTimeout is how long the provider may take for one answer, and
	// maxProviderBody how large that may be, in bytes.
	providerTimeout = 10 * time.Second
	maxProviderBody = 1 << 20
	// maxReturn is how long the path may be to which a sign-in returns.
	maxReturn = 1024
	// maxSubject is how many bytes of a user's name are kept.
	maxSubject = 200

	sessionCookie = "__Host-sandgate"
	signInCookie  = "__Host-sandgate-signin"
	purposeCookie = "session cookie"
	purposeToken  = "session token"
	purposeSignIn = "sign-in cookie"
)

// user is who has signed in.
type user struct {
	Tenant  string      `json:"tenant"`
	Subject string      `json:"subject"`
	Role    tenant.Role `json:"role"`
	// Until is when the sign-in is over, with all that it was exchanged for.
	Until int64 `json:"until"`
}

func (u user) left() time.Duration { return time.Until(time.Unix(u.Until, 0)) }

func (u user) principal() noderpc.Principal {
	return noderpc.Principal{Tenant: u.Tenant, Subject: u.Subject, Scopes: u.Role.Scopes(), Until: time.Unix(u.Until, 0)}
}

// attempt is a sign-in under way, which the browser keeps, sealed.
type attempt struct {
	State    string `json:"State"`
	Nonce    string `json:"Nonce"`
	Verifier string `json:"Verifier"`
	To       string `json:"To"`
}

// signIn is the way to a provider, which is found with the first sign-in.
type signIn struct {
	SignIn
	ctx context.Context

	turn     sync.Mutex // held while the provider is asked for its description
	provider *oidc.Provider
}

func newSignIn(ctx context.Context, s *SignIn) (*signIn, error) {
	const op = "gateway.config"
	if s == nil {
		return nil, nil
	}
	c := *s
	orDefault(&c.Life, 8*time.Hour)
	u, err := url.Parse(c.PublicURL)
	local := err == nil && u.Scheme == "http" && (u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1")
	if err != nil || u.Host == "" || u.Scheme != "https" && !local || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fault.Invalid(op, "oidc.public_url", "%q is no address such as https://sandgate.example.com", c.PublicURL)
	}
	c.PublicURL = u.Scheme + "://" + u.Host
	if i, err := url.Parse(c.Issuer); err != nil || i.Host == "" || i.Scheme != "https" && i.Scheme != "http" {
		return nil, fault.Invalid(op, "oidc.issuer", "%q is no address such as https://id.example.com", c.Issuer)
	}
	if c.ClientID == "" {
		return nil, fault.Invalid(op, "oidc.client_id", "the provider must know this server by an id")
	}
	if c.TenantClaim == "" {
		if err := tenant.CheckName(op, c.Tenant); err != nil {
			return nil, fault.Invalid(op, "oidc.tenant", "users need a tenant, or tenant_claim")
		}
	}
	if c.Role == "" && c.RoleClaim == "" || c.Role != "" && !c.Role.Known() {
		return nil, fault.Invalid(op, "oidc.role", "users need a role of %v, or role_claim", tenant.Roles())
	}
	if !slices.Contains(c.Scopes, oidc.ScopeOpenID) {
		c.Scopes = append([]string{oidc.ScopeOpenID}, c.Scopes...)
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	bounded := *c.HTTP
	bounded.Transport, bounded.Timeout = frugal{c.HTTP.Transport}, providerTimeout
	c.HTTP = &bounded
	return &signIn{SignIn: c, ctx: oidc.ClientContext(ctx, c.HTTP)}, nil
}

// frugal reads no more than maxProviderBody of an answer.
type frugal struct{ http.RoundTripper }

func (f frugal) RoundTrip(r *http.Request) (*http.Response, error) {
	next := f.RoundTripper
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

// find returns the provider and what is told it of this server.
func (s *signIn) find() (*oidc.Provider, *oauth2.Config, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.provider == nil {
		// Its context is kept for later, so that there is no deadline in it: the
		// client has one.
		p, err := oidc.NewProvider(s.ctx, s.Issuer)
		if err != nil {
			return nil, nil, &fault.Error{Kind: fault.Unavailable, Op: "gateway.signin", RetryAfter: 10, Message: "the provider of sign-ins does not answer as one", Err: err}
		}
		s.provider = p
	}
	return s.provider, &oauth2.Config{
		ClientID: s.ClientID, ClientSecret: s.ClientSecret, Endpoint: s.provider.Endpoint(),
		RedirectURL: s.PublicURL + "/auth/callback", Scopes: s.Scopes,
	}, nil
}

// offered returns the way to sign in, if there is one.
func (q *request) offered() (*signIn, error) {
	if q.g.signIn == nil {
		return nil, fault.New(fault.NotFound, "gateway.signin", "this server has no provider of sign-ins; see oidc.issuer")
	}
	return q.g.signIn, nil
}

// waysIn tells a page how its user can sign in, besides with a token.
func (g *Gateway) waysIn(q *request) error {
	ways := map[string]string{}
	if g.signIn != nil {
		ways["sign_in"] = "/auth/login"
	}
	return q.json(fiber.StatusOK, ways)
}

// login sends the browser to the provider.
func (g *Gateway) login(q *request) error {
	s, err := q.offered()
	if err != nil {
		return err
	}
	_, client, err := s.find()
	if err != nil {
		return err
	}
	a := attempt{State: newKey(), Nonce: newKey(), Verifier: oauth2.GenerateVerifier(), To: localPath(q.Query("to"))}
	sealed, err := sealFor(g, purposeSignIn, signInLife, a)
	if err != nil {
		return err
	}
	q.setCookie(signInCookie, sealed, signInLife)
	return q.redirect(client.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)))
}

// localPath is a path of this server to which a browser may be sent; / for
// all else.
func localPath(to string) string {
	if len(to) > maxReturn || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, "/auth/") ||
		strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) {
		return "/"
	}
	return to
}

func (q *request) redirect(to string) error {
	q.Status(fiber.StatusSeeOther)
	q.Response().Header.Set(fiber.HeaderLocation, to)
	q.Response().Header.Set(fiber.HeaderCacheControl, "no-store")
	q.Response().Header.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	return nil
}

func (q *request) setCookie(name, value string, life time.Duration) {
	c := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(c)
	c.SetKey(name)
	c.SetValue(value)
	c.SetPath("/")
	c.SetHTTPOnly(true)
	c.SetSecure(true)
	c.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	if life > 0 {
		c.SetMaxAge(int(life / time.Second))
	} else {
		c.SetExpire(fasthttp.CookieExpireDelete)
	}
	q.Response().Header.SetCookie(c)
}

// callback takes the browser that the provider has sent back.
func (g *Gateway) callback(q *request) (err error) {
	const op = "gateway.signin"
	s, err := q.offered()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			g.deny(q, err)
		}
	}()
	a, ok, err := openSealed[attempt](g, purposeSignIn, string(q.Request().Header.Cookie(signInCookie)))
	if err != nil {
		return err
	}
	if !ok || subtle.ConstantTimeCompare([]byte(a.State), []byte(q.Query("state"))) != 1 {
		return fault.New(fault.Unauthenticated, op, "this sign-in was not begun in this browser, or took over %s; begin again", signInLife)
	}
	q.setCookie(signInCookie, "", 0)
	if q.Query("error") != "" {
		return fault.New(fault.Unauthenticated, op, "the provider did not sign you in: %.80s", printableASCII(q.Query("error")))
	}
	u, err := s.user(g.base, q.Query("code"), a)
	if err != nil {
		return err
	}
	u.Until = time.Now().Add(s.Life).Unix()
	sealed, err := sealFor(g, purposeCookie, s.Life, u)
	if err != nil {
		return err
	}
	q.who = u.principal() // for the logs
	g.note(q, "auth.signin", "ok")
	q.setCookie(sessionCookie, sealed, s.Life)
	g.log.Info("a user has signed in", "tenant", u.Tenant, "subject", u.Subject, "role", u.Role)
	return q.redirect(a.To)
}

func printableASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, s)
}

// user exchanges a code for who has signed in.
func (s *signIn) user(ctx context.Context, code string, a attempt) (user, error) {
	const op = "gateway.signin"
	provider, client, err := s.find()
	if err != nil {
		return user{}, err
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, s.HTTP), 2*providerTimeout)
	defer cancel()
	refused := func(err error) error {
		return &fault.Error{Kind: fault.Unauthenticated, Op: op, Message: "the provider's answer is not valid; begin again", Err: err}
	}
	token, err := client.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return user{}, refused(err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: s.ClientID}).Verify(ctx, raw)
	if err != nil {
		return user{}, refused(err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return user{}, refused(fault.New(fault.Unauthenticated, op, "the nonce is not ours"))
	}
	var claims map[string]json.RawMessage
	if err := id.Claims(&claims); err != nil {
		return user{}, refused(err)
	}
	return s.userOf(id.Subject, claims)
}

// userOf makes a user of what the provider says of one.
func (s *signIn) userOf(subject string, claims map[string]json.RawMessage) (user, error) {
	const op = "gateway.signin"
	u := user{Tenant: s.Tenant, Subject: userSubject + subject, Role: s.Role}
	if subject == "" || len(subject) > maxSubject || !utf8.ValidString(subject) || strings.ContainsFunc(subject, unicode.IsControl) {
		return user{}, fault.New(fault.PermissionDenied, op, "the provider knows you by a name that cannot be used here")
	}
	if s.TenantClaim != "" {
		names := texts(claims[s.TenantClaim])
		if len(names) != 1 || tenant.CheckName(op, names[0]) != nil {
			return user{}, fault.New(fault.PermissionDenied, op, "the provider does not say which tenant you are of")
		}
		u.Tenant = names[0]
	}
	if s.RoleClaim != "" {
		said := texts(claims[s.RoleClaim])
		for _, r := range tenant.Roles() {
			if slices.Contains(said, string(r)) {
				u.Role = r
				break
			}
		}
	}
	if u.Role == "" {
		return user{}, fault.New(fault.PermissionDenied, op, "the provider does not say what you may do here")
	}
	return u, nil
}

// texts is a claim that is a text or a list of such.
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

// signedIn finds out by the cookie who has signed in. It is asked for by the
// pages of this server alone: own says that the request comes from one.
func (g *Gateway) signedIn(q *request, own bool) (noderpc.Principal, error) {
	const op = "gateway.authenticate"
	none := fault.New(fault.Unauthenticated, op, "nobody has signed in here, or it was too long ago")
	value := string(q.Request().Header.Cookie(sessionCookie))
	if g.signIn == nil || value == "" {
		return noderpc.Principal{}, none
	}
	if !own {
		return noderpc.Principal{}, fault.New(fault.PermissionDenied, op, "this is for pages of this server alone")
	}
	u, ok, err := openSealed[user](g, purposeCookie, value)
	if err != nil || !ok {
		if err == nil {
			err = none
		}
		return noderpc.Principal{}, err
	}
	q.user = &u
	return u.principal(), nil
}

type userToken struct {
	Token          string      `json:"token"`
	Tenant         string      `json:"tenant"`
	Subject        string      `json:"subject"`
	Role           tenant.Role `json:"role"`
	ExpiresSeconds int         `json:"expires_seconds"`
}

// exchange gives a page of this server a token for the user's cookie. The page
// keeps it in memory; a script of another origin can neither ask nor read.
func (g *Gateway) exchange(q *request) error {
	u := q.user
	sealed, err := sealFor(g, purposeToken, u.left(), *u)
	if err != nil {
		return err
	}
	return q.json(fiber.StatusOK, userToken{userPrefix + sealed, u.Tenant, u.Subject, u.Role, int(u.left() / time.Second)})
}

// logout forgets the cookie.
func (g *Gateway) logout(q *request) error {
	q.setCookie(sessionCookie, "", 0)
	return q.json(fiber.StatusOK, struct{}{})
}

// openUser returns whom a user's token speaks for.
func (g *Gateway) openUser(secret string) (noderpc.Principal, error) {
	u, ok, err := openSealed[user](g, purposeToken, strings.TrimPrefix(secret, userPrefix))
	if err != nil {
		return noderpc.Principal{}, err
	}
	if !ok || g.signIn == nil {
		return noderpc.Principal{}, fault.New(fault.Unauthenticated, "gateway.authenticate", "the token is not valid")
	}
	return u.principal(), nil
}
