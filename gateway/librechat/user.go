package librechat

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/librechat/usertoken"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// tokenSubject begins the subject of a principal that a token of a user states.
const tokenSubject = "librechat:"

type userKey struct{}

// userOf returns the user of an authenticated request.
func userOf(r *http.Request) store.User {
	u, _ := r.Context().Value(userKey{}).(store.User)
	return u
}

// authenticate finds the user of a request: by a key in X-API-Key, as a bearer token, or as the
// password of HTTP Basic, or by the token of a user. A key is one user.
func (s *Surface) authenticate(r *http.Request) (context.Context, noderpc.Principal, error) {
	u, err := s.identify(r)
	if err != nil {
		return nil, noderpc.Principal{}, err
	}
	return context.WithValue(r.Context(), userKey{}, u), u.Who, nil
}

func (s *Surface) identify(r *http.Request) (store.User, error) {
	const op = "librechat.authenticate"
	secret := r.Header.Get("X-Api-Key")
	if token, ok := auth.BearerToken(r.Header.Get("Authorization")); ok {
		if usertoken.Is(token) && s.cfg.Tokens != nil {
			return s.stated(token)
		}
		secret = token
	} else if _, password, ok := r.BasicAuth(); ok {
		secret = password
	}
	if secret == "" {
		return store.User{}, fault.New(fault.Unauthenticated, op,
			"a key is needed: in X-API-Key, as a bearer token, or as a password")
	}
	who, err := s.cfg.Auth.Bearer(secret)
	if err != nil {
		return store.User{}, err
	}
	return store.User{Who: who, Key: digest("key", who.Tenant, who.Subject)}, nil
}

// stated returns the user that a token states.
func (s *Surface) stated(token string) (store.User, error) {
	t, err := s.cfg.Tokens.Verify(token, time.Now())
	if err != nil {
		return store.User{}, err
	}
	return store.User{
		Who: noderpc.Principal{
			Tenant: s.cfg.Tenant, Subject: tokenSubject + t.Subject, Until: t.Until,
			Scopes: []string{
				string(protocol.ScopeRead), string(protocol.ScopeWrite),
				string(protocol.ScopeManage),
			},
		},
		Key: digest("token", t.Tenant, t.Subject),
	}, nil
}

// digest returns an id of 21 characters that depends on all parts.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:store.IDLen]
}
