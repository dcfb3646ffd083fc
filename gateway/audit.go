package gateway

import (
	"context"
	"net"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of the entries that the gateway sends to the node's audit log.
const (
	// auditDelay is how long equal entries are counted before they are sent.
	auditDelay = 250 * time.Millisecond
	// maxDenials is the number of different entries that are counted separately.
	// Further ones are counted together.
	maxDenials = 63
	// auditTimeout is how long the node may take.
	auditTimeout = 10 * time.Second
)

// denial is a refused request or a sign-in. The address is that of the TCP peer,
// which may be a proxy.
type denial struct {
	event, outcome, route, address, tenant, subject string
}

// deny records a refused request for the audit log. A flood of equal requests
// becomes a few entries.
func (g *Gateway) deny(q *request, err error) {
	g.stats.denied.Add(1)
	kind := fault.KindOf(err)
	if kind != fault.Unauthenticated && kind != fault.PermissionDenied {
		return
	}
	g.note(q, "auth.failed", string(kind))
}

// note records the outcome of an authentication for the audit log.
func (g *Gateway) note(q *request, event, outcome string) {
	d := denial{event: event, outcome: outcome, route: q.route.Path, tenant: q.who.Tenant, subject: q.who.Subject}
	if host, _, err := net.SplitHostPort(q.Context().RemoteAddr().String()); err == nil {
		d.address = host
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.denials[d] == 0 && len(g.denials) >= maxDenials {
		d = denial{event: d.event, outcome: d.outcome, route: "(others)"}
	}
	first := len(g.denials) == 0
	if g.denials == nil {
		g.denials = make(map[denial]int)
	}
	g.denials[d]++
	if first && !g.waited {
		g.wg.Add(1)
		time.AfterFunc(auditDelay, g.sendDenials)
	}
}

// sendDenials sends the recorded entries to the node.
func (g *Gateway) sendDenials() {
	defer g.wg.Done()
	g.mu.Lock()
	all := g.denials
	g.denials = nil
	g.mu.Unlock()
	var notes protocol.AuditNotes
	for d, n := range all {
		notes.Entries = append(notes.Entries, protocol.AuditEntry{
			Event: d.event, Outcome: d.outcome, Route: d.route, Address: d.address, Tenant: d.tenant, Subject: d.subject, Count: n,
		})
	}
	ctx, cancel := context.WithTimeout(g.base, auditTimeout)
	defer cancel()
	if err := g.node.Call(ctx, gatewayItself(), protocol.OpAudit, notes, nil); err != nil {
		g.stats.notesLost.Add(float64(len(notes.Entries)))
		g.log.Warn("the node did not take entries for the audit log", "entries", len(notes.Entries), "error", err)
	}
}
