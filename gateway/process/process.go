// Package process runs commands that continue after the request that has started them, and reads
// their output in parts, for surfaces whose callers poll.
//
// The node keeps the output of a process. So a part that a caller has not read is not lost when the
// connection or the gateway ends.
package process

import (
	"context"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Node is the part of a node that processes need.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// readAhead is how many bytes the node sends ahead.
const readAhead = 16 << 10

// Caller works with the processes of a principal.
type Caller struct {
	Node Node
	// The principal Who owns the sessions.
	Who noderpc.Principal
	// Call is how long one request to the node may take.
	Call time.Duration
}

// Start starts a line of the shell. Kind and Argv of open have no effect, prefix are words before the
// shell. Errors: those of channel.open.
func (c Caller) Start(ctx context.Context, open protocol.ChannelOpen, command string,
	prefix ...string,
) (ch protocol.Channel, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Call)
	defer cancel()
	open.Kind = "process"
	for _, shell := range []string{"bash", "sh"} { // an image may have no bash
		open.Argv = append(append([]string{}, prefix...), shell, "-c", command)
		err = c.Node.Call(ctx, c.Who, protocol.OpChannelOpen, open, &ch)
		if !fault.Is(err, fault.NotFound) || fault.PublicOf(err).Field != "argv" {
			break
		}
	}
	return ch, err
}

// Command returns the line of the shell of a process, or its program with the arguments.
func Command(ch protocol.Channel) string {
	if n := len(ch.Argv); n >= 3 && ch.Argv[n-2] == "-c" {
		return ch.Argv[n-1]
	}
	return strings.Join(ch.Argv, " ")
}

// List returns the processes of a session, oldest first.
func (c Caller) List(ctx context.Context, session string) ([]protocol.Channel, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Call)
	defer cancel()
	var list protocol.ChannelList
	err := c.Node.Call(ctx, c.Who, protocol.OpChannelList,
		protocol.ChannelsWanted{Session: session}, &list)
	var out []protocol.Channel
	for _, ch := range list.Channels {
		if ch.Kind == "process" {
			out = append(out, ch)
		}
	}
	return out, err
}

// Output is a part of the output of a process.
type Output struct {
	// Text has the standard output and error in their order.
	Text string
	// Next is the offset of the output after it. More is true if there was some already.
	Next int64
	More bool
	// Lost counts bytes that are no longer kept.
	Lost int64
	// Exit is the end of a process; nil before all output is read.
	Exit *protocol.Exit
	// Channel is the process when the reading began.
	Channel protocol.Channel
}

// Read reads the output of a process to its present end, or about most bytes of it. If there is none,
// it waits until some comes or the time to wait is over. Errors: NotFound without the process.
func (c Caller) Read(ctx context.Context, attach protocol.Attach, wait time.Duration, most int,
) (Output, error) {
	var out Output
	client, err := c.attach(ctx, attach)
	if err != nil {
		return out, err
	}
	defer client.Close()
	defer context.AfterFunc(ctx, client.Close)()
	out.Channel = client.View()
	end := out.Channel.End
	_, at := client.Position()
	if at >= end {
		out.Exit = out.Channel.Exit
	}
	var text strings.Builder
	var decoder kernelclient.TextDecoder
	over := time.AfterFunc(max(wait, time.Millisecond), client.Close)
	defer over.Stop()
	for at < end || text.Len() == 0 && out.Exit == nil && wait > 0 {
		if at < end {
			over.Reset(c.Call) // this output is there
		}
		batch, err := client.Next()
		if err != nil {
			if ctx.Err() != nil || at < end || wait == 0 || fault.Is(err, fault.SandboxLost) {
				return out, err
			}
			break // the time to wait is over
		}
		out.add(batch, &text, &decoder)
		if err := client.Ack(); err != nil && out.Exit == nil {
			return out, err
		}
		_, at = client.Position()
		if out.Exit != nil {
			break
		}
		if text.Len() > most {
			out.More = at < end
			break
		}
	}
	out.Text, out.Next = text.String()+decoder.End(), at
	return out, nil
}

