package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

func logsCommand() command {
	return command{
		name: "logs", args: "SESSION CHANNEL", short: "Print what a kernel, terminal or process has printed",
		long: `
CHANNEL is one that ps lists. The server keeps the last 64 MiB of each.

  sandgate logs s_abc k1
  sandgate logs -f --tail 4096 s_abc p2`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			follow := set.Bool("f", false, "Go on with what comes, until the channel ends.")
			tail := set.Int64("tail", 0, "Print the last `bytes` alone.")
			if err := parse(set, args, 2, 2); err != nil {
				return err
			}
			if *tail < 0 {
				return usagef("--tail is 0 or more")
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			return runLogs(ctx, a, c, set.Arg(0), set.Arg(1), *follow, *tail)
		},
	}
}

func runLogs(ctx context.Context, a *app, c *client.Client, id, channel string, follow bool, tail int64) error {
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	v, err := conn.Attach(ctx, id, channel, client.AttachOptions{Offset: -tail, ReadOnly: true})
	if err != nil {
		return err
	}
	p := printer{a: a, view: &view{out: a.Out, err: a.Err, colour: a.Colour(a.Out)}}
	if ch := v.Channel(); ch.Kind == "terminal" && console.IsTerminal(a.Out) {
		// A terminal that shows what another one was sent must not answer it.
		p.quiet = pty.NewQuiet()
		p.scan = pty.NewScanner(pty.Size{Cols: max(ch.Cols, 1), Rows: max(ch.Rows, 1)})
		defer func() { _, _ = a.Out.Write(p.scan.State().Normal()) }()
	}
	end := v.Channel().End
	for {
		if _, at := v.Offset(); !follow && at >= end {
			return nil
		}
		r, err := v.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = p.print(r)
		}
		if err != nil {
			return err
		}
	}
}

// printer prints the records of a channel.
type printer struct {
	a     *app
	view  *view
	quiet *pty.Quiet // for a terminal's output on a terminal
	scan  *pty.Scanner
}

func (p *printer) print(r stream.Record) error {
	switch {
	case r.Kind == stream.KindExit:
		var e protocol.Exit
		if json.Unmarshal(r.Payload, &e) == nil {
			p.view.line()
			return client.ExitError(e)
		}
		return nil
	case r.Kind == stream.KindRestore:
		return nil
	case p.quiet != nil && r.Kind == stream.KindStdout:
		b := p.quiet.Append(nil, r.Payload)
		p.scan.Write(b)
		if _, err := p.a.Out.Write(b); err != nil {
			return fault.Wrap(fault.Canceled, "logs.write", err)
		}
		return nil
	}
	_, err := p.view.record(r)
	return err
}
