// Package filesystem serves envd's service for files and folders of a sandbox: it describes, lists,
// makes, moves, removes and watches them.
package filesystem

import (
	"context"
	"net/http"
	"path"

	"connectrpc.com/connect"

	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/envd/user"
	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxEntries is the largest number of entries in one listing.
	maxEntries = 50_000
	// maxDepth is the largest number of levels that the node lists.
	maxDepth = 64
	// pageSize is the number of entries that are asked for at once.
	pageSize = 5000
)

// Config configures a Service. Every field is required.
type Config struct {
	remote.Config
	// Target returns the target of a request by its context.
	Target func(ctx context.Context) remote.Target
}

// Service serves filesystem.Filesystem.
type Service struct {
	cfg      Config
	watchers *watchers
}

// New returns the handler of the service.
func New(cfg Config, schema *wire.Schema) http.Handler {
	s := &Service{cfg: cfg, watchers: newWatchers()}
	context.AfterFunc(cfg.Base, s.watchers.close)
	w := wire.NewService(schema, wire.FilesystemService)
	wire.Unary(w, "Stat", s.stat)
	wire.Unary(w, "MakeDir", s.makeDir)
	wire.Unary(w, "Move", s.move)
	wire.Unary(w, "ListDir", s.listDir)
	wire.Unary(w, "Remove", s.remove)
	wire.ServerStream(w, "WatchDir", s.watchDir)
	wire.Unary(w, "CreateWatcher", s.createWatcher)
	wire.Unary(w, "GetWatcherEvents", s.watcherEvents)
	wire.Unary(w, "RemoveWatcher", s.removeWatcher)
	return w
}

// open checks the user and the path of a request, and opens a link.
func (s *Service) open(ctx context.Context, h http.Header, name string) (l *remote.Link,
	file string, err error,
) {
	if err := user.CheckHeader(h); err != nil {
		return nil, "", err
	}
	if file, err = remote.Path(name); err != nil {
		return nil, "", err
	}
	l, err = remote.Open(ctx, s.cfg.Config, s.cfg.Target(ctx))
	return l, file, err
}

// failed returns the error of an operation on a file, with its path.
func failed(err error, file string) error {
	if remote.Missing(err) {
		return wire.NewError(connect.CodeNotFound, "path not found: "+file)
	}
	return err
}

func (s *Service) stat(ctx context.Context, h http.Header, r *wire.StatRequest) (*wire.StatResponse,
	error,
) {
	l, file, err := s.open(ctx, h, r.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	f, err := l.Stat(file, true)
	if err != nil {
		return nil, failed(err, file)
	}
	return &wire.StatResponse{Entry: entryOf(f)}, nil
}

func (s *Service) makeDir(ctx context.Context, h http.Header, r *wire.MakeDirRequest) (
	*wire.MakeDirResponse, error,
) {
	l, file, err := s.open(ctx, h, r.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	var f protocol.File
	err = l.Call(protocol.OpFileMkdir, l.Ref(file), &f)
	if exists(err) {
		there, serr := l.Stat(file, false)
		if serr == nil && there.Dir {
			return nil, wire.NewError(connect.CodeAlreadyExists, "directory already exists: "+file)
		}
		return nil, wire.NewError(connect.CodeInvalidArgument, "path is not a directory: "+file)
	}
	if err != nil {
		return nil, failed(err, file)
	}
	return &wire.MakeDirResponse{Entry: entryOf(f)}, nil
}

// exists reports whether err says that something exists already.
func exists(err error) bool {
	return fault.Is(err, fault.Conflict) && fault.PublicOf(err).Cause == fault.CauseExists
}

func (s *Service) move(ctx context.Context, h http.Header, r *wire.MoveRequest) (*wire.MoveResponse,
	error,
) {
	to, err := remote.Path(r.Destination)
	if err != nil {
		return nil, err
	}
	l, from, err := s.open(ctx, h, r.Source)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	var f protocol.File
	if from == to {
		f, err = l.Stat(from, true)
	} else {
		err = l.Call(protocol.OpFileMove,
			protocol.FileMove{FileRef: l.Ref(from), To: to, Overwrite: true}, &f)
	}
	if err != nil {
		return nil, failed(err, from)
	}
	return &wire.MoveResponse{Entry: entryOf(f)}, nil
}

func (s *Service) listDir(ctx context.Context, h http.Header, r *wire.ListDirRequest) (
	*wire.ListDirResponse, error,
) {
	l, folder, err := s.open(ctx, h, r.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	if err := isFolder(l, folder); err != nil {
		return nil, err
	}
	q := protocol.FileList{
		FileRef: l.Ref(folder), Depth: int(min(max(r.Depth, 1), maxDepth)), Limit: pageSize,
	}
	res := &wire.ListDirResponse{Entries: []*wire.EntryInfo{}}
	for {
		var page protocol.FileListing
		if err := l.Call(protocol.OpFileList, q, &page); err != nil {
			return nil, failed(err, folder)
		}
		for _, f := range page.Entries {
			res.Entries = append(res.Entries, entryOf(f))
		}
		if q.After = page.Next; q.After == "" {
			return res, nil
		}
		if len(res.Entries) >= maxEntries {
			return nil, fault.New(fault.TooLarge, "filesystem.list",
				"the folder has over %d entries; list it in parts", maxEntries)
		}
	}
}

// isFolder checks that a path is that of a folder, or of a link to one.
func isFolder(l *remote.Link, folder string) error {
	f, err := l.Stat(folder, false)
	if err != nil {
		return failed(err, folder)
	}
	if !f.Dir {
		return wire.NewError(connect.CodeInvalidArgument, "path is not a directory: "+folder)
	}
	return nil
}

func (s *Service) remove(ctx context.Context, h http.Header, r *wire.RemoveRequest) (
	*wire.RemoveResponse, error,
) {
	l, file, err := s.open(ctx, h, r.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	err = l.Call(protocol.OpFileRemove,
		protocol.FileRemove{FileRef: l.Ref(file), Recursive: true}, nil)
	if err != nil && !remote.Missing(err) {
		return nil, err
	}
	return &wire.RemoveResponse{}, nil
}

// name returns the name of a path.
func name(file string) string { return path.Base(file) }
