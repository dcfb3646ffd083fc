package protocol

import "github.com/sandgate/sandgate/protocol/fault"

// The operations on files. Those with Data frames use a link of their own, and clients use HTTP.
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
	// OpFileLink creates a link to one file.
	OpFileLink = "file.link"
	// OpFileChanges lists the files that were created, changed or removed.
	OpFileChanges = "file.changes"
	OpTreeRead    = "tree.read"
	OpTreeWrite   = "tree.write"
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
	// Each reports every change by itself, in the order of the changes, with the kinds moved and
	// mode as well.
	Each bool `json:"each,omitempty"`
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
	// Kind is created, modified or removed. With FileWatch.Each it can also be moved, at the path
	// that the file has left, and mode, for a change of the mode, the owner or the times.
	Kind string `json:"kind"`
	Dir  bool   `json:"dir,omitempty"`
}

// MaxCreatedFiles is how many changed files a session remembers, and the most in one list.
const MaxCreatedFiles = 1000

// FileChangesQuery asks for the files in the user's home that have changed since an earlier answer.
type FileChangesQuery struct {
	Session string `json:"session"`
	// Since is the cursor of an earlier answer. Without it the answer is only a cursor. The session
	// records changes from the first request on.
	Since string `json:"since,omitempty"`
	// Limit is the largest number of files, at most 1,000; 0 means 1,000.
	Limit int `json:"limit,omitempty"`
	// Path is the folder whose files count; empty means the home folder. A session records the
	// changes of at most 8 folders.
	Path string `json:"path,omitempty"`
}

// CreatedFiles lists regular files that have changed, the oldest change first. It leaves out hidden
// folders, node_modules and __pycache__.
type CreatedFiles struct {
	Cursor string        `json:"cursor"`
	Files  []CreatedFile `json:"files"`
	// Truncated is true when there may be changes that are not listed.
	Truncated bool `json:"truncated"`
}

// The values of CreatedFile.Change.
const (
	ChangeCreated = "created"
	ChangeChanged = "changed"
	ChangeRemoved = "removed"
)

// CreatedFile is a file that has changed.
type CreatedFile struct {
	Path string `json:"path"`
	// Size is in bytes; 0 for a removed file.
	Size int64 `json:"size"`
	// MIME is the type of the content, by the name of the file.
	MIME string `json:"mime"`
	// Change is created, changed or removed.
	Change string `json:"change"`
	// URL reads the content until ExpiresMS, without other credentials.
	URL       string `json:"url,omitempty"`
	ExpiresMS int64  `json:"expires_ms,omitempty"`
	// Content is the content in base64.
	Content string `json:"content,omitempty"`
	// Omitted is true when the content was asked for and is over a limit.
	Omitted bool `json:"omitted,omitempty"`
}

// FileLinkCreate asks for a URL that reads or writes one file until a time.
type FileLinkCreate struct {
	FileRef
	// ExpiresSeconds is the duration of the link: at most 7 days; 0 means 1 h.
	ExpiresSeconds int `json:"expires_seconds,omitempty"`
	// Upload makes a link that writes the file by PUT, and needs the scope sessions:write.
	// Otherwise the link reads the file.
	Upload bool `json:"upload,omitempty"`
}

// FileLink is a URL that reads or writes one file, without other credentials. It also ends with the
// session and with the credentials that created it.
type FileLink struct {
	URL       string `json:"url"`
	Session   string `json:"session"`
	Path      string `json:"path"`
	ExpiresMS int64  `json:"expires_ms"`
	Upload    bool   `json:"upload"`
}

// FileRef names a file in a session. Paths are relative to the user's home unless absolute.
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

// FileStat asks for the description of a file.
type FileStat struct {
	FileRef
	// NoFollow describes a link itself and not the file that it leads to.
	NoFollow bool `json:"no_follow,omitempty"`
}

// File describes a file.
type File struct {
	Path string `json:"path"`
	// Type is file, folder, link, fifo, socket or device. A link is reported as link in a listing,
	// in the result of a move or copy, and with NoFollow; otherwise links are followed.
	Type       string `json:"type"`
	Size       int64  `json:"size"`
	Mode       uint32 `json:"mode"`
	ModifiedMS int64  `json:"modified_ms"`
	// UID and GID are the numbers of the owner and of the group. Owner and Group are their names in
	// the sandbox, or the numbers where there are no names.
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Owner string `json:"owner"`
	Group string `json:"group"`
	// Dir is true for a folder, and in a listing also for a link to a folder.
	Dir bool `json:"dir"`
	// ETag changes whenever the content or the mode changes.
	ETag string `json:"etag"`
	// Target is the destination of a link, as the link states it.
	Target string `json:"target,omitempty"`
	// LeadsTo is the absolute path of the file that a link leads to, and LeadsType the type of that
	// file. Both are empty for a broken link.
	LeadsTo   string `json:"leads_to,omitempty"`
	LeadsType string `json:"leads_type,omitempty"`
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

// FileList asks for the entries of a folder, sorted by the bytes of their names. The entries of a
// folder below it follow directly after that folder.
type FileList struct {
	FileRef
	// Depth is the number of levels of folders, at most 64; 0 means 1. Links are not followed.
	Depth int `json:"depth,omitempty"`
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
