package protocol

import "github.com/sandgate/sandgate/fault"

// The operations on files. Those with Data have a link of their own and are
// offered to clients over HTTP alone.
const (
	OpFileWrite  = "file.write"
	OpFileRead   = "file.read"
	OpFileStat   = "file.stat"
	OpFileList   = "file.list"
	OpFileMkdir  = "file.mkdir"
	OpFileMove   = "file.move"
	OpFileCopy   = "file.copy"
	OpFileRemove = "file.remove"
	OpFileWatch  = "file.watch"
	OpTreeRead   = "tree.read"
	OpTreeWrite  = "tree.write"
)

// EventFile: files that are watched under ch have changed; Params is
// FileChanges.
const EventFile = "file"

// MaxFileWatches is how many places a connection watches; a session has at most
// as many too.
const MaxFileWatches = 16

// FileWatch asks for what changes in a folder or of a file.
type FileWatch struct {
	FileRef
	// Recursive includes all folders below it, at most 2,048.
	Recursive bool `json:"recursive,omitempty"`
}

// FileChanges is what has changed since the event before: all of 50 ms
// together.
type FileChanges struct {
	Session string       `json:"session"`
	Changes []FileChange `json:"changes"`
	// Overflow says that there was more than could be told: look for yourself.
	Overflow bool `json:"overflow,omitempty"`
	// Ended is set in the last event: what was watched is gone, or Error says
	// why else.
	Ended bool          `json:"ended,omitempty"`
	Error *fault.Public `json:"error,omitempty"`
}

// FileChange is what became of a path. What was moved has been removed in one
// place and created in another.
type FileChange struct {
	Path string `json:"path"`
	// Kind is created, modified or removed.
	Kind string `json:"kind"`
	Dir  bool   `json:"dir,omitempty"`
}

// FileRef names a file in a session. Paths are relative to the user's home
// unless absolute.
type FileRef struct {
	Session string `json:"session"`
	Path    string `json:"path"`
}

// FileWrite writes a file.
type FileWrite struct {
	FileRef
	// Mode is the file's permission bits; 0 means 0644.
	Mode uint32 `json:"mode,omitempty"`
	// IfMatch refuses the write, as a conflict, unless the file has this ETag;
	// IfAbsent unless nothing is there.
	IfMatch  string `json:"if_match,omitempty"`
	IfAbsent bool   `json:"if_absent,omitempty"`
}

// FileRead reads a part of a file.
type FileRead struct {
	FileRef
	// Offset is where to begin; below 0 it counts from the end. Length is how
	// much to read at most; 0 means all.
	Offset int64 `json:"offset,omitempty"`
	Length int64 `json:"length,omitempty"`
	// IfRange has the whole file read unless it has this ETag.
	IfRange string `json:"if_range,omitempty"`
}

// File describes a file.
type File struct {
	Path string `json:"path"`
	// Type is file, folder, link, fifo, socket or device; link in a listing
	// and for what was moved or copied, elsewhere links are followed.
	Type       string `json:"type"`
	Size       int64  `json:"size"`
	Mode       uint32 `json:"mode"`
	ModifiedMS int64  `json:"modified_ms"`
	// Dir says that it is a folder, or a link in a listing that leads to one.
	Dir bool `json:"dir"`
	// ETag changes whenever the content or the mode does.
	ETag string `json:"etag"`
	// Target is where a link leads, in its own words.
	Target string `json:"target,omitempty"`
	// Raw is the name in base64 where it is no UTF-8. Such a file has no path
	// of its own here: it is moved, read and removed with its folder.
	Raw string `json:"raw,omitempty"`
}

// FilePart is a file and the part of it that follows.
type FilePart struct {
	File
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
}

// FileList asks for what is in a folder, in the order of the names' bytes.
type FileList struct {
	FileRef
	// Limit is how many entries to return, at most 5,000; 0 means 1,000.
	Limit int `json:"limit,omitempty"`
	// After is the Next of the page before.
	After string `json:"after,omitempty"`
}

// FileListing is one page of what is in a folder.
type FileListing struct {
	Path    string `json:"path"`
	Entries []File `json:"entries"`
	// Next asks for the page that follows; it is empty for the last one.
	Next string `json:"next,omitempty"`
}

// FileMove moves or copies a file or a folder. Parents of To are made.
type FileMove struct {
	FileRef
	To string `json:"to"`
	// Overwrite replaces what is there: a file by a file, an empty folder by a
	// folder. Otherwise that is a conflict.
	Overwrite bool `json:"overwrite,omitempty"`
}

// FileRemove removes a file, a link or a folder; a folder that is not empty
// only with Recursive.
type FileRemove struct {
	FileRef
	Recursive bool `json:"recursive,omitempty"`
}

// TreeRead reads a folder as an archive, tar or zip.
type TreeRead struct {
	FileRef
	Archive string `json:"archive"`
}

// Tree says what was made of an archive.
type Tree struct {
	Path    string `json:"path"`
	Files   int    `json:"files"`
	Folders int    `json:"folders"`
	Links   int    `json:"links"`
	// Skipped are devices, fifos and the like.
	Skipped int   `json:"skipped"`
	Bytes   int64 `json:"bytes"`
}
