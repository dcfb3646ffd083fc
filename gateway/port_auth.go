package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// portRequest requests an address that opens a port in a browser.
type portRequest struct {
	Port int `json:"port"`
	// Embed lets a page of another site show the port in a frame.
	Embed bool `json:"embed,omitempty"`
}

type portReply struct {
	Port int `json:"port"`
	// URL opens the port in a browser, once. It is a path if ports have no host names.
	URL            string `json:"url"`
	ExpiresSeconds int    `json:"expires_seconds"`
}

// openPort issues a ticket for a port and answers with an address that has it.
func (g *Gateway) openPort(q *request) error {
	const op = "gateway.port"
	id, err := q.session()
	if err != nil {
		return err
	}
	var p portRequest
	if err := q.body.decode(&p, false); err != nil {
		return err
	}
	if p.Port < 1 || p.Port > 65535 {
		return fault.Invalid(op, "port", "a port is a number from 1 to 65535")
	}
	if !g.auth.CanOpenPorts(q.who) {
		return fault.New(fault.PermissionDenied, op, "these credentials cannot be delegated").
			For(fault.CauseRestricted)
	}
	// A session of another tenant is unknown.
	if err := q.ask(protocol.OpSessionGet, protocol.SessionRef{Session: id},
		new(protocol.Session)); err != nil {
		return err
	}
	t := ports.Target{Session: id, Port: p.Port}
	address := g.ports.URL(id, p.Port, string(q.Request().Header.Host()))
	if address == "" {
		if p.Embed {
			return fault.New(fault.Unsupported, op,
				"ports have no host names here; see ports_domain")
		}
		address = "/v1/sessions/" + id + "/ports/" + strconv.Itoa(p.Port) + "/"
	}
	purpose := t.Key()
	if p.Embed {
		purpose += embedMark
	}
	secret, err := g.auth.PortTickets.Issue(g.base, q.who, purpose)
	if err != nil {
		if fault.Is(err, fault.Exhausted) {
			g.full(limitTickets)
		}
		return err
	}
	return q.json(fiber.StatusCreated, portReply{Port: p.Port, URL: address + "?" +
		ports.TicketParam + "=" + secret, ExpiresSeconds: int(auth.TicketLife / time.Second)})
}

// embedMark follows the port in the purpose of a ticket, and of its cookie, for a frame on a page of
// another site.
const embedMark = "+embed"

// authenticatePort finds the principal of a request to a port: by a ticket in the query, a bearer
// token, or the cookie that a ticket was exchanged for. An Authorization header that the gateway
// does not know belongs to the program in the sandbox; then the cookie identifies the browser.
func (g *Gateway) authenticatePort(q *request) (noderpc.Principal, error) {
	const op = "gateway.authenticate"
	p := q.port
	if secret := string(q.Context().QueryArgs().Peek(ports.TicketParam)); secret != "" {
		who, purpose, ok, err := g.auth.PortTickets.Take(g.base, secret)
		if err != nil {
			return who, err
		}
		embed := false
		if purpose, embed = strings.CutSuffix(purpose, embedMark); ok && purpose == p.Key() {
			p.TicketUsed = true
			g.setPortCookie(q, who, embed)
			return who, nil
		}
		// A reload repeats a ticket that is already used. The cookie may be set by then.
	}
	if h := q.Get(fiber.HeaderAuthorization); h != "" {
		if secret, ok := auth.BearerToken(h); ok {
			who, err := g.auth.Bearer(secret)
			if err == nil {
				p.BearerUsed = true
				return who, nil
			}
			if fault.Is(err, fault.Unavailable) {
				return noderpc.Principal{}, err
			}
		}
	}
	who, ok := portCookie(g, q)
	if !ok {
		return noderpc.Principal{}, fault.New(fault.Unauthenticated, op,
			"a bearer token is needed, or a link from POST /v1/sessions/{id}/ports")
	}
	if err := ownPage(q); err != nil {
		return noderpc.Principal{}, err
	}
	return who, nil
}

// portCookie returns the principal of the port's cookie. In a frame on a page of the same site, a
// browser that has opened the port in a tab too sends two. The one for frames decides.
func portCookie(g *Gateway, q *request) (who noderpc.Principal, ok bool) {
	p := q.port
	for _, c := range q.x.r.CookiesNamed(g.portCookieName(p)) {
		if framed, valid := g.auth.OpenPortCookie(c.Value, p.Key()+embedMark); valid {
			p.OwnFrames = false
			return framed, true
		}
		if !ok {
			who, ok = g.auth.OpenPortCookie(c.Value, p.Key())
			p.OwnFrames = ok
		}
	}
	return who, ok
}

// ownPage rejects requests that a browser sends with the cookie on behalf of a page of another
// origin. Any page may link to a port.
func ownPage(q *request) error {
	if ports.FromOwnPage(q.x.r) {
		return nil
	}
	return fault.New(fault.PermissionDenied, "gateway.port",
		"a page of another origin may not use this port").For(fault.CauseOrigin)
}

// portCookieName returns the name of a port's cookie. Over TLS it has the prefix
// that keeps neighbouring hosts from setting it.
func (g *Gateway) portCookieName(p *ports.Target) string {
	if p.OwnHost && g.ports.Scheme == "https" {
		return "__Host-sandgate-port"
	}
	return "sandgate-port"
}

// secure reports whether the client's connection has TLS. Only a proxy knows this of a connection
// without TLS of its own.
func (q *request) secure() bool { return q.Get("X-Forwarded-Proto") == "https" }

func (g *Gateway) setPortCookie(q *request, who noderpc.Principal, embed bool) {
	key := q.port.Key()
	if embed {
		key += embedMark
	}
	value, ok := g.auth.NewPortCookie(who, key)
	if !ok {
		return
	}
	c := &http.Cookie{
		Name: g.portCookieName(q.port), Value: value, Path: q.port.Prefix + "/",
		MaxAge: int(auth.PortCookieLife / time.Second), HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
		Secure:   g.ports.Scheme == "https" && q.port.OwnHost || q.secure(),
	}
	if embed && q.port.OwnHost {
		// The cookie belongs to the page around the frame as well as to the port.
		c.SameSite, c.Secure, c.Partitioned = http.SameSiteNoneMode, true, true
	}
	q.setCookie(c)
}
