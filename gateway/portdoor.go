package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// portCookieLife is how long a browser that has used a ticket is let in.
const portCookieLife = 12 * time.Hour

// portRequest asks for a way to a port for a browser.
type portRequest struct {
	Port int `json:"port"`
	// Embed lets a page of another site show the port in a frame.
	Embed bool `json:"embed,omitempty"`
}

type portReply struct {
	Port int `json:"port"`
	// URL opens the port in a browser, once. It is a path where ports have no
	// host names.
	URL            string `json:"url"`
	ExpiresSeconds int    `json:"expires_seconds"`
}

// openPort issues a ticket and says where to take it.
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
	if _, ok := g.tokenOf(q.who); !ok && !isUser(q.who) {
		return fault.New(fault.PermissionDenied, op, "these credentials cannot be handed on")
	}
	// A foreign session is an unknown one, also here.
	if err := q.ask(protocol.OpSessionGet, protocol.SessionRef{Session: id}, new(protocol.Session)); err != nil {
		return err
	}
	t := portTarget{session: id, port: p.Port}
	address := g.ports.url(id, p.Port, string(q.Request().Header.Host()))
	if address == "" {
		if p.Embed {
			return fault.New(fault.Unsupported, op, "ports have no host names here; see ports_domain")
		}
		address = "/v1/sessions/" + id + "/ports/" + strconv.Itoa(p.Port) + "/"
	}
	purpose := t.key()
	if p.Embed {
		purpose += embedMark
	}
	secret, err := g.portTickets.issue(g.base, q.who, purpose)
	if err != nil {
		if fault.Is(err, fault.Exhausted) {
			g.full(limitTickets)
		}
		return err
	}
	return q.json(fiber.StatusCreated, portReply{Port: p.Port, URL: address + "?" + ticketParam + "=" + secret, ExpiresSeconds: int(ticketLife / time.Second)})
}

// A port's cookie of a user who has signed in holds the user, sealed for the
// port: there is no token that it could end with.
const (
	userMark    = "u~"
	purposePort = "port cookie "
)

func isUser(who noderpc.Principal) bool {
	return strings.HasPrefix(who.Subject, userSubject) && allows(who, ScopeWrite)
}

const embedMark = "+embed"

// authenticatePort finds out whose request to a port it is: by a ticket in the
// query, a bearer token, or the cookie that a ticket was exchanged for. An
// Authorization that is not the gateway's belongs to the program, where the
// cookie says who it is.
func (g *Gateway) authenticatePort(q *request) (noderpc.Principal, error) {
	const op = "gateway.authenticate"
	p := q.port
	if secret := string(q.Context().QueryArgs().Peek(ticketParam)); secret != "" {
		who, purpose, ok, err := g.portTickets.take(g.base, secret)
		if err != nil {
			return who, err
		}
		embed := false
		if purpose, embed = strings.CutSuffix(purpose, embedMark); ok && purpose == p.key() {
			p.ticket = true
			g.setPortCookie(q, who, embed)
			return who, nil
		}
		// It was used, by a reload perhaps: the cookie may be there.
	}
	if h := q.Get(fiber.HeaderAuthorization); h != "" {
		scheme, secret, _ := strings.Cut(h, " ")
		if strings.EqualFold(scheme, "Bearer") {
			who, err := g.lookup(strings.TrimSpace(secret))
			if err == nil {
				p.ours = true
				return who, nil
			}
			if fault.Is(err, fault.Unavailable) {
				return noderpc.Principal{}, err
			}
		}
	}
	who, ok := g.portCookie(q)
	if !ok {
		return noderpc.Principal{}, fault.New(fault.Unauthenticated, op, "a bearer token is needed, or a link from POST /v1/sessions/{id}/ports")
	}
	if err := ownPage(q); err != nil {
		return noderpc.Principal{}, err
	}
	return who, nil
}

// ownPage refuses what a browser sends with the cookie because a page of
// somebody else's asked for it: another session's, on a neighbouring name, is
// of the same site. What is followed as a link may come from anywhere.
func ownPage(q *request) error {
	switch q.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	dest := q.Get("Sec-Fetch-Dest")
	if q.Get("Sec-Fetch-Mode") == "navigate" && (q.Method() == fiber.MethodGet || q.Method() == fiber.MethodHead) && (dest == "document" || dest == "iframe") {
		return nil
	}
	return fault.New(fault.PermissionDenied, "gateway.port", "a page of another origin may not use this port")
}

