package gateway

import (
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/run"
)

// runTicketReply is what the maker of a run ticket gets.
type runTicketReply struct {
	Ticket string `json:"ticket"`
	// ID names the ticket without being it: it revokes.
	ID             string    `json:"id"`
	Origin         string    `json:"origin"`
	Uses           int       `json:"uses"`
	ExpiresSeconds int       `json:"expires_seconds"`
	Limits         runLimits `json:"limits"`
}

// mintRunTicket answers a request for a ticket that names an origin.
func (g *Gateway) mintRunTicket(q *request, p ticketRequest) error {
	const op = "gateway.mint"
	if !slices.Equal(p.Scopes, []string{string(ScopeRun)}) {
		return fault.Invalid(op, "scopes", `a ticket for an origin has the scope "run" alone`)
	}
	if !allows(q.who, ScopeRun) {
		return &fault.Error{Kind: fault.PermissionDenied, Op: op, Field: "scopes", Message: "a ticket has no scope that its maker lacks"}
	}
	origin := strings.ToLower(p.Origin)
	if _, err := parseOrigins([]string{origin}); err != nil {
		return fault.Invalid(op, "origin", "%q is no origin such as https://chat.example.com", p.Origin)
	}
	if err := p.check(); err != nil {
		return err
	}
	uses, life := max(p.Uses, 1), time.Duration(p.ExpiresSeconds)*time.Second
	if life == 0 {
		life = defaultRunTicketLife
	}
	who := q.who
	who.Scopes = p.Scopes
	t := &runTicket{Who: who, Origin: origin, Embed: p.Embed, Limits: p.Limits.withDefaults()}
	secret, err := g.mint.issue(g.base, t, uses, life)
	if err != nil {
		if fault.Is(err, fault.Exhausted) {
			g.full(limitTickets)
		}
		return err
	}
	return q.json(fiber.StatusCreated, runTicketReply{
		Ticket: secret, ID: t.ID, Origin: origin, Uses: uses, ExpiresSeconds: int(life / time.Second), Limits: t.Limits,
	})
}

func (p *ticketRequest) check() error {
	const op = "gateway.mint"
	l := p.Limits
	for _, c := range []struct {
		field       string
		value, most int64
	}{
		{"uses", int64(p.Uses), maxRunTicketUses},
		{"expires_seconds", int64(p.ExpiresSeconds), int64(maxRunTicketLife / time.Second)},
		{"limits.timeout_ms", l.TimeoutMS, run.MaxTimeout.Milliseconds()},
		{"limits.max_output_bytes", l.MaxOutputBytes, run.MaxOutput},
		{"limits.concurrent", int64(l.Concurrent), maxRunTicketAtOnce},
		{"limits.per_minute", int64(l.PerMinute), maxRunTicketRate},
	} {
		if c.value < 0 || c.value > c.most {
			return fault.Invalid(op, c.field, "this is 1 to %d", c.most)
		}
	}
	return nil
}

// revokeTicket ends a run ticket. Runs that have begun go on.
func (g *Gateway) revokeTicket(q *request) error {
	if err := g.mint.revoke(g.base, q.Params("id"), q.who); err != nil {
		return err
	}
	return q.json(fiber.StatusOK, struct{}{})
}
