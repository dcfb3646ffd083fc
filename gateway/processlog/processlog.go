// Package processlog reads the output of a process of a session: what there is, and what comes while
// the caller waits for its end.
package processlog

import (
	"context"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Output is the output of a process.
type Output struct {
	Stdout, Stderr string
	// StdoutCut and StderrCut are true if output is missing.
	StdoutCut, StderrCut bool
	// Exit is how the process ended; nil if it runs.
	Exit *protocol.Exit
}

// stream collects one stream.
type stream struct {
	text    strings.Builder
	decoder kernelclient.TextDecoder
	tally   surface.Tally
}

func (s *stream) add(p []byte) { s.text.WriteString(s.tally.Text(s.decoder.Decode(p))) }

func (s *stream) whole() (string, bool) {
	s.text.WriteString(s.tally.Text(s.decoder.End()))
	return s.text.String(), s.tally.Dropped > 0
}

// Read reads the output from the client's position, at most limit bytes of each stream. It returns
// at the end of the process, or after the time wait with the output until then. It closes the client.
// Errors: SandboxLost if the sandbox has ended, Canceled if ctx has.
func Read(ctx context.Context, c *processclient.Client, limit int64, wait time.Duration,
) (Output, error) {
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)()
	view := c.View()
	over := time.Now().Add(wait)
	timer := time.AfterFunc(max(wait, time.Millisecond), c.Close)
	defer timer.Stop()
	var out, errors stream
	out.tally.Limit, errors.tally.Limit = limit, limit
	result := Output{}
	for result.Exit == nil {
		_, at := c.Position()
		if at < view.End {
			timer.Reset(max(time.Until(over), present)) // this output is there
		} else if time.Now().After(over) {
			break
		} else {
			timer.Reset(time.Until(over))
		}
		batch, err := c.Next()
		if err != nil {
			if ctx.Err() != nil {
				return result, fault.Wrap(fault.Canceled, "processlog.read", ctx.Err())
			}
			if fault.Is(err, fault.SandboxLost) || time.Now().Before(over) {
				return result, err
			}
			break // the time to wait is over
		}
		for _, o := range batch {
			switch {
			case o.Gap > 0:
				out.tally.Dropped += o.Gap
			case o.Exit != nil:
				result.Exit = o.Exit
			case o.Stdout != nil:
				out.add(o.Stdout)
			default:
				errors.add(o.Stderr)
			}
		}
		_ = c.Ack() // Next has the reason
	}
	result.Stdout, result.StdoutCut = out.whole()
	result.Stderr, result.StderrCut = errors.whole()
	return result, nil
}

// present is how long output that is there already may take.
const present = 10 * time.Second
