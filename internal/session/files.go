package session

import (
	"context"
	"io"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// filePart is how much of a file one Data frame carries, in bytes.
const filePart = 64 << 10

// fileAt checks what a request names and finds its session, awake until end is
// called.
func (c *linkHandler) fileAt(ctx context.Context, op string, p protocol.FileRef) (s *Session, end func(), err error) {
	if err := checkPath(op, "path", p.Path); err != nil {
		return nil, nil, err
	}
	if s, err = c.m.Find(c.principal, p.Session); err != nil {
		return nil, nil, err
	}
	end, err = s.Acquire(ctx)
	return s, end, err
}

func fileOf(f wire.FileStat) protocol.File {
	return protocol.File{
		Path: f.Path, Type: f.Type, Size: f.Size, Mode: f.Mode, ModifiedMS: f.Modified,
		Dir: f.Dir, ETag: f.ETag, Target: f.Target, Raw: f.Raw,
	}
}

// onFile is an operation that asks the agent one thing about a file and
// answers with what the file is then.
func onFile(ctx context.Context, c *linkHandler, op string, p protocol.FileRef, do func(*client.Client) (wire.FileStat, error)) (any, error) {
	s, end, err := c.fileAt(ctx, op, p)
	if err != nil {
		return nil, err
	}
	defer end()
	f, err := do(s.agent)
	if err != nil {
		return nil, err
	}
	return fileOf(f), nil
}

func opFileStat(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.FileRef](r)
	if err != nil {
		return nil, err
	}
	return onFile(ctx, c, r.Op, p, func(a *client.Client) (wire.FileStat, error) { return a.Files.Stat(ctx, p.Path) })
}

func opFileMkdir(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.FileRef](r)
	if err != nil {
		return nil, err
	}
	return onFile(ctx, c, r.Op, p, func(a *client.Client) (wire.FileStat, error) { return a.Files.Mkdir(ctx, p.Path) })
}

func fileMove(r protocol.Request) (protocol.FileMove, wire.FileMove, error) {
	p, err := params[protocol.FileMove](r)
	if err == nil {
		err = checkPath(r.Op, "to", p.To)
	}
	return p, wire.FileMove{Path: p.Path, To: p.To, Overwrite: p.Overwrite}, err
}

func opFileMove(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, move, err := fileMove(r)
	if err != nil {
		return nil, err
	}
	return onFile(ctx, c, r.Op, p.FileRef, func(a *client.Client) (wire.FileStat, error) { return a.Files.Move(ctx, move) })
}

func opFileCopy(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, move, err := fileMove(r)
	if err != nil {
		return nil, err
	}
	return onFile(ctx, c, r.Op, p.FileRef, func(a *client.Client) (wire.FileStat, error) { return a.Files.Copy(ctx, move) })
}

func opFileRemove(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.FileRemove](r)
	if err != nil {
		return nil, err
	}
	s, end, err := c.fileAt(ctx, r.Op, p.FileRef)
	if err != nil {
		return nil, err
	}
	defer end()
	return nothing{}, s.agent.Files.Remove(ctx, wire.FileRemove{Path: p.Path, Recursive: p.Recursive})
}

func opFileList(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.FileList](r)
	if err != nil {
		return nil, err
	}
	s, end, err := c.fileAt(ctx, r.Op, p.FileRef)
	if err != nil {
		return nil, err
	}
	defer end()
	page, err := s.agent.Files.List(ctx, wire.FileList{Path: p.Path, Limit: p.Limit, After: p.After})
	if err != nil {
		return nil, err
	}
	out := protocol.FileListing{Path: page.Path, Entries: make([]protocol.File, len(page.Entries)), Next: page.Next}
	for i, e := range page.Entries {
		out.Entries[i] = fileOf(e)
	}
	return out, nil
}

// upload is a file that is being written. The link's reader feeds it; where
// the sandbox is slow, the reader waits, which holds this link back and no
// other: a file has a link of its own.
type upload struct {
	pipe *io.PipeWriter
	once sync.Once
}

// cut ends an upload that is not complete: nothing is written.
func (u *upload) cut() {
	u.once.Do(func() {
		_ = u.pipe.CloseWithError(fault.New(fault.Canceled, "file.write", "the upload was cut short; nothing was written"))
	})
}

func (u *upload) finish() { u.once.Do(func() { _ = u.pipe.Close() }) }

// opFileWrite begins an upload; the reply comes when the file is whole.
func opFileWrite(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.FileWrite](r)
	if err != nil {
		return nil, err
	}
	if p.Mode > 0o777 {
		return nil, fault.Invalid(r.Op, "mode", "a mode is permission bits, at most 0777")
	}
	w := wire.FileWrite{Path: p.Path, Mode: p.Mode, IfMatch: p.IfMatch, IfAbsent: p.IfAbsent}
	return c.receive(ctx, r, p.FileRef, func(s *Session, body io.Reader) (any, error) {
		f, err := s.agent.Files.Write(ctx, s.router.number(), w, body)
		return fileOf(f), err
	})
}

// opTreeWrite begins the upload of an archive.
func opTreeWrite(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.FileRef](r)
	if err != nil {
		return nil, err
	}
	return c.receive(ctx, r, p, func(s *Session, body io.Reader) (any, error) {
		t, err := s.agent.Files.WriteTree(ctx, s.router.number(), p.Path, body)
		return protocol.Tree{Path: t.Path, Files: t.Files, Folders: t.Folders, Links: t.Links, Skipped: t.Skipped, Bytes: t.Bytes}, err
	})
}

