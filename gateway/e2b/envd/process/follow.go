package process

import (
	"context"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// reattachFor is how long a stream waits for a node that does not answer.
	reattachFor = time.Minute
	// firstPause and maxPause bound the pause between two attempts.
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// follower sends the events of one process to one client. A slow client slows only itself: output
// is acknowledged once it is sent.
type follower struct {
	s        *Service
	t        Target
	client   *processclient.Client
	terminal bool
	send     func(*wire.ProcessEvent) error
	last     func() // is called before the last event is sent

	held   [streams][]byte // the beginning of a character whose rest is not known yet
	gapped bool            // output was missing just now
	ended  bool            // the process has ended
	lost   bool            // the sandbox has ended, or the gateway ends
}

// The streams of output.
const (
	stdout = iota
	stderr
	terminal
	streams
)

// batch is the result of one Next.
type batch struct {
	out []processclient.Output
	err error
}

// run sends all events until the process or ctx ends. A lost link to the node is replaced. If the
// sandbox or the gateway ends, the error cuts the connection, so that the client asks for the reason.
func (f *follower) run(ctx context.Context, ping time.Duration) error {
	defer func() { f.client.Close() }()
	timer := time.NewTimer(ping)
	defer timer.Stop()
	pid := uint32(f.client.View().PID)
	if err := f.send(&wire.ProcessEvent{Start: &wire.ProcessStarted{PID: pid}}); err != nil {
		return err
	}
	for {
		again, err := f.relay(ctx, timer, ping)
		if !again {
			return err
		}
		if err := f.reattach(ctx, err); err != nil {
			return err
		}
	}
}

// relay sends the events of one link. Again is true if the link was lost.
func (f *follower) relay(ctx context.Context, timer *time.Timer, ping time.Duration) (again bool,
	err error,
) {
	batches, sent, quit := make(chan batch), make(chan struct{}), make(chan struct{})
	defer close(quit)
	go read(f.client, batches, sent, quit)
	for {
		select {
		case b := <-batches:
			if err := f.deliver(b.out); err != nil || f.ended {
				return false, err
			}
			if b.err != nil {
				return true, b.err
			}
			timer.Reset(ping)
			sent <- struct{}{}
		case <-timer.C:
			timer.Reset(ping)
			if err := f.send(&wire.ProcessEvent{KeepAlive: &wire.KeepAlive{}}); err != nil {
				return false, err
			}
		case <-ctx.Done():
			return false, ctx.Err()
		case <-f.s.cfg.Base.Done():
			return false, f.cut()
		}
	}
}

// read passes on the output of a process, and acknowledges what was sent to the client.
func read(c *processclient.Client, batches chan<- batch, sent, quit <-chan struct{}) {
	for {
		var b batch
		b.out, b.err = c.Next()
		select {
		case batches <- b:
		case <-quit:
			return
		}
		if b.err != nil {
			return
		}
		select {
		case <-sent:
			_ = c.Ack() // Next has the reason if it fails
		case <-quit:
			return
		}
	}
}

// cut returns the error that cuts the connection.
func (f *follower) cut() error {
	f.lost = true
	return http.ErrAbortHandler
}

// reattach attaches to the process again after the output that was acknowledged. The node may
// restart meanwhile, or the session may move to another one.
func (f *follower) reattach(ctx context.Context, cause error) error {
	f.client.Close()
	epoch, offset := f.client.Position()
	limit := time.NewTimer(reattachFor)
	defer limit.Stop()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		c, err := f.s.reach(ctx, f.t, protocol.Attach{
			Session: f.t.Session, Channel: f.client.Channel(), Epoch: epoch, Offset: offset,
		})
		if err == nil {
			f.client = c
			if now, _ := c.Position(); now != epoch {
				return f.cut() // another history: the client has to begin again
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !mayReturn(err) {
			return f.cut()
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-f.s.cfg.Base.Done():
			timer.Stop()
			return f.cut()
		case <-limit.C:
			timer.Stop()
			f.s.cfg.Log.Warn("a process could not be followed any more", "session", f.t.Session,
				"channel", f.client.Channel(), "error", err, "cause", cause)
			return f.cut()
		}
	}
}

// mayReturn reports whether an attempt to attach may succeed later.
func mayReturn(err error) bool {
	switch fault.KindOf(err) {
	case fault.Unavailable, fault.Restarting, fault.DeadlineExceeded, fault.Exhausted, fault.Slow,
		fault.Conflict, fault.Canceled:
		return true
	}
	return false
}

// reach attaches to a process.
func (s *Service) reach(ctx context.Context, t Target, at protocol.Attach) (*processclient.Client,
	error,
) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	link, err := s.cfg.Node.Open(ctx, t.Who)
	if err != nil {
		return nil, err
	}
	return processclient.Attach(ctx, link, at)
}

// deliver sends output. Adjacent output of one stream is one event.
func (f *follower) deliver(out []processclient.Output) error {
	var data []byte
	stream := -1
	add := func(to int, part []byte) error {
		if to != stream {
			if err := f.write(stream, data); err != nil {
				return err
			}
			stream, data = to, part
			return nil
		}
		// The capacity ends at the length, so that bytes of the link are never overwritten.
		data = append(data[:len(data):len(data)], part...)
		return nil
	}
	for _, o := range out {
		to, part := f.output(o)
		if part != nil {
			if err := add(to, part); err != nil {
				return err
			}
		}
		if o.Exit != nil {
			if err := f.write(stream, data); err != nil {
				return err
			}
			return f.finish(o.Exit)
		}
	}
	return f.write(stream, data)
}

// output returns the stream of one piece of output and its bytes. Missing output is reported in the
// stream of errors, or in the terminal.
func (f *follower) output(o processclient.Output) (stream int, data []byte) {
	gapped := f.gapped
	f.gapped = o.Gap > 0
	note := func(end string) []byte {
		return fmt.Appendf(nil, "%s[sandgate: %d bytes of output are missing]%s", end, o.Gap, end)
	}
	switch {
	case o.Gap > 0 && f.terminal:
		return terminal, note("\r\n")
	case o.Gap > 0:
		return stderr, note("\n")
	case o.Restore != nil:
		if !gapped {
			return terminal, nil // the client has everything that the terminal has got
		}
		return terminal, o.Restore
	case o.Stdout != nil && f.terminal:
		return terminal, o.Stdout
	case o.Stdout != nil:
		return stdout, o.Stdout
	}
	return stderr, o.Stderr
}

// write sends bytes of a stream. Clients decode each event on its own, so a character is never cut
// between two events. A terminal's clients decode bytes.
func (f *follower) write(stream int, data []byte) error {
	if stream < 0 || len(data) == 0 {
		return nil
	}
	d := &wire.ProcessData{}
	if stream == terminal {
		d.PTY = data
		return f.send(&wire.ProcessEvent{Data: d})
	}
	if held := f.held[stream]; len(held) > 0 {
		data = append(held[:len(held):len(held)], data...)
	}
	n := whole(data)
	f.held[stream] = append([]byte(nil), data[n:]...)
	return f.sendText(stream, data[:n])
}

func (f *follower) sendText(stream int, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	d := &wire.ProcessData{Stdout: data}
	if stream == stderr {
		d = &wire.ProcessData{Stderr: data}
	}
	return f.send(&wire.ProcessEvent{Data: d})
}

// whole returns how many bytes of data are before a character that is not complete.
func whole(data []byte) int {
	for i := len(data) - 1; i >= max(0, len(data)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return i
			}
			break
		}
	}
	return len(data)
}

// finish sends what is left and the last event. The end of the sandbox cuts the connection.
func (f *follower) finish(exit *protocol.Exit) error {
	if exit.Code < 0 && exit.Reason != "closed" {
		return f.cut()
	}
	for _, stream := range []int{stdout, stderr} {
		if err := f.sendText(stream, f.held[stream]); err != nil {
			return err
		}
	}
	f.ended = true
	f.last()
	return f.send(&wire.ProcessEvent{End: endOf(exit)})
}
