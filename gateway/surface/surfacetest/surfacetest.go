// Package surfacetest serves the routes of a surface in tests, without a gateway.
package surfacetest

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Keys accepts all keys that do not begin with "wrong". A key is a tenant and, after a slash, a name.
type Keys struct{}

// Bearer returns the principal of a key.
func (Keys) Bearer(secret string) (noderpc.Principal, error) {
	if strings.HasPrefix(secret, "wrong") {
		return noderpc.Principal{}, fault.New(fault.Unauthenticated, "test", "the key is wrong")
	}
	tenant, _, _ := strings.Cut(secret, "/")
	return noderpc.Principal{Tenant: tenant, Subject: "key:" + secret}, nil
}

// Handler serves the routes of a surface as a gateway does: it takes the first route that matches,
// authenticates the request and bounds its body.
func Handler(s surface.Surface) http.Handler {
	routes := s.Routes()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		for _, r := range routes {
			if r.Method == req.Method && match(req, r.Path) {
				serve(w, req, r)
				return
			}
		}
		http.NotFound(w, req)
	})
}

// match reports whether a request has a path, and sets its parameters.
func match(req *http.Request, template string) bool {
	names := regexp.MustCompile(`:(\w+)`)
	pattern := strings.Replace(names.ReplaceAllString(template, "(?P<$1>[^/]+)"), "*", "(?P<rest>.*)", 1)
	form := regexp.MustCompile("^" + pattern + "$")
	values := form.FindStringSubmatch(req.URL.EscapedPath())
	if values == nil {
		return false
	}
	for i, name := range form.SubexpNames() {
		if name == "rest" {
			name = "*"
		}
		if i > 0 {
			req.SetPathValue(name, values[i])
		}
	}
	return true
}

func serve(w http.ResponseWriter, req *http.Request, r surface.Route) {
	call := &surface.Call{WriteError: r.WriteError}
	req = req.WithContext(surface.WithCall(req.Context(), call))
	if r.Authenticate != nil {
		ctx, who, err := r.Authenticate(req)
		if err != nil {
			call.Answer(w, err)
			return
		}
		call.Who = who
		req = req.WithContext(ctx)
	}
	req.Body = http.MaxBytesReader(w, req.Body, r.MaxBody)
	r.Handler.ServeHTTP(w, req)
}

// Send sends a request to a surface and returns the status and the body. Headers are pairs of a name
// and a value.
func Send(s surface.Surface, method, path, body string, headers ...string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Handler(s).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}