// receive has write take the Data that follows, and answers with its result.
func (c *linkHandler) receive(ctx context.Context, r protocol.Request, p protocol.FileRef, write func(*Session, io.Reader) (any, error)) (any, error) {
	if err := checkPath(r.Op, "path", p.Path); err != nil {
		return nil, err
	}
	s, err := c.m.Find(c.principal, p.Session)
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	u := &upload{pipe: in}
	c.mu.Lock()
	switch {
	case c.attached == nil:
		err = fault.New(fault.Canceled, r.Op, "the link has ended")
	case c.upload != nil:
		err = fault.New(fault.Conflict, r.Op, "a file is being written over this link already")
	case len(c.attached) > 0:
		err = fault.New(fault.Conflict, r.Op, "a file is written over a link of its own")
	default:
		c.upload = u
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	e := entryOf(ctx)
	if e != nil {
		e.later = true
	}
	c.work.Go(func() {
		// A client that sends nothing more must still hear of the end.
		stop := context.AfterFunc(s.life, func() { _ = out.CloseWithError(s.LostError()) })
		defer stop()
		result, err := s.receive(ctx, out, write)
		// Data that is still to come is passed over.
		_ = out.CloseWithError(io.ErrClosedPipe)
		c.mu.Lock()
		if c.upload == u {
			c.upload = nil
		}
		c.mu.Unlock()
		c.m.recorded(e, result, err)
		c.reply(r.ID, result, err)
	})
	return answered{}, nil
}

func (s *Session) receive(ctx context.Context, body io.Reader, write func(*Session, io.Reader) (any, error)) (any, error) {
	end, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	counted := &counted{r: body}
	result, err := write(s, counted)
	if err != nil {
		return nil, err
	}
	s.m.count.filesWritten.Add(1)
	s.m.count.fileBytes.Add(counted.n)
	s.meter.in.Add(counted.n)
	if e := entryOf(ctx); e != nil {
		e.Bytes = counted.n
	}
	return result, nil
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// data feeds the upload. Without one it is what follows a write that failed.
func (c *linkHandler) data(f stream.Frame) {
	c.mu.Lock()
	u := c.upload
	c.mu.Unlock()
	if u == nil {
		return
	}
	if len(f.Body) > 0 {
		// It fails when the write has failed, which its reply says.
		_, _ = u.pipe.Write(f.Body)
	}
	if f.Flags&stream.FlagEnd != 0 {
		u.finish()
	}
}

// opFileRead sends the file's description and then its bytes.
func opFileRead(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.FileRead](r)
	if err != nil {
		return nil, err
	}
	read := wire.FileRead{Path: p.Path, Offset: p.Offset, Length: p.Length, IfRange: p.IfRange}
	return c.transmit(ctx, r, p.FileRef, func(s *Session, opened func(any), w io.Writer) error {
		_, err := s.agent.Files.Read(ctx, s.router.number(), read, func(f wire.FileOpened) error {
			opened(protocol.FilePart{File: fileOf(f.FileStat), Offset: f.Offset, Length: f.Length})
			return nil
		}, w)
		return err
	})
}

// opTreeRead sends a folder's description and then an archive of it.
func opTreeRead(ctx context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.TreeRead](r)
	if err != nil {
		return nil, err
	}
	return c.transmit(ctx, r, p.FileRef, func(s *Session, opened func(any), w io.Writer) error {
		return s.agent.Files.ReadTree(ctx, s.router.number(), wire.TreeRead{Path: p.Path, Archive: p.Archive}, func(f wire.FileStat) error {
			opened(fileOf(f))
			return nil
		}, w)
	})
}

// transmit sends what read opens, and then what it writes as Data. When it
// fails between the two, an error with the same id follows and the link ends
// without a last Data frame.
func (c *linkHandler) transmit(ctx context.Context, r protocol.Request, p protocol.FileRef, read func(s *Session, opened func(any), w io.Writer) error) (any, error) {
	s, end, err := c.fileAt(ctx, r.Op, p)
	if err != nil {
		return nil, err
	}
	defer end()
	out := &download{link: c.link, channel: r.Ch}
	began := false
	err = read(s, func(result any) {
		began = true
		c.reply(r.ID, result, nil)
	}, out)
	if err == nil {
		err = c.link.Send(stream.Frame{Type: stream.Data, Flags: stream.FlagEnd, Channel: r.Ch})
	}
	if err != nil && began {
		c.reply(r.ID, nil, err)
		_ = c.link.Close()
		return answered{}, nil
	}
	if err != nil {
		return nil, err
	}
	s.m.count.filesRead.Add(1)
	s.m.count.fileBytes.Add(out.n)
	s.meter.out.Add(out.n)
	if e := entryOf(ctx); e != nil {
		e.Bytes = out.n
	}
	return answered{}, nil
}

// download sends what is written to it as Data frames. A slow link holds it
// back.
type download struct {
	link interface {
		Send(...stream.Frame) error
	}
	channel uint32
	n       int64
}

func (d *download) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		part := p[sent:min(len(p), sent+filePart)]
		if err := d.link.Send(stream.Frame{Type: stream.Data, Channel: d.channel, Body: part}); err != nil {
			return sent, err
		}
		sent += len(part)
		d.n += int64(len(part))
	}
	return len(p), nil
}
