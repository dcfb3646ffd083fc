package files

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// copySize is the size of the buffer of a download, in bytes.
const copySize = 32 << 10

// get sends a file or a part of it. With the query stat it sends the properties of a file or folder,
// with list the entries of a folder, and with archive a tree as an archive.
func (s *Surface) get(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	switch {
	case query.Has("stat"):
		ref, err := folderOf(r)
		if err != nil {
			return err
		}
		p := protocol.FileStat{FileRef: ref, NoFollow: query.Get("follow") == "false"}
		return s.call(w, r, s.cfg.Call, http.StatusOK, protocol.OpFileStat, p, new(protocol.File))
	case query.Has("list"):
		return s.list(w, r)
	case query.Has("archive"):
		return s.getTree(w, r, query.Get("archive"))
	}
	ref, err := fileOf(r)
	if err != nil {
		return err
	}
	return s.getFile(w, r, ref)
}

func (s *Surface) getFile(w http.ResponseWriter, r *http.Request, ref protocol.FileRef) error {
	p := protocol.FileRead{FileRef: ref}
	ranged := fileclient.ParseRange(r.Header.Get("Range"), &p)
	if cond := r.Header.Get("If-Range"); ranged && cond != "" {
		if p.IfRange = fileclient.ParseETag(cond); p.IfRange == "" {
			p.Offset, p.Length, ranged = 0, 0, false // a date or a weak ETag never matches
		}
	}
	var f protocol.FilePart
	body, err := s.open(r, protocol.OpFileRead, p, &f)
	if err != nil {
		return err
	}
	defer body.drop()
	h := w.Header()
	setHeaders(h, r, f.File)
	status := http.StatusOK
	switch {
	case r.Header.Get("If-None-Match") == etagHeader(f.ETag):
		w.WriteHeader(http.StatusNotModified)
		return nil
	case ranged && p.Offset != 0 && f.Offset >= f.Size:
		return unsatisfied(w, r, f.Size)
	case ranged && (p.IfRange == "" || p.IfRange == f.ETag):
		if f.Length > 0 { // an empty file has no range
			status = http.StatusPartialContent
			h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", f.Offset, f.Offset+f.Length-1,
				f.Size))
		}
	}
	// The size of some files is unknown until they are read.
	size := f.Length
	if f.Size <= 0 {
		size = -1
	}
	return body.send(w, r, status, size)
}

// unsatisfied answers a range after the end of the file. It is not counted as an error.
func unsatisfied(w http.ResponseWriter, r *http.Request, size int64) error {
	err := fault.Invalid("files.read", "Range", "the file has %d bytes", size)
	body, p := surface.ErrorBody(err, surface.CallOf(r).Trace)
	h := w.Header()
	h.Set("Content-Range", fmt.Sprintf("bytes */%d", size))
	surface.SetErrorHeader(h.Set, p)
	w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
	_, _ = w.Write(body) // a client that has disconnected needs no answer
	return nil
}

// getTree sends a folder as an archive, which is created while it is sent.
func (s *Surface) getTree(w http.ResponseWriter, r *http.Request, form string) error {
	ref, err := folderOf(r)
	if err != nil {
		return err
	}
	var f protocol.File
	body, err := s.open(r, protocol.OpTreeRead, protocol.TreeRead{FileRef: ref, Archive: form}, &f)
	if err != nil {
		return err
	}
	defer body.drop()
	name := path.Base(f.Path)
	if name == "/" {
		name = "root"
	}
	h := w.Header()
	setHeaders(h, r, f)
	for _, other := range []string{"ETag", "Accept-Ranges", "X-File-Type"} {
		h.Del(other)
	}
	h.Set("Content-Type", map[string]string{
		"tar": "application/x-tar",
		"zip": "application/zip",
	}[form])
	h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(name+"."+form))
	return body.send(w, r, http.StatusOK, -1)
}

// open sends an operation to the node whose reply is followed by Data frames.
func (s *Surface) open(r *http.Request, op string, params, result any) (*reader, error) {
	l, err := s.cfg.Node.Open(s.context(r), surface.CallOf(r).Who)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(s.cfg.Base, func() { _ = l.Close() })
	drop := func() { stop(); _ = l.Close() }
	ctx, cancel := context.WithTimeout(s.cfg.Base, s.cfg.Call)
	defer cancel()
	body, err := fileclient.Open(ctx, l, op, params, result)
	if err != nil {
		drop()
		return nil, err
	}
	return &reader{body, drop}, nil
}

// reader reads the content of a file until it is dropped.
type reader struct {
	*fileclient.Reader
	drop func()
}

// send sends the file as the body of the response. size is -1 if it is unknown: then each part is
// flushed. An error before the first part, which a small file is as a whole, is returned. Later ones
// cut the response, so that the client does not take a part for the whole.
func (b *reader) send(w http.ResponseWriter, r *http.Request, status int, size int64) error {
	buf := make([]byte, copySize)
	flush := func() error { return nil }
	var n int
	var err error
	if size < 0 {
		flush = http.NewResponseController(w).Flush
		n, err = b.Read(buf)
	} else if n, err = io.ReadFull(b, buf); err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	if err != nil && err != io.EOF {
		describes := []string{
			"Content-Disposition", "ETag", "Accept-Ranges", "Last-Modified", "Content-Range",
			"X-File-Mode", "X-File-Type",
		}
		for _, name := range describes {
			w.Header().Del(name)
		}
		return err
	}
	if size >= 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	w.WriteHeader(status)
	for ; ; n, err = b.Read(buf) {
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return nil // the client has disconnected
			}
			if flush() != nil {
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			surface.CallOf(r).Err = err
			panic(http.ErrAbortHandler)
		}
	}
}
