package wire

import "time"

// The types of files.
const (
	FileTypeFile      = "FILE_TYPE_FILE"
	FileTypeDirectory = "FILE_TYPE_DIRECTORY"
	FileTypeSymlink   = "FILE_TYPE_SYMLINK"
)

// The types of events of watched files.
const (
	EventCreate = "EVENT_TYPE_CREATE"
	EventWrite  = "EVENT_TYPE_WRITE"
	EventRemove = "EVENT_TYPE_REMOVE"
	EventRename = "EVENT_TYPE_RENAME"
	EventChmod  = "EVENT_TYPE_CHMOD"
)

// EntryInfo is a file or a folder.
type EntryInfo struct {
	Name, Type, Path string
	Size             int64
	Mode             uint32
	// Permissions has the form of ls.
	Permissions, Owner, Group string
	ModifiedTime              *time.Time
	SymlinkTarget             *string
	Metadata                  map[string]string
}

// FilesystemEvent is a change of a watched folder.
type FilesystemEvent struct {
	// Name is the path, relative to the folder.
	Name, Type string
	Entry      *EntryInfo
}

// StatRequest asks for a file.
type StatRequest struct{ Path string }

// StatResponse has a file.
type StatResponse struct{ Entry *EntryInfo }

// MakeDirRequest creates a folder.
type MakeDirRequest struct{ Path string }

// MakeDirResponse has the new folder.
type MakeDirResponse struct{ Entry *EntryInfo }

// MoveRequest renames a file.
type MoveRequest struct{ Source, Destination string }

// MoveResponse has the file at its new path.
type MoveResponse struct{ Entry *EntryInfo }

// ListDirRequest lists a folder.
type ListDirRequest struct {
	Path string
	// Depth is how many levels are listed; 0 means 1.
	Depth uint32
}

// ListDirResponse has the contents of a folder.
type ListDirResponse struct{ Entries []*EntryInfo }

// RemoveRequest removes a file or a folder.
type RemoveRequest struct{ Path string }

// RemoveResponse is empty.
type RemoveResponse struct{}

// WatchDirRequest watches a folder.
type WatchDirRequest struct {
	Path                                        string
	Recursive, IncludeEntry, AllowNetworkMounts bool
}

// WatchDirResponse is one event of a watched folder. One field is set.
type WatchDirResponse struct {
	Start      *WatchStarted
	Filesystem *FilesystemEvent
	KeepAlive  *KeepAlive
}

// WatchStarted is the first event of a watched folder.
type WatchStarted struct{}

// CreateWatcherRequest watches a folder. GetWatcherEvents has the changes.
type CreateWatcherRequest struct {
	Path                                        string
	Recursive, IncludeEntry, AllowNetworkMounts bool
}

// CreateWatcherResponse names a watcher.
type CreateWatcherResponse struct{ WatcherID string }

// GetWatcherEventsRequest asks for the changes since the last request.
type GetWatcherEventsRequest struct{ WatcherID string }

// GetWatcherEventsResponse has changes.
type GetWatcherEventsResponse struct{ Events []*FilesystemEvent }

// RemoveWatcherRequest ends a watcher.
type RemoveWatcherRequest struct{ WatcherID string }

// RemoveWatcherResponse is empty.
type RemoveWatcherResponse struct{}
