// Package auth decides who makes a request: by a token of the configuration,
// an API key, a ticket, a run token, a view link, or a sign-in at an OpenID
// Connect provider. It also enforces the request quotas of tenants and keys.
//
// The package knows no HTTP framework. The gateway passes it the parts of a
// request that matter, and applies the result to its routes.
package auth

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Config configures an Authenticator.
type Config struct {
	// Tokens are the bearer tokens of the configuration.
	Tokens Tokens
	// Keys sends the table of API keys.
	Keys KeySource
	// SignIn configures the OpenID Connect provider; nil disables sign-in.
	SignIn *SignIn
	// Tickets, RunTokens and Rates are shared by the gateways of a cluster. nil means that this is
	// the only gateway.
	Tickets   OneTimeStore
	RunTokens SharedRunTokenStore
	Rates     RateStore
	// MaxTickets is the largest number of unused tickets for WebSockets, of unused tickets for
	// ports, and of valid run tokens.
	MaxTickets int
	Runs       RunBounds
	// Exceeded is called when the request quota of a "tenant" or a "key", or the limit of passwords
	// of a "link", rejects a request.
	Exceeded func(owner string)
	// Logger is required.
	Logger *slog.Logger
}

// Authenticator finds the principals of requests.
type Authenticator struct {
	log *slog.Logger
	// Keys is the cache of API keys.
	Keys *KeyCache
	// SocketTickets open WebSockets, PortTickets open the ports of sessions.
	SocketTickets, PortTickets *Tickets
	// RunTokens open POST /v1/run.
	RunTokens *RunTokenIssuer

	tokens    atomic.Pointer[Tokens]
	rates     rateLimiter
	rateStore RateStore
	exceeded  func(owner string)
	provider  *provider // nil without one
	// providerTokens is nil without a provider.
	providerTokens *AccessTokens
	passwords      tenant.Places
	// oneSession has the routes that credentials for one session open.
	oneSession routeKeys
}

// New returns an Authenticator. ctx ends its requests to the OpenID Connect
// provider.
func New(ctx context.Context, cfg Config) (*Authenticator, error) {
	p, err := newProvider(ctx, cfg.SignIn)
	if err != nil {
		return nil, err
	}
	keys := NewKeyCache(cfg.Keys, cfg.Logger)
	a := &Authenticator{
		log: cfg.Logger, Keys: keys, provider: p, providerTokens: newAccessTokens(p),
		rateStore: cfg.Rates, exceeded: cfg.Exceeded,
		oneSession: oneSessionRoutes(), passwords: tenant.NewPlaces(passwordPlaces),
		SocketTickets: newTickets("socket", cfg.Tickets, keys, cfg.MaxTickets),
		PortTickets:   newTickets("port", cfg.Tickets, keys, cfg.MaxTickets),
		RunTokens:     newRunTokenIssuer(cfg.RunTokens, keys, cfg.Runs, cfg.MaxTickets),
	}
	a.SetTokens(cfg.Tokens)
	return a, nil
}

// SetTokens replaces the tokens of the configuration.
func (a *Authenticator) SetTokens(t Tokens) { a.tokens.Store(&t) }

// Run keeps the keys and the request quotas up to date until ctx ends. It
// calls changed after each change of the keys.
func (a *Authenticator) Run(ctx context.Context, changed func()) {
	var work sync.WaitGroup
	if a.rateStore != nil {
		work.Go(func() { a.rates.settleUntil(ctx, a.rateStore, a.log) })
	}
	a.Keys.Follow(ctx, changed)
	work.Wait()
}

// Request is the part of an HTTP request that decides who makes it.
type Request struct {
	// Authorization is the header.
	Authorization string
	// Origin is the header, in the client's spelling.
	Origin string
	// SameOrigin is set if the request comes from a page of this server.
	SameOrigin bool
	// Subprotocols are the subprotocols of a WebSocket handshake, which may contain a ticket.
	Subprotocols []string
	// SessionCookie is the value of the cookie named SessionCookie.
	SessionCookie string
	// CookieOnly is set for a route that accepts the session cookie and nothing
	// else.
	CookieOnly bool
	// RunTokens is set for a route that accepts run tokens.
	RunTokens bool
}

