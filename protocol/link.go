package protocol

// The operations on links for viewing, which clients use over HTTP.
const (
	OpLinkCreate = "link.create"
	OpLinkList   = "link.list"
	OpLinkEnd    = "link.end"
)

// LinkCreate notes a link for viewing a session.
type LinkCreate struct {
	Session   string `json:"session"`
	ExpiresMS int64  `json:"expires_ms"`
}

// Link is a link for viewing, without its secret.
type Link struct {
	ID        string `json:"id"`
	CreatedBy string `json:"created_by,omitempty"`
	CreatedMS int64  `json:"created_ms"`
	ExpiresMS int64  `json:"expires_ms"`
}

// NewLink answers a LinkCreate.
type NewLink struct {
	Link
	Version uint64 `json:"version"`
}

// LinkList has a session's links that are good still, oldest first.
type LinkList struct {
	Links []Link `json:"links"`
}

// LinkRef names a session's link.
type LinkRef struct {
	Session string `json:"session"`
	Link    string `json:"link"`
}
