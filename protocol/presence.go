package protocol

// OpSessionWatch reports who is connected to a session. SessionWatch with ch is answered by
// Presence. Events follow until ch is detached.
const (
	OpSessionWatch = "session.watch"
	// EventPresence reports that connections have joined or left the session. Params is Presence.
	EventPresence = "presence"
)

// SessionWatch registers the connection as present at a session, and subscribes it to presence
// events.
type SessionWatch struct {
	Session string `json:"session"`
	// ReadOnly says that the caller only watches. Credentials without write scopes are always
	// read-only.
	ReadOnly bool `json:"read_only,omitempty"`
}

// Presence counts the connections to a session, including the receiving one. A driver may change
// something in the session, a viewer may only watch.
type Presence struct {
	Session string `json:"session"`
	Present
	// Channels has the counts of each attached channel.
	Channels map[string]Present `json:"channels,omitempty"`
}

// Present counts connections.
type Present struct {
	Drivers int `json:"drivers"`
	Viewers int `json:"viewers"`
}
