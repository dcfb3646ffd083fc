package files

import (
	"container/heap"
	"encoding/base64"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxListing is the most bytes of names in one page. Their JSON has at most six
// times as many.
const maxListing = 256 << 10

// names is a heap of the n smallest names; its root is the greatest.
type names []string

func (h names) Len() int           { return len(h) }
func (h names) Less(i, j int) bool { return h[i] > h[j] }
func (h names) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *names) Push(x any)        { *h = append(*h, x.(string)) }
func (h *names) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// lister makes one page of a listing. It never keeps more names of a folder than the page has.
type lister struct {
	page  wire.FileListing
	limit int
	root  string
	last  string // the path of the last name, relative to root
	names int    // names that the page has used, also of files that were gone
	bytes int
	more  bool // there are names after last
}

// listFolder returns one page of a folder.
func listFolder(path string, q wire.FileList) (wire.FileListing, error) {
	const op = "agent.file.list"
	l := lister{
		page: wire.FileListing{Path: path, Entries: []wire.FileStat{}}, limit: q.Limit, root: path,
	}
	if l.limit == 0 {
		l.limit = wire.DefaultEntries
	}
	if l.limit < 1 || l.limit > wire.MaxEntries {
		return l.page, fault.Invalid(op, "limit", "a page has 1 to %d entries", wire.MaxEntries)
	}
	if q.Depth < 0 || q.Depth > wire.MaxDepth {
		return l.page, fault.Invalid(op, "depth", "a listing has 1 to %d levels", wire.MaxDepth)
	}
	after, err := base64.RawURLEncoding.DecodeString(q.After)
	if err != nil {
		return l.page, fault.Invalid(op, "after", "this is not the next value of a page")
	}
	var parts []string
	if len(after) > 0 {
		parts = strings.Split(string(after), "/")
	}
	if err := l.list("", parts, max(q.Depth, 1)); err != nil {
		return l.page, fileError(op, err)
	}
	if l.more {
		l.page.Next = base64.RawURLEncoding.EncodeToString([]byte(l.last))
	}
	return l.page, nil
}

// list adds the entries of the folder rel, relative to the root, that come after the path in after.
func (l *lister) list(rel string, after []string, depth int) error {
	from := ""
	if len(after) > 0 {
		from = after[0]
	}
	// The earlier page ended at from, or below it.
	all, more, err := smallest(filepath.Join(l.root, rel), from, l.limit-l.names+1)
	if err != nil {
		return err
	}
	for _, name := range all {
		at := filepath.Join(rel, name)
		e, there := entryOf(filepath.Join(l.root, rel), name)
		old := name == from
		if !old {
			l.bytes += 2*len(at) + len(l.root)
			if l.names == l.limit || l.bytes > maxListing && l.names > 0 {
				l.more = true
				return nil
			}
			l.names++
			if l.last = at; there {
				l.page.Entries = append(l.page.Entries, e)
			}
		}
		if !there || e.Type != "folder" || depth <= 1 {
			continue
		}
		var below []string
		if old {
			below = after[1:]
		}
		// A folder that the user may not read has no entries.
		_ = l.list(at, below, depth-1)
		if l.more {
			return nil
		}
	}
	l.more = l.more || more
	return nil
}

// smallest returns the n smallest names in a folder that do not come before from, and whether there
// are more of them.
func smallest(path, from string, n int) (names, bool, error) {
	dir, err := openFolder(path)
	if err != nil {
		return nil, false, err
	}
	defer dir.Close()
	kept := names{}
	more := false
	for {
		some, err := dir.Readdirnames(1024)
		for _, name := range some {
			switch {
			case name < from:
			case len(kept) < n:
				heap.Push(&kept, name)
			case name < kept[0]:
				kept[0] = name
				heap.Fix(&kept, 0)
				more = true
			default:
				more = true
			}
		}
		if err == io.EOF {
			slices.Sort(kept)
			return kept, more, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}
