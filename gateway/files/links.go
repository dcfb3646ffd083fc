package files

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/auth"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/mime"
)

const (
	defaultLinkLife = time.Hour
	maxLinkLife     = 7 * 24 * time.Hour
)

// Links seals and opens links to files.
type Links interface {
	NewFileLinkToken(by noderpc.Principal, file protocol.FileRef, upload bool,
		life time.Duration) (token string, until time.Time, err error)
	OpenFileLink(token string) (auth.FileLink, noderpc.Principal, error)
}

// LinkFile returns a URL on which everybody can read the file, or write it if upload is set, for at
// most a life. r is a request of the principal; the URL leads to the same host.
func (s *Surface) LinkFile(r *http.Request, file protocol.FileRef, upload bool,
	life time.Duration,
) (protocol.FileLink, error) {
	token, until, err := s.cfg.Links.NewFileLinkToken(surface.CallOf(r).Who, file, upload, life)
	return protocol.FileLink{
		URL: surface.BaseURL(r) + "/v1/files/" + token, Session: file.Session, Path: file.Path,
		ExpiresMS: until.UnixMilli(), Upload: upload,
	}, err
}

// createLink answers with a link to a file. A body with a field op is a change of the file that is
// named links.
func (s *Surface) createLink(w http.ResponseWriter, r *http.Request) error {
	const op = "files.link"
	var p struct {
		protocol.FileLinkCreate
		Change
	}
	if err := surface.DecodeJSON(r.Body, &p); err != nil {
		return err
	}
	who := surface.CallOf(r).Who
	if p.Upload || p.Op != "" {
		if err := auth.Permit(op, who, protocol.ScopeWrite); err != nil {
			return err
		}
	}
	if p.Op != "" {
		return s.changeTo(w, r, p.Change)
	}
	if err := surface.SessionInPath(op, r, &p.Session); err != nil {
		return err
	}
	if err := surface.CheckPath(op, p.Path); err != nil {
		return err
	}
	if p.Path == "" || strings.HasSuffix(p.Path, "/") {
		return fault.Invalid(op, "path", "the path names no file")
	}
	life := time.Duration(p.ExpiresSeconds) * time.Second
	if p.ExpiresSeconds == 0 {
		life = defaultLinkLife
	}
	if p.ExpiresSeconds < 0 || life > maxLinkLife {
		return fault.Invalid(op, "expires_seconds", "the value must be from 1 to %d, or 0 for %d",
			int(maxLinkLife/time.Second), int(defaultLinkLife/time.Second))
	}
	if err := s.checkLinked(r, p.FileLinkCreate); err != nil {
		return err
	}
	link, err := s.LinkFile(r, p.FileRef, p.Upload, life)
	if err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusCreated, link)
}

// checkLinked returns an error unless the session exists and, for a link that reads, the file.
func (s *Surface) checkLinked(r *http.Request, p protocol.FileLinkCreate) error {
	ctx, cancel := context.WithTimeout(s.context(r), s.cfg.Call)
	defer cancel()
	who := surface.CallOf(r).Who
	if p.Upload {
		return s.cfg.Node.Call(ctx, who, protocol.OpSessionGet,
			protocol.SessionRef{Session: p.Session}, new(protocol.Session))
	}
	var f protocol.File
	if err := s.cfg.Node.Call(ctx, who, protocol.OpFileStat, p.FileRef, &f); err != nil {
		return err
	}
	if f.Type != "file" {
		return fault.Invalid("files.link", "path", "only files have links")
	}
	return nil
}

// linked returns a handler for the file of a link. The link decides who makes the request.
func (s *Surface) linked(upload bool,
	do func(http.ResponseWriter, *http.Request, protocol.FileRef) error,
) surface.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		l, who, err := s.cfg.Links.OpenFileLink(r.PathValue("token"))
		if err != nil {
			return err
		}
		if l.Upload != upload {
			return fault.New(fault.PermissionDenied, "files.link",
				"this link only reads a file, or only writes it")
		}
		surface.CallOf(r).Who = who
		return do(w, r, protocol.FileRef{Session: l.Session, Path: l.Path})
	}
}

// linkType returns the type with which a link sends a file. A browser never shows a page of a user
// at the address of this server: the headers of setHeaders prevent that for all types, and HTML has
// a type that no browser shows.
func linkType(name string) string {
	switch kind := mime.TypeOf(name); kind {
	case "text/html", "application/xml":
		return "application/octet-stream"
	default:
		return kind
	}
}
