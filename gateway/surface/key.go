package surface

import (
	"context"
	"net/http"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Keys checks keys.
type Keys interface {
	// Bearer returns the principal of a key.
	Bearer(secret string) (noderpc.Principal, error)
}

// Secret returns the key of a request: from the first of the headers that it has, as a bearer token,
// or as the password of HTTP Basic, which clients send for an address such as http://x:KEY@host. It
// returns an empty text without one.
func Secret(r *http.Request, headers ...string) string {
	for _, name := range headers {
		if secret := r.Header.Get(name); secret != "" {
			return secret
		}
	}
	if secret, ok := auth.BearerToken(r.Header.Get("Authorization")); ok {
		return secret
	}
	_, password, _ := r.BasicAuth()
	return password
}

// ByKey returns the function Authenticate of a Route whose clients send a key, as Secret finds it.
func ByKey(keys Keys, headers ...string,
) func(r *http.Request) (context.Context, noderpc.Principal, error) {
	return func(r *http.Request) (context.Context, noderpc.Principal, error) {
		secret := Secret(r, headers...)
		if secret == "" {
			return nil, noderpc.Principal{}, fault.New(fault.Unauthenticated, "surface.key",
				"a key is needed: as a bearer token, or as the password of HTTP Basic")
		}
		who, err := keys.Bearer(secret)
		return r.Context(), who, err
	}
}
