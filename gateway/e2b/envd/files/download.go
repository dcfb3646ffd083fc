package files

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	stdmime "mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/mime"
)

// copySize is the size of the buffer of a download, in bytes.
const copySize = 32 << 10

// Get sends a file or a part of it.
func (s *Handler) Get(w http.ResponseWriter, r *http.Request) error {
	t, err := s.allowed(r)
	if err != nil {
		return err
	}
	compress, err := encodingOf(r.Header)
	if err != nil {
		return err
	}
	file, err := remote.Path(r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	l, err := remote.Open(r.Context(), s.cfg.Config, t)
	if err != nil {
		return cut(err)
	}
	defer func() { _ = l.Close() }()
	p := protocol.FileRead{FileRef: l.Ref(file)}
	ranged := fileclient.ParseRange(r.Header.Get("Range"), &p)
	if cond := r.Header.Get("If-Range"); ranged && cond != "" {
		if p.IfRange = fileclient.ParseETag(cond); p.IfRange == "" {
			p.Offset, p.Length, ranged = 0, 0, false // a date or a weak ETag never matches
		}
	}
	var f protocol.FilePart
	opening, cancel := context.WithTimeout(r.Context(), s.cfg.Call)
	defer cancel()
	body, err := fileclient.Open(opening, l, protocol.OpFileRead, p, &f)
	if err != nil {
		return readError(l, file, err)
	}
	h := w.Header()
	setHeaders(h, f.File)
	d := delivery{status: http.StatusOK, size: f.Length, compress: compress && !ranged}
	switch {
	case r.Header.Get("If-None-Match") == h.Get("ETag"):
		w.WriteHeader(http.StatusNotModified)
		return nil
	case ranged && p.Offset != 0 && f.Offset >= f.Size:
		h.Set("Content-Range", fmt.Sprintf("bytes */%d", f.Size))
		return sandbox.WithStatus(http.StatusRequestedRangeNotSatisfiable,
			fault.New(fault.InvalidArgument, "files.read", "the file has %d bytes", f.Size))
	case ranged && (p.IfRange == "" || p.IfRange == f.ETag) && f.Length > 0:
		d.status = http.StatusPartialContent
		h.Set("Content-Range",
			fmt.Sprintf("bytes %d-%d/%d", f.Offset, f.Offset+f.Length-1, f.Size))
	}
	d.send(w, r, body)
	return nil
}

// readError returns the error for a file that cannot be read.
func readError(l *remote.Link, file string, err error) error {
	switch {
	case remote.Missing(err):
		return missing(file)
	case fault.Is(err, fault.InvalidArgument):
		if f, serr := l.Stat(file, false); serr == nil && f.Dir {
			return isFolder(file)
		}
	}
	return cut(remote.Gone(err))
}

// setHeaders sets the headers for a file. Its content cannot run as a page of this server.
func setHeaders(h http.Header, f protocol.File) {
	name := path.Base(f.Path)
	h.Set("Content-Type", mime.TypeOf(name))
	if kind := stdmime.FormatMediaType("inline", map[string]string{"filename": name}); kind != "" {
		h.Set("Content-Disposition", kind)
	} else {
		h.Set("Content-Disposition", "inline")
	}
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("ETag", `"`+f.ETag+`"`)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Vary", "Accept-Encoding")
	h.Set("Last-Modified", time.UnixMilli(f.ModifiedMS).UTC().Format(http.TimeFormat))
}

// delivery is a file on its way to the client.
type delivery struct {
	status   int
	size     int64
	compress bool
}

// send sends the file as the body of the response. If it cannot be read to its end, send cuts the
// response, so that the client does not take a part for the whole.
func (d delivery) send(w http.ResponseWriter, r *http.Request, body io.Reader) {
	h := w.Header()
	out := io.Writer(w)
	var z *gzip.Writer
	if d.compress && d.size > 0 {
		h.Set("Content-Encoding", "gzip")
		h.Del("Accept-Ranges")
		h.Set("ETag", "W/"+h.Get("ETag"))
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		out = z
	} else {
		h.Set("Content-Length", strconv.FormatInt(d.size, 10))
	}
	w.WriteHeader(d.status)
	if r.Method == http.MethodHead {
		return
	}
	fail := func(err error) {
		surface.CallOf(r).Err = err
		panic(http.ErrAbortHandler)
	}
	buf := make([]byte, copySize)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, werr := out.Write(buf[:n]); werr != nil {
				return // the client has disconnected
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			fail(err)
		}
	}
	if z != nil {
		_ = z.Close() // the client has disconnected if it fails
	}
}

// encodingOf reports whether the content is compressed. It is if the client asks for gzip and for
// no other compression: clients that list all of theirs get the bytes as they are. Errors: one with
// the status 406 if the client takes neither.
func encodingOf(h http.Header) (compress bool, err error) {
	plain, gzipped, others := true, false, false
	rest := "" // whether encodings that are not listed are wanted
	listed := map[string]bool{}
	for _, header := range h.Values("Accept-Encoding") {
		for item := range strings.SplitSeq(header, ",") {
			name, params, err := stdmime.ParseMediaType(strings.TrimSpace(item))
			if err != nil {
				continue
			}
			quality, err := strconv.ParseFloat(params["q"], 64)
			wanted := params["q"] == "" || err == nil && quality > 0
			listed[name] = true
			switch name {
			case "identity":
				plain = wanted
			case "gzip", "x-gzip":
				gzipped = wanted
			case "*":
				rest = strconv.FormatBool(wanted)
			default:
				others = others || wanted
			}
		}
	}
	if rest == "false" && !listed["identity"] {
		plain = false
	}
	if rest == "true" && !listed["gzip"] && !plain {
		gzipped = true
	}
	if !plain && !gzipped {
		return false, sandbox.WithStatus(http.StatusNotAcceptable, fault.New(fault.InvalidArgument,
			"files.encoding", "the encodings of files are gzip and identity"))
	}
	return gzipped && (!others || !plain), nil
}
