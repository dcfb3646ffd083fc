package client

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Files are the operations on files in the sandbox.
type Files struct{ m *mux }

// Write writes body to a file in the sandbox, as the user. The file appears completely or not at
// all: when body fails, or ctx ends, Write leaves nothing. ctx does not end a Read of body that
// hangs; the caller must close body. ch is a number that no channel and no other transfer has or
// had.
func (f Files) Write(ctx context.Context, ch uint32, p wire.FileWrite,
	body io.Reader,
) (wire.FileStat, error) {
	var stat wire.FileStat
	return stat, f.m.upload(ctx, wire.OpFileWrite, ch, p, body, &stat)
}

// WriteTree unpacks a tar archive into a folder, as the user. See Write. Files
// that were unpacked before an error stay.
func (f Files) WriteTree(ctx context.Context, ch uint32, p wire.TreeWrite,
	body io.Reader,
) (wire.TreeStat, error) {
	var stat wire.TreeStat
	return stat, f.m.upload(ctx, wire.OpTreeWrite, ch, p, body, &stat)
}

// Read reads a part of a file in the sandbox, as the user, and writes it to w.
// It calls opened, unless nil, once before the first byte. It writes exactly as
// many bytes as the FileOpened says; if the file became shorter meanwhile, it
// returns a Conflict. ch is a number that no channel and no other transfer has
// or had.
func (f Files) Read(ctx context.Context, ch uint32, p wire.FileRead,
	opened func(wire.FileOpened) error, w io.Writer,
) (part wire.FileOpened, err error) {
	err = f.m.download(ctx, wire.OpFileRead, ch, p, &part, func() (int64, error) {
		if opened == nil {
			return part.Length, nil
		}
		return part.Length, opened(part)
	}, w)
	return part, err
}

// ReadTree reads a folder as an archive. See Read. The length is unknown until
// the end.
func (f Files) ReadTree(ctx context.Context, ch uint32, p wire.TreeRead,
	opened func(wire.FileStat) error, w io.Writer,
) error {
	var stat wire.FileStat
	return f.m.download(ctx, wire.OpTreeRead, ch, p, &stat,
		func() (int64, error) { return -1, opened(stat) }, w)
}

// Stat describes a file.
func (f Files) Stat(ctx context.Context, p wire.FileDescribe) (wire.FileStat, error) {
	var s wire.FileStat
	return s, f.m.call(ctx, wire.OpFileStat, 0, p, &s)
}

// List returns one page of the entries of a folder.
func (f Files) List(ctx context.Context, p wire.FileList) (wire.FileListing, error) {
	var l wire.FileListing
	return l, f.m.call(ctx, wire.OpFileList, 0, p, &l)
}

// Mkdir makes a folder and its parents.
func (f Files) Mkdir(ctx context.Context, path string) (wire.FileStat, error) {
	var s wire.FileStat
	return s, f.m.call(ctx, wire.OpFileMkdir, 0, wire.FileRead{Path: path}, &s)
}

// Changes returns the files that have changed since an earlier call.
func (f Files) Changes(ctx context.Context, p wire.ChangesSince) (wire.ChangedFiles, error) {
	var c wire.ChangedFiles
	return c, f.m.call(ctx, wire.OpFileChanges, 0, p, &c)
}

// Move moves a file or a folder.
func (f Files) Move(ctx context.Context, p wire.FileMove) (wire.FileStat, error) {
	var s wire.FileStat
	return s, f.m.call(ctx, wire.OpFileMove, 0, p, &s)
}

// Copy copies a file or a folder.
func (f Files) Copy(ctx context.Context, p wire.FileMove) (wire.FileStat, error) {
	var s wire.FileStat
	return s, f.m.call(ctx, wire.OpFileCopy, 0, p, &s)
}

// Remove removes a file, a link or a folder.
func (f Files) Remove(ctx context.Context, p wire.FileRemove) error {
	return f.m.call(ctx, wire.OpFileRemove, 0, p, nil)
}

// Watch reports changes until ctx ends or the watched path is gone. It calls
// opened once it watches. ch is a number that no channel and no other transfer
// has or had.
func (f Files) Watch(ctx context.Context, ch uint32, p wire.FileWatch, opened func(wire.FileStat),
	report func(wire.FileChanges) error,
) error {
	var stat wire.FileStat
	lines := &changeLines{report: report}
	return f.m.download(ctx, wire.OpFileWatch, ch, p, &stat, func() (int64, error) {
		opened(stat)
		return -1, nil
	}, lines)
}

// changeLines decodes the lines that are written to it.
type changeLines struct {
	report func(wire.FileChanges) error
	rest   []byte
}

func (l *changeLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := slices.Index(l.rest, '\n')
		if i < 0 {
			break
		}
		var c wire.FileChanges
		if err := json.Unmarshal(l.rest[:i], &c); err != nil {
			return 0, fault.Wrap(fault.Malformed, "agent.file.watch", err)
		}
		l.rest = l.rest[i+1:]
		if err := l.report(c); err != nil {
			return 0, err
		}
	}
	if len(l.rest) > frame.MaxBody {
		return 0, fault.New(fault.Malformed, "agent.file.watch",
			"the agent sent a line without an end")
	}
	return len(p), nil
}

// Link makes a symbolic link.
func (f Files) Link(ctx context.Context, p wire.FileLink) error {
	return f.m.call(ctx, wire.OpFileLink, 0, p, nil)
}
