package protocol

// The operations on share links. Clients use them over HTTP.
const (
	OpLinkCreate = "link.create"
	OpLinkList   = "link.list"
	OpLinkEnd    = "link.end"
)

// LinkCreate registers a share link of a session.
type LinkCreate struct {
	Session   string `json:"session"`
	ExpiresMS int64  `json:"expires_ms"`
}

// Link is a share link without its secret.
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

// LinkList lists a session's valid share links, oldest first.
type LinkList struct {
	Links []Link `json:"links"`
}

// LinkRef names a share link of a session.
type LinkRef struct {
	Session string `json:"session"`
	Link    string `json:"link"`
}
