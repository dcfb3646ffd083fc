package jupyter

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// prefix is the path of the server-wide endpoint, tokenPrefix the path of its form with a token.
const (
	prefix      = "/jupyter"
	tokenPrefix = "/t/"
)

// place is the Jupyter server that a request is for.
type place struct {
	// base is the path of the server, without a slash at the end.
	base string
	// session is the session of a server for one session; empty for the server-wide one.
	session string
	// token is the token in the path.
	token string
	// rest is the path below base, as the client has escaped it.
	rest string
	// cookie is set if a cookie has identified the client.
	cookie bool
	who    noderpc.Principal
}

// placeOf returns the server that a path is for.
func placeOf(path string) (place, bool) {
	var p place
	switch {
	case path == prefix || strings.HasPrefix(path, prefix+"/"):
		p.base, p.rest = prefix, path[len(prefix):]
	case strings.HasPrefix(path, tokenPrefix):
		token, rest, _ := strings.Cut(path[len(tokenPrefix):], "/")
		p.base, p.token = tokenPrefix+token, token
		p.rest = path[len(p.base):]
		_ = rest
	default:
		return p, false
	}
	if after, ok := strings.CutPrefix(p.rest, "/s/"); ok {
		id, _, _ := strings.Cut(after, "/")
		p.session = id
		p.base += "/s/" + id
		p.rest = p.rest[len("/s/"+id):]
	}
	if p.rest == "" {
		p.rest = "/"
	}
	return p, true
}

type placeKey struct{}

// placed returns the place of a request.
func placed(r *http.Request) *place {
	p, _ := r.Context().Value(placeKey{}).(*place)
	if p == nil {
		p = new(place)
	}
	return p
}

func withPlace(ctx context.Context, p *place) context.Context {
	return context.WithValue(ctx, placeKey{}, p)
}

// kinds of routes.
const (
	kindOpen = iota
	kindRead
	kindWrite
	kindSocket
	kindEvents
)

// kindOf returns the kind of a request, and false if it is not for a Jupyter server.
func kindOf(r *http.Request) (int, bool) {
	p, ok := placeOf(r.URL.EscapedPath())
	if !ok {
		return 0, false
	}
	switch {
	case r.Method == http.MethodOptions:
		return kindOpen, true
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return kindWrite, true
	case strings.HasPrefix(p.rest, "/api/kernels/") && strings.HasSuffix(p.rest, "/channels") ||
		strings.HasPrefix(p.rest, "/terminals/websocket/"):
		return kindSocket, true
	case p.rest == "/api/events/subscribe":
		return kindEvents, true
	}
	switch strings.TrimSuffix(p.rest, "/") {
	case "", "/tree", "/lab", "/login", "/api":
		return kindOpen, true
	}
	return kindRead, true
}

// below returns the request as the server of its place sees it.
func below(r *http.Request) (*http.Request, error) {
	p := placed(r)
	path, err := url.PathUnescape(p.rest)
	if err != nil {
		return nil, fault.Invalid("jupyter.path", "path", "the path is not escaped correctly")
	}
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if path != "/" && (part == "" || part == "." || part == "..") {
			return nil, fault.New(fault.NotFound, "jupyter.path", "there is no such path")
		}
	}
	out := r.WithContext(r.Context())
	out.URL = &url.URL{Path: path, RawPath: p.rest, RawQuery: r.URL.RawQuery}
	return out, nil
}

// checkSession rejects a session whose id cannot exist.
func (p *place) checkSession() error {
	if p.session != "" && !surface.ValidID(p.session) {
		return fault.New(fault.NotFound, "jupyter.session", "there is no such session")
	}
	return nil
}