func (x *Output) add(batch []processclient.Output, text *strings.Builder,
	decoder *kernelclient.TextDecoder,
) {
	for _, o := range batch {
		x.Lost += o.Gap
		text.WriteString(decoder.Decode(append(o.Stdout, o.Stderr...)))
		if o.Exit != nil {
			x.Exit = o.Exit
		}
	}
}

func (c Caller) attach(ctx context.Context, attach protocol.Attach) (*processclient.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Call)
	defer cancel()
	link, err := c.Node.Open(ctx, c.Who)
	if err != nil {
		return nil, err
	}
	if attach.Window == 0 {
		attach.Window = readAhead
	}
	return processclient.Attach(ctx, link, attach)
}

// Wait waits for the end of a process. It returns nil if the time is over before. Errors: NotFound
// without the process, Canceled after the end of ctx, SandboxLost.
func (c Caller) Wait(ctx context.Context, session, channel string, wait time.Duration,
) (*protocol.Exit, error) {
	client, err := c.attach(ctx, protocol.Attach{
		Session: session, Channel: channel, Offset: -1, ReadOnly: true,
	})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if exit := client.View().Exit; exit != nil || wait <= 0 {
		return exit, nil
	}
	return follow(ctx, client, wait)
}

// follow reads output until the process or the time ends.
func follow(ctx context.Context, client *processclient.Client, wait time.Duration,
) (*protocol.Exit, error) {
	defer context.AfterFunc(ctx, client.Close)()
	defer time.AfterFunc(wait, client.Close).Stop()
	for {
		batch, err := client.Next()
		switch {
		case ctx.Err() != nil:
			return nil, fault.Wrap(fault.Canceled, "process.wait", ctx.Err())
		case fault.Is(err, fault.SandboxLost):
			return nil, err
		case err != nil:
			return nil, nil // the time is over
		}
		for _, o := range batch {
			if o.Exit != nil {
				return o.Exit, nil
			}
		}
		if client.Ack() != nil {
			continue // Next has the reason
		}
	}
}

// Kill sends a signal to a process and what it has started, and waits for the end. A process that
// lives on after grace is killed. The output stays. Errors: NotFound without the process.
func (c Caller) Kill(ctx context.Context, session, channel, signal string, grace time.Duration,
) (*protocol.Exit, error) {
	client, err := c.attach(ctx, protocol.Attach{Session: session, Channel: channel, Offset: -1})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if exit := client.View().Exit; exit != nil {
		return exit, nil
	}
	if err := client.Control(protocol.OpSignal, protocol.Signal{Signal: signal}); err != nil {
		return nil, err
	}
	exit, err := follow(ctx, client, grace)
	if exit != nil || err != nil || signal == "SIGKILL" {
		return exit, err
	}
	return c.Kill(ctx, session, channel, "SIGKILL", grace)
}

// Signal sends a signal to a process and what it has started. It has no effect on one that has ended.
// Errors: NotFound without the process.
func (c Caller) Signal(ctx context.Context, session, channel, signal string) error {
	client, err := c.attach(ctx, protocol.Attach{Session: session, Channel: channel, Offset: -1})
	if err != nil {
		return err
	}
	defer client.Close()
	if client.View().Exit != nil {
		return nil
	}
	return client.Control(protocol.OpSignal, protocol.Signal{Signal: signal})
}

// Input passes input to a process. Errors: NotFound without the process, Conflict if it has ended or
// takes no input.
func (c Caller) Input(ctx context.Context, attach protocol.Attach, data []byte, end bool) error {
	client, err := c.attach(ctx, attach)
	if err != nil {
		return err
	}
	defer client.Close()
	defer context.AfterFunc(ctx, client.Close)()
	defer time.AfterFunc(c.Call, client.Close).Stop()
	if client.View().Exit != nil || client.View().InputEnded {
		return fault.New(fault.Conflict, "process.input", "the process takes no input any more")
	}
	return client.Write(data, end)
}
