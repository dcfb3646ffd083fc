package wire

// Limits of watching files.
const (
	MaxWatches = 16   // watches at once
	MaxFolders = 2048 // folders of one watch
)

// The kinds of a FileChange. The last two occur only in a watch with Each.
const (
	FileCreated  = "created"
	FileModified = "modified"
	FileRemoved  = "removed"
	FileMoved    = "moved"
	FileMode     = "mode"
)

// FileWatch requests the changes of a file or a folder.
type FileWatch struct {
	Path string `json:"path"`
	// Recursive includes all folders below it, at most MaxFolders.
	Recursive bool `json:"recursive,omitempty"`
	// Each reports every change by itself, in the order of the changes. A file that is moved away
	// is then moved, and a file whose mode, owner or times change has the kind mode.
	Each bool `json:"each,omitempty"`
}

// FileChange is the change of a path since its last report. A moved file is
// removed in one place and created in another.
type FileChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	Dir  bool   `json:"dir,omitempty"`
}

// FileChanges is one line of a watch's Data, in JSON.
type FileChanges struct {
	Changes []FileChange `json:"changes"`
	// Overflow means that changes were left out: the reader must look for itself.
	Overflow bool `json:"overflow,omitempty"`
}

// MaxChangedFiles is how many changed files the agent remembers.
const MaxChangedFiles = 1000

// ChangesSince requests the files below a folder that have changed since an earlier reply.
type ChangesSince struct {
	// Path is the folder; empty means the user's home. The agent records the changes of at most 8.
	Path string `json:"path,omitempty"`
	// Since is the Cursor of an earlier reply. Without it the reply has no files. The first request
	// starts the record of changes.
	Since string `json:"since,omitempty"`
	// Limit is how many files to return; 0 means MaxChangedFiles.
	Limit int `json:"limit,omitempty"`
}

// ChangedFiles are regular files that have changed, the oldest change first. Folders with a name
// that begins with a dot, node_modules and __pycache__ are left out.
type ChangedFiles struct {
	Cursor string        `json:"cursor"`
	Files  []ChangedFile `json:"files"`
	// Truncated means that there may be changes that are not listed.
	Truncated bool `json:"truncated,omitempty"`
}

// ChangedFile compares a file with its state at the cursor of the request.
type ChangedFile struct {
	Path string `json:"path"`
	// Kind is created, modified or removed.
	Kind string `json:"kind"`
	Size int64  `json:"size,omitempty"`
}
