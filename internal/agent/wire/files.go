package wire

import (
	"slices"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// maxPath is the longest path in a request, in bytes.
const maxPath = 4096

// CheckPath refuses a text that cannot be a path in a sandbox.
func CheckPath(op, field, path string) error {
	if path == "" || len(path) > maxPath || strings.ContainsRune(path, 0) {
		return fault.Invalid(op, field, "a path has between 1 and %d bytes, none of them zero",
			maxPath)
	}
	if slices.Contains(strings.Split(path, "/"), "..") {
		return fault.Invalid(op, field, "a path must not contain ..")
	}
	return nil
}

// FileWrite writes a file as the user, by a temporary name and a rename.
// Parents are made. Paths are relative to the user's home unless absolute.
type FileWrite struct {
	Path string `json:"path"`
	// Mode is the file's permission bits; 0 means 0644.
	Mode uint32 `json:"mode,omitempty"`
	// IfMatch makes the write a Conflict unless the file exists with this ETag.
	// IfAbsent makes it a Conflict if the file exists. No other write through the
	// agent can come in between.
	IfMatch  string `json:"if_match,omitempty"`
	IfAbsent bool   `json:"if_absent,omitempty"`
}

// FileRead names a file and a part of it.
type FileRead struct {
	Path string `json:"path"`
	// Offset is the first byte; a negative one counts from the end. Length is the
	// most bytes to read; 0 means all.
	Offset int64 `json:"offset,omitempty"`
	Length int64 `json:"length,omitempty"`
	// IfRange requests the whole file unless it has this ETag.
	IfRange string `json:"if_range,omitempty"`
}

// FileDescribe names a file that is described.
type FileDescribe struct {
	Path string `json:"path"`
	// NoFollow describes a link and not the file that it leads to.
	NoFollow bool `json:"no_follow,omitempty"`
}

// FileStat describes a file.
type FileStat struct {
	Path string `json:"path"`
	// Type is file, folder, link, fifo, socket or device. It is link only in a
	// listing, after a move, and with NoFollow. Elsewhere links are followed.
	Type string `json:"type"`
	Size int64  `json:"size"`
	Mode uint32 `json:"mode"`
	// UID and GID are the numbers of the owner and the group. Owner and Group are
	// their names, or the numbers as texts if the sandbox has no names for them.
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Owner string `json:"owner"`
	Group string `json:"group"`
	// Modified is in milliseconds since 1970 UTC.
	Modified int64 `json:"modified_ms"`
	// Dir says that it is a folder, or a link that leads to one.
	Dir bool `json:"dir"`
	// ETag changes whenever the content or the mode does.
	ETag string `json:"etag"`
	// Target is the text of a link. LeadsTo is the absolute path of the file that
	// the link leads to, and LeadsType the type of that file. Both are empty for a
	// broken link.
	Target    string `json:"target,omitempty"`
	LeadsTo   string `json:"leads_to,omitempty"`
	LeadsType string `json:"leads_type,omitempty"`
	// Raw is the name, in base64, if it is not valid UTF-8. Path then has U+FFFD
	// for the invalid bytes.
	Raw string `json:"raw,omitempty"`
}

// FileOpened is a file and the part of it that follows.
type FileOpened struct {
	FileStat
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
}

// The limits and defaults of a listing.
const (
	MaxEntries     = 5000 // entries in one page
	DefaultEntries = 1000
	MaxDepth       = 64 // levels of folders
)

// FileList requests the entries of a folder, in the order of the names' bytes. The entries of a
// folder below it follow directly after that folder.
type FileList struct {
	Path string `json:"path"`
	// Depth is the number of levels of folders, at most MaxDepth; 0 means 1. Links are not followed.
	Depth int `json:"depth,omitempty"`
	// Limit is how many entries to return; 0 means DefaultEntries.
	Limit int `json:"limit,omitempty"`
	// After is the Next of the previous page.
	After string `json:"after,omitempty"`
}

// FileListing is one page of the entries of a folder.
type FileListing struct {
	// Path is the path of the folder.
	Path    string     `json:"path"`
	Entries []FileStat `json:"entries"`
	// Next requests the next page. It is empty in the last one.
	Next string `json:"next,omitempty"`
}

// FileMove moves or copies a file or a folder.
type FileMove struct {
	Path string `json:"path"`
	To   string `json:"to"`
	// Overwrite replaces the target: a file by a file, an empty folder by a folder.
	// Otherwise an existing target is a Conflict.
	Overwrite bool `json:"overwrite,omitempty"`
}

// FileRemove removes a file, a link or a folder. A folder that is not empty
// needs Recursive.
type FileRemove struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive,omitempty"`
}

// FileLink makes a symbolic link. It makes parents only in the user's home.
type FileLink struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// The archive formats of a tree.
const (
	Tar = "tar"
	Zip = "zip"
)

// TreeRead reads a folder, and everything below it, as an archive.
type TreeRead struct {
	Path string `json:"path"`
	// Archive is Tar or Zip.
	Archive string `json:"archive"`
	// Force packs all files of the user, and no others, such as those of the image. Files that he
	// cannot read are made readable first. The archive has their earlier mode.
	Force bool `json:"force,omitempty"`
}

// TreeWrite names the folder into which a tar archive is unpacked.
type TreeWrite struct {
	Path string `json:"path"`
	// Whole unpacks an archive of any size, such as that of another sandbox. The disk bounds it.
	// Entries in places that belong to the image are skipped.
	Whole bool `json:"whole,omitempty"`
}

// TreeStat counts what was unpacked from an archive.
type TreeStat struct {
	Path    string `json:"path"`
	Files   int    `json:"files"`
	Folders int    `json:"folders"`
	Links   int    `json:"links"`
	// Skipped are devices, fifos and the like, and entries that Whole skips.
	Skipped int   `json:"skipped"`
	Bytes   int64 `json:"bytes"`
}
