package gateway

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/native"
	"github.com/sandgate/sandgate/gateway/ports"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// previews are the parts of a Gateway for preview links: their requests, and the routes that manage
// them.
type previews struct{ *Gateway }

// visitedLink is the preview link of a request.
type visitedLink struct {
	tenant.PortLink
	// The principal who connects to the port for all visitors.
	who noderpc.Principal
	// otherOrigin is set if a page of another origin, which the link allows, makes the request.
	otherOrigin bool
}

// findLink finds the preview link in the host name of a request.
func (g previews) findLink(q *request, host string) error {
	id, _ := g.ports.Link(host)
	l, who, err := g.auth.OpenPortLink(id)
	view := &ports.Link{
		ID: id, Port: l.Port, WaitSeconds: l.WaitSeconds, FrameAncestors: l.FrameAncestors,
		Protected: !l.Public || l.Password != "",
	}
	q.Response().Header.Add(fiber.HeaderContentSecurityPolicy, view.FramePolicy())
	if err != nil {
		return err
	}
	q.link = &visitedLink{PortLink: l, who: who}
	q.port = &ports.Target{Session: l.Session, Port: l.Port, OwnHost: true, Link: view}
	return nil
}

// checkLinkOrigin rejects requests of pages whose origin a preview link does not allow. For others it
// sets the headers that let them read the response.
func (q *request) checkLinkOrigin(origin, host string) error {
	lower := strings.ToLower(origin)
	if origin == "" || lower == "http://"+host || lower == "https://"+host {
		return nil
	}
	h := &q.Response().Header
	switch {
	case slices.Contains(q.link.Origins, lower):
		h.Set(fiber.HeaderAccessControlAllowOrigin, origin)
		h.Set(fiber.HeaderAccessControlAllowCredentials, "true")
		h.Add(fiber.HeaderVary, fiber.HeaderOrigin)
	case slices.Contains(q.link.Origins, "*"):
		h.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	default:
		return fault.New(fault.PermissionDenied, auth.VisitOp+"origin",
			"a page of another origin may not use this link")
	}
	h.Set(fiber.HeaderAccessControlExposeHeaders, "*")
	q.link.otherOrigin = true
	if q.Method() == fiber.MethodOptions && q.Get(fiber.HeaderAccessControlRequestMethod) != "" {
		q.port.Link.Preflight = true
		h.Set(fiber.HeaderAccessControlAllowMethods, "GET, HEAD, POST, PUT, PATCH, DELETE")
		h.Set(fiber.HeaderAccessControlAllowHeaders,
			ports.HeaderNames(q.Get(fiber.HeaderAccessControlRequestHeaders)))
		h.Set(fiber.HeaderAccessControlMaxAge, "60") // a revocation takes effect
	}
	return nil
}

// authenticateLink decides whether a visitor may use a preview link, and sets the principal that
// connects to the port.
func (g previews) authenticateLink(q *request) error {
	l := q.link
	entrance := ports.Entrance{
		Auth: g.auth, Domain: g.ports, Cookie: g.portCookieName(q.port),
		Wrong: g.stats.wrongPasswords.Inc,
	}
	v, cookie, err := entrance.Admit(q.x.r, q.body, &ports.Visited{
		PortLink: l.PortLink, Target: q.port, OtherOrigin: l.otherOrigin,
	})
	if err != nil {
		return err
	}
	if cookie != nil {
		q.setCookie(cookie)
	}
	q.who = l.who
	q.port.Valid = func() bool { return g.auth.Valid(l.who) && g.auth.MayVisit(l.PortLink, v) }
	q.port.Until = l.who.Until
	if end := time.Unix(v.Until, 0); v.Until != 0 && (q.port.Until.IsZero() ||
		end.Before(q.port.Until)) {
		q.port.Until = end
	}
	return nil
}

// writeLinkError answers a visitor whose request reached no handler.
func (q *request) writeLinkError(err error) {
	port := 0
	if q.port != nil {
		port = q.port.Port
	}
	p := ports.NewErrorPage(err, port, q.Get(fiber.HeaderAccept), q.span.ID())
	r := &q.Context().Response
	r.ResetBody()
	p.SetHeader(r.Header.Add, r.Header.Set)
	r.SetStatusCode(p.Status)
	r.SetBodyRaw(p.Body)
}

// linkURL returns the address of a preview link for the client that sent the request.
func (q *request) linkURL(id string) string {
	return q.g.ports.LinkURL(id, string(q.Request().Header.Host()))
}

