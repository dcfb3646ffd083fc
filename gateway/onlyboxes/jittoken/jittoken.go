// Package jittoken verifies the tokens with which LobeHub states the user of a request to Onlyboxes:
// claims that are signed with a key which both servers have.
package jittoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Prefix begins every token.
const Prefix = "obx_jit_v1."

// The bounds of a token and of the key, in bytes, and of the time until the end of a token.
const (
	maxToken = 8 << 10
	maxClaim = 200
	minKey   = 16
	maxLife  = 24 * time.Hour
)

// Config says which tokens are accepted.
type Config struct {
	// Key is the signing key.
	Key []byte
	// Issuers are the accepted issuers; empty accepts all.
	Issuers []string
}

// User is the user that a token states.
type User struct {
	Issuer, Subject string
	Until           time.Time
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct{ cfg Config }

// New returns a Verifier. Errors: InvalidArgument for a key that is too short.
func New(cfg Config) (*Verifier, error) {
	if len(cfg.Key) < minKey {
		return nil, fault.Invalid("onlyboxes.tokens", "onlyboxes.jit_key_file",
			"the signing key has at least %d bytes", minKey)
	}
	return &Verifier{cfg}, nil
}

// Is reports whether a secret has the form of a token.
func Is(secret string) bool { return strings.HasPrefix(secret, Prefix) }

// Verify returns the user of a token. Errors: Unauthenticated.
func (v *Verifier) Verify(token string, now time.Time) (User, error) {
	refuse := func(reason string) (User, error) {
		return User{}, fault.New(fault.Unauthenticated, "onlyboxes.token", "the token %s", reason)
	}
	dot := strings.LastIndexByte(token, '.')
	if len(token) > maxToken || !Is(token) || dot < len(Prefix) {
		return refuse("has not the form of one")
	}
	signed := token[:dot]
	given, err := base64.RawURLEncoding.DecodeString(token[dot+1:])
	if err != nil {
		return refuse("has not the form of one")
	}
	h := hmac.New(sha256.New, v.cfg.Key)
	h.Write([]byte(signed))
	if !hmac.Equal(given, h.Sum(nil)) {
		return refuse("is not signed with the key")
	}
	var claims struct {
		Expires int64  `json:"exp"`
		Issuer  string `json:"iss"`
		Subject string `json:"sub"`
	}
	text, err := base64.RawURLEncoding.DecodeString(signed[len(Prefix):])
	if err != nil || json.Unmarshal(text, &claims) != nil {
		return refuse("has no claims")
	}
	until := time.UnixMilli(claims.Expires)
	switch {
	case !until.After(now):
		return refuse("has expired")
	case until.Sub(now) > maxLife:
		return refuse("ends more than a day from now")
	case !named(claims.Subject) || !named(claims.Issuer):
		return refuse("needs an issuer and a subject of at most 200 bytes")
	case len(v.cfg.Issuers) > 0 && !slices.Contains(v.cfg.Issuers, claims.Issuer):
		return refuse("is of an issuer that is not accepted")
	}
	return User{claims.Issuer, claims.Subject, until}, nil
}

func named(s string) bool {
	return s != "" && len(s) <= maxClaim && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, unicode.IsControl)
}
