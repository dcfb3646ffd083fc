package protocol

import "github.com/sandgate/sandgate/fault"

// The operations on files. Operations with Data frames use a link of their own. Clients can use
// these only over HTTP.
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

// EventFile reports changes of files that are watched under ch. Params is FileChanges.
const EventFile = "file"

// MaxFileWatches is the largest number of file watches of a connection, and also of a session.
const MaxFileWatches = 16

// FileWatch asks for events about changes in a folder or of a file.
type FileWatch struct {
	FileRef
	// Recursive includes all folders below the path, at most 2,048.
	Recursive bool `json:"recursive,omitempty"`
}

// FileChanges are the changes since the previous event. Changes are collected for 50 ms.
type FileChanges struct {
	Session string       `json:"session"`
	Changes []FileChange `json:"changes"`
	// Overflow is true when there were more changes than an event can list. The client has to list
	// the folder itself.
	Overflow bool `json:"overflow,omitempty"`
	// Ended is true in the last event. The watched file or folder was removed, or Error states
	// another reason.
	Ended bool          `json:"ended,omitempty"`
	Error *fault.Public `json:"error,omitempty"`
}

// FileChange is the change of one path. A moved file is removed at one path and created at another.
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
	// IfMatch rejects the write with a conflict unless the file has this ETag. IfAbsent rejects it
	// unless nothing exists at the path.
	IfMatch  string `json:"if_match,omitempty"`
	IfAbsent bool   `json:"if_absent,omitempty"`
}

// FileRead reads a part of a file.
type FileRead struct {
	FileRef
	// Offset is where to begin, in bytes; a negative offset counts from the end. Length is the most
	// bytes to read; 0 means all.
	Offset int64 `json:"offset,omitempty"`
	Length int64 `json:"length,omitempty"`
	// IfRange returns the whole file unless the file has this ETag.
	IfRange string `json:"if_range,omitempty"`
}

// File describes a file.
type File struct {
	Path string `json:"path"`
	// Type is file, folder, link, fifo, socket or device. A link is reported as link in a listing
	// and in the result of a move or copy; otherwise links are followed.
	Type       string `json:"type"`
	Size       int64  `json:"size"`
	Mode       uint32 `json:"mode"`
	ModifiedMS int64  `json:"modified_ms"`
	// Dir is true for a folder, and in a listing also for a link to a folder.
	Dir bool `json:"dir"`
	// ETag changes whenever the content or the mode changes.
	ETag string `json:"etag"`
	// Target is the destination of a link, as the link states it.
	Target string `json:"target,omitempty"`
	// Raw is the name in base64 if it is not valid UTF-8. The protocol has no path for such a file:
	// it is moved, read and removed together with its folder.
	Raw string `json:"raw,omitempty"`
}

// FilePart is a file and the part of its content that follows.
type FilePart struct {
	File
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
}

// FileList asks for the entries of a folder, sorted by the bytes of their names.
type FileList struct {
	FileRef
	// Limit is the largest number of entries to return, at most 5,000; 0 means 1,000.
	Limit int `json:"limit,omitempty"`
	// After is the Next of the previous page.
	After string `json:"after,omitempty"`
}

// FileListing is one page of the entries of a folder.
type FileListing struct {
	Path    string `json:"path"`
	Entries []File `json:"entries"`
	// Next requests the following page. It is empty on the last page.
	Next string `json:"next,omitempty"`
}

// FileMove moves or copies a file or a folder. Missing parents of To are created.
type FileMove struct {
	FileRef
	To string `json:"to"`
	// Overwrite replaces an existing file with a file, or an empty folder with a folder. Without
	// it, an existing destination is a conflict.
	Overwrite bool `json:"overwrite,omitempty"`
}

// FileRemove removes a file, a link or a folder. A folder that is not empty is only removed with
// Recursive.
type FileRemove struct {
	FileRef
	Recursive bool `json:"recursive,omitempty"`
}

// TreeRead reads a folder as an archive, tar or zip.
type TreeRead struct {
	FileRef
	Archive string `json:"archive"`
}

// Tree reports the result of unpacking an archive.
type Tree struct {
	Path    string `json:"path"`
	Files   int    `json:"files"`
	Folders int    `json:"folders"`
	Links   int    `json:"links"`
	// Skipped is the number of devices, fifos and similar entries, which are not unpacked.
	Skipped int   `json:"skipped"`
	Bytes   int64 `json:"bytes"`
}
