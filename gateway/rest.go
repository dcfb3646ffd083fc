package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/run"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// call asks the node and answers with what it says, {} for a nil result.
func (q *request) call(status int, op string, params, result any) error {
	return q.callFor(q.g.cfg.Times.Call, status, op, params, result)
}

// callFor is call with a time of its own.
func (q *request) callFor(limit time.Duration, status int, op string, params, result any) error {
	ctx, cancel := context.WithTimeout(q.base(), limit)
	defer cancel()
	if err := q.g.node.Call(ctx, q.who, op, params, result); err != nil {
		return err
	}
	if result == nil {
		result = struct{}{}
	}
	return q.json(status, result)
}

// ask asks the node within the usual time.
func (q *request) ask(op string, params, result any) error {
	ctx, cancel := context.WithTimeout(q.base(), q.g.cfg.Times.Call)
	defer cancel()
	return q.g.node.Call(ctx, q.who, op, params, result)
}

func (q *request) json(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fault.Wrap(fault.Internal, "gateway.json", err)
	}
	q.Status(status)
	q.Response().Header.SetContentType(fiber.MIMEApplicationJSON)
	q.Response().Header.Set(fiber.HeaderCacheControl, "no-store")
	q.Response().SetBodyRaw(body)
	return nil
}

// session returns the id in the path. The node decides whether it exists; a
// wrong form could not, and is told the same.
func (q *request) session() (string, error) {
	id := q.Params("id")
	if !validID(id) {
		return "", fault.New(fault.NotFound, "gateway.session", "there is no such session")
	}
	return id, nil
}

func validID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	return strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// ticketRequest narrows a ticket down; the zero value has the caller's scopes.
type ticketRequest struct {
	Scopes []string `json:"scopes,omitempty"`
	// Origin makes it a run ticket, for pages of that origin. What follows is
	// for these alone.
	Origin string `json:"origin,omitempty"`
	// Embed is for the frame /embed/run on those pages, in place of the pages.
	Embed          bool           `json:"embed,omitempty"`
	ExpiresSeconds int            `json:"expires_seconds,omitempty"`
	Uses           int            `json:"uses,omitempty"`
	Limits         auth.RunLimits `json:"limits"`
}

type ticketReply struct {
	Ticket string `json:"ticket"`
	// Protocol is what to offer next to protocol.Subprotocol.
	Protocol       string `json:"protocol"`
	ExpiresSeconds int    `json:"expires_seconds"`
}

func (g *Gateway) issueTicket(q *request) error {
	var p ticketRequest
	if err := q.body.decode(&p, true); err != nil {
		return err
	}
	if p.Origin != "" {
		return g.issueRunToken(q, p)
	}
	if p.Embed || p.ExpiresSeconds != 0 || p.Uses != 0 || p.Limits != (auth.RunLimits{}) {
		return fault.Invalid("gateway.ticket", "origin", "a ticket with a life, uses or limits of its own is for an origin")
	}
	who := q.who
	if p.Scopes != nil {
		for _, s := range p.Scopes {
			if !auth.Allows(q.who, Scope(s)) {
				return &fault.Error{Kind: fault.PermissionDenied, Op: "gateway.ticket", Field: "scopes", Message: "a ticket has no scope that its maker lacks"}
			}
		}
		who.Scopes = p.Scopes
	}
	secret, err := g.auth.SocketTickets.Issue(g.base, who, strings.ToLower(q.Get(fiber.HeaderOrigin)))
	if err != nil {
		if fault.Is(err, fault.Exhausted) {
			g.full(limitTickets)
		}
		return err
	}
	return q.json(fiber.StatusCreated, ticketReply{Ticket: secret, Protocol: auth.TicketPrefix + secret, ExpiresSeconds: int(auth.TicketLife / time.Second)})
}

type statusReply struct {
	Gateway Stats               `json:"gateway"`
	Node    protocol.NodeStatus `json:"node"`
}

func (g *Gateway) status(q *request) error {
	var out statusReply
	ctx, cancel := context.WithTimeout(q.base(), g.cfg.Times.Call)
	defer cancel()
	if err := g.node.Call(ctx, q.who, protocol.OpStatus, struct{}{}, &out.Node); err != nil {
		return err
	}
	out.Gateway = g.Stats()
	return q.json(fiber.StatusOK, out)
}

// description is what GET /v1 tells.
type description struct {
	Protocol  string              `json:"protocol"`
	Server    string              `json:"server"`
	Languages []protocol.Language `json:"languages"`
	Scopes    []string            `json:"scopes"`
	Limits    map[string]int64    `json:"limits"`
}

func (g *Gateway) describe(q *request) error {
	languages, err := g.health.Languages(g.base)
	if err != nil {
		return err
	}
	return q.json(fiber.StatusOK, description{
		Protocol: protocol.Subprotocol, Server: "sandgate/" + g.cfg.Version,
		Languages: languages, Scopes: q.who.Scopes,
		Limits: map[string]int64{
			"control_bytes": protocol.MaxControl, "code_bytes": protocol.MaxCode, "key_bytes": protocol.MaxKey,
			"input_bytes": protocol.MaxInput, "frame_bytes": stream.MaxBody, "channels": protocol.MaxChannels,
			"attached": protocol.MaxAttached, "window_default": protocol.DefaultWindow, "window_max": protocol.MaxWindow,
			"queue": protocol.MaxQueue, "file_bytes": g.cfg.Limits.File, "run_body_bytes": g.cfg.Limits.RunBody,
			"run_timeout_ms": run.MaxTimeout.Milliseconds(), "run_output_bytes": run.MaxOutput,
		},
	})
}

// gatewayItself is the principal of what the gateway asks on its own account.
// It owns no session.
func gatewayItself() noderpc.Principal {
	return noderpc.Principal{Tenant: noderpc.GatewayTenant, Subject: "gateway", Scopes: []string{string(ScopeAdmin)}}
}
