package protocol

// OpSessionWatch tells who is at a session: SessionWatch, with ch → Presence;
// then events until ch is detached.
const (
	OpSessionWatch = "session.watch"
	// have left it; Params is Presence.
	EventPresence = "presence"
)

// SessionWatch makes the connection known to be at a session, and has it told
// who else is.
type SessionWatch struct {
	Session string `json:"session"`
	// ReadOnly says that whoever asks only looks. Credentials that write
	// nothing are read-only, asked or not.
	ReadOnly bool `json:"read_only,omitempty"`
}

// Presence is who is at a session: connections, the one that is told among
// them. A driver may do something there, a viewer only looks.
type Presence struct {
	Session string `json:"session"`
	Present
	// Channels are those that somebody has attached.
	Channels map[string]Present `json:"channels,omitempty"`
}

// Present are numbers of connections.
type Present struct {
	Drivers int `json:"drivers"`
	Viewers int `json:"viewers"`
}
