// Package files is the surface of the files and folders of sessions: it reads, writes, lists,
// changes and removes them, one at a time or as archives.
package files

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxChange bounds the body of a change, in bytes.
	maxChange = 256 << 10
	// changeLimit is how long a folder may take to be copied or removed. The node has the same
	// limit.
	changeLimit = 5 * time.Minute
)

// Node is the part of a node that the surface uses.
type Node interface {
	// Open opens a link for the principal who, whose requests belong to the trace of ctx.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call makes one request on its own link.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Config configures a Surface. Every field is required.
type Config struct {
	Node Node
	// Base ends when the gateway abandons the requests in progress.
	Base context.Context
	// Call is how long a call of the node may take. The transfer of a file may take longer.
	Call time.Duration
	// MaxFile is the largest body of an upload, in bytes.
	MaxFile int64
	Links   Links
}

// Surface serves the files of sessions.
type Surface struct{ cfg Config }

// New returns a Surface.
func New(cfg Config) *Surface { return &Surface{cfg} }

// Routes returns the routes.
func (s *Surface) Routes() []surface.Route {
	route := func(method string, access protocol.Scope, maxBody int64,
		h surface.HandlerFunc,
	) surface.Route {
		return surface.Route{
			Method: method, Path: "/v1/sessions/:id/files/*", Access: access, MaxBody: maxBody,
			Handler: h,
		}
	}
	routes := []surface.Route{
		// It comes before the routes of all paths, one of which is links.
		{
			Method: "POST", Path: "/v1/sessions/:id/files/links", Access: protocol.ScopeRead,
			MaxBody: maxChange, Handler: surface.HandlerFunc(s.createLink),
		},
		route("PUT", protocol.ScopeWrite, s.cfg.MaxFile, s.put),
		route("GET", protocol.ScopeRead, 0, s.get),
		route("HEAD", protocol.ScopeRead, 0, s.head),
		route("POST", protocol.ScopeWrite, maxChange, s.change),
		route("DELETE", protocol.ScopeWrite, 0, s.remove),
	}
	// The link decides who makes the request, so the routes are open.
	link := func(method string, upload bool, maxBody int64,
		do func(http.ResponseWriter, *http.Request, protocol.FileRef) error,
	) surface.Route {
		return surface.Route{
			Method: method, Path: "/v1/files/:token", Access: protocol.ScopeOpen, MaxBody: maxBody,
			Public: !upload, Handler: s.linked(upload, do),
		}
	}
	return append(routes,
		link("GET", false, 0, s.getFile), link("HEAD", false, 0, s.headFile),
		link("PUT", true, s.cfg.MaxFile, s.putFile))
}

// context returns the context of the calls for a request. It has the trace of the request. It does
// not end when the client disconnects, so that a file whose body has arrived is written.
func (s *Surface) context(r *http.Request) context.Context {
	return trace.With(s.cfg.Base, r.Context())
}

// call sends a request to the node and answers with its result, {} if result is nil.
func (s *Surface) call(w http.ResponseWriter, r *http.Request, limit time.Duration, status int,
	op string, params, result any,
) error {
	ctx, cancel := context.WithTimeout(s.context(r), limit)
	defer cancel()
	if err := s.cfg.Node.Call(ctx, surface.CallOf(r).Who, op, params, result); err != nil {
		return err
	}
	if result == nil {
		result = struct{}{}
	}
	return surface.WriteJSON(w, status, result)
}

// fileOf returns the session and the path of a request for a file. Only the agent in the sandbox
// opens paths, so a path cannot lead out of the sandbox. The check rejects paths that can only be a
// mistake or an attack.
func fileOf(r *http.Request) (protocol.FileRef, error) {
	name, err := pathOf(r)
	if err == nil && (name == "" || strings.HasSuffix(name, "/")) {
		err = fault.Invalid("files.path", "path", "the path names no file")
	}
	return refOf(r, name, err)
}

// folderOf returns the session and the path of a request for a file or a folder. An empty path is
// the user's home. A slash at the end has no meaning.
func folderOf(r *http.Request) (protocol.FileRef, error) {
	name, err := pathOf(r)
	if trimmed := strings.TrimRight(name, "/"); trimmed != "" || name == "" {
		name = trimmed
	} else {
		name = "/"
	}
	if name == "" {
		name = "."
	}
	return refOf(r, name, err)
}

func refOf(r *http.Request, name string, err error) (protocol.FileRef, error) {
	if err != nil {
		return protocol.FileRef{}, err
	}
	id := r.PathValue("id")
	if !surface.ValidID(id) {
		return protocol.FileRef{}, fault.New(fault.NotFound, "files.session",
			"there is no such session")
	}
	return protocol.FileRef{Session: id, Path: name}, nil
}

// pathOf returns the path of the request. It reads the target itself, since the router normalizes
// the path.
func pathOf(r *http.Request) (string, error) {
	_, escaped, _ := strings.Cut(r.URL.EscapedPath(), "/files/")
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return "", fault.Invalid("files.path", "path", "the path is not percent-encoded correctly")
	}
	return name, surface.CheckPath("files.path", name)
}

// head answers with the properties of a file in headers.
func (s *Surface) head(w http.ResponseWriter, r *http.Request) error {
	ref, err := fileOf(r)
	if err != nil {
		return err
	}
	return s.headFile(w, r, ref)
}

func (s *Surface) headFile(w http.ResponseWriter, r *http.Request, ref protocol.FileRef) error {
	ctx, cancel := context.WithTimeout(s.context(r), s.cfg.Call)
	defer cancel()
	var f protocol.File
	if err := s.cfg.Node.Call(ctx, surface.CallOf(r).Who, protocol.OpFileStat, ref,
		&f); err != nil {
		return err
	}
	setHeaders(w.Header(), r, f)
	w.Header().Set("Content-Length", strconv.FormatInt(f.Size, 10))
	w.WriteHeader(http.StatusOK)
	return nil
}

// setHeaders sets the headers for a file. They prevent a browser from showing a user's file as a
// page of this server.
func setHeaders(h http.Header, r *http.Request, f protocol.File) {
	h.Set("Content-Type", "application/octet-stream")
	if r.PathValue("token") != "" {
		h.Set("Content-Type", linkType(f.Path))
		h.Set("Referrer-Policy", "no-referrer")
	}
	h.Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(path.Base(f.Path)))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("ETag", etagHeader(f.ETag))
	h.Set("Accept-Ranges", "bytes")
	h.Set("Last-Modified", time.UnixMilli(f.ModifiedMS).UTC().Format(http.TimeFormat))
	h.Set("X-File-Mode", strconv.FormatUint(uint64(f.Mode&0o7777), 8))
	if f.Dir {
		h.Set("X-File-Type", "directory")
	}
}

func etagHeader(tag string) string { return `"` + tag + `"` }
