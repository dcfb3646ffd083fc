package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

func psCommand() command {
	return command{
		name: "ps", args: "[SESSION...]", short: "List the kernels, terminals and processes of your sessions",
		long: `
With -a it lists all that runs in them, as the system's ps does.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			every := set.Bool("a", false, "List every process in them.")
			if err := parse(set, args, 0, -1); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			var all []protocol.Session
			if set.NArg() == 0 {
				if all, err = c.Sessions(ctx); err != nil {
					return err
				}
			}
			for _, id := range set.Args() {
				s, err := c.Session(ctx, id)
				if err != nil {
					return err
				}
				all = append(all, s)
			}
			if *every {
				return a.listProcesses(ctx, c, all)
			}
			w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "SESSION\tCHANNEL\tKIND\tSTATE\tOUTPUT\tWHAT")
			for _, s := range all {
				for _, ch := range s.Channels {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, ch.ID, ch.Kind, stateOf(ch), sizeOf(ch.End), whatOf(ch))
				}
			}
			return w.Flush()
		},
	}
}

// stateOf is a channel's state with how it ended.
func stateOf(ch protocol.Channel) string {
	switch {
	case ch.Exit != nil && ch.Exit.Signal != "":
		return ch.State + " (" + ch.Exit.Signal + ")"
	case ch.Exit != nil && ch.Exit.Code < 0:
		return ch.State + " (" + ch.Exit.Reason + ")"
	case ch.Exit != nil:
		return fmt.Sprintf("%s (%d)", ch.State, ch.Exit.Code)
	case ch.Queued > 0:
		return fmt.Sprintf("%s (%d wait)", ch.State, ch.Queued)
	}
	return ch.State
}

// whatOf is what runs in a channel.
func whatOf(ch protocol.Channel) string {
	what := strings.Join(ch.Argv, " ")
	if what == "" {
		what = ch.Language
	}
	if ch.Title != "" {
		what += " (" + ch.Title + ")"
	}
	if r := []rune(printable(what)); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return printable(what)
}

func sizeOf(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

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
	p := printer{a: a, view: &view{out: a.out, err: a.err, colour: a.colour(a.out)}}
	if ch := v.Channel(); ch.Kind == "terminal" && terminal(a.out) {
		// A terminal that shows what another one was sent must not answer it.
		p.quiet = pty.NewQuiet()
		p.scan = pty.NewScanner(pty.Size{Cols: max(ch.Cols, 1), Rows: max(ch.Rows, 1)})
		defer func() { _, _ = a.out.Write(p.scan.State().Normal()) }()
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
		if _, err := p.a.out.Write(b); err != nil {
			return fault.Wrap(fault.Canceled, "logs.write", err)
		}
		return nil
	}
	_, err := p.view.record(r)
	return err
}
