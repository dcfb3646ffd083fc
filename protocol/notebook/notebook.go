// Package notebook has the types of the operations on stored notebooks: the copies of notebooks that
// a node keeps outside of sandboxes.
package notebook

// Limits of stored notebooks.
const (
	MaxBytes    = 8 << 20   // bytes of a notebook; a larger one is not stored
	MaxVersions = 50        // versions of a notebook; the oldest without a name is removed
	MaxNamed    = 20        // versions with a name, of a notebook
	MaxName     = 100       // bytes of a version's name
	MaxPart     = 256 << 10 // bytes of the text that one notebook.read returns
	Days        = 90        // from the last save until a stored notebook is removed
)

// Query chooses notebooks.
type Query struct {
	// Session is the session whose notebooks are listed; empty means all of the tenant.
	Session string `json:"session,omitempty"`
}

// Notebook is a stored notebook.
type Notebook struct {
	ID string `json:"id"`
	// Session is the session that saved it. The session may have ended.
	Session string `json:"session"`
	// Path is the absolute path of the file in the session.
	Path    string `json:"path"`
	SavedMS int64  `json:"saved_ms"`
	// Bytes is the size of the newest version.
	Bytes    int64 `json:"bytes"`
	Versions int   `json:"versions"`
	// Title is its first heading or its first line of code, at most 80 characters. It is empty if it
	// has neither, and for notebooks that were saved before the server had titles.
	Title string `json:"title,omitempty"`
}

// List is a list of stored notebooks, the one that was saved last first.
type List struct {
	Notebooks []Notebook `json:"notebooks"`
	Missing   []string   `json:"missing,omitempty"`
}

// Ref names a stored notebook.
type Ref struct {
	Notebook string `json:"notebook"`
}

// Version is one version of a stored notebook.
type Version struct {
	ID string `json:"id"`
	// SavedMS is the time of the last save in it.
	SavedMS int64 `json:"saved_ms"`
	Bytes   int64 `json:"bytes"`
	// Name is the name that a user gave it. A version with a name is kept.
	Name string `json:"name,omitempty"`
	// Subject is the user or the key that saved it last.
	Subject string `json:"subject,omitempty"`
}

// Versions are the versions of a notebook, newest first.
type Versions struct {
	Versions []Version `json:"versions"`
}

// Naming gives a version a name. An empty name removes it.
type Naming struct {
	Notebook string `json:"notebook"`
	Version  string `json:"version"`
	Name     string `json:"name"`
	// Closed ends the version: the next save begins another one, however soon it comes.
	Closed bool `json:"closed,omitempty"`
}

// Read asks for the text of a version.
type Read struct {
	Notebook string `json:"notebook"`
	Version  string `json:"version"`
	// Offset is the byte at which the part begins.
	Offset int64 `json:"offset,omitempty"`
}

// Part is a part of the text of a version.
type Part struct {
	Text string `json:"text"`
	// Next is the offset of the next part; 0 after the last one.
	Next int64 `json:"next,omitempty"`
}
