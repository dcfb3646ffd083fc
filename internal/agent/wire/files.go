package wire

// FileWrite writes a file as the user, by a temporary name and a rename.
// Parents are made. Paths are relative to the user's home unless absolute.
type FileWrite struct {
	Path string `json:"path"`
	// Mode is the file's permission bits; 0 means 0644.
	Mode uint32 `json:"mode,omitempty"`
	// IfMatch refuses the write, as a Conflict, unless the file is there and
	// has this ETag; IfAbsent unless nothing is there. Of writers that come
	// this way none can slip in between.
	IfMatch  string `json:"if_match,omitempty"`
	IfAbsent bool   `json:"if_absent,omitempty"`
}

// FileRead names a file, and a part of it.
type FileRead struct {
	Path string `json:"path"`
	// Offset is where to begin; below 0 it counts from the end. Length is how
	// much to read at most; 0 means all.
	Offset int64 `json:"offset,omitempty"`
	Length int64 `json:"length,omitempty"`
	// IfRange has the whole file read unless it has this ETag.
	IfRange string `json:"if_range,omitempty"`
}

// FileStat describes a file.
type FileStat struct {
	Path string `json:"path"`
	// Type is file, folder, link, fifo, socket or device. It is link in a
	// listing alone; elsewhere links are followed.
	Type string `json:"type"`
	Size int64  `json:"size"`
	Mode uint32 `json:"mode"`
	// Modified is in milliseconds since 1970 UTC.
	Modified int64 `json:"modified_ms"`
	// Dir says that it is a folder, or a link that leads to one.
	Dir bool `json:"dir"`
	// ETag changes whenever the content does, or the mode.
	ETag string `json:"etag"`
	// Target is where a link leads, in its own words.
	Target string `json:"target,omitempty"`
	// Raw is the name, in base64, where it is no UTF-8: Path then has U+FFFD
	// in place of what is none.
	Raw string `json:"raw,omitempty"`
}

// FileOpened is a file and the part of it that follows.
type FileOpened struct {
	FileStat
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
}

// The entries of one page of a listing, at most and by default.
const (
	MaxEntries     = 5000
	DefaultEntries = 1000
)

// FileList asks for what is in a folder, in the order of the names' bytes.
type FileList struct {
	Path string `json:"path"`
	// Limit is how many entries to return; 0 means DefaultEntries.
	Limit int `json:"limit,omitempty"`
	// After is the Next of the page before.
	After string `json:"after,omitempty"`
}

// FileListing is one page of what is in a folder.
type FileListing struct {
	// Path is the folder's.
	Path    string     `json:"path"`
	Entries []FileStat `json:"entries"`
	// Next asks for the page that follows; it is empty for the last one.
	Next string `json:"next,omitempty"`
}

// FileMove moves or copies a file or a folder.
type FileMove struct {
	Path string `json:"path"`
	To   string `json:"to"`
	// Overwrite replaces what is there: a file by a file, a folder that is
	// empty by a folder. Otherwise that is a Conflict.
	Overwrite bool `json:"overwrite,omitempty"`
}

// FileRemove removes a file, a link, or a folder; one that is not empty only
// with Recursive.
type FileRemove struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive,omitempty"`
}

// FileLink makes a symbolic link. Parents are made in the user's home alone.
type FileLink struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// The forms in which a tree is read.
const (
	Tar = "tar"
	Zip = "zip"
)

// TreeRead reads a folder, and all that is below it, as an archive.
type TreeRead struct {
	Path string `json:"path"`
	// Archive is Tar or Zip.
	Archive string `json:"archive"`
}

// TreeStat says what was made of an archive.
type TreeStat struct {
	Path    string `json:"path"`
	Files   int    `json:"files"`
	Folders int    `json:"folders"`
	Links   int    `json:"links"`
	// Skipped are devices, fifos and the like.
	Skipped int   `json:"skipped"`
	Bytes   int64 `json:"bytes"`
}