// tokenOf finds a token or a key that speaks for who.
func (g *Gateway) tokenOf(who noderpc.Principal) (token, bool) {
	if id, ok := tenant.KeyOf(who.Subject); ok {
		return g.tokenOfKey(id)
	}
	for _, t := range g.access.Load().tokens {
		if t.until.IsZero() && t.who.Tenant == who.Tenant && t.who.Subject == who.Subject && allows(t.who, ScopeWrite) {
			return t, true
		}
	}
	return token{}, false
}

// tokenOfKey is a key as a token. A rotation changes its hash.
func (g *Gateway) tokenOfKey(id string) (token, bool) {
	x, _ := g.keys.get()
	if x == nil {
		return token{}, false
	}
	k, ok := x.Key(id)
	who := speaker(k)
	hash, err := hex.DecodeString(k.Hash)
	if !ok || err != nil || len(hash) != sha256.Size || !allows(who, ScopeWrite) {
		return token{}, false
	}
	return token{hash: [sha256.Size]byte(hash), who: who, until: k.Expires}, true
}

// seal makes the cookie's value. The key is the hash of the token that vouches
// for it: so the gateway keeps no state, a restart changes nothing, and the
// cookie ends with its token.
func seal(t token, key string, expires int64) string {
	at := strconv.FormatInt(expires, 36)
	if id, ok := tenant.KeyOf(t.who.Subject); ok {
		at += "-" + id // by which the key is found again
	}
	mac := hmac.New(sha256.New, t.hash[:])
	mac.Write([]byte("port cookie\x00" + key + "\x00" + at))
	return at + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// cookieName has the prefix that keeps neighbouring hosts from setting it,
// where that can be: it takes TLS.
func (g *Gateway) cookieName(p *portTarget) string {
	if p.own && g.ports.scheme == "https" {
		return "__Host-sandgate-port"
	}
	return "sandgate-port"
}

func (g *Gateway) setPortCookie(q *request, who noderpc.Principal, embed bool) {
	expires := time.Now().Add(portCookieLife)
	value := ""
	if t, ok := g.tokenOf(who); ok {
		value = seal(t, q.port.key(), expires.Unix())
	} else if isUser(who) {
		sealed, err := sealFor(g, purposePort+q.port.key(), min(portCookieLife, time.Until(who.Until)), who)
		if err != nil {
			return
		}
		value = userMark + sealed
	} else {
		return
	}
	c := fasthttp.AcquireCookie()
	defer fasthttp.ReleaseCookie(c)
	c.SetKey(g.cookieName(q.port))
	c.SetValue(value)
	c.SetPath(q.port.prefix + "/")
	c.SetMaxAge(int(portCookieLife / time.Second))
	c.SetHTTPOnly(true)
	c.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	c.SetSecure(g.ports.scheme == "https" && q.port.own)
	if embed && q.port.own {
		c.SetSameSite(fasthttp.CookieSameSiteNoneMode)
		c.SetSecure(true)
		// Of the page around the frame alone; fasthttp has no word for it.
		q.Response().Header.Add(fiber.HeaderSetCookie, c.String()+"; Partitioned")
		return
	}
	q.Response().Header.SetCookie(c)
}

// portCookie finds out who a cookie was made for.
func (g *Gateway) portCookie(q *request) (noderpc.Principal, bool) {
	value := string(q.Request().Header.Cookie(g.cookieName(q.port)))
	if sealed, ok := strings.CutPrefix(value, userMark); ok && g.signIn != nil {
		who, ok, err := openSealed[noderpc.Principal](g, purposePort+q.port.key(), sealed)
		return who, ok && err == nil
	}
	at, _, _ := strings.Cut(value, ".")
	at, id, ofKey := strings.Cut(at, "-")
	expires, err := strconv.ParseInt(at, 36, 64)
	if err != nil || time.Now().Unix() >= expires {
		return noderpc.Principal{}, false
	}
	tokens := g.access.Load().tokens
	if t, ok := g.tokenOfKey(id); ofKey {
		tokens = nil
		if ok {
			tokens = []token{t}
		}
	}
	for _, t := range tokens {
		if t.good() && hmac.Equal([]byte(value), []byte(seal(t, q.port.key(), expires))) {
			return t.who, true
		}
	}
	return noderpc.Principal{}, false
}
