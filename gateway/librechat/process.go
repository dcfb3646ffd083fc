package librechat

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// endGrace is how long the end of a program that is being ended may take.
const endGrace = 20 * time.Second

// The values of status in the answer of a run.
const (
	statusOK      = "ok"
	statusError   = "error"
	statusTimeout = "timeout"
	statusKilled  = "killed"
)

// reasonMemory is the reason of a process that was killed because memory had run out.
const reasonMemory = "memory"

// outcome is the end of a program.
type outcome struct {
	stdout, stderr string
	status         string
	// code is the exit status; nil without one.
	code   *int
	signal string
	// message says why the program did not end by itself; empty if it did.
	message string
	wall    time.Duration
	// lost is true if the sandbox has ended with the program.
	lost bool
	// changed has the changes of files; nil if they are not known yet.
	changed *protocol.CreatedFiles
}

// stream collects one stream of output.
type stream struct {
	text    strings.Builder
	decoder kernelclient.TextDecoder
	tally   surface.Tally
}

func (x *stream) add(p []byte) { x.text.WriteString(x.tally.Text(x.decoder.Decode(p))) }

// whole returns the whole output.
func (x *stream) whole() string {
	x.text.WriteString(x.tally.Text(x.decoder.End()))
	return x.text.String()
}

// runProgram runs a program to its end, at most for its time, and asks what it has changed since the
// cursor. Errors: those of the start of a process.
func (s *Surface) runProgram(ctx context.Context, u store.User, open protocol.ChannelOpen,
	timeout time.Duration, cursor string,
) (outcome, error) {
	starting, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	link, err := s.cfg.Node.Open(starting, u.Who)
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	p, err := processclient.Start(starting, link, open, nil)
	if err != nil {
		return outcome{}, err
	}
	defer p.Close()
	var expired atomic.Bool
	defer time.AfterFunc(timeout, func() {
		expired.Store(true)
		s.endProgram(u, open.Session, p.Channel())
	}).Stop()
	defer time.AfterFunc(timeout+endGrace, p.Close).Stop()
	defer context.AfterFunc(ctx, func() {
		s.endProgram(u, open.Session, p.Channel())
		p.Close()
	})()
	out, errors := stream{}, stream{}
	out.tally.Limit, errors.tally.Limit = maxOutput, maxOutput
	exit, err := follow(p, &out, &errors)
	if ctx.Err() != nil {
		return outcome{}, surface.ErrGone()
	}
	o := outcome{stdout: out.whole(), wall: time.Since(began)}
	o.finish(exit, err, expired.Load(), timeout)
	o.stderr = leftOut(errors.whole(), out.tally.Dropped+errors.tally.Dropped)
	o.stderr = line(o.stderr, o.message)
	if exit != nil && cursor != "" {
		var page protocol.CreatedFiles
		if p.Request(protocol.OpFileChanges, changesSince(open.Session, cursor), &page) == nil {
			o.changed = &page
		}
	}
	return o, nil
}

// leftOut appends a line that counts bytes of output which were left out.
func leftOut(text string, dropped int64) string {
	if dropped == 0 {
		return text
	}
	return line(text, fmt.Sprintf("%d bytes of output over the limit were left out.", dropped))
}

// line appends a line to a text; nothing for an empty line.
func line(text, more string) string {
	if more == "" {
		return text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + more + "\n"
}

// endProgram ends a program and everything that it started.
func (s *Surface) endProgram(u store.User, session, channel string) {
	ctx, cancel := context.WithTimeout(context.Background(), endGrace)
	defer cancel()
	err := s.cfg.Node.Call(ctx, u.Who, protocol.OpChannelClose,
		protocol.ChannelRef{Session: session, Channel: channel}, nil)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.SandboxLost) {
		s.cfg.Log.Warn("a program could not be ended", "session", session, "error", err)
	}
}

// follow collects the output of a program until it ends.
func follow(p *processclient.Client, out, errors *stream) (*protocol.Exit, error) {
	for {
		batch, err := p.Next()
		if err != nil {
			return nil, err
		}
		for _, o := range batch {
			switch {
			case o.Gap > 0:
				out.tally.Dropped += o.Gap
			case o.Exit != nil:
				return o.Exit, nil
			case o.Stdout != nil:
				out.add(o.Stdout)
			default:
				errors.add(o.Stderr)
			}
		}
		if err := p.Ack(); err != nil {
			continue // Next has the reason
		}
	}
}

// finish sets how the program ended.
func (o *outcome) finish(exit *protocol.Exit, err error, expired bool, timeout time.Duration) {
	if exit != nil && exit.Code >= 0 {
		code := exit.Code
		o.code, o.signal = &code, exit.Signal
	}
	switch {
	case expired:
		o.status = statusTimeout
		o.message = fmt.Sprintf("The program was ended: it ran for over %s.", timeout)
	case err != nil || exit.Code < 0:
		o.status, o.lost = statusKilled, true
		o.message = "The sandbox of the program ended: memory or another limit was reached."
	case exit.Reason == reasonMemory:
		o.status = statusKilled
		o.message = "The program was ended: memory ran out."
	case exit.Signal != "":
		o.status = statusKilled
	case exit.Code != 0:
		o.status = statusError
	default:
		o.status = statusOK
	}
}
