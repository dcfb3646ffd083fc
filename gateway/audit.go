package gateway

import (
	"context"
	"net"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of what the gateway tells the node's audit log.
const (
	// auditDelay is how long what happens again is added up before it is
	// told.
	auditDelay = 250 * time.Millisecond
	// maxDenials is how many different denials are told apart meanwhile; the
	// others are told as one.
	maxDenials = 63
	// auditTimeout is how long the node may take.
	auditTimeout = 10 * time.Second
)

// denial is somebody whom the door turned away, or who has signed in. The address is the peer's: a
// proxy's, if there is one.
type denial struct {
	event, outcome, route, address, tenant, subject string
}

// deny notes a denial for the audit log. A flood of them is a few entries.
func (g *Gateway) deny(q *request, err error) {
	g.stats.denied.Add(1)
	kind := fault.KindOf(err)
	if kind != fault.Unauthenticated && kind != fault.PermissionDenied {
		return
	}
	g.note(q, "auth.failed", string(kind))
}

// note notes for the audit log what became of somebody at the door.
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
		time.AfterFunc(auditDelay, g.tellDenials)
	}
}

// tellDenials tells the node what was noted.
func (g *Gateway) tellDenials() {
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
		g.stats.notesLost.Add(int64(len(notes.Entries)))
		g.log.Warn("the node did not take entries for the audit log", "entries", len(notes.Entries), "error", err)
	}
}
