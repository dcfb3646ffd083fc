// Package remote makes the requests to a node that answer one request of a client for files.
package remote

import (
	"context"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Home is the folder of the user in every sandbox. Relative paths begin there.
const Home = "/home/user"

// Node opens links to a node.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
}

// Target is the session of a request, and the principal that the request acts for.
type Target struct {
	Session string
	Who     noderpc.Principal
}

// Config configures Open. Every field is required.
type Config struct {
	Node Node
	// Base ends when requests that still run are abandoned.
	Base context.Context
	// Call is how long a request to the node may take.
	Call time.Duration
}

// Link is a link to the node of one session. It is not safe for concurrent use, except Close.
type Link struct {
	nodecall.Link
	Target
	cfg  Config
	ctx  context.Context
	id   uint64
	stop []func() bool
}

// Open opens a link. The end of ctx or of Base closes it.
func Open(ctx context.Context, cfg Config, t Target) (*Link, error) {
	opening, cancel := context.WithTimeout(ctx, cfg.Call)
	defer cancel()
	l, err := cfg.Node.Open(opening, t.Who)
	if err != nil {
		return nil, Gone(err)
	}
	closing := func() { _ = l.Close() }
	return &Link{
		Link: l, Target: t, cfg: cfg, ctx: ctx,
		stop: []func() bool{context.AfterFunc(ctx, closing), context.AfterFunc(cfg.Base, closing)},
	}, nil
}

// Close ends the link.
func (l *Link) Close() error {
	for _, stop := range l.stop {
		stop()
	}
	return l.Link.Close()
}

// Call makes one request. Errors: ErrAbortHandler if the session has ended.
func (l *Link) Call(op string, params, result any) error {
	late := time.AfterFunc(l.limit(op), func() { _ = l.Link.Close() })
	l.id++
	err := nodecall.Call(l.Link, l.id, op, 0, params, result, nil)
	if !late.Stop() && err != nil {
		err = fault.New(fault.DeadlineExceeded, "remote.call", "the node did not answer in time")
	}
	if err != nil && l.ctx.Err() != nil {
		err = fault.New(fault.KindOf(l.ctx.Err()), "remote.call", "the request has ended")
	}
	return Gone(err)
}

// limit is the time limit of an operation.
func (l *Link) limit(op string) time.Duration {
	const slow = 5 * time.Minute
	if op == protocol.OpFileMove || op == protocol.OpFileRemove {
		return max(slow, l.cfg.Call)
	}
	return l.cfg.Call
}

// Ref names a file of the session.
func (l *Link) Ref(file string) protocol.FileRef {
	return protocol.FileRef{Session: l.Session, Path: file}
}

// Stat describes a file; with noFollow a link itself.
func (l *Link) Stat(file string, noFollow bool) (protocol.File, error) {
	var f protocol.File
	err := l.Call(protocol.OpFileStat,
		protocol.FileStat{FileRef: l.Ref(file), NoFollow: noFollow}, &f)
	return f, err
}

// Gone returns the error for a client. If the sandbox has ended, it is ErrAbortHandler, which cuts
// the connection: then a client asks for the health of the sandbox, and learns the reason.
func Gone(err error) error {
	if fault.Is(err, fault.SandboxLost) ||
		fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field == "" {
		return http.ErrAbortHandler
	}
	return err
}

// Missing reports whether err says that a file does not exist.
func Missing(err error) bool {
	return fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field != ""
}

// Path makes the path of a request absolute. A tilde at its beginning is the user's home. An empty
// path is the home. Errors: InvalidArgument.
func Path(name string) (string, error) {
	const op = "remote.path"
	if len(name) > 4096 || strings.ContainsRune(name, 0) {
		return "", fault.Invalid(op, "path", "a path has at most 4096 bytes, none of them zero")
	}
	if rest, ok := strings.CutPrefix(name, "~"); ok {
		if rest != "" && rest[0] != '/' {
			return "", fault.Invalid(op, "path", "only ~ and ~/ are expanded, not the home of a user")
		}
		name = "." + rest
	}
	if !path.IsAbs(name) {
		name = path.Join(Home, name)
	}
	return path.Clean(name), nil
}
