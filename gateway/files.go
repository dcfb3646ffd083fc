package gateway

import (
	"bytes"
	"context"
	"fmt"
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
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
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
	name, err := q.filePath()
	if err == nil && (name == "" || strings.HasSuffix(name, "/")) {
		err = fault.Invalid("gateway.file", "path", "the path names no file")
	}
	return q.fileRef(name, err)
}

// folder is file for what may be a folder too: nothing is the user's home, and
// a slash at the end changes nothing.
func (q *request) folder() (protocol.FileRef, error) {
	name, err := q.filePath()
	if trimmed := strings.TrimRight(name, "/"); trimmed != "" || name == "" {
		name = trimmed
	} else {
		name = "/"
	}
	if name == "" {
		name = "."
	}
	return q.fileRef(name, err)
}

func (q *request) fileRef(name string, err error) (protocol.FileRef, error) {
	if err != nil {
		return protocol.FileRef{}, err
	}
	id, err := q.session()
	return protocol.FileRef{Session: id, Path: name}, err
}

func (q *request) filePath() (string, error) {
	_, escaped, _ := bytes.Cut(q.Request().URI().PathOriginal(), []byte("/files/"))
	name, err := url.PathUnescape(string(escaped))
	if err != nil {
		return "", fault.Invalid("gateway.file", "path", "the path is not percent-encoded well")
	}
	return name, checkPath(name)
}

func checkPath(name string) error {
	const op = "gateway.file"
	switch {
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

// fileAPI answers the requests for files, folders and recordings of sessions.
type fileAPI struct {
	node Node
	// open opens a link whose requests belong to the trace of ctx.
	open func(ctx context.Context, who noderpc.Principal) (Link, error)
	base context.Context
	// call bounds a call of the node.
	call time.Duration
}

// putFile makes the body a file, or, with archive=tar, a tree.
func (a *fileAPI) putFile(q *request) error {
	const op = "gateway.file"
	if form := q.Query("archive"); form != "" {
		return a.putTree(q, form)
	}
	ref, err := q.file()
	if err != nil {
		return err
	}
	w := protocol.FileWrite{FileRef: ref}
	if m := q.Query("mode"); m != "" {
		bits, err := strconv.ParseUint(m, 8, 32)
		if err != nil || bits > 0o777 {
			return fault.Invalid(op, "mode", "a mode is octal, at most 777")
		}
		w.Mode = uint32(bits)
	}
	switch none := q.Get(fiber.HeaderIfNoneMatch); none {
	case "":
	case "*":
		w.IfAbsent = true
	default:
		return fault.Invalid(op, fiber.HeaderIfNoneMatch, "a write takes If-None-Match: * alone")
	}
	if match := q.Get(fiber.HeaderIfMatch); match != "" {
		if w.IfMatch = etagValue(match); w.IfMatch == "" {
			return fault.Invalid(op, fiber.HeaderIfMatch, "a write takes one ETag, in quotes")
		}
	}
	f, err := a.writeFile(q.base(), q.who, w, q.body)
	if err != nil {
		return err
	}
	q.Response().Header.Set(fiber.HeaderETag, etagHeader(f.ETag))
	return q.json(fiber.StatusOK, f)
}

func etagHeader(tag string) string { return `"` + tag + `"` }

// etagValue is what stands between the quotes of one strong ETag, or nothing.
func etagValue(header string) string {
	header = strings.TrimSpace(header)
	if len(header) < 3 || header[0] != '"' || header[len(header)-1] != '"' || strings.ContainsAny(header[1:len(header)-1], `",`) {
		return ""
	}
	return header[1 : len(header)-1]
}

// writeFile sends what r holds to the node as it comes. A reader that fails
// leaves no trace of the file: the link ends without FlagEnd, and the agent
// drops what it has.
func (a *fileAPI) writeFile(ctx context.Context, who noderpc.Principal, p protocol.FileWrite, r io.Reader) (protocol.File, error) {
	var f protocol.File
	return f, a.upload(ctx, who, protocol.OpFileWrite, p, r, &f)
}

// writeText writes a small file.
func (a *fileAPI) writeText(ctx context.Context, who noderpc.Principal, file protocol.FileRef, content string) error {
	_, err := a.writeFile(ctx, who, protocol.FileWrite{FileRef: file}, strings.NewReader(content))
	return err
}

// upload sends what r holds to the node as the Data of an operation, over a
// link of its own.
func (a *fileAPI) upload(ctx context.Context, who noderpc.Principal, op string, params any, r io.Reader, result any) error {
	l, err := a.open(ctx, who)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	if err := nodecall.Send(l, 1, op, 0, params); err != nil {
		return err
	}
	// The reply comes after the last part, or before it when something is
	// wrong: then the rest need not be sent.
	replied := make(chan error, 1)
	go func() { replied <- nodecall.Await(l, 1, op, result, nil) }()
	fail := func(err error) error {
		_ = l.Close()
		<-replied
		return err
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
			return rerr
		default:
		}
		if serr != nil {
			return fail(serr)
		}
		if last {
			break
		}
	}
	timer := time.NewTimer(a.call)
	defer timer.Stop()
	select {
	case err := <-replied:
		return err
	case <-timer.C:
		return fail(fault.New(fault.DeadlineExceeded, "gateway.file", "the node did not confirm the file"))
	}
}

// getFile sends a file or a part of it; or says what it is (stat), what is in
// a folder (list), or sends that as an archive.
func (a *fileAPI) getFile(q *request) error {
	args := q.Context().QueryArgs()
	switch {
	case args.Has("stat"):
		return q.onFolder(protocol.OpFileStat, new(protocol.File))
	case args.Has("list"):
		return a.listFolder(q)
	case args.Has("archive"):
		return a.getTree(q, q.Query("archive"))
	}
	ref, err := q.file()
	if err != nil {
		return err
	}
	p := protocol.FileRead{FileRef: ref}
	ranged := rangeOf(q.Get(fiber.HeaderRange), &p)
	if cond := q.Get(fiber.HeaderIfRange); ranged && cond != "" {
		if p.IfRange = etagValue(cond); p.IfRange == "" {
			p.Offset, p.Length, ranged = 0, 0, false // a date, or a weak one, never fits
		}
	}
	var f protocol.FilePart
	body, err := a.openStream(q, protocol.OpFileRead, p, &f)
	if err != nil {
		return err
	}
	fileHeaders(q, f.File)
	switch {
	case q.Get(fiber.HeaderIfNoneMatch) == etagHeader(f.ETag):
		q.Status(fiber.StatusNotModified)
		body.drop()
		return nil
	case ranged && p.Offset != 0 && f.Offset >= f.Size:
		body.drop()
		return q.unsatisfied(f.Size)
	case ranged && (p.IfRange == "" || p.IfRange == f.ETag):
		q.Status(fiber.StatusPartialContent)
		q.Response().Header.Set(fiber.HeaderContentRange, fmt.Sprintf("bytes %d-%d/%d", f.Offset, f.Offset+f.Length-1, f.Size))
		if f.Length == 0 { // of an empty file: there is no range
			q.Status(fiber.StatusOK)
			q.Response().Header.Del(fiber.HeaderContentRange)
		}
	}
	// Some files have no size until they are read.
	size := int(f.Length)
	if f.Size <= 0 {
		size = -1
	}
	body.send(q, size)
	return nil
}

// rangeOf reads the header Range into p. It is false for none, and for what
// is no single range of bytes: then the whole file is sent, as RFC 9110 has it.
func rangeOf(header string, p *protocol.FileRead) bool {
	spec, ok := strings.CutPrefix(header, "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !ok || !dash || strings.ContainsAny(spec, ", ") {
		return false
	}
	if first == "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n <= 0 {
			return false
		}
		p.Offset = -n
		return true
	}
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil || from < 0 {
		return false
	}
	if last != "" {
		to, err := strconv.ParseInt(last, 10, 64)
		if err != nil || to < from {
			return false
		}
		p.Length = to - from + 1
	}
	p.Offset = from
	return true
}

