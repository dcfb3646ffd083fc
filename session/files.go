package session

import (
	"context"
	"io"
	"sync"

	"github.com/sandgate/sandgate/agent"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// filePart is how much of a file one Data frame carries, in bytes.
const filePart = 64 << 10

// fileAt checks a request for a file and finds its session.
func (c *conn) fileAt(r protocol.Request) (*session, protocol.FileRef, error) {
	p, err := params[protocol.FileRef](r)
	if err != nil {
		return nil, p, err
	}
	if err := checkPath(r.Op, "path", p.Path); err != nil {
		return nil, p, err
	}
	if p.Mode > 0o777 {
		return nil, p, fault.Invalid(r.Op, "mode", "a mode is permission bits, at most 0777")
	}
	s, err := c.m.find(c.principal, p.Session)
	return s, p, err
}

func fileOf(f agent.FileStat) protocol.File {
	return protocol.File{Path: f.Path, Size: f.Size, Mode: f.Mode, ModifiedMS: f.Modified, Dir: f.Dir}
}

func opFileStat(ctx context.Context, c *conn, r protocol.Request) (any, error) {
	s, p, err := c.fileAt(r)
	if err != nil {
		return nil, err
	}
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	f, err := s.agent.Stat(ctx, p.Path)
	if err != nil {
		return nil, err
	}
	return fileOf(f), nil
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
func opFileWrite(ctx context.Context, c *conn, r protocol.Request) (any, error) {
	const op = "file.write"
	s, p, err := c.fileAt(r)
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	u := &upload{pipe: in}
	c.mu.Lock()
	switch {
	case c.attached == nil:
		err = fault.New(fault.Canceled, op, "the link has ended")
	case c.upload != nil:
		err = fault.New(fault.Conflict, op, "a file is being written over this link already")
	case len(c.attached) > 0:
		err = fault.New(fault.Conflict, op, "a file is written over a link of its own")
	default:
		c.upload = u
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c.work.Go(func() {
		// A client that sends nothing more must still hear of the end.
		stop := context.AfterFunc(s.life, func() { _ = out.CloseWithError(s.gone()) })
		defer stop()
		file, err := s.write(ctx, p, out)
		// Data that is still to come is passed over.
		_ = out.CloseWithError(io.ErrClosedPipe)
		c.mu.Lock()
		if c.upload == u {
			c.upload = nil
		}
		c.mu.Unlock()
		c.reply(r.ID, file, err)
	})
	return answered{}, nil
}

func (s *session) write(ctx context.Context, p protocol.FileRef, body io.Reader) (protocol.File, error) {
	end, err := s.begin(ctx)
	if err != nil {
		return protocol.File{}, err
	}
	defer end()
	counted := &counted{r: body}
	f, err := s.agent.WriteFile(ctx, s.router.number(), agent.FileWrite{Path: p.Path, Mode: p.Mode}, counted)
	if err != nil {
		return protocol.File{}, err
	}
	s.m.count.filesWritten.Add(1)
	s.m.count.fileBytes.Add(counted.n)
	return fileOf(f), nil
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
func (c *conn) data(f stream.Frame) {
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

// opFileRead sends the file's description and then its bytes. When it fails
// between the two, an error with the same id follows and the link ends without
// a last Data frame.
func opFileRead(ctx context.Context, c *conn, r protocol.Request) (any, error) {
	s, p, err := c.fileAt(r)
	if err != nil {
		return nil, err
	}
	end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	out := &download{link: c.link, channel: r.Ch}
	began := false
	_, err = s.agent.ReadFile(ctx, s.router.number(), p.Path, func(f agent.FileStat) error {
		began = true
		c.reply(r.ID, fileOf(f), nil)
		return nil
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
