package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/node"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

const (
	// filePart is how much of a file one Data frame carries, in bytes.
	filePart = 64 << 10
	// maxPath bounds a path, in bytes.
	maxPath = 4096
)

// file returns the session and the path of the request. Only the agent inside
// the sandbox opens paths, so there is nothing to escape from; what is
// refused here could not mean anything else than a mistake or an attempt.
func (q *request) file() (protocol.FileRef, error) {
	const op = "gateway.file"
	id, err := q.session()
	if err != nil {
		return protocol.FileRef{}, err
	}
	_, escaped, _ := bytes.Cut(q.Request().URI().PathOriginal(), []byte("/files/"))
	name, err := url.PathUnescape(string(escaped))
	if err != nil {
		return protocol.FileRef{}, fault.Invalid(op, "path", "the path is not percent-encoded well")
	}
	if err := checkPath(name); err != nil {
		return protocol.FileRef{}, err
	}
	ref := protocol.FileRef{Session: id, Path: name}
	if m := q.Query("mode"); m != "" {
		bits, err := strconv.ParseUint(m, 8, 32)
		if err != nil || bits > 0o777 {
			return protocol.FileRef{}, fault.Invalid(op, "mode", "a mode is octal, at most 777")
		}
		ref.Mode = uint32(bits)
	}
	return ref, nil
}

func checkPath(name string) error {
	const op = "gateway.file"
	switch {
	case name == "" || strings.HasSuffix(name, "/"):
		return fault.Invalid(op, "path", "the path names no file")
	case len(name) > maxPath:
		return fault.Invalid(op, "path", "a path has at most %d bytes", maxPath)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fault.Invalid(op, "path", "a path is UTF-8 without NUL")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return fault.Invalid(op, "path", "a path has no .. in it")
		}
	}
	return nil
}

func (g *Gateway) putFile(q *request) error {
	ref, err := q.file()
	if err != nil {
		return err
	}
	f, err := g.writeFile(g.base, q.who, ref, q.body)
	if err != nil {
		return err
	}
	return q.json(fiber.StatusOK, f)
}

// writeFile sends what r holds to the node as it comes. A reader that fails
// leaves no trace of the file: the link ends without FlagEnd, and the agent
// drops what it has.
func (g *Gateway) writeFile(ctx context.Context, who node.Principal, ref protocol.FileRef, r io.Reader) (protocol.File, error) {
	var f protocol.File
	l, err := g.node.Open(ctx, who)
	if err != nil {
		return f, err
	}
	defer func() { _ = l.Close() }()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	if err := send(l, 1, protocol.OpFileWrite, 0, ref); err != nil {
		return f, err
	}
	// The reply comes after the last part, or before it when something is
	// wrong: then the rest need not be sent.
	replied := make(chan error, 1)
	go func() { replied <- awaitReply(l, 1, protocol.OpFileWrite, &f) }()
	fail := func(err error) (protocol.File, error) {
		_ = l.Close()
		<-replied
		return protocol.File{}, err
	}
	part := make([]byte, filePart)
	for {
		n, err := io.ReadFull(r, part)
		// By identity: a body that was cut short may wrap either.
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return fail(err)
		}
		frame := stream.Frame{Type: stream.Data, Body: part[:n]}
		if last {
			frame.Flags = stream.FlagEnd
		}
		serr := l.Send(frame)
		select {
		case rerr := <-replied:
			if rerr == nil && !last {
				rerr = fault.New(fault.Internal, "gateway.file", "the node replied before the file was complete")
			}
			return f, rerr
		default:
		}
		if serr != nil {
			return fail(serr)
		}
		if last {
			break
		}
	}
	timer := time.NewTimer(g.cfg.Times.Call)
	defer timer.Stop()
	select {
	case err := <-replied:
		return f, err
	case <-timer.C:
		return fail(fault.New(fault.DeadlineExceeded, "gateway.file", "the node did not confirm the file"))
	}
}

func awaitReply(l Link, id uint64, op string, result any) error {
	for {
		f, err := next(l)
		if err != nil {
			return err
		}
		if reply, ok := replyTo(f, id); ok {
			return settle(reply, op, result)
		}
	}
}

func (g *Gateway) getFile(q *request) error {
	ref, err := q.file()
	if err != nil {
		return err
	}
	l, err := g.node.Open(g.base, q.who)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(g.base, func() { _ = l.Close() })
	drop := func() { stop(); _ = l.Close() }
	late := time.AfterFunc(g.cfg.Times.Call, func() { _ = l.Close() })
	var f protocol.File
	err = ask(l, 1, protocol.OpFileRead, 0, ref, &f, nil)
	if !late.Stop() && err != nil {
		err = fault.New(fault.DeadlineExceeded, "gateway.file", "the node did not open the file in time")
	}
	if err == nil && f.Dir {
		err = fault.Invalid("gateway.file", "path", "this is a directory")
	}
	if err != nil {
		drop()
		return err
	}
	fileHeaders(q, f)
	// Files such as those in /proc have no size until they are read.
	size := int(f.Size)
	if f.Size <= 0 {
		size = -1
	}
	q.streams = true
	q.Response().SetBodyStream(&fileReader{q: q, l: l, drop: drop}, size)
	return nil
}

func (g *Gateway) statFile(q *request) error {
	ref, err := q.file()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.base, g.cfg.Times.Call)
	defer cancel()
	var f protocol.File
	if err := g.node.Call(ctx, q.who, protocol.OpFileStat, ref, &f); err != nil {
		return err
	}
	fileHeaders(q, f)
	q.Response().SkipBody = true
	q.Response().Header.SetContentLength(int(f.Size))
	return nil
}

// fileHeaders make sure that no browser takes a user's file for a page of
// this server.
func fileHeaders(q *request, f protocol.File) {
	h := &q.Response().Header
	h.SetContentType(fiber.MIMEOctetStream)
	h.Set(fiber.HeaderContentDisposition, "attachment; filename*=UTF-8''"+url.PathEscape(path.Base(f.Path)))
	h.Set(fiber.HeaderContentSecurityPolicy, "sandbox; default-src 'none'")
	h.Set(fiber.HeaderCacheControl, "no-store")
	h.Set(fiber.HeaderLastModified, time.UnixMilli(f.ModifiedMS).UTC().Format(http.TimeFormat))
	h.Set("X-File-Mode", strconv.FormatUint(uint64(f.Mode&0o7777), 8))
	if f.Dir {
		h.Set("X-File-Type", "directory")
	}
}

// fileReader reads the Data frames of a file as fasthttp asks for more. When
// it fails the response is cut off, which a client can tell from its end.
type fileReader struct {
	q    *request
	l    Link
	drop func()
	rest []byte
	last bool
	sent int64
	err  error
}

func (r *fileReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.last {
			return 0, io.EOF
		}
		f, err := next(r.l)
		if err == nil && f.Type == stream.Control {
			err = lateError(f)
		}
		if err != nil {
			r.err = err
			return 0, err
		}
		if f.Type == stream.Data {
			r.rest, r.last = f.Body, f.Flags&stream.FlagEnd != 0
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	r.sent += int64(n)
	return n, nil
}

func (r *fileReader) Close() error {
	r.drop()
	r.q.finish(fiber.StatusOK, r.sent, r.err)
	return nil
}

// lateError is the error that a Control frame among a file's parts tells of.
func lateError(f stream.Frame) error {
	if reply, ok := replyTo(f, 1); ok && reply.Error != nil {
		return reply.Error.Err(protocol.OpFileRead)
	}
	return nil
}
