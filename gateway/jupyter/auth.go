package jupyter

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	cookieName = "sandgate_jupyter"
	xsrfName   = "_xsrf"
	headerXSRF = "X-Xsrftoken"
	// cookieLife is how long a cookie is valid.
	cookieLife = 24 * time.Hour
)

// authenticate finds the principal of a request: by the token in the path, the query, the header
// Authorization, or by a cookie.
func (s *Surface) authenticate(r *http.Request) (context.Context, noderpc.Principal, error) {
	const op = "jupyter.authenticate"
	var nobody noderpc.Principal
	p, _ := placeOf(r.URL.EscapedPath()) // it matched
	if err := p.checkSession(); err != nil {
		return nil, nobody, err
	}
	who, err := s.principal(r, &p)
	if err != nil {
		return nil, nobody, err
	}
	if p.cookie && r.Method != http.MethodGet && r.Method != http.MethodHead && !xsrf(r) {
		return nil, nobody, fault.New(fault.PermissionDenied, op,
			"the header X-XSRFToken does not have the value of the cookie _xsrf")
	}
	if who.Session != "" && who.Session != p.session {
		return nil, nobody, fault.New(fault.PermissionDenied, op,
			"these credentials are for one session").For(fault.CauseRestricted)
	}
	p.who = who
	return withPlace(r.Context(), &p), who, nil
}

// authenticateOpen is authenticate for requests that need no credentials.
func (s *Surface) authenticateOpen(r *http.Request) (context.Context, noderpc.Principal, error) {
	ctx, who, err := s.authenticate(r)
	if err != nil {
		p, _ := placeOf(r.URL.EscapedPath()) // it matched
		return withPlace(r.Context(), &p), noderpc.Principal{}, nil
	}
	return ctx, who, nil
}

// principal returns the principal that the credentials of a request name.
func (s *Surface) principal(r *http.Request, p *place) (noderpc.Principal, error) {
	const op = "jupyter.authenticate"
	if p.token != "" {
		return s.openToken(p, p.token)
	}
	if secret := r.URL.Query().Get("token"); secret != "" {
		return s.cfg.Auth.Bearer(secret)
	}
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, secret, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "token") && !strings.EqualFold(scheme, "bearer") {
			return noderpc.Principal{}, fault.New(fault.Unauthenticated, op,
				"the header Authorization has the form: token SECRET")
		}
		return s.cfg.Auth.Bearer(strings.TrimSpace(secret))
	}
	if c, err := r.Cookie(cookieName); err == nil && c.Value != "" {
		p.cookie = true
		return s.openToken(p, c.Value)
	}
	return noderpc.Principal{}, fault.New(fault.Unauthenticated, op, "a token is needed")
}

// openToken returns the principal of a token for Jupyter's clients. A token for one session opens
// only the server of this session.
func (s *Surface) openToken(p *place, token string) (noderpc.Principal, error) {
	who, session, err := s.cfg.Auth.OpenJupyterToken(token)
	if err != nil {
		return who, err
	}
	if session == "" {
		return who, nil
	}
	if p.session != "" && p.session != session || p.session == "" && p.token == "" {
		return noderpc.Principal{}, fault.New(fault.PermissionDenied, "jupyter.authenticate",
			"this token is for another session")
	}
	p.session = session
	return who, nil
}

// xsrf reports whether a request has the value of the cookie _xsrf in a place that only a page of
// this server can write.
func xsrf(r *http.Request) bool {
	c, err := r.Cookie(xsrfName)
	if err != nil || c.Value == "" {
		return false
	}
	given := r.Header.Get(headerXSRF)
	if given == "" {
		given = r.URL.Query().Get(xsrfName)
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(c.Value)) == 1
}

// setCookies lets a browser that has opened a page with its token continue without it.
func (s aboutAPI) setCookies(w http.ResponseWriter, r *http.Request) error {
	p := placed(r)
	secure := r.Header.Get("X-Forwarded-Proto") == "https" || r.TLS != nil
	set := func(name, value string, hidden bool) {
		http.SetCookie(w, &http.Cookie{
			Name: name, Value: value, Path: p.base + "/", MaxAge: int(cookieLife.Seconds()),
			HttpOnly: hidden, Secure: secure, SameSite: http.SameSiteStrictMode,
		})
	}
	if _, err := r.Cookie(xsrfName); err != nil {
		set(xsrfName, rand.Text(), false)
	}
	if p.who.Tenant == "" || p.token != "" || p.cookie {
		return nil
	}
	token, err := s.cfg.Auth.NewJupyterToken(p.who, p.session, cookieLife)
	if err != nil {
		return err
	}
	set(cookieName, token, true)
	return nil
}
