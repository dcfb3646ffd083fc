package librechat

import (
	"context"
	"encoding/json"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/sessionfile"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// position returns the present position in the changes of the working folder, which it creates if
// the session has none. It is empty if the session does not record all changes.
func (s *Surface) position(ctx context.Context, u store.User, session string) (string, error) {
	var now protocol.CreatedFiles
	ask := func() error {
		return s.call(ctx, u, protocol.OpFileChanges,
			protocol.FileChangesQuery{Session: session, Path: folder}, &now)
	}
	err := ask()
	if fault.Is(err, fault.NotFound) {
		err = s.call(ctx, u, protocol.OpFileMkdir,
			protocol.FileRef{Session: session, Path: folder}, nil)
		if err == nil {
			err = ask()
		}
	}
	return now.Cursor, err
}

// changesSince returns the request for the changes of the working folder since a cursor.
func changesSince(session, cursor string) protocol.FileChangesQuery {
	return protocol.FileChangesQuery{Session: session, Path: folder, Since: cursor}
}

// changes are the differences of a working folder after a run, by the names of the files.
type changes struct {
	written map[string]int64 // the sizes
	deleted []string
}

// changesOf returns the changes of the working folder in a page, without hidden files, caches and
// packages.
func changesOf(page protocol.CreatedFiles) (c changes) {
	c.written = map[string]int64{}
	for _, f := range page.Files {
		name, below := strings.CutPrefix(f.Path, folder+"/")
		switch {
		case !below || unlisted(name):
		case f.Change == protocol.ChangeRemoved:
			c.deleted = append(c.deleted, name)
		default:
			c.written[name] = f.Size
		}
	}
	return c
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
) (wrote bool, err error) {
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
			return wrote, err
		}
		_, err = s.write(ctx, u, protocol.FileWrite{
			FileRef: protocol.FileRef{Session: session, Path: path.Join(folder, in.name)},
			Mode:    mode,
		}, content)
		_ = content.Close()
		if err != nil {
			return wrote, err
		}
		k[in.name], wrote = at, true
	}
	return wrote, nil
}
