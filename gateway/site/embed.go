package site

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/tenant"
)

// embedPolicy is the policy of the page /embed/run. The page has no credentials of its own.
// Pictures and frames come from the output.
const embedPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; " +
	"img-src data:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'self'"

// runScript sends the run button. Its address does not change, so that other sites can refer to it.
// Browsers revalidate it after an hour.
func (s *Surface) runScript(w http.ResponseWriter, r *http.Request) error {
	return s.send(w, r, "run.js", "public, max-age=3600")
}

// embed sends the page /embed/run and its parts. Pages of the allowed origins, and of the origins
// of run tokens with embed, may show it in a frame.
func (s *Surface) embed(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("*")
	h := w.Header()
	h.Set("Referrer-Policy", "no-referrer")
	if name != "run" {
		h.Set("Content-Security-Policy", "default-src 'none'")
		return s.send(w, r, "embed/"+name, "no-cache")
	}
	framing, err := s.cfg.Framing()
	if err != nil {
		return err
	}
	h.Set("Content-Security-Policy",
		strings.Join(append([]string{embedPolicy}, ancestors(framing, r.Referer())...), " "))
	h.Set("Permissions-Policy", permissions)
	h.Set("Content-Type", "text/html; charset=utf-8")
	return s.send(w, r, "embed/run", "no-store")
}

// maxAncestors bounds the origins in the header of /embed/run.
const maxAncestors = 64

// ancestors returns the origins for a header. The page that shows the frame comes first if it is one
// of them, so that no number of other origins displaces it.
func ancestors(all []string, referer string) []string {
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(o string) bool { return !tenant.IsOrigin(o) })
	if u, err := url.Parse(referer); err == nil {
		if i := slices.Index(all, u.Scheme+"://"+u.Host); i > 0 {
			all = slices.Insert(slices.Delete(all, i, i+1), 0, u.Scheme+"://"+u.Host)
		}
	}
	return all[:min(len(all), maxAncestors)]
}

// public returns a route that pages of every origin may load.
func public(path string, h surface.HandlerFunc) surface.Route {
	r := open(path, h)
	r.Public = true
	return r
}
