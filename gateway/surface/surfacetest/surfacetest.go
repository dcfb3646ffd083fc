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

// Handler serves the routes of a surface as a gateway does: it authenticates requests and bounds
// bodies.
func Handler(s surface.Surface) http.Handler {
	mux := http.NewServeMux()
	params := regexp.MustCompile(`:(\w+)`)
	for _, r := range s.Routes() {
		pattern := strings.Replace(params.ReplaceAllString(r.Path, "{$1}"), "*", "{rest...}", 1)
		mux.HandleFunc(r.Method+" "+pattern, func(w http.ResponseWriter, req *http.Request) {
			serve(w, req, r)
		})
	}
	return mux
}

func serve(w http.ResponseWriter, req *http.Request, r surface.Route) {
	call := &surface.Call{WriteError: r.WriteError}
	req = req.WithContext(surface.WithCall(req.Context(), call))
	req.SetPathValue("*", req.PathValue("rest"))
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
