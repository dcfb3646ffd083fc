package gateway

import (
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
)

// A view link lets whoever has it look at one session: its channels' output and
// its files. It is sealed, so that any gateway of the node opens it after any
// restart, and its id stands in the table of keys. It ends with its time, its
// session or the credentials that made it, or when it is taken out of the table.

const (
	// viewPrefix tells a view link's token from others.
	viewPrefix = "sgv_"
	// viewSubject begins the subject of who came by a view link; that of its
	// maker follows.
	viewSubject = "link:"

	defaultViewLife = time.Hour
	minViewLife     = time.Minute
	maxViewLife     = 7 * 24 * time.Hour
	purposeView     = "view link"
)

// viewLink is what is sealed in one.
type viewLink struct {
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	By      string `json:"by"`
	Until   int64  `json:"until"`
	ID      string `json:"id"`
}

type viewLinkRequest struct {
	// ExpiresSeconds is how long it is good: 1 min to 7 days, 1 h if left out.
	ExpiresSeconds int `json:"expires_seconds"`
}

type viewLinkReply struct {
	ID      string `json:"id"`
	Token   string `json:"token"`
	Session string `json:"session"`
	// Path is that of the page that shows the session; the token goes into its
	// fragment.
	Path           string `json:"path"`
	ExpiresMS      int64  `json:"expires_ms"`
	ExpiresSeconds int    `json:"expires_seconds"`
}

// makeViewLink answers with a link for looking at a session.
func (g *Gateway) makeViewLink(q *request) error {
	const op = "gateway.viewlink"
	id, err := q.session()
	if err != nil {
		return err
	}
	var p viewLinkRequest
	if err := q.body.decode(&p, true); err != nil {
		return err
	}
	life := time.Duration(p.ExpiresSeconds) * time.Second
	orDefault(&life, defaultViewLife)
	if life < minViewLife || life > maxViewLife {
		return fault.Invalid(op, "expires_seconds", "this is %d to %d", int(minViewLife/time.Second), int(maxViewLife/time.Second))
	}
	if !allows(q.who, ScopeRead) {
		return fault.New(fault.PermissionDenied, op, "a link has no scope that its maker lacks")
	}
	if err := q.ask(protocol.OpSessionGet, protocol.SessionRef{Session: id}, new(protocol.Session)); err != nil {
		return err
	}
	until := time.Now().Add(life)
	if !q.who.Until.IsZero() && q.who.Until.Before(until) {
		until = q.who.Until // what is made of credentials ends with them
	}
	var made protocol.NewLink
	if err := q.ask(protocol.OpLinkCreate, protocol.LinkCreate{Session: id, ExpiresMS: until.UnixMilli()}, &made); err != nil {
		return err
	}
	if err := g.keys.await(g.base, made.Version); err != nil {
		return err
	}
	sealed, err := sealFor(g, purposeView, time.Until(until), viewLink{Tenant: q.who.Tenant, Session: id, By: q.who.Subject, Until: until.Unix(), ID: made.ID})
	if err != nil {
		return err
	}
	g.note(q, "auth.link", "ok")
	return q.json(fiber.StatusCreated, viewLinkReply{
		ID: made.ID, Token: viewPrefix + sealed, Session: id, Path: "/s/" + id, ExpiresMS: until.UnixMilli(), ExpiresSeconds: int(time.Until(until) / time.Second),
	})
}

// listViewLinks answers with the session's links that are good, without their
// secrets.
func (g *Gateway) listViewLinks(q *request) error {
	id, err := q.session()
	if err != nil {
		return err
	}
	if err := q.ask(protocol.OpSessionGet, protocol.SessionRef{Session: id}, new(protocol.Session)); err != nil {
		return err
	}
	return q.call(fiber.StatusOK, protocol.OpLinkList, protocol.SessionRef{Session: id}, new(protocol.LinkList))
}

// endViewLink ends a link before its time. Every gateway closes what came by it.
func (g *Gateway) endViewLink(q *request) error {
	id, err := q.session()
	if err != nil {
		return err
	}
	link := q.Params("link")
	if !validID(link) {
		return &fault.Error{Kind: fault.NotFound, Op: "gateway.viewlink", Field: "link", Message: "there is no such link"}
	}
	if err := q.ask(protocol.OpSessionGet, protocol.SessionRef{Session: id}, new(protocol.Session)); err != nil {
		return err
	}
	var state protocol.KeyState
	return q.changeKeys(fiber.StatusOK, protocol.OpLinkEnd, protocol.LinkRef{Session: id, Link: link}, &state, &state.Version)
}

// openViewLink returns whom a view link's token speaks for.
func (g *Gateway) openViewLink(secret string) (noderpc.Principal, error) {
	l, ok, err := openSealed[viewLink](g, purposeView, strings.TrimPrefix(secret, viewPrefix))
	if err != nil {
		return noderpc.Principal{}, err
	}
	if !ok || l.Session == "" {
		return noderpc.Principal{}, fault.New(fault.Unauthenticated, "gateway.authenticate", "the link is not valid, or its time is over")
	}
	if err := g.keys.linked(l.ID); err != nil {
		return noderpc.Principal{}, err
	}
	if !g.vouched(l) {
		return noderpc.Principal{}, errRevoked()
	}
	subject := viewSubject + l.By
	return noderpc.Principal{
		Tenant: l.Tenant, Subject: subject[:min(len(subject), noderpc.MaxName)], Scopes: tenant.Viewer.Scopes(), Session: l.Session, Until: time.Unix(l.Until, 0), Link: l.ID,
	}, nil
}

// vouched reports whether a link was made with credentials that are good still.
// Keys are looked at with each request, and a sign-in's end is the link's.
func (g *Gateway) vouched(l viewLink) bool {
	if _, key := tenant.KeyOf(l.By); key || strings.HasPrefix(l.By, userSubject) {
		return true
	}
	return slices.ContainsFunc(g.access.Load().tokens, func(t token) bool {
		return t.good() && t.who.Tenant == l.Tenant && t.who.Subject == l.By
	})
}

// withinSession refuses who may see one session alone all routes but those of
// that session, and the few that are of none.
func withinSession(q *request) error {
	if q.who.Session == "" {
		return nil
	}
	switch path := q.route.Path; {
	case path == "/v1", path == "/v1/ws", path == "/v1/sessions", path == "/v1/tickets":
		return nil
	case (path == "/v1/sessions/:id" || strings.HasPrefix(path, "/v1/sessions/:id/")) && q.route.Access == ScopeRead && q.Params("id") == q.who.Session:
		return nil
	}
	return fault.New(fault.PermissionDenied, "gateway.accept", "a link for viewing is for one session alone")
}
