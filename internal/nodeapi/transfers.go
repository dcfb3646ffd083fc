package nodeapi

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/notebook"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/session/activity"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// filePart is the number of bytes of a file in one Data frame.
const filePart = 64 << 10

// upload receives the Data frames of a link. The link's reader writes to it. If the sandbox is
// slow, the reader waits. That delays only this link, because an upload has its own link.
type upload struct {
	out  *io.PipeReader
	pipe *io.PipeWriter
	once sync.Once
}

// addUpload begins to receive the link's Data frames. Errors: Conflict with the message busy when
// an upload is under way, or with the message shared when there are viewers.
func (c *call) addUpload(busy, shared string) (*upload, error) {
	out, in := io.Pipe()
	u := &upload{out: out, pipe: in}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.viewers == nil:
		return nil, fault.New(fault.Canceled, c.op(), "the link has ended")
	case c.upload != nil:
		return nil, fault.New(fault.Conflict, c.op(), "%s", busy)
	case len(c.viewers) > 0:
		return nil, fault.New(fault.Conflict, c.op(), "%s", shared)
	}
	c.upload = u
	return u, nil
}

// endUpload ends the upload. Data frames that still arrive are skipped.
func (c *linkHandler) endUpload(u *upload) {
	_ = u.out.CloseWithError(io.ErrClosedPipe)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.upload == u {
		c.upload = nil
	}
}

// cut ends an upload that is not complete, so that no file is written.
func (u *upload) cut() {
	u.once.Do(func() {
		_ = u.pipe.CloseWithError(fault.New(fault.Canceled, "file.write",
			"the upload was cut short; nothing was written"))
	})
}

func (u *upload) finish() { u.once.Do(func() { _ = u.pipe.Close() }) }

// data passes a frame to the upload. Without an upload, the frame belongs to a write that failed.
func (c *linkHandler) data(f frame.Frame) {
	c.mu.Lock()
	u := c.upload
	c.mu.Unlock()
	if u == nil {
		return
	}
	if len(f.Body) > 0 {
		// This fails when the write has failed. The reply of the write reports it.
		_, _ = u.pipe.Write(f.Body)
	}
	if f.Flags&frame.FlagEnd != 0 {
		u.finish()
	}
}

// fileWrite receives a file. It replies when the file is complete.
func fileWrite(ctx context.Context, c *call, p protocol.FileWrite,
	reply func(protocol.File, error),
) error {
	if p.Mode > 0o777 {
		return fault.Invalid(c.op(), "mode", "a mode is permission bits, at most 0777")
	}
	w := wire.FileWrite{Path: p.Path, Mode: p.Mode, IfMatch: p.IfMatch, IfAbsent: p.IfAbsent}
	return receive(ctx, c, p.FileRef,
		func(s *session.Session, body io.Reader) (protocol.File, error) {
			var f wire.FileStat
			write := func(body io.Reader) (_ string, err error) {
				f, err = s.Agent().Files.Write(ctx, s.Channels().NewWire(), w, body)
				return f.Path, err
			}
			o := notebook.OwnerOf(c.principal.Tenant, c.principal.Subject, p.Session)
			err := c.server.cfg.Notebooks.Tee(c.op(), o, p.Path, body, write)
			return fileAfter(f, err)
		}, reply)
}

// treeWrite receives an archive.
func treeWrite(ctx context.Context, c *call, p protocol.FileRef,
	reply func(protocol.Tree, error),
) error {
	return receive(ctx, c, p, func(s *session.Session, body io.Reader) (protocol.Tree, error) {
		t, err := s.Agent().Files.WriteTree(ctx, s.Channels().NewWire(),
			wire.TreeWrite{Path: p.Path}, body)
		return protocol.Tree{
			Path: t.Path, Files: t.Files, Folders: t.Folders, Links: t.Links, Skipped: t.Skipped,
			Bytes: t.Bytes,
		}, err
	}, reply)
}

// receive passes the following Data to write, in the background, and replies with its result.
func receive[R any](
	ctx context.Context, c *call, p protocol.FileRef,
	write func(*session.Session, io.Reader) (R, error), reply func(R, error),
) error {
	if err := wire.CheckPath(c.op(), "path", p.Path); err != nil {
		return err
	}
	s, err := c.session(p.Session)
	if err != nil {
		return err
	}
	u, err := c.addUpload("this link writes another file already",
		"writing a file needs a separate link")
	if err != nil {
		return err
	}
	c.recordLater = true
	c.work.Go(func() {
		// A client that sends nothing must still learn that the session has ended.
		stop := context.AfterFunc(s.Life(), func() { _ = u.pipe.CloseWithError(s.LostError()) })
		defer stop()
		var result R
		var err error
		if p := c.guard(c.op(), func() { result, err = store(ctx, c, s, u, write) }); p != nil {
			err = p
		}
		c.endUpload(u)
		c.server.cfg.Audit.Finish(c.record, result, err)
		reply(result, err)
	})
	return nil
}

