package jupyter

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// requestAt returns a request for a path, as the handlers get it.
func requestAt(t *testing.T, path string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	p, ok := placeOf(path)
	if !ok {
		t.Fatalf("%s is not at a Jupyter server", path)
	}
	return r.WithContext(withPlace(r.Context(), &p))
}

// TestKinds: the path and the method decide which scope a request needs.
func TestKinds(t *testing.T) {
	for target, want := range map[string]int{
		"GET /jupyter":                                   kindOpen,
		"GET /jupyter/s/s_x/tree":                        kindOpen,
		"GET /t/00ff/api":                                kindOpen,
		"OPTIONS /jupyter/api/kernels":                   kindOpen,
		"GET /jupyter/api/kernels":                       kindRead,
		"HEAD /jupyter/files/a":                          kindRead,
		"POST /jupyter/api/kernels":                      kindWrite,
		"PATCH /t/00ff/s/s_x/api/sessions/1":             kindWrite,
		"GET /jupyter/s/s_x/api/kernels/1/channels":      kindSocket,
		"GET /jupyter/terminals/websocket/t1":            kindSocket,
		"GET /jupyter/api/events/subscribe":              kindEvents,
		"POST /jupyter/api/events":                       kindWrite,
		"GET /jupyter/api/contents/channels":             kindRead,
		"GET /jupyter/files/terminals/websocket/t1":      kindRead,
		"GET /jupyter/api/contents/api/kernels/channels": kindRead,
		"GET /jupyterx":                                  -1,
		"GET /v1/status":                                 -1,
	} {
		var method, path string
		for i := range target {
			if target[i] == ' ' {
				method, path = target[:i], target[i+1:]
			}
		}
		kind, ok := kindOf(httptest.NewRequest(method, path, nil))
		if !ok {
			kind = -1
		}
		if kind != want {
			t.Errorf("%s has the kind %d, want %d", target, kind, want)
		}
	}
}
