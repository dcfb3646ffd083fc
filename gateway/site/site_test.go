package site

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFramesOfPage: the page may show frames of this server, and of the host names of ports.
func TestFramesOfPage(t *testing.T) {
	for host, want := range map[string]string{
		"localhost:1": "frame-src 'self' http://*.localhost:1", "other.test": "frame-src 'self'",
	} {
		s := New(Config{Previews: func(at string) string {
			if at != "localhost:1" {
				return ""
			}
			return "http://*." + at
		}})
		w := httptest.NewRecorder()
		if err := s.page(w, httptest.NewRequest("GET", "http://"+host+"/", nil)); err != nil {
			t.Fatal(err)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.HasSuffix(policy, "; "+want) || strings.Count(policy, "frame-src") != 1 {
			t.Errorf("%s: %s", host, policy)
		}
	}
}
