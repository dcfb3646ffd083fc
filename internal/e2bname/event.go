package e2bname

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The types of the events of a sandbox.
const (
	eventPrefix       = "sandbox.lifecycle."
	EventCreated      = eventPrefix + "created"
	EventUpdated      = eventPrefix + "updated"
	EventPaused       = eventPrefix + "paused"
	EventResumed      = eventPrefix + "resumed"
	EventKilled       = eventPrefix + "killed"
	EventCheckpointed = eventPrefix + "checkpointed"
)

// EventTypes returns the types of the events of sandboxes.
func EventTypes() []string {
	return []string{
		EventCreated, EventUpdated, EventPaused, EventResumed, EventKilled, EventCheckpointed,
	}
}

// FeedTypes are the types of the events in a feed that Of translates, with commas between them.
const FeedTypes = "session.*," + protocol.FeedSnapshotCreated

// ParseEventTypes checks a list of types with commas between them. Errors: InvalidArgument.
func ParseEventTypes(op, list string) ([]string, error) {
	types := strings.Split(list, ",")
	for _, t := range types {
		if !slices.Contains(EventTypes(), t) {
			return nil, fault.Invalid(op, "events", "there are no events of the type %.64q; there are %s",
				t, strings.Join(EventTypes(), ", "))
		}
	}
	return types, nil
}

// Event is an event of a sandbox. Its JSON is that of the list of events.
type Event struct {
	ID        string         `json:"id"`
	Version   string         `json:"version"`
	Type      string         `json:"type"`
	Category  string         `json:"eventCategory"`
	Label     string         `json:"eventLabel"`
	Data      map[string]any `json:"eventData"`
	Timestamp string         `json:"timestamp"`
	Sandbox   string         `json:"sandboxId"`
	Execution string         `json:"sandboxExecutionId"`
	Template  string         `json:"sandboxTemplateId"`
	Build     string         `json:"sandboxBuildId"`
	Team      string         `json:"sandboxTeamId"`
}

// Body returns the body of a delivery. It has each field with the names of the list of events, which
// the first receivers were written for, and with those of later ones.
func (e Event) Body() ([]byte, error) {
	return json.Marshal(struct {
		Event
		Category  string         `json:"event_category"`
		Label     string         `json:"event_label"`
		Data      map[string]any `json:"event_data"`
		Sandbox   string         `json:"sandbox_id"`
		Execution string         `json:"sandbox_execution_id"`
		Template  string         `json:"sandbox_template_id"`
		Build     string         `json:"sandbox_build_id"`
		Team      string         `json:"sandbox_team_id"`
	}{
		e, e.Category, e.Label, e.Data, e.Sandbox, e.Execution, e.Template, e.Build, e.Team,
	})
}

// EventOf translates an event of the feed of a tenant. ok is false for an event that E2B does not
// have, and for one of a session that was not created by its interface.
func EventOf(tenant string, f protocol.FeedEvent) (e Event, ok bool) {
	template := f.Labels[LabelTemplate]
	kind, data := eventOf(f)
	if kind == "" || template == "" {
		return e, false
	}
	if metadata := MetadataOf(f.Labels); len(metadata) > 0 {
		data["sandbox_metadata"] = metadata
	}
	id := ID(f.Session)
	return Event{
		ID: f.ID, Version: "v2", Type: kind, Category: "lifecycle",
		Label: strings.TrimPrefix(kind, eventPrefix), Data: data,
		Timestamp: Time(f.TimeMS), Sandbox: id, Execution: id, Template: template,
		Build: template, Team: tenant,
	}, true
}

// Time returns a time in milliseconds as RFC 3339.
func Time(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// eventOf returns the type and the data of an event. A sandbox that was hibernated because it was
// idle has no event: it counts as running. A sandbox with auto-resume is never suspended.
func eventOf(f protocol.FeedEvent) (kind string, data map[string]any) {
	data = map[string]any{}
	var d struct {
		From      string `json:"from"`
		Reason    string `json:"reason"`
		ExpiresMS int64  `json:"expires_ms"`
		Snapshot  string `json:"snapshot"`
	}
	_ = json.Unmarshal(f.Data, &d) // most events have no data
	o, _ := OptionsOf(f.Labels)    // only the server writes them
	switch f.Type {
	case protocol.FeedSessionCreated:
		return EventCreated, data
	case protocol.FeedSessionUpdated:
		if d.ExpiresMS > 0 {
			data["set_timeout"] = Time(d.ExpiresMS)
		}
		return EventUpdated, data
	case protocol.FeedSessionSuspended:
		return EventPaused, data
	case protocol.FeedSessionContinued:
		return EventResumed, data
	case protocol.FeedSessionHibernated:
		if o.AutoResume {
			return EventPaused, data
		}
	case protocol.FeedSessionResumed:
		if o.AutoResume && d.From == "hibernated" {
			return EventResumed, data
		}
	case protocol.FeedSessionDeleted:
		data["kill_reason"] = "request"
		return EventKilled, data
	case protocol.FeedSessionExpired:
		data["kill_reason"] = "timeout"
		return EventKilled, data
	case protocol.FeedSessionLost:
		data["kill_reason"] = d.Reason
		return EventKilled, data
	case protocol.FeedSnapshotCreated:
		data["snapshot_id"] = d.Snapshot
		return EventCheckpointed, data
	}
	return "", nil
}
