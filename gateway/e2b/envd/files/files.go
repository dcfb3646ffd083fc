// Package files serves the contents of files of a sandbox as envd does: it reads, writes and joins
// them. It keeps at most one part of a file in memory.
package files

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/envd/user"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Target is the session of a request.
type Target struct {
	remote.Target
	// Token is set if the request has the sandbox's access token. Other requests need a signature,
	// whose key is AccessToken.
	Token       bool
	AccessToken string
}

// Config configures a Handler. Every field is required.
type Config struct {
	remote.Config
	// Target returns the target of a request by its context.
	Target func(ctx context.Context) Target
}

// Handler serves the routes of files. Its methods return errors for sandbox.WriteError.
type Handler struct{ cfg Config }

// New returns a Handler.
func New(cfg Config) *Handler { return &Handler{cfg} }

// allowed checks the credentials and the user of a request.
func (s *Handler) allowed(r *http.Request) (remote.Target, error) {
	t := s.cfg.Target(r.Context())
	if !t.Token {
		if err := sandbox.CheckSignature(r, t.AccessToken, time.Now()); err != nil {
			return t.Target, err
		}
	}
	if err := user.Check(r.URL.Query().Get("username")); err != nil {
		return t.Target, err
	}
	return t.Target, user.CheckHeader(r.Header)
}

// cut ends the connection if the sandbox has ended.
func cut(err error) error {
	if errors.Is(err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
	return err
}

// missing is the error for a file that does not exist.
func missing(file string) error {
	return fault.New(fault.NotFound, "files.find", "path '%s' does not exist", file)
}

// isFolder is the error for a folder in the place of a file.
func isFolder(file string) error {
	return fault.New(fault.InvalidArgument, "files.find", "path '%s' is a directory", file)
}

// written describes a file that was written.
type written struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"`
}

// write writes a file. A link is followed, and an existing file keeps its mode.
func (s *Handler) write(ctx context.Context, t remote.Target, file string, body io.Reader) (
	written, error,
) {
	done := written{Name: path.Base(file), Path: file, Type: "file"}
	l, err := remote.Open(ctx, s.cfg.Config, t)
	if err != nil {
		return done, err
	}
	defer func() { _ = l.Close() }()
	p := protocol.FileWrite{FileRef: l.Ref(file)}
	there, err := l.Stat(file, true)
	switch {
	case err == nil && there.Dir:
		return done, isFolder(file)
	case err == nil && there.LeadsTo != "":
		p.Path = there.LeadsTo
		if there, err = l.Stat(p.Path, false); err == nil {
			p.Mode = there.Mode & 0o777
		}
	case err == nil && there.Type == "file":
		p.Mode = there.Mode & 0o777
	case err != nil && !remote.Missing(err) && !fault.Is(err, fault.InvalidArgument):
		return done, err // the write itself has a better reason for a path through a file
	}
	var f protocol.File
	if err := fileclient.Write(l, protocol.OpFileWrite, p, body, s.cfg.Call, &f); err != nil {
		return done, remote.Gone(err)
	}
	return done, nil
}
