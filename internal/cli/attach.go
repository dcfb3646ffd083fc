package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
)

func attachCommand() command {
	return command{
		name: "attach", args: "SESSION [TERMINAL]", short: "Come back to a terminal",
		long: `
TERMINAL is a channel that ps lists; else the session's newest that runs. What
it printed last is shown again, in the modes that it was printed in. ~. at the
beginning of a line detaches. Several can be attached at once: the terminal has
the size of the one who typed last.

  sandgate attach s_abc
  sandgate attach --read-only s_abc t2`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			readOnly := set.Bool("read-only", false, "Watch, and type nothing.")
			tail := set.Int64("tail", 64<<10, "How many `bytes` of earlier output to show.")
			if err := parse(set, args, 1, 2); err != nil {
				return err
			}
			if *tail < 1 {
				return usagef("--tail is 1 or more")
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			return runAttach(ctx, a, c, set.Arg(0), set.Arg(1), *readOnly, *tail)
		},
	}
}

func runAttach(ctx context.Context, a *app, c *client.Client, id, channel string, readOnly bool, tail int64) error {
	l, err := a.takeTerminal()
	if err != nil {
		return err
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if channel == "" {
		if channel, err = newestTerminal(ctx, conn, id); err != nil {
			return err
		}
	}
	o := client.AttachOptions{Offset: -tail, ReadOnly: readOnly}
	if !readOnly {
		o.Cols, o.Rows = l.size()
	}
	t, err := conn.Terminal(ctx, id, channel, o)
	if err != nil {
		return err
	}
	if t.Channel().Kind != "terminal" {
		return fault.Invalid("attach", "TERMINAL", "%s is a %s; sandgate logs shows its output", channel, t.Channel().Kind)
	}
	l.readOnly = readOnly
	detached, err := l.drive(ctx, t)
	if detached {
		fmt.Fprintln(a.Err, "[detached]")
	}
	return err
}

func newestTerminal(ctx context.Context, conn *client.Conn, id string) (string, error) {
	all, err := conn.Channels(ctx, id)
	if err != nil {
		return "", err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Kind == "terminal" && all[i].State == "running" {
			return all[i].ID, nil
		}
	}
	return "", fault.New(fault.NotFound, "attach", "no terminal runs in %s; sandgate shell --session %s opens one", id, id)
}
