package filesystem

import (
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/protocol"
)

// entryOf describes a file. A link has the type of the file that it leads to. A broken link has the
// type of links, and itself as its target.
func entryOf(f protocol.File) *wire.EntryInfo {
	at := time.UnixMilli(f.ModifiedMS).UTC()
	e := &wire.EntryInfo{
		Name: name(f.Path), Type: typeOf(f.Type), Path: f.Path, Size: f.Size, Mode: f.Mode & 0o777,
		Permissions: permissions(f.Type, f.Mode), Owner: f.Owner, Group: f.Group, ModifiedTime: &at,
	}
	if f.Type != "link" {
		return e
	}
	target := f.LeadsTo
	if e.Type = typeOf(f.LeadsType); target == "" {
		e.Type, target = wire.FileTypeSymlink, f.Path
	}
	e.SymlinkTarget = &target
	return e
}

// typeOf returns the type of a file. Clients know no devices, fifos and sockets.
func typeOf(kind string) string {
	if kind == "folder" {
		return wire.FileTypeDirectory
	}
	return wire.FileTypeFile
}

// permissions returns the permissions as text: letters for the type, and three times rwx. The
// letters are those of Go's fs.FileMode.
func permissions(kind string, mode uint32) string {
	text := map[string]string{
		"folder": "d", "link": "L", "fifo": "p", "socket": "S", "device": "D",
	}[kind]
	for _, bit := range []struct {
		mode   uint32
		letter string
	}{{0o4000, "u"}, {0o2000, "g"}, {0o1000, "t"}} {
		if mode&bit.mode != 0 {
			text += bit.letter
		}
	}
	if text == "" {
		text = "-"
	}
	const letters = "rwxrwxrwx"
	for i, letter := range letters {
		if mode&(1<<(len(letters)-1-i)) != 0 {
			text += string(letter)
		} else {
			text += "-"
		}
	}
	return text
}