// unsatisfied answers a range that lies behind the end of the file.
func (q *request) unsatisfied(size int64) error {
	q.Response().Header.Set(fiber.HeaderContentRange, fmt.Sprintf("bytes */%d", size))
	writeError(q.Ctx, fault.Invalid("gateway.file", fiber.HeaderRange, "the file has %d bytes", size), q.span.ID())
	q.Status(fiber.StatusRequestedRangeNotSatisfiable)
	return nil
}

// openStream asks the node for something whose reply Data frames follow.
func (a *fileAPI) openStream(q *request, op string, params, result any) (*fileReader, error) {
	l, err := a.open(q.base(), q.who)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(a.base, func() { _ = l.Close() })
	drop := func() { stop(); _ = l.Close() }
	late := time.AfterFunc(a.call, func() { _ = l.Close() })
	err = nodecall.Call(l, 1, op, 0, params, result, nil)
	if !late.Stop() && err != nil {
		err = fault.New(fault.DeadlineExceeded, "gateway.file", "the node did not open the file in time")
	}
	if err != nil {
		drop()
		return nil, err
	}
	return &fileReader{q: q, l: l, drop: drop}, nil
}

// send makes what follows the response's body; size is -1 where it is unknown.
func (r *fileReader) send(q *request, size int) {
	q.streams = true
	r.status = q.Response().StatusCode() // at the end the response is gone
	q.Response().SetBodyStream(r, size)
}

func (a *fileAPI) statFile(q *request) error {
	ref, err := q.file()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.base(), a.call)
	defer cancel()
	var f protocol.File
	if err := a.node.Call(ctx, q.who, protocol.OpFileStat, ref, &f); err != nil {
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
	h.Set(fiber.HeaderETag, etagHeader(f.ETag))
	h.Set(fiber.HeaderAcceptRanges, "bytes")
	h.Set(fiber.HeaderLastModified, time.UnixMilli(f.ModifiedMS).UTC().Format(http.TimeFormat))
	h.Set("X-File-Mode", strconv.FormatUint(uint64(f.Mode&0o7777), 8))
	if f.Dir {
		h.Set("X-File-Type", "directory")
	}
}

// fileReader reads the Data frames of a file as the response is sent. When
// it fails the response is cut off, which a client can tell from its end.
type fileReader struct {
	q    *request
	l    Link
	drop func()
	rest []byte
	last bool
	sent int64
	err  error

	status int
}

func (r *fileReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.last {
			return 0, io.EOF
		}
		f, err := nodecall.Next(r.l)
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
	r.q.finish(r.status, r.sent, r.err)
	return nil
}

// lateError is the error that a Control frame among a file's parts tells of.
func lateError(f stream.Frame) error {
	if reply, ok := nodecall.ReplyTo(f, 1); ok && reply.Error != nil {
		return reply.Error.Err("gateway.file")
	}
	return nil
}
