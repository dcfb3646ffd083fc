package protocol

import "encoding/json"

// The operations on feeds of events.
const (
	OpEventList = "event.list"
)

// The types of the events in a tenant's feed. Data has the fields that are named here.
const (
	// FeedSessionCreated reports a session that runs. origin is the session or snapshot that it
	// continues from, template and language are those of the session.
	FeedSessionCreated = "session.created"
	// FeedSessionForked reports that copies of the session were made: count and sessions.
	FeedSessionForked = "session.forked"
	// FeedSessionPaused reports that the session was frozen in memory.
	FeedSessionPaused = "session.paused"
	// FeedSessionHibernated reports that the session was written to disk.
	FeedSessionHibernated = "session.hibernated"
	// FeedSessionResumed reports that the session runs again. from is paused or hibernated.
	FeedSessionResumed = "session.resumed"
	// FeedSessionSuspended reports that from now on only session.resume resumes the session, and
	// FeedSessionContinued that it was resumed so.
	FeedSessionSuspended = "session.suspended"
	FeedSessionContinued = "session.continued"
	// FeedSessionUpdated reports a change of the session's name, labels, policy, lifetime or
	// network: expires_ms, if it ends.
	FeedSessionUpdated = "session.updated"
	// FeedSessionLost reports that the session has ended without being asked to: reason and
	// message.
	FeedSessionLost = "session.lost"
	// FeedSessionExpired reports that the session's lifetime is over: reason and message.
	FeedSessionExpired = "session.expired"
	// FeedSessionDeleted reports that the session was deleted.
	FeedSessionDeleted = "session.deleted"
	// FeedPortOpened and FeedPortClosed report a TCP port of a program in the session: port.
	FeedPortOpened = "port.opened"
	FeedPortClosed = "port.closed"
	// FeedSnapshotCreated reports a snapshot that was taken of the session: snapshot and name.
	FeedSnapshotCreated = "snapshot.created"
	// FeedTemplateBuilt and FeedTemplateFailed report the end of a template's build: template, and
	// message.
	FeedTemplateBuilt  = "template.built"
	FeedTemplateFailed = "template.failed"
	// FeedQuotaReached reports that a quota refused a request: quota.
	FeedQuotaReached = "quota.reached"
	// FeedEventsLost reports that events are missing in the feed before this one: count.
	FeedEventsLost = "events.lost"
	// FeedWebhookTest is sent to a webhook by webhook.test, and is in no feed.
	FeedWebhookTest = "webhook.test"
)

// FeedTypes returns the types of the events in feeds.
func FeedTypes() []string {
	return []string{
		FeedSessionCreated, FeedSessionForked, FeedSessionPaused, FeedSessionHibernated,
		FeedSessionResumed, FeedSessionSuspended, FeedSessionContinued,
		FeedSessionUpdated, FeedSessionLost, FeedSessionExpired, FeedSessionDeleted,
		FeedPortOpened, FeedPortClosed, FeedSnapshotCreated, FeedTemplateBuilt, FeedTemplateFailed,
		FeedQuotaReached, FeedEventsLost,
	}
}

// FeedEvent is one event of a tenant's feed.
type FeedEvent struct {
	// ID is the event's place in the feed: a cursor, after which later events are read.
	ID     string `json:"id"`
	Type   string `json:"type"`
	TimeMS int64  `json:"time_ms"`
	// Session, Name and Labels are those of the session that the event is about.
	Session string            `json:"session,omitempty"`
	Name    string            `json:"name,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Data has more fields. The type says which.
	Data json.RawMessage `json:"data,omitempty"`
}

// Bounds of a request for events.
const (
	MaxEvents          = 1000
	DefaultEvents      = 100
	MaxEventWait       = 50 // seconds
	MaxEventTypesBytes = 1024
	// LatestEvent as the cursor stands for the end of the feed.
	LatestEvent = "latest"
)

// EventQuery asks for events of the caller's tenant.
type EventQuery struct {
	// After is the cursor after which events are read. Empty means the oldest event that is kept;
	// "latest" means only events from now on.
	After string `json:"after,omitempty"`
	// Limit is the maximum number of events, at most 1,000; 0 means 100.
	Limit int `json:"limit,omitempty"`
	// Types are the types to return, with commas between them: session.created,session.lost.
	// session.* stands for all types that begin with session. Empty means all types.
	Types string `json:"types,omitempty"`
	// Session returns only events about one session.
	Session string `json:"session,omitempty"`
	// WaitSeconds is how long the reply waits for an event if there is none, at most 50 seconds.
	WaitSeconds int `json:"wait_seconds,omitempty"`
}

// EventPage is a part of the feed, oldest event first.
type EventPage struct {
	Events []FeedEvent `json:"events"`
	// Cursor is the value of after for the next request.
	Cursor string `json:"cursor"`
	// Gap is set when events after the requested cursor are not kept any more. The events continue
	// with the oldest one that is kept.
	Gap bool `json:"gap,omitempty"`
}
