package files

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// readFile answers with the properties of a file and sends the requested part of it.
func (s *Service) readFile(t Transfer, path string, q Params) {
	const op = "agent.file.read"
	f, stat, err := openFile(path)
	if err != nil {
		t.Respond(nil, err)
		return
	}
	defer f.Close()
	buf := make([]byte, frame.HeaderSize+wire.FileChunk)
	part, err := partOf(f, stat, q)
	n := 0
	if err == nil {
		part, n, err = firstChunk(f, part, buf)
	}
	part.FileStat = s.owned(part.FileStat)
	t.Respond(part, err)
	if err == nil {
		t.Finish(fileError(op, sendFile(t, f, part.Length, buf, n)))
	}
}

// firstChunk reads the first bytes of a part into buf, behind the room for the header, and returns
// their number. A program may replace the content at this moment. A part that fits into one chunk
// is therefore as long as what was read, so that its reader gets one state of the file without an
// error.
func firstChunk(f io.Reader, part wire.FileOpened, buf []byte) (wire.FileOpened, int, error) {
	want := int(min(part.Length, wire.FileChunk))
	n, err := io.ReadFull(f, buf[frame.HeaderSize:frame.HeaderSize+want])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return part, 0, fileError("agent.file.read", err)
	}
	if n < want && part.Length <= wire.FileChunk {
		part.Length = int64(n)
		part.Size = part.Offset + part.Length
	}
	return part, n, nil
}

// sendFile sends size bytes of a file. The first n of them are in buf already.
func sendFile(t Transfer, f io.Reader, size int64, buf []byte, n int) error {
	for size > 0 {
		want := int(min(size, wire.FileChunk))
		m, err := io.ReadFull(f, buf[frame.HeaderSize+n:frame.HeaderSize+want])
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fault.New(fault.Conflict, "agent.file.read",
				"the file became shorter while it was read")
		}
		if err != nil {
			return err
		}
		if err := t.Put(buf, n+m); err != nil {
			return err
		}
		size -= int64(n + m)
		n = 0
	}
	return nil
}

// openFile opens a regular file. It never waits for the other end of a FIFO. It
// refuses files of /proc, see inProc.
func openFile(path string) (*os.File, wire.FileStat, error) {
	const op = "agent.file.read"
	if inProc(path) {
		return nil, wire.FileStat{}, fileError(op, syscall.EACCES)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, wire.FileStat{}, fileError(op, err)
	}
	info, err := f.Stat()
	if err == nil {
		switch {
		case info.IsDir():
			err = syscall.EISDIR
		case !info.Mode().IsRegular():
			err = syscall.EINVAL
		}
	}
	if err == nil {
		// Check again, because the path may lead elsewhere by now.
		var after syscall.Statfs_t
		if err = syscall.Fstatfs(int(f.Fd()), &after); err == nil &&
			after.Type == unix.PROC_SUPER_MAGIC {
			err = syscall.EACCES
		}
	}
	if err != nil {
		f.Close()
		return nil, wire.FileStat{}, fileError(op, err)
	}
	return f, statOf(path, info), nil
}

// partOf returns the requested part of a file and seeks to its beginning.
func partOf(f io.Seeker, stat wire.FileStat, q Params) (wire.FileOpened, error) {
	const op = "agent.file.read"
	part := wire.FileOpened{FileStat: stat, Length: stat.Size}
	if q.Length < 0 {
		return part, fault.Invalid(op, "length", "a length must not be below 0")
	}
	if q.IfRange != "" && q.IfRange != stat.ETag {
		return part, nil
	}
	part.Offset = q.Offset
	if q.Offset < 0 {
		part.Offset = max(stat.Size+q.Offset, 0)
	}
	part.Length = max(stat.Size-part.Offset, 0)
	if q.Length > 0 {
		part.Length = min(part.Length, q.Length)
	}
	if part.Offset == 0 {
		return part, nil
	}
	if _, err := f.Seek(part.Offset, io.SeekStart); err != nil {
		return part, fileError(op, err)
	}
	return part, nil
}
