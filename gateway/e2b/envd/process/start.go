package process

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// defaultPing is the time without output after which a client gets a keepalive event, unless its
	// request says otherwise.
	defaultPing = 90 * time.Second
	// lookEvery is how often a process is looked at whose client has gone and that has a deadline.
	lookEvery = 30 * time.Second
)

// start starts a process or a terminal and sends its events. The timeout of the request is that of
// the process: it is killed then, also if the client has gone before.
func (s *Service) start(ctx context.Context, h http.Header, req *wire.StartRequest,
	send func(*wire.StartResponse) error,
) error {
	t, err := s.targetOf(ctx, h)
	if err != nil {
		return err
	}
	open, err := opening(t, req)
	if err != nil {
		return err
	}
	release, err := s.acquire(t.Session)
	if err != nil {
		return err
	}
	watched := false
	defer func() {
		if !watched {
			release()
		}
	}()
	began := time.Now()
	c, err := s.open(ctx, t, open)
	if err != nil {
		return s.refused(err, open)
	}
	f := follower{
		s: s, t: t, client: c, terminal: open.Kind == "terminal",
		send: func(e *wire.ProcessEvent) error { return send(&wire.StartResponse{Event: e}) },
		last: func() { wire.Last(ctx) },
	}
	err = f.run(ctx, pingOf(h))
	deadline, limited := ctx.Deadline()
	limited = limited && h.Get(wire.TimeoutHeader) != "" // others are not about the process
	switch {
	case f.ended || f.lost || !limited:
	case errors.Is(ctx.Err(), context.DeadlineExceeded) || !time.Now().Before(deadline):
		s.kill(t, c.Channel())
		return wire.NewError(connect.CodeDeadlineExceeded, "the process was killed after its timeout of "+
			deadline.Sub(began).Round(time.Millisecond).String())
	default:
		watched = true
		go s.watch(t, c.Channel(), deadline, release)
	}
	return err
}

// opening translates a request.
func opening(t Target, req *wire.StartRequest) (protocol.ChannelOpen, error) {
	const op = "process.start"
	p := req.Process
	if p == nil || p.Cmd == "" {
		return protocol.ChannelOpen{}, fault.Invalid(op, "process", "a command is needed")
	}
	open := protocol.ChannelOpen{
		Session: t.Session, Kind: "process", Argv: append([]string{p.Cmd}, p.Args...), Env: p.Envs,
		Stdin: req.Stdin == nil || *req.Stdin,
	}
	if req.Tag != nil {
		open.Tag = *req.Tag
	}
	if p.Cwd != nil && *p.Cwd != "~" {
		open.Cwd = strings.TrimPrefix(*p.Cwd, "~/") // relative to the home folder
	}
	if req.PTY != nil {
		open.Kind, open.Stdin = "terminal", false
		if size := req.PTY.Size; size != nil {
			open.Cols, open.Rows = int(size.Cols), int(size.Rows)
		}
	}
	return open, nil
}

// open starts the process. A client that disconnects meanwhile does not prevent it. A sandbox
// without bash runs commands for bash with sh.
func (s *Service) open(ctx context.Context, t Target, open protocol.ChannelOpen) (
	*processclient.Client, error,
) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Call)
	defer cancel()
	defer context.AfterFunc(s.cfg.Base, cancel)()
	for {
		link, err := s.cfg.Node.Open(ctx, t.Who)
		if err != nil {
			return nil, err
		}
		c, err := processclient.Open(ctx, link, open, protocol.Attach{})
		if noProgram(err) && open.Argv[0] == "/bin/bash" {
			open.Argv = append([]string{"/bin/sh"}, open.Argv[1:]...)
			continue
		}
		return c, err
	}
}

func noProgram(err error) bool {
	return fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field == "argv"
}

