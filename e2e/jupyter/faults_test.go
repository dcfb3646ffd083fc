package jupyter

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sandgate/sandgate/e2e"
)

// TestFaults kills the gateway, hibernates the session and loads the page again in the middle of cells
// and of a program of a terminal.
func TestFaults(t *testing.T) {
	ctx := deadline(t)
	s, err := e2e.Start(ctx, settings)
	check(t, err)
	t.Cleanup(func() { check(t, s.Stop()) })
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := "ok"
		if err := s.ReplaceGateway(ctx); err != nil {
			answer = err.Error()
		}
		_, _ = w.Write([]byte(answer)) // the check fails without an answer
	}))
	t.Cleanup(control.Close)
	t.Setenv("CONTROL", control.URL)
	checks(t, s, "@jupyterlab/services", "/jupyter/", "faults")
}
