package jupyter

import (
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
)

// apiVersion is the version of Jupyter Server whose interface this is.
const apiVersion = "2.14.0"

// stamp returns a time in the form that Jupyter's clients parse.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

func stampMS(ms int64) string { return stamp(time.UnixMilli(ms)) }

// page answers the clients that look whether a server wants a password. A browser gets cookies.
func (s aboutAPI) page(w http.ResponseWriter, r *http.Request) error {
	if err := s.setCookies(w, r); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte("This is a Jupyter server for clients. It has no pages.\n")) // as above
	return nil
}

func (s aboutAPI) version(w http.ResponseWriter, _ *http.Request) error {
	return surface.WriteJSON(w, http.StatusOK, map[string]string{"version": apiVersion})
}

func (s aboutAPI) serverStatus(w http.ResponseWriter, r *http.Request) error {
	all, err := s.kernels(r)
	if err != nil {
		return err
	}
	last, connections := s.started, 0
	for _, k := range all {
		if at := time.UnixMilli(k.activeMS); at.After(last) {
			last = at
		}
		connections += s.sockets.count(k.id())
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{
		"started": stamp(s.started), "last_activity": stamp(last), "connections": connections,
		"kernels": len(all),
	})
}

// me describes the user. The permissions that a client asks for are those of the credentials.
func (s aboutAPI) me(w http.ResponseWriter, r *http.Request) error {
	who := placed(r).who
	name := who.Subject
	if name == "" {
		name = who.Tenant
	}
	initials := strings.ToUpper(name[:min(len(name), 1)])
	return surface.WriteJSON(w, http.StatusOK, map[string]any{
		"identity": map[string]any{
			"username": name, "name": name, "display_name": name, "initials": initials,
			"avatar_url": nil, "color": nil,
		},
		"permissions": struct{}{},
	})
}
