// Package usertoken verifies the tokens with which LibreChat states the user of a request: JSON Web
// Tokens that it signs with EdDSA or RS256.
package usertoken

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The bounds of a token.
const (
	// MaxLife is the longest time from now to the end of a token.
	MaxLife = 300 * time.Second
	// Leeway is how far the clocks of both servers may differ.
	Leeway = 30 * time.Second

	maxToken   = 8 << 10
	maxSubject = 200
	minRSABits = 2048
)

// Config says which tokens are accepted.
type Config struct {
	// Keys has the public keys: PEM blocks PUBLIC KEY, or a JSON Web Key Set.
	Keys []byte
	// KeyID is the only accepted id of PEM keys; empty accepts all ids. A key set has ids itself.
	KeyID            string
	Issuer, Audience string
}

// User is the user that a token states.
type User struct {
	// Tenant is the tenant in LibreChat; empty without one.
	Tenant  string
	Subject string
	Until   time.Time
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	cfg  Config
	keys []jose.JSONWebKey
}

// New returns a Verifier. Errors: InvalidArgument if the keys are not valid.
func New(cfg Config) (*Verifier, error) {
	keys, err := parse(cfg)
	if err != nil {
		return nil, err
	}
	return &Verifier{cfg, keys}, nil
}

func parse(cfg Config) ([]jose.JSONWebKey, error) {
	const op, field = "usertoken.config", "librechat.jwt_keys"
	var set jose.JSONWebKeySet
	if json.Unmarshal(cfg.Keys, &set) != nil {
		set.Keys = nil
		for block, rest := pem.Decode(cfg.Keys); block != nil; block, rest = pem.Decode(rest) {
			key, err := x509.ParsePKIXPublicKey(block.Bytes)
			if err != nil {
				return nil, fault.Invalid(op, field, "the file has a block that is no PUBLIC KEY")
			}
			set.Keys = append(set.Keys, jose.JSONWebKey{Key: key, KeyID: cfg.KeyID})
		}
	}
	for _, k := range set.Keys {
		switch key := k.Key.(type) {
		case ed25519.PublicKey:
		case *rsa.PublicKey:
			if key.N.BitLen() < minRSABits {
				return nil, fault.Invalid(op, field, "an RSA key has at least %d bits", minRSABits)
			}
		default:
			return nil, fault.Invalid(op, field, "a key is a public key of Ed25519 or RSA")
		}
	}
	if len(set.Keys) == 0 {
		return nil, fault.Invalid(op, field, "the file has no public key")
	}
	return set.Keys, nil
}

// Is reports whether a bearer token has the form of a token of a user.
func Is(token string) bool {
	return strings.HasPrefix(token, "ey") && strings.Count(token, ".") == 2
}

// Verify returns the user of a token. Errors: Unauthenticated, always with the same message: a log
// has the reason.
func (v *Verifier) Verify(token string, now time.Time) (User, error) {
	u, err := v.verify(token, now)
	if err != nil {
		return User{}, &fault.Error{
			Kind: fault.Unauthenticated, Op: "usertoken.verify",
			Message: "the token of the user is not valid", Err: err,
		}
	}
	return u, nil
}

func (v *Verifier) verify(token string, now time.Time) (User, error) {
	const op = "usertoken.verify"
	refused := func(why string) error { return fault.New(fault.Unauthenticated, op, "%s", why) }
	if len(token) > maxToken {
		return User{}, refused("the token is too long")
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.EdDSA, jose.RS256})
	if err != nil {
		return User{}, err
	}
	var claims struct {
		jwt.Claims
		Tenant string `json:"tenant_id"`
	}
	if err := v.claims(parsed, &claims); err != nil {
		return User{}, err
	}
	if err := claims.ValidateWithLeeway(jwt.Expected{
		Issuer: v.cfg.Issuer, AnyAudience: jwt.Audience{v.cfg.Audience}, Time: now,
	}, Leeway); err != nil {
		return User{}, err
	}
	switch {
	case claims.Expiry == nil:
		return User{}, refused("the token has no end")
	case claims.Expiry.Time().Sub(now) > MaxLife+Leeway:
		return User{}, refused("the token is valid for too long")
	case !valid(claims.Subject, 1) || !valid(claims.Tenant, 0):
		return User{}, refused("the token states no valid user")
	}
	return User{
		Tenant: claims.Tenant, Subject: claims.Subject, Until: claims.Expiry.Time().Add(Leeway),
	}, nil
}

// claims decodes the claims with the first key that fits the id and has signed the token.
func (v *Verifier) claims(token *jwt.JSONWebToken, into any) error {
	id := token.Headers[0].KeyID
	var err error = fault.New(fault.Unauthenticated, "usertoken.verify", "no key has the id %.80q",
		id)
	for _, k := range v.keys {
		if k.KeyID != "" && k.KeyID != id {
			continue
		}
		if err = token.Claims(k.Key, into); err == nil {
			return nil
		}
	}
	return err
}

// valid reports whether a claim can name a tenant or a user.
func valid(name string, least int) bool {
	return len(name) >= least && len(name) <= maxSubject && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}
