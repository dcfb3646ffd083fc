package files

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// put writes the body to a file or, with archive=tar, to a tree.
func (s *Surface) put(w http.ResponseWriter, r *http.Request) error {
	if form := r.URL.Query().Get("archive"); form != "" {
		return s.putTree(w, r, form)
	}
	ref, err := fileOf(r)
	if err != nil {
		return err
	}
	return s.putFile(w, r, ref)
}

// putFile writes the body to a file.
func (s *Surface) putFile(w http.ResponseWriter, r *http.Request, ref protocol.FileRef) error {
	const op = "files.write"
	query := r.URL.Query()
	p := protocol.FileWrite{FileRef: ref}
	if m := query.Get("mode"); m != "" {
		bits, err := strconv.ParseUint(m, 8, 32)
		if err != nil || bits > 0o777 {
			return fault.Invalid(op, "mode", "a mode is octal, at most 777")
		}
		p.Mode = uint32(bits)
	}
	switch none := r.Header.Get("If-None-Match"); none {
	case "":
	case "*":
		p.IfAbsent = true
	default:
		return fault.Invalid(op, "If-None-Match", "a write accepts only If-None-Match: *")
	}
	if match := r.Header.Get("If-Match"); match != "" {
		if p.IfMatch = fileclient.ParseETag(match); p.IfMatch == "" {
			return fault.Invalid(op, "If-Match", "a write accepts one ETag, in quotes")
		}
	}
	var f protocol.File
	if err := s.Upload(s.context(r), surface.CallOf(r).Who, protocol.OpFileWrite, p, r.Body,
		&f); err != nil {
		return err
	}
	w.Header().Set("ETag", etagHeader(f.ETag))
	return surface.WriteJSON(w, http.StatusOK, f)
}

// putTree unpacks the body, a tar archive, into a folder.
func (s *Surface) putTree(w http.ResponseWriter, r *http.Request, form string) error {
	ref, err := folderOf(r)
	if err != nil {
		return err
	}
	if form != "tar" {
		return fault.Invalid("files.write", "archive", "only tar archives can be unpacked")
	}
	var t protocol.Tree
	if err := s.Upload(s.context(r), surface.CallOf(r).Who, protocol.OpTreeWrite, ref, r.Body,
		&t); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, t)
}

// WriteText writes a small file.
func (s *Surface) WriteText(ctx context.Context, who noderpc.Principal, file protocol.FileRef,
	content string,
) error {
	var f protocol.File
	return s.Upload(ctx, who, protocol.OpFileWrite, protocol.FileWrite{FileRef: file},
		strings.NewReader(content), &f)
}

// Upload sends the bytes of r to the node, as the Data frames of an operation on a link of its own,
// while they arrive. If r fails, the link ends without FlagEnd and the node writes nothing.
func (s *Surface) Upload(ctx context.Context, who noderpc.Principal, op string, params any,
	r io.Reader, result any,
) error {
	l, err := s.cfg.Node.Open(ctx, who)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	return fileclient.Write(l, op, params, r, s.cfg.Call, result)
}