func errNoPortHosts(op string) error {
	return fault.New(fault.Unsupported, op, "ports have no host names here; see ports_domain")
}

// createPortLink answers with a preview link and its address.
func (g previews) createPortLink(h native.Handler) func(*request) error {
	return func(q *request) error {
		if q.linkURL("x") == "" {
			return errNoPortHosts("gateway.port_link")
		}
		status, result, err := h.Serve(nativeRequest{q}, func(op string, params, result any) error {
			return q.ask(op, boundLink(params.(protocol.PortLinkCreate), q.who), result)
		})
		if err != nil {
			return err
		}
		made := result.(*protocol.NewPortLink)
		made.URL = q.linkURL(made.ID)
		if err := g.auth.Keys.Await(g.base, made.Version); err != nil {
			return err
		}
		return q.json(status, made)
	}
}

// boundLink returns p with an end: a link ends with the credentials that created it.
func boundLink(p protocol.PortLinkCreate, who noderpc.Principal) protocol.PortLinkCreate {
	if who.Until.IsZero() {
		return p
	}
	left := max(1, int64(time.Until(who.Until)/time.Second))
	if p.ExpiresSeconds == 0 || p.ExpiresSeconds > left {
		p.ExpiresSeconds = left
	}
	return p
}

// linkPort creates a preview link for a surface. host is the host of the request.
func (g previews) linkPort(ctx context.Context, who noderpc.Principal, host string,
	p protocol.PortLinkCreate,
) (protocol.NewPortLink, error) {
	var made protocol.NewPortLink
	if g.ports.LinkURL("x", host) == "" {
		return made, errNoPortHosts("gateway.port_link")
	}
	err := g.node.Call(ctx, who, protocol.OpPortLink, boundLink(p, who), &made)
	if err != nil {
		return made, err
	}
	made.URL = g.ports.LinkURL(made.ID, host)
	return made, g.auth.Keys.Await(ctx, made.Version)
}

// listPortLinks answers with a session's preview links and their addresses.
func (g previews) listPortLinks(h native.Handler) func(*request) error {
	return func(q *request) error {
		status, result, err := h.Serve(nativeRequest{q}, q.ask)
		if err != nil {
			return err
		}
		list := result.(*protocol.PortLinkList)
		for i := range list.Links {
			list.Links[i].URL = q.linkURL(list.Links[i].ID)
		}
		return q.json(status, list)
	}
}

// waitPort waits longer for the node than other requests, and ends when the client disconnects.
func (g previews) waitPort(h native.Handler) func(*request) error {
	return func(q *request) error {
		status, result, err := h.Serve(nativeRequest{q}, func(op string, params, result any) error {
			wait := time.Duration(params.(protocol.PortWait).Seconds) * time.Second
			ctx, cancel := context.WithTimeout(q.base(), g.cfg.Times.Call+max(0, wait))
			defer cancel()
			defer context.AfterFunc(q.x.r.Context(), cancel)()
			return g.node.Call(ctx, q.who, op, params, result)
		})
		if err != nil {
			return err
		}
		return q.json(status, result)
	}
}

// linkTicketReply has an address that opens a private link in a browser, once.
type linkTicketReply struct {
	URL            string `json:"url"`
	ExpiresSeconds int    `json:"expires_seconds"`
}

// openPortLink answers with an address that opens a private preview link in a browser.
func (g previews) openPortLink(q *request) error {
	const op = "gateway.port_link"
	id, err := q.session()
	if err != nil {
		return err
	}
	link := q.Params("link")
	if !surface.ValidID(link) {
		link = ""
	}
	l, _, err := g.auth.OpenPortLink(link)
	if err != nil || l.Tenant != q.who.Tenant || l.Session != id {
		if fault.Is(err, fault.Unavailable) {
			return err
		}
		return &fault.Error{
			Kind: fault.NotFound, Op: op, Field: "link", Message: "there is no such link",
		}
	}
	if _, err := auth.Visitor(q.who); err != nil {
		return err
	}
	address := q.linkURL(l.ID)
	if address == "" {
		return errNoPortHosts(op)
	}
	if !l.Public {
		secret, err := g.auth.PortTickets.Issue(g.base, q.who, ports.LinkTicket(l.ID))
		if err != nil {
			if fault.Is(err, fault.Exhausted) {
				g.full(limitTickets)
			}
			return err
		}
		address += "?" + ports.TicketParam + "=" + secret
	}
	return q.json(fiber.StatusCreated, linkTicketReply{
		URL: address, ExpiresSeconds: int(auth.TicketLife / time.Second),
	})
}
