package carry

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// folder is a folder that users write to.
type folder struct {
	path string
	// needed means that the session is not carried over without it.
	needed bool
}

// folders returns the folders that are moved: all that the user can write to in an image.
func folders() []folder {
	return []folder{{".", true}, {"/mnt/data", true}, {"/tmp", false}, {"/var/tmp", false}}
}

// Reader reads the files of a sandbox. client.Files implements it.
type Reader interface {
	Stat(ctx context.Context, p wire.FileDescribe) (wire.FileStat, error)
	ReadTree(ctx context.Context, ch uint32, p wire.TreeRead, opened func(wire.FileStat) error,
		w io.Writer) error
}

// Writer writes the files of a sandbox. client.Files implements it.
type Writer interface {
	WriteTree(ctx context.Context, ch uint32, p wire.TreeWrite,
		body io.Reader) (wire.TreeStat, error)
}

// Moved describes the files that were moved.
type Moved struct {
	// Kept are the folders that were moved. Left are those that were not, or not all of them.
	Kept []string `json:"kept"`
	Left []string `json:"left,omitempty"`
	// Files, Links and Bytes count what was moved. Skipped counts files in places that belong to the
	// new image.
	Files   int   `json:"files"`
	Links   int   `json:"links"`
	Bytes   int64 `json:"bytes"`
	Skipped int   `json:"skipped,omitempty"`
	// said has what the kernels have said about their variables, by the ids of their channels.
	said map[string]Variables
}

// mover moves folders from one sandbox to another. The archives pass from agent to agent: this process
// does not interpret them. The new sandbox unpacks them with its own limits.
type mover struct {
	from Reader
	to   Writer
	// number returns a number that no channel and no other transfer of both sandboxes has.
	number func() uint32
}

// move moves the folders that exist. A link, such as that to a volume, is none.
func (m mover) move(ctx context.Context, all []folder) (done Moved, err error) {
	for _, f := range all {
		stat, err := m.from.Stat(ctx, wire.FileDescribe{Path: f.path, NoFollow: true})
		if fault.Is(err, fault.NotFound) || err == nil && stat.Type != "folder" {
			continue
		}
		at := cmp.Or(stat.Path, f.path)
		var tree wire.TreeStat
		if err == nil {
			tree, err = m.tree(ctx, at)
		}
		done.Files += tree.Files
		done.Links += tree.Links
		done.Bytes += tree.Bytes
		done.Skipped += tree.Skipped
		switch {
		case err == nil:
			done.Kept = append(done.Kept, at)
		case f.needed || ctx.Err() != nil:
			return done, err
		default:
			done.Left = append(done.Left, at)
		}
	}
	return done, nil
}

// tree moves a folder.
func (m mover) tree(ctx context.Context, at string) (wire.TreeStat, error) {
	read, write := io.Pipe()
	sent := make(chan error, 1)
	number := m.number()
	go func() {
		err := m.from.ReadTree(ctx, number, wire.TreeRead{Path: at, Archive: wire.Tar, Force: true},
			func(wire.FileStat) error { return nil }, write)
		_ = write.CloseWithError(err) // it never fails; nil is the end of the archive
		sent <- err
	}()
	stat, err := m.to.WriteTree(ctx, m.number(),
		wire.TreeWrite{Path: path.Dir(at), Whole: true}, read)
	_ = read.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // it never fails
	return stat, errors.Join(err, <-sent)
}
