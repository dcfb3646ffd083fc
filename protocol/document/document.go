// Package document has the types of the operations for documents that several clients edit together.
// The server does not know the content: it passes updates between the clients, and keeps them while
// clients have the document open. An update has an effect once, however often and in whichever order
// it arrives; the clients ensure that, for example with Yjs.
package document

// Limits of documents.
const (
	// MaxPath is the largest number of bytes of a document's path.
	MaxPath = 1024
	// MaxUpdate is the largest number of bytes of an update.
	MaxUpdate = 1 << 20
	// MaxBytes is how many bytes of updates a document has.
	MaxBytes = 8 << 20
	// MaxUpdates is how many updates a document has. A client replaces them by one.
	MaxUpdates = 4096
	// MaxPresence is the largest number of bytes of a member's presence.
	MaxPresence = 4 << 10
	// MaxMembers is how many members a document has.
	MaxMembers = 64
	// MaxOpen is how many documents a session has.
	MaxOpen = 32
	// MaxTenantBytes is how many bytes the documents of a tenant have on a node.
	MaxTenantBytes = 64 << 20
)

// Join opens a document as a member.
type Join struct {
	Session string `json:"session"`
	// Path names the document. For a notebook it is the path of the file.
	Path string `json:"path"`
	// Client is the number that the member has chosen. Each member of a document has another.
	Client uint32 `json:"client"`
	// Epoch and After are the position of an earlier membership: only later updates are sent. Both
	// are 0 for the first one.
	Epoch int64 `json:"epoch,omitempty"`
	After int64 `json:"after,omitempty"`
}

// Joined is the state of a document. The updates after the requested position follow as
// events, up to Last at least.
type Joined struct {
	// Epoch is a random number. Numbers of updates of different epochs are unrelated.
	Epoch int64 `json:"epoch"`
	// ID is the id that the first update gave to the document, empty if there is none. Updates to
	// documents with different ids do not fit each other.
	ID string `json:"id,omitempty"`
	// Last is the number of the last update, 0 if there is none.
	Last int64 `json:"last"`
}

// Update adds an update to a document that the caller has joined.
type Update struct {
	Session string `json:"session"`
	Path    string `json:"path"`
	Client  uint32 `json:"client"`
	Epoch   int64  `json:"epoch"`
	// ID is the document's id. The first update chooses it. Later updates with another one are
	// refused with conflict.
	ID string `json:"id,omitempty"`
	// Update is the content, in base64. Empty if only the presence changes.
	Update []byte `json:"update,omitempty"`
	// Replaces says that the update contains all updates up to this number, which the server then
	// drops.
	Replaces int64 `json:"replaces,omitempty"`
	// Once names work that only one client may do, such as taking over a change of the file. The
	// update of a second client with the same name is refused with conflict. The server remembers the
	// last 64 names of a document.
	Once string `json:"once,omitempty"`
	// Presence is shown to the other members, in a form that the clients agree on. It is not kept
	// after the member has left.
	Presence []byte `json:"presence,omitempty"`
}

// Updated is the result of an update.
type Updated struct {
	// Number is the update's number; without an update it is that of the last one.
	Number int64 `json:"number"`
	// Updates and Bytes count what the server keeps.
	Updates int `json:"updates"`
	Bytes   int `json:"bytes"`
}

// News are changes of a document since the previous event.
type News struct {
	Epoch int64  `json:"epoch"`
	ID    string `json:"id,omitempty"`
	// Updates are in the order of their numbers. A member's own updates are not among them, unless
	// it joins again.
	Updates []Change `json:"updates,omitempty"`
	// Last is the number of the last update that was sent or left out.
	Last int64 `json:"last"`
	// Members are the members whose presence has changed.
	Members []Member `json:"members,omitempty"`
	// Left are the numbers of members that have left.
	Left []uint32 `json:"left,omitempty"`
}

// Change is one update.
type Change struct {
	Number int64  `json:"number"`
	Client uint32 `json:"client"`
	Update []byte `json:"update"`
	Once   string `json:"once,omitempty"`
}

// Member is another member's presence.
type Member struct {
	Client   uint32 `json:"client"`
	Presence []byte `json:"presence"`
}