// refused returns the error for a process that did not start.
func (s *Service) refused(err error, open protocol.ChannelOpen) error {
	switch p := fault.PublicOf(err); {
	case p.Field == "cwd" && p.Kind == fault.InvalidArgument:
		return fault.Invalid("process.start", "cwd", "cwd '%.512s' does not exist: %s", open.Cwd,
			p.Message)
	case noProgram(err):
		return fault.Invalid("process.start", "cmd", "%s", p.Message)
	}
	return s.gone(err)
}

// pingOf returns the time between two keepalive events.
func pingOf(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Keepalive-Ping-Interval"), 10, 16)
	if err != nil || seconds == 0 {
		return defaultPing
	}
	return time.Duration(seconds) * time.Second
}

// watch kills a process at its deadline, unless it has ended before. A gateway that ends gives it
// up.
func (s *Service) watch(t Target, channel string, deadline time.Time, release func()) {
	defer release()
	for {
		left := time.Until(deadline)
		timer := time.NewTimer(min(left, lookEvery))
		select {
		case <-timer.C:
		case <-s.cfg.Base.Done():
			timer.Stop()
			return
		}
		if left <= lookEvery {
			s.kill(t, channel)
			return
		}
		if running, err := s.runs(t, channel); err == nil && !running ||
			fault.Is(err, fault.NotFound) || fault.Is(err, fault.SandboxLost) {
			return
		}
	}
}

// runs reports whether a process runs. It does not resume the session.
func (s *Service) runs(t Target, channel string) (bool, error) {
	ctx, cancel := context.WithTimeout(s.cfg.Base, s.cfg.Call)
	defer cancel()
	link, err := s.cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return false, err
	}
	defer func() { _ = link.Close() }()
	all, err := channels(ctx, link, t, false)
	for _, c := range all {
		if c.ID == channel {
			return c.State == "running", err
		}
	}
	return false, err
}

// kill kills a process with its group. It has no effect on one that has ended.
func (s *Service) kill(t Target, channel string) {
	err := s.signal(t, channel)
	if err != nil && !hasEnded(err) && !fault.Is(err, fault.NotFound) &&
		!fault.Is(err, fault.SandboxLost) {
		s.cfg.Log.Warn("a process could not be killed at its deadline", "session", t.Session,
			"channel", channel, "error", err)
	}
}

func (s *Service) signal(t Target, channel string) error {
	if running, err := s.runs(t, channel); err != nil || !running {
		return err
	}
	ctx, cancel := context.WithTimeout(s.cfg.Base, s.cfg.Call)
	defer cancel()
	link, err := s.cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return err
	}
	c, err := processclient.Attach(ctx, link, protocol.Attach{
		Session: t.Session, Channel: channel, Offset: -1, Window: controlWindow,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)()
	return c.Control(protocol.OpSignal, protocol.Signal{Signal: "SIGKILL"})
}

// connect sends all events of a process from its start on, also if it has ended.
func (s *Service) connect(ctx context.Context, h http.Header, req *wire.ConnectRequest,
	send func(*wire.ConnectResponse) error,
) error {
	t, err := s.targetOf(ctx, h)
	if err != nil {
		return err
	}
	release, err := s.acquire(t.Session)
	if err != nil {
		return err
	}
	defer release()
	c, err := s.attach(ctx, t, req.Process)
	if err != nil {
		return s.gone(err)
	}
	f := follower{
		s: s, t: t, client: c, terminal: c.View().Kind == "terminal",
		send: func(e *wire.ProcessEvent) error { return send(&wire.ConnectResponse{Event: e}) },
		last: func() { wire.Last(ctx) },
	}
	return f.run(ctx, pingOf(h))
}

// attach finds a process and attaches to it from its first output.
func (s *Service) attach(ctx context.Context, t Target, sel *wire.Selector) (*processclient.Client,
	error,
) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	defer context.AfterFunc(s.cfg.Base, cancel)()
	link, err := s.cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return nil, err
	}
	ch, err := find(ctx, link, t, sel, false)
	if err != nil {
		_ = link.Close()
		return nil, err
	}
	return processclient.Attach(ctx, link, protocol.Attach{Session: t.Session, Channel: ch.ID})
}
