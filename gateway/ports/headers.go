package ports

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/auth"
)

// pathPolicy prevents a program's page below the gateway's host name from acting as a page of the
// gateway: it makes the page's origin opaque.
const pathPolicy = "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads"

// ofOrigin are response headers that apply to the whole origin. Below the gateway's host name that
// origin is not the program's.
var ofOrigin = [...]string{
	"Set-Cookie", "Strict-Transport-Security", "Alt-Svc", "Clear-Site-Data",
	"Service-Worker-Allowed",
	"Nel", "Report-To", "Reporting-Endpoints", "Origin-Agent-Cluster", "Www-Authenticate",
	"Accept-Ch", "Critical-Ch", "Public-Key-Pins", "Referrer-Policy", "Sourcemap",
}

// PasswordHeader has the password of a preview link, for programs.
const PasswordHeader = "Sandgate-Link-Password"

// requestHeader changes a request's header for the program: it removes the gateway's credentials,
// and makes the request look as if the client had sent it to the port itself.
func (s *Surface) requestHeader(h http.Header, t *Target, host string) {
	local := "localhost:" + strconv.Itoa(t.Port)
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") {
			delete(h, name)
		}
	}
	for _, name := range []string{"Expect", "Forwarded", "Proxy-Connection"} {
		h.Del(name)
	}
	if t.BearerUsed || !t.OwnHost {
		h.Del("Authorization")
	}
	h.Del(PasswordHeader)
	s.cookies(h, t)
	if offers := h["Sec-Websocket-Protocol"]; len(offers) > 0 {
		h.Del("Sec-Websocket-Protocol")
		if others := withoutTickets(strings.Join(offers, ",")); others != "" {
			h.Set("Sec-Websocket-Protocol", others)
		}
	}
	if _, rest, ok := strings.Cut(h.Get("Origin"), "://"); ok && strings.EqualFold(rest, host) {
		h.Set("Origin", "http://"+local)
	}
	scheme := "http"
	if t.OwnHost {
		scheme = s.cfg.Domain.Scheme
	} else {
		h.Del("Referer")
	}
	h.Set("X-Forwarded-Host", host)
	h.Set("X-Forwarded-Proto", scheme)
	if t.Prefix != "" {
		h.Set("X-Forwarded-Prefix", t.Prefix)
	}
}

// cookies removes the gateway's cookies. On a path all cookies are the gateway's.
func (s *Surface) cookies(h http.Header, t *Target) {
	own := s.cfg.Cookie(t)
	var others []string
	for _, line := range h["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			part = strings.TrimSpace(part)
			if name, _, _ := strings.Cut(part, "="); part != "" && name != own {
				others = append(others, part)
			}
		}
	}
	h.Del("Cookie")
	if t.OwnHost && len(others) > 0 {
		h.Set("Cookie", strings.Join(others, "; "))
	}
}

func withoutTickets(offers string) string {
	var others []string
	for part := range strings.SplitSeq(offers, ",") {
		if part = strings.TrimSpace(part); part != "" &&
			!strings.HasPrefix(part, auth.TicketPrefix) {
			others = append(others, part)
		}
	}
	return strings.Join(others, ", ")
}

// responseHeader changes the header of a program's response for the client.
func (s *Surface) responseHeader(h http.Header, t *Target) {
	h.Del("Date")
	if t.Link != nil {
		linkHeader(h, t.Link)
	}
	if !t.OwnHost {
		for _, name := range ofOrigin {
			h.Del(name)
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") {
				delete(h, name)
			}
		}
	}
	// The cookies and the storage that this header removes belong to the whole domain, so that a
	// program could end its neighbours' sign-ins.
	if value := h.Get("Clear-Site-Data"); value != "" && value != `"cache"` {
		h.Del("Clear-Site-Data")
	}
	if lines := h["Set-Cookie"]; len(lines) > 0 {
		h.Del("Set-Cookie")
		own := s.cfg.Cookie(t)
		for _, line := range lines {
			if cookieMayPass(line, own) {
				h.Add("Set-Cookie", line)
			}
		}
	}
	if to := h.Get("Location"); to != "" {
		h.Set("Location", location(to, t))
	}
	if t.OwnHost && t.OwnFrames {
		// A neighbour's page belongs to the same site and could cover a frame with its own content.
		h.Add("Content-Security-Policy", "frame-ancestors 'self'")
	}
	if !t.OwnHost {
		h.Add("Content-Security-Policy", pathPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
}

// cookieMayPass reports whether a program may set the cookie. It prevents a program from replacing
// the gateway's cookie, and from setting one for neighbouring host names.
func cookieMayPass(line, own string) bool {
	name, _, _ := strings.Cut(line, "=")
	if strings.TrimSpace(name) == own {
		return false
	}
	for part := range strings.SplitSeq(line, ";") {
		attribute, _, _ := strings.Cut(part, "=")
		if strings.EqualFold(strings.TrimSpace(attribute), "Domain") {
			return false
		}
	}
	return true
}

// location keeps a redirect below the port. The program knows its host as localhost, and does not
// know the path prefix.
func location(to string, t *Target) string {
	for _, self := range []string{"http://localhost:", "http://127.0.0.1:"} {
		if rest, ok := strings.CutPrefix(to, self+strconv.Itoa(t.Port)); ok &&
			(rest == "" || rest[0] == '/') {
			to = "/" + strings.TrimPrefix(rest, "/")
		}
	}
	if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
		return t.Prefix + to
	}
	return to
}
