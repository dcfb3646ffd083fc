package gateway

import (
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/protocol"
)

// runTokenReply is the reply to a request for a run token.
type runTokenReply struct {
	Ticket string `json:"ticket"`
	// ID names the token, for example to revoke it. It is not secret.
	ID             string         `json:"id"`
	Origin         string         `json:"origin"`
	Uses           int            `json:"uses"`
	ExpiresSeconds int            `json:"expires_seconds"`
	Limits         auth.RunLimits `json:"limits"`
}

// issueRunToken answers a request for a ticket that names an origin.
func (c *credentialAPI) issueRunToken(q *request, p ticketRequest) error {
	const op = "gateway.run_token"
	if !slices.Equal(p.Scopes, []string{string(protocol.ScopeRun)}) {
		return fault.Invalid(op, "scopes", `a ticket for an origin can only have the scope "run"`)
	}
	if !auth.Allows(q.who, protocol.ScopeRun) {
		return &fault.Error{
			Kind: fault.PermissionDenied, Op: op, Field: "scopes",
			Message: "a ticket cannot have a scope that its creator lacks",
		}
	}
	spec := auth.RunTokenSpec{
		Origin: strings.ToLower(p.Origin), Embed: p.Embed, Uses: p.Uses,
		ExpiresSeconds: p.ExpiresSeconds, Limits: p.Limits,
	}
	if _, err := parseOrigins([]string{spec.Origin}); err != nil {
		return fault.Invalid(op, "origin", "%q is not an origin such as https://chat.example.com",
			p.Origin)
	}
	who := q.who
	who.Scopes = p.Scopes
	t, secret, err := c.auth.RunTokens.Issue(c.base, who, &spec)
	if err != nil {
		if fault.Is(err, fault.Exhausted) {
			c.full(limitTickets)
		}
		return err
	}
	return q.json(fiber.StatusCreated, runTokenReply{
		Ticket: secret, ID: t.ID, Origin: t.Origin, Uses: spec.Uses,
		ExpiresSeconds: spec.ExpiresSeconds, Limits: t.Limits,
	})
}

// revokeTicket ends a run token. Runs that have begun continue.
func (c *credentialAPI) revokeTicket(q *request) error {
	if err := c.auth.RunTokens.Revoke(c.base, q.Params("id"), q.who); err != nil {
		return err
	}
	return q.json(fiber.StatusOK, struct{}{})
}
