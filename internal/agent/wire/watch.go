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

// FileWatch asks for what changes in a folder, or of a file.
type FileWatch struct {
	Path string `json:"path"`
	// Recursive includes all folders below it, at most MaxFolders.
	Recursive bool `json:"recursive,omitempty"`
}

// FileChange is what became of a path since it was told of last. What was
// moved has been removed in one place and created in another.
type FileChange struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	Dir  bool   `json:"dir,omitempty"`
}

// FileChanges is one line of a watch's Data, in JSON.
type FileChanges struct {
	Changes []FileChange `json:"changes"`
	// Overflow says that there were more than could be told: look for yourself.
	Overflow bool `json:"overflow,omitempty"`
}