// Identity is the result of authentication.
type Identity struct {
	Who noderpc.Principal
	// RunToken is the run token of the request; nil without one.
	RunToken *RunToken
	// User is the signed-in user; nil for other credentials.
	User *User
}

// Authenticate returns the principal that makes the request. The caller must then call Check.
func (a *Authenticator) Authenticate(ctx context.Context, r Request) (Identity, error) {
	const op = "auth.authenticate"
	if r.CookieOnly {
		return a.bySessionCookie(r)
	}
	if r.Authorization != "" {
		secret, ok := BearerToken(r.Authorization)
		if !ok {
			return Identity{}, errToken()
		}
		if strings.HasPrefix(secret, RunTokenPrefix) {
			if !r.RunTokens {
				return Identity{}, fault.New(fault.PermissionDenied, op,
					"a run ticket is only for /v1/run").For(fault.CauseRestricted)
			}
			t, err := a.RunTokens.Find(ctx, secret, r.Origin, r.SameOrigin)
			if err != nil {
				return Identity{}, err
			}
			return Identity{Who: t.Who, RunToken: t}, nil
		}
		who, err := a.Bearer(secret)
		return Identity{Who: who}, err
	}
	for _, p := range r.Subprotocols {
		secret, ok := strings.CutPrefix(p, TicketPrefix)
		if !ok {
			continue
		}
		who, ok, err := a.SocketTickets.Redeem(ctx, secret, strings.ToLower(r.Origin))
		if !ok && err == nil {
			err = fault.New(fault.Unauthenticated, op,
				"the ticket is not valid, or was used, or is over %s old", TicketLife)
		}
		return Identity{Who: who}, err
	}
	return Identity{}, fault.New(fault.Unauthenticated, op, "a bearer token is needed")
}

// BearerToken returns the token of an Authorization header.
func BearerToken(header string) (secret string, ok bool) {
	scheme, secret, _ := strings.Cut(header, " ")
	return strings.TrimSpace(secret), strings.EqualFold(scheme, "Bearer")
}

// Bearer returns the principal of a bearer token other than a run token: an
// API key, the token of a user or a view link, or a token of the configuration.
func (a *Authenticator) Bearer(secret string) (noderpc.Principal, error) {
	if plain, ok := e2bname.FromHexKey(secret); ok {
		secret = plain
	}
	switch {
	case strings.HasPrefix(secret, tenant.SecretPrefix):
		return a.Keys.open(secret)
	case strings.HasPrefix(secret, userPrefix):
		return a.openUserToken(secret)
	case strings.HasPrefix(secret, viewPrefix):
		return a.openViewLink(secret)
	}
	return a.tokens.Load().find(secret)
}

// Check rejects credentials that have ended. Credentials that were issued with a key end with the
// key.
func (a *Authenticator) Check(who noderpc.Principal) error {
	if !a.Keys.Valid(who) {
		return ErrRevoked()
	}
	if _, ok := tenant.KeyOf(who.Subject); ok {
		if _, err := a.Keys.Stale(); err != nil {
			return err
		}
	}
	return nil
}

// Valid reports whether the credentials of a principal have not ended.
func (a *Authenticator) Valid(who noderpc.Principal) bool { return a.Keys.Valid(who) }

// Meter counts a request against the request quotas of its principal.
func (a *Authenticator) Meter(who noderpc.Principal) error {
	const op = "auth.meter"
	x, _ := a.Keys.Get()
	if x == nil {
		return nil
	}
	now := time.Now()
	for _, q := range [...]struct {
		owner, name string
		perSecond   float64
	}{
		{"tenant", "tenant " + who.Tenant, x.Quota(who.Tenant).RequestsPerSecond},
		{"key", who.Subject, x.KeyQuota(who.Subject).RequestsPerSecond},
	} {
		if wait, ok := a.rates.take(q.name, q.perSecond, now); !ok {
			a.exceeded(q.owner)
			return tenant.Exceeded(op, q.owner, tenant.QuotaRequests, seconds(wait))
		}
	}
	return nil
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
