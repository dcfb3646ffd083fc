package jupyter

import (
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestServices runs the checks with JupyterLab's packages: 7.6 and 7.2 use the binary framing, 6.6
// the older one.
func TestServices(t *testing.T) {
	s := server(t)
	for name, services := range map[string]string{
		"7.6": "@jupyterlab/services", "7.2": "jupyterlab-services-7.2",
		"6.6": "jupyterlab-services-6.6",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checks(t, s, services, "/jupyter/", "kernels", "sessions", "contents",
				"terminals", "lab", "events")
		})
	}
}

// TestServerOfSession runs the checks at the server of one session.
func TestServerOfSession(t *testing.T) {
	t.Parallel()
	s := server(t)
	var v protocol.Session
	post(t, s.URL+"/v1/sessions", s.Token, `{"language": "python"}`, &v)
	checks(t, s, "@jupyterlab/services", "/jupyter/s/"+v.ID+"/", "sessions", "contents",
		"terminals", "events")
}
