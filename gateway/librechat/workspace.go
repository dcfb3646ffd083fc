package librechat

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/sessionfile"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The bounds of the working folder that a run compares.
const (
	folderDepth = 10
	pageSize    = 5000
	maxListed   = 20_000
)

// entry is a file of the working folder.
type entry struct {
	Size int64
	ETag string
}

// list returns the files of the working folder by their names, without hidden files, caches and
// packages; nil if there is no folder.
func (s *Surface) list(ctx context.Context, u store.User, session string,
) (map[string]entry, error) {
	q := protocol.FileList{
		FileRef: protocol.FileRef{Session: session, Path: folder},
		Depth:   folderDepth, Limit: pageSize,
	}
	all := map[string]entry{}
	for {
		var page protocol.FileListing
		err := s.call(ctx, u, protocol.OpFileList, q, &page)
		if fault.Is(err, fault.NotFound) {
			return nil, nil // no file was written there yet
		}
		if err != nil {
			return nil, err
		}
		for _, f := range page.Entries {
			name := strings.TrimPrefix(f.Path, folder+"/")
			if f.Type == "file" && !unlisted(name) {
				all[name] = entry{f.Size, f.ETag}
			}
		}
		if q.After = page.Next; q.After == "" || len(all) >= maxListed {
			return all, nil
		}
	}
}

// unlisted reports whether a file is not a result: it is hidden, or in a folder of caches or
// packages.
func unlisted(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || part == "node_modules" || part == "__pycache__" {
			return true
		}
	}
	return false
}

// input is a stored file that a run gets.
type input struct {
	store.File
	// name is the name in the working folder.
	name string
}

// resolve returns the stored files that a run names. Errors: PermissionDenied for a file that the
// user does not have.
func (s *Surface) resolve(ctx context.Context, u store.User, refs []fileRef) ([]input, error) {
	const op = "librechat.files"
	var all []input
	for _, ref := range refs {
		f, err := s.files.Get(ctx, u, ref.storage(), ref.ID)
		if fault.Is(err, fault.NotFound) || err == nil && !f.Owner.Admits(ref.owner()) {
			return nil, &fault.Error{
				Kind: fault.PermissionDenied, Op: op, Field: "files",
				Message: "a file does not exist, or belongs to somebody else",
			}
		}
		if err != nil {
			return nil, err
		}
		name := f.Name
		if ref.Name != "" {
			if name, err = store.CleanName(folder, ref.Name); err != nil {
				return nil, err
			}
		}
		// The last reference to a name counts.
		all = slices.DeleteFunc(all, func(i input) bool { return i.name == name })
		all = append(all, input{f, name})
	}
	return all, nil
}

// known is which stored file each file of a session's working folder is, or was before a program
// changed it, by name.
type known map[string]origin

type origin struct {
	Storage string `json:"storage"`
	ID      string `json:"id"`
}

// knownFile has the known of a session that stays, as JSON. Programs can change it. This changes only
// which of their own user's files a file counts as.
const (
	knownFile = "/home/user/.librechat/files.json"
	maxKnown  = 4 << 20
)

// readKnown returns the known of a session; an empty one if it has none.
func (s *Surface) readKnown(ctx context.Context, u store.User, session string) known {
	k := known{}
	r, err := sessionfile.Read(ctx, s.cfg.Node, u.Who, protocol.FileRead{
		FileRef: protocol.FileRef{Session: session, Path: knownFile},
	})
	if err != nil {
		return k
	}
	defer func() { _ = r.Close() }()
	if json.NewDecoder(io.LimitReader(r, maxKnown)).Decode(&k) != nil {
		return known{}
	}
	return k
}

// writeKnown stores the known of a session.
func (s *Surface) writeKnown(ctx context.Context, u store.User, session string, k known) error {
	text, err := json.Marshal(k)
	if err != nil {
		return fault.Wrap(fault.Internal, "librechat.known", err)
	}
	_, err = s.write(ctx, u, protocol.FileWrite{
		FileRef: protocol.FileRef{Session: session, Path: knownFile},
	}, strings.NewReader(string(text)))
	return err
}

// fill writes the inputs into the working folder. A file that is there already, as the known of the
// session says, stays as it is.
func (s *Surface) fill(ctx context.Context, u store.User, session string, inputs []input, k known,
) error {
	for _, in := range inputs {
		at := origin{in.Storage, in.ID}
		if k[in.name] == at {
			continue
		}
		mode := uint32(0o644)
		if in.Owner.ReadOnly {
			mode = 0o444
		}
		content, err := s.files.Open(ctx, u, in.File)
		if err != nil {
			return err
		}
		_, err = s.write(ctx, u, protocol.FileWrite{
			FileRef: protocol.FileRef{Session: session, Path: path.Join(folder, in.name)},
			Mode:    mode,
		}, content)
		_ = content.Close()
		if err != nil {
			return err
		}
		k[in.name] = at
	}
	return nil
}

// changes are the differences of a working folder after a run.
type changes struct{ written, deleted []string }

// diff returns the files that a run has written and deleted, by name.
func diff(before, after map[string]entry) (c changes) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if was, ok := before[name]; !ok || was != after[name] {
			c.written = append(c.written, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[name]; !ok {
			c.deleted = append(c.deleted, name)
		}
	}
	return c
}
