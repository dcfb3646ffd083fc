package event

import (
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// About names the session that an event is about.
type About struct {
	Tenant, Session, Name string
	Labels                map[string]string
}

func (a About) report(kind string, fields map[string]any) Event {
	e := Event{Tenant: a.Tenant, FeedEvent: protocol.FeedEvent{
		Type: kind, Session: a.Session, Name: a.Name, Labels: a.Labels,
	}}
	if len(fields) > 0 {
		e.Data = Data(fields)
	}
	return e
}

// Created reports a new session. origin is the session or snapshot that it continues from.
func (a About) Created(origin, template, language string) Event {
	fields := map[string]any{}
	for name, value := range map[string]string{
		"origin": origin, "template": template, "language": language,
	} {
		if value != "" {
			fields[name] = value
		}
	}
	return a.report(protocol.FeedSessionCreated, fields)
}

// Changed reports a change of the session's state. Most changes have no event; the result then has
// no tenant.
func (a About) Changed(from, to string) Event {
	switch {
	case to == "paused":
		return a.report(protocol.FeedSessionPaused, nil)
	case from == "running" && to == "hibernated":
		return a.report(protocol.FeedSessionHibernated, nil)
	case from == "resuming" && to == "running":
		return a.report(protocol.FeedSessionResumed, map[string]any{"from": "hibernated"})
	case from == "paused" && to == "running":
		return a.report(protocol.FeedSessionResumed, map[string]any{"from": "paused"})
	}
	return Event{}
}

// Suspended reports that only session.resume resumes the session from now on, or that it was resumed
// so. The result has no tenant if nothing has changed.
func (a About) Suspended(from, to bool) Event {
	switch {
	case from == to:
		return Event{}
	case to:
		return a.report(protocol.FeedSessionSuspended, nil)
	}
	return a.report(protocol.FeedSessionContinued, nil)
}

// Updated reports a change of the session's properties. It ends at expires, unless that is zero.
func (a About) Updated(expires time.Time) Event {
	if expires.IsZero() {
		return a.report(protocol.FeedSessionUpdated, nil)
	}
	return a.report(protocol.FeedSessionUpdated, map[string]any{
		"expires_ms": expires.UnixMilli(),
	})
}

// Ended reports the end of the session. A session that has moved to another node has no event.
func (a About) Ended(reason, message string) Event {
	kind := protocol.FeedSessionLost
	switch reason {
	case "moved":
		return Event{}
	case "deleted":
		return a.report(protocol.FeedSessionDeleted, nil)
	case "expired":
		kind = protocol.FeedSessionExpired
	}
	return a.report(kind, map[string]any{"reason": reason, "message": message})
}

// Forked reports the copies of the session.
func (a About) Forked(copies []protocol.Session) Event {
	var ids []string
	for _, s := range copies {
		ids = append(ids, s.ID)
	}
	return a.report(protocol.FeedSessionForked, map[string]any{
		"count": len(ids), "sessions": ids,
	})
}

// Port reports a port that a program has opened or closed.
func (a About) Port(c protocol.PortChange) Event {
	kind := protocol.FeedPortClosed
	if c.Open {
		kind = protocol.FeedPortOpened
	}
	return a.report(kind, map[string]any{"port": c.Port.Port})
}

// Snapshot reports a snapshot that a user has taken of the session.
func (a About) Snapshot(s protocol.Snapshot) Event {
	return a.report(protocol.FeedSnapshotCreated,
		map[string]any{"snapshot": s.ID, "name": s.Name})
}

// Built reports the end of a template's build.
func Built(tenant, template string, err error) Event {
	fields := map[string]any{"template": template}
	kind := protocol.FeedTemplateBuilt
	if err != nil {
		kind = protocol.FeedTemplateFailed
		fields["message"] = fault.PublicOf(err).Message
	}
	return About{Tenant: tenant}.report(kind, fields)
}

// Quota reports that a quota refused a request.
func Quota(tenant, quota string) Event {
	return About{Tenant: tenant}.report(protocol.FeedQuotaReached, map[string]any{"quota": quota})
}
