package mcp

import (
	"context"
	"net/http"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// authenticate finds the principal of a request: by a key, or by an access token of the provider.
func (s *Surface) authenticate(r *http.Request) (context.Context, noderpc.Principal, error) {
	if secret := surface.Secret(r); s.cfg.Tokens != nil && auth.IsJWT(secret) {
		who, err := s.cfg.Tokens.Open(r.Context(), secret)
		return r.Context(), who, err
	}
	return surface.ByKey(s.cfg.Keys)(r)
}

// writeError answers with an error. A client without valid credentials learns where the provider is.
func (s *Surface) writeError(w http.ResponseWriter, err error, trace string) {
	body, p := surface.ErrorBody(err, trace)
	h := w.Header()
	h.Del("Content-Length")
	surface.SetErrorHeader(h.Set, p)
	if p.Kind == fault.Unauthenticated && s.cfg.Tokens != nil {
		h.Set("Www-Authenticate",
			`Bearer realm="sandgate", resource_metadata="`+s.cfg.Tokens.MetadataURL()+`"`)
	}
	w.WriteHeader(p.Kind.Row().HTTP)
	_, _ = w.Write(body) // a client that has disconnected needs no answer
}

// metadataRoute returns a route of the description that clients of OAuth read. Some add the path of
// the resource, others do not.
func (s *Surface) metadataRoute(resource string) surface.Route {
	return surface.Route{
		Method: http.MethodGet, Path: "/.well-known/oauth-protected-resource" + resource,
		Access: protocol.ScopeOpen, Public: true, WriteError: s.writeError,
		Handler: surface.HandlerFunc(s.metadata),
	}
}

// resourceMetadata is the description of a protected resource, in the form of RFC 9728.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Name     string   `json:"resource_name"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	Methods  []string `json:"bearer_methods_supported"`
}

func (s *Surface) metadata(w http.ResponseWriter, _ *http.Request) error {
	if s.cfg.Tokens == nil {
		return fault.New(fault.NotFound, "mcp.metadata",
			"this server has no OpenID Connect provider; see oidc.issuer")
	}
	t := s.cfg.Tokens
	return surface.WriteJSON(w, http.StatusOK, resourceMetadata{
		Resource: t.Resource(), Name: "Sandgate", Servers: []string{t.Issuer()},
		Scopes: t.Scopes(), Methods: []string{"header"},
	})
}
