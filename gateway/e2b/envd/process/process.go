// Package process serves envd's service for processes and terminals of a sandbox.
//
// A process is a channel of a session. It runs on when its client disconnects, and a client that
// connects again gets all of its output. The package keeps no state but the number of streams, so
// that another gateway can serve the next request.
package process

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/sandgate/sandgate/gateway/e2b/envd/user"
	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxStreams is how many streams of one sandbox a gateway serves at the same time.
	maxStreams = 256
	// maxInput is how long input may wait until the program reads it.
	maxInput = 5 * time.Minute
	// controlWindow is the credit of a viewer that only controls a process, in bytes.
	controlWindow = 64 << 10
)

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

// Config configures a Service. Every field is required.
type Config struct {
	Node Node
	Log  *slog.Logger
	// Base ends when streams that still run are abandoned.
	Base context.Context
	// Call is how long a request to the node may take.
	Call time.Duration
	// Target returns the target of a request by its context.
	Target func(ctx context.Context) Target
}

// Service serves process.Process.
type Service struct {
	cfg Config

	mu      sync.Mutex     // guards all below; a leaf
	streams map[string]int // by session
}

// New returns the handler of the service.
func New(cfg Config, schema *wire.Schema) http.Handler {
	s := &Service{cfg: cfg, streams: map[string]int{}}
	w := wire.NewService(schema, wire.ProcessService)
	wire.ServerStream(w, "Start", s.start)
	wire.ServerStream(w, "Connect", s.connect)
	wire.Unary(w, "List", s.list)
	wire.Unary(w, "SendInput", s.sendInput)
	wire.ClientStream(w, "StreamInput", s.streamInput)
	wire.Unary(w, "CloseStdin", s.closeStdin)
	wire.Unary(w, "SendSignal", s.sendSignal)
	wire.Unary(w, "Update", s.update)
	return w
}

// targetOf returns the target of a request. Errors: those of the request's user.
func (s *Service) targetOf(ctx context.Context, h http.Header) (Target, error) {
	return s.cfg.Target(ctx), user.CheckHeader(h)
}

// acquire counts a stream of a session until release. Errors: Exhausted.
func (s *Service) acquire(session string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[session] >= maxStreams {
		return nil, fault.New(fault.Exhausted, "process.stream",
			"a sandbox has at most %d streams", maxStreams)
	}
	s.streams[session]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.streams[session]--; s.streams[session] == 0 {
			delete(s.streams, session)
		}
	}), nil
}

// list lists the processes and terminals that run.
func (s *Service) list(ctx context.Context, h http.Header, _ *wire.ListRequest) (*wire.ListResponse,
	error,
) {
	t, err := s.targetOf(ctx, h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	link, err := s.cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return nil, s.gone(err)
	}
	defer func() { _ = link.Close() }()
	all, err := channels(ctx, link, t, true)
	if err != nil {
		return nil, s.gone(err)
	}
	res := &wire.ListResponse{}
	for _, c := range all {
		if c.State != "running" {
			continue
		}
		info := &wire.ProcessInfo{PID: uint32(c.PID), Config: &wire.ProcessConfig{Envs: c.Env}}
		if len(c.Argv) > 0 {
			info.Config.Cmd, info.Config.Args = c.Argv[0], c.Argv[1:]
		}
		if c.Cwd != "" {
			info.Config.Cwd = &c.Cwd
		}
		if c.Tag != "" {
			info.Tag = &c.Tag
		}
		res.Processes = append(res.Processes, info)
	}
	return res, nil
}

// channels lists the processes and terminals of a session, oldest first, with their variables if env
// is set. The end of ctx closes the link.
func channels(ctx context.Context, l nodecall.Link, t Target, env bool) (
	[]protocol.Channel, error,
) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var list protocol.ChannelList
	err := nodecall.Call(l, 1, protocol.OpChannelList, 0,
		protocol.ChannelsWanted{Session: t.Session, Env: env}, &list, nil)
	if err != nil {
		return nil, inTime(ctx, err)
	}
	all := list.Channels[:0]
	for _, c := range list.Channels {
		if c.PID > 0 && (c.Kind == "process" || c.Kind == "terminal") {
			all = append(all, c)
		}
	}
	return all, nil
}

// find returns the process that a selector names: preferably one that runs, otherwise the newest. With
// running, processes that have ended do not count. Errors: NotFound, InvalidArgument.
func find(ctx context.Context, l nodecall.Link, t Target, sel *wire.Selector, running bool) (
	found protocol.Channel, err error,
) {
	const op = "process.find"
	if sel == nil || sel.PID == nil && sel.Tag == nil {
		return found, fault.Invalid(op, "process", "the process needs a pid or a tag")
	}
	all, err := channels(ctx, l, t, false)
	if err != nil {
		return found, err
	}
	for _, c := range all {
		match := sel.PID != nil && c.PID == int(*sel.PID) || sel.Tag != nil && c.Tag == *sel.Tag
		if match && (c.State == "running" || !running && found.State != "running") {
			found = c
		}
	}
	switch {
	case found.ID != "":
		return found, nil
	case sel.PID != nil:
		return found, missing("there is no process with the pid %d", *sel.PID)
	}
	return found, missing("there is no process with the tag %.128q", *sel.Tag)
}

// missing returns the error for a process that does not exist. It has no kind of the node, so that
// it is not mistaken for a missing session.
func missing(format string, args ...any) error {
	return wire.Error(fault.New(fault.NotFound, "process.find", format, args...))
}

// control attaches to a process that runs and calls f with it. It takes at most a limit of time.
func (s *Service) control(ctx context.Context, t Target, sel *wire.Selector, limit time.Duration,
	f func(*processclient.Client, protocol.Channel) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(s.cfg.Base, cancel)()
	link, err := s.cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return s.gone(err)
	}
	c, err := find(ctx, link, t, sel, true)
	if err != nil {
		_ = link.Close()
		return s.gone(err)
	}
	client, err := processclient.Attach(ctx, link, protocol.Attach{
		Session: t.Session, Channel: c.ID, Epoch: c.Epoch, Offset: c.End, Window: controlWindow,
	})
	if err != nil {
		return s.gone(err)
	}
	defer client.Close()
	defer context.AfterFunc(ctx, client.Close)()
	if err = inTime(ctx, f(client, c)); hasEnded(err) {
		return missing("the process has ended")
	}
	return s.gone(err)
}

// hasEnded reports whether err says that a process has ended.
func hasEnded(err error) bool {
	return fault.Is(err, fault.Conflict) && fault.PublicOf(err).Cause == fault.CauseEnded
}

// inTime returns the reason for which ctx has ended instead of err, which follows from it.
func inTime(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fault.New(fault.KindOf(ctx.Err()), "process.call", "it took too long")
	}
	return err
}

// gone returns the error for a client. If the sandbox has ended, the connection is cut: then a
// client asks for the health of the sandbox, and learns the reason.
func (s *Service) gone(err error) error {
	if _, ok := errors.AsType[*connect.Error](err); ok {
		return err
	}
	if fault.Is(err, fault.NotFound) || sandbox.Gone(err) {
		return http.ErrAbortHandler
	}
	return err
}
