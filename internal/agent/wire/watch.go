package wire

// Limits of watching files.
const (
	MaxWatches = 16   // watches at once
	MaxFolders = 2048 // folders of one watch
)

// The kinds of a FileChange.
const (
	FileCreated  = "created"
	FileModified = "modified"
	FileRemoved  = "removed"
)

// FileWatch requests the changes of a file or a folder.
type FileWatch struct {
	Path string `json:"path"`
	// Recursive includes all folders below it, at most MaxFolders.
	Recursive bool `json:"recursive,omitempty"`
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
