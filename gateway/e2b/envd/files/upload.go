package files

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/envd/user"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of one request.
const (
	maxFiles   = 10_000 // files in a form
	maxSources = 1000   // files that are joined
)

// Post writes files: those of a form, or the body.
func (s *Handler) Post(w http.ResponseWriter, r *http.Request) error {
	const op = "files.write"
	t, err := s.allowed(r)
	if err != nil {
		return err
	}
	for name := range r.Header {
		if strings.HasPrefix(strings.ToLower(name), "x-metadata-") {
			return fault.New(fault.InvalidArgument, op,
				"files of this server have no metadata; remove the header %s", name)
		}
	}
	body, err := plainBody(r)
	if err != nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	var all []written
	switch {
	case kind == "multipart/form-data" && params["boundary"] != "":
		all, err = s.form(r, t, multipart.NewReader(body, params["boundary"]))
	case kind == "application/octet-stream":
		all, err = s.one(r, t, body)
	default:
		return sandbox.WithStatus(http.StatusUnsupportedMediaType, fault.New(fault.InvalidArgument,
			op, "the content type is multipart/form-data or application/octet-stream"))
	}
	if err != nil {
		return cut(bodyError(err))
	}
	return surface.WriteJSON(w, http.StatusOK, all)
}

// plainBody returns the body without its compression.
func plainBody(r *http.Request) (io.Reader, error) {
	const op = "files.encoding"
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return r.Body, nil
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, bodyError(err)
		}
		return z, nil
	default:
		return nil, fault.New(fault.InvalidArgument, op,
			"the encoding of a body is gzip or identity, not %.64q", encoding)
	}
}

// bodyError returns the error for a body that is not valid.
func bodyError(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || errors.Is(err, http.ErrAbortHandler) ||
		fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.New(fault.Malformed, "files.body", "the body cannot be read: %.200s", err)
}

// one writes the body to the file of the query.
func (s *Handler) one(r *http.Request, t remote.Target, body io.Reader) ([]written, error) {
	name := r.URL.Query().Get("path")
	if name == "" {
		return nil, fault.New(fault.InvalidArgument, "files.write",
			"the query has no path, which this content type needs")
	}
	file, err := remote.Path(name)
	if err != nil {
		return nil, err
	}
	f, err := s.write(r.Context(), t, file, body)
	return []written{f}, err
}

// form writes the files of a form. Other parts are left out.
func (s *Handler) form(r *http.Request, t remote.Target, in *multipart.Reader) ([]written, error) {
	const op = "files.write"
	all := []written{}
	for {
		part, err := in.NextRawPart()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if part.FormName() != "file" {
			continue
		}
		name := r.URL.Query().Get("path")
		if name == "" {
			// FileName has no folders.
			_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			if name = params["filename"]; err != nil || name == "" {
				return nil, fault.New(fault.InvalidArgument, op,
					"the query has no path, and a part has no file name")
			}
		}
		file, err := remote.Path(name)
		if err != nil {
			return nil, err
		}
		switch {
		case slices.ContainsFunc(all, func(w written) bool { return w.Path == file }):
			return nil, fault.New(fault.InvalidArgument, op,
				"there are several files for the path '%s'", file)
		case len(all) >= maxFiles:
			return nil, fault.New(fault.TooLarge, op, "a form has at most %d files", maxFiles)
		}
		f, err := s.write(r.Context(), t, file, part)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
}

// compose is the body of POST /files/compose.
type compose struct {
	SourcePaths []string `json:"source_paths"`
	Destination string   `json:"destination"`
	Username    string   `json:"username"`
}

// Compose joins files to one, and removes them afterwards.
func (s *Handler) Compose(w http.ResponseWriter, r *http.Request) error {
	const op = "files.compose"
	t, err := s.allowed(r)
	if err != nil {
		return err
	}
	q, err := composeOf(r)
	if err != nil {
		return err
	}
	l, err := remote.Open(r.Context(), s.cfg.Config, t)
	if err != nil {
		return cut(err)
	}
	defer func() { _ = l.Close() }()
	for _, source := range q.SourcePaths {
		switch f, err := l.Stat(source, false); {
		case remote.Missing(err):
			return missing(source)
		case err != nil:
			return cut(err)
		case f.Type != "file":
			return fault.New(fault.InvalidArgument, op, "path '%s' is not a regular file", source)
		}
	}
	in := &joined{s: s, r: r, t: t, rest: q.SourcePaths}
	defer in.close()
	f, err := s.write(r.Context(), t, q.Destination, in)
	if err != nil {
		return cut(err)
	}
	for _, source := range q.SourcePaths {
		err := l.Call(protocol.OpFileRemove, protocol.FileRemove{FileRef: l.Ref(source)}, nil)
		if err != nil && !remote.Missing(err) {
			return cut(err)
		}
	}
	return surface.WriteJSON(w, http.StatusOK, f)
}

// composeOf reads and checks the body of a request, and makes its paths absolute.
func composeOf(r *http.Request) (q compose, err error) {
	const op = "files.compose"
	if err := surface.DecodeJSON(io.LimitReader(r.Body, 8<<20), &q); err != nil {
		return q, err
	}
	if err := user.Check(q.Username); err != nil {
		return q, err
	}
	if q.Destination == "" || len(q.SourcePaths) == 0 || len(q.SourcePaths) > maxSources {
		return q, fault.New(fault.InvalidArgument, op,
			"a destination and 1 to %d source_paths are needed", maxSources)
	}
	if q.Destination, err = remote.Path(q.Destination); err != nil {
		return q, err
	}
	for i, source := range q.SourcePaths {
		if q.SourcePaths[i], err = remote.Path(source); err != nil {
			return q, err
		}
		if q.SourcePaths[i] == q.Destination {
			return q, fault.New(fault.InvalidArgument, op, "'%s' is a source and the destination",
				path.Clean(source))
		}
	}
	return q, nil
}

// joined reads files one after the other. Each has a link of its own.
type joined struct {
	s    *Handler
	r    *http.Request
	t    remote.Target
	rest []string
	link *remote.Link
	now  io.Reader
}

// Read returns bytes of the files.
func (j *joined) Read(p []byte) (int, error) {
	for {
		if j.now == nil {
			if len(j.rest) == 0 {
				return 0, io.EOF
			}
			if err := j.open(j.rest[0]); err != nil {
				return 0, err
			}
			j.rest = j.rest[1:]
		}
		n, err := j.now.Read(p)
		if err == io.EOF {
			j.close()
			err = nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (j *joined) open(file string) (err error) {
	if j.link, err = remote.Open(j.r.Context(), j.s.cfg.Config, j.t); err != nil {
		return err
	}
	var f protocol.FilePart
	j.now, err = fileclient.Open(j.r.Context(), j.link, protocol.OpFileRead,
		protocol.FileRead{FileRef: j.link.Ref(file)}, &f)
	if err != nil {
		return fmt.Errorf("reading %.200q: %w", file, err)
	}
	return nil
}

func (j *joined) close() {
	if j.link != nil {
		_ = j.link.Close()
	}
	j.link, j.now = nil, nil
}