// counted is a reader that counts the bytes read.
type counted struct {
	r  io.Reader
	of *activity.Transfer
	n  int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.of.Moved(n)
	return n, err
}

// store calls write to store an upload in a session, and counts the bytes.
func store[R any](
	ctx context.Context, c *call, s *session.Session, body *upload,
	write func(*session.Session, io.Reader) (R, error),
) (R, error) {
	var zero R
	release, err := s.Acquire(ctx)
	if err != nil {
		return zero, err
	}
	defer release()
	var cut atomic.Pointer[error]
	transfer := session.ActivityOf(s).Transfer(func(err error) {
		cut.Store(&err)
		_ = body.pipe.CloseWithError(err)
	})
	defer transfer.End()
	in := &counted{r: body.out, of: transfer}
	result, err := write(s, in)
	if why := cut.Load(); err != nil && why != nil {
		err = *why
	}
	if err != nil {
		return zero, err
	}
	c.server.metrics.filesWritten.Add(1)
	c.server.metrics.fileBytes.Add(in.n)
	s.CountTransfer(in.n, 0)
	if c.record != nil {
		c.record.Bytes = in.n
	}
	return result, nil
}

// fileRead sends the file's description and then its bytes.
func fileRead(ctx context.Context, c *call, p protocol.FileRead,
	reply func(protocol.FilePart, error),
) error {
	read := wire.FileRead{Path: p.Path, Offset: p.Offset, Length: p.Length, IfRange: p.IfRange}
	return transmit(ctx, c, p.FileRef, func(ctx context.Context, s *session.Session,
		opened func(protocol.FilePart), w io.Writer,
	) error {
		_, err := s.Agent().Files.Read(ctx, s.Channels().NewWire(), read,
			func(f wire.FileOpened) error {
				opened(protocol.FilePart{
					File: fileOf(f.FileStat), Offset: f.Offset,
					Length: f.Length,
				})
				return nil
			}, w)
		return err
	}, reply)
}

// treeRead sends a folder's description and then an archive of it.
func treeRead(ctx context.Context, c *call, p protocol.TreeRead,
	reply func(protocol.File, error),
) error {
	return transmit(ctx, c, p.FileRef, func(ctx context.Context, s *session.Session,
		opened func(protocol.File), w io.Writer,
	) error {
		return s.Agent().Files.ReadTree(ctx, s.Channels().NewWire(),
			wire.TreeRead{Path: p.Path, Archive: p.Archive}, func(f wire.FileStat) error {
				opened(fileOf(f))
				return nil
			}, w)
	}, reply)
}

// transmit replies with the description from read, and sends the bytes that read writes as Data.
// When read fails after the description, an error with the same id follows and the link ends
// without a last Data frame.
func transmit[R any](
	ctx context.Context, c *call, p protocol.FileRef,
	read func(ctx context.Context, s *session.Session, opened func(R), w io.Writer) error,
	reply func(R, error),
) error {
	if err := wire.CheckPath(c.op(), "path", p.Path); err != nil {
		return err
	}
	_, err := withSession(ctx, c, p.Session, func(s *session.Session) (none, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var began atomic.Bool
		transfer := session.ActivityOf(s).Transfer(func(err error) {
			cancel(err)
			if began.Load() { // it waits for the client, which has the header of the response
				_ = c.link.Close()
			}
		})
		defer transfer.End()
		out := &download{link: c.link, channel: c.request.Ch, of: transfer}
		err := read(ctx, s, func(result R) {
			began.Store(true)
			reply(result, nil)
		}, out)
		if cut, ok := context.Cause(ctx).(*fault.Error); ok && err != nil {
			err = cut
		}
		if err == nil {
			err = c.link.Send(frame.Frame{
				Type: frame.Data, Flags: frame.FlagEnd,
				Channel: c.request.Ch,
			})
		}
		if err != nil && began.Load() {
			c.fail(err)
			_ = c.link.Close()
			return none{}, nil
		}
		if err != nil {
			return none{}, err
		}
		c.server.metrics.filesRead.Add(1)
		c.server.metrics.fileBytes.Add(out.n)
		s.CountTransfer(0, out.n)
		if c.record != nil {
			c.record.Bytes = out.n
		}
		return none{}, nil
	})
	return err
}

// download sends the bytes written to it as Data frames. It waits for a slow link.
type download struct {
	link interface {
		Send(...frame.Frame) error
	}
	channel uint32
	of      *activity.Transfer
	n       int64
}

func (d *download) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		part := p[sent:min(len(p), sent+filePart)]
		if err := d.link.Send(frame.Frame{
			Type: frame.Data, Channel: d.channel,
			Body: part,
		}); err != nil {
			return sent, err
		}
		sent += len(part)
		d.of.Moved(len(part))
		d.n += int64(len(part))
	}
	return len(p), nil
}
