package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// shellOptions are the flags of shell.
type shellOptions struct {
	session, language, cwd string
	env                    list
	keep                   bool
}

func shellCommand() command {
	return command{
		name: "shell", args: "[COMMAND ARGUMENTS]", short: "Open a shell, or another program, in a terminal of a sandbox",
		long: `
It behaves as ssh does: full-screen programs, sizes, Ctrl-C and the exit status
are those of the program. A lost connection is made anew, and nothing is lost.

At the beginning of a line ~. detaches: the program goes on, and attach comes
back to it. ~~ types a ~, ~? says what there is.

Without --session it takes a new session, which is removed when the program
ends.

  sandgate shell
  sandgate shell --session s_abc htop`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			var o shellOptions
			set.StringVar(&o.session, "session", "", "Open it in this `session`, which is kept.")
			set.StringVar(&o.language, "language", "", "`language` that is warm in a new session.")
			set.StringVar(&o.cwd, "cwd", "", "`directory` to start in; else the home.")
			set.Var(&o.env, "env", "Environment `variable`, NAME=VALUE or NAME; may be given again.")
			set.BoolVar(&o.keep, "keep", false, "Keep the session and print its id on standard error.")
			if err := parse(set, args, 0, -1); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			return runShell(ctx, a, c, o, set.Args())
		},
	}
}

func runShell(ctx context.Context, a *app, c *client.Client, o shellOptions, argv []string) (err error) {
	l, err := a.takeTerminal()
	if err != nil {
		return err
	}
	id := o.session
	if id == "" {
		s, err := c.CreateSession(ctx, protocol.SessionCreate{Language: o.language, Name: "shell"})
		if err != nil {
			return err
		}
		id = s.ID
	}
	detached := false
	defer func() {
		if o.session != "" || detached {
			return
		}
		if o.keep {
			fmt.Fprintf(a.Err, "session %s\n", id)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if derr := c.DeleteSession(ctx, id); derr != nil && !fault.Is(derr, fault.NotFound) && err == nil {
			err = derr
		}
	}()
	conn, err := c.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	cols, rows := l.size()
	ch, err := conn.OpenChannel(ctx, protocol.ChannelOpen{
		Session: id, Kind: "terminal", Argv: argv, Cwd: o.cwd, Env: environment(a, o.env), Cols: cols, Rows: rows,
	})
	if err != nil {
		return err
	}
	t, err := conn.Terminal(ctx, id, ch.ID, client.AttachOptions{Cols: cols, Rows: rows})
	if err != nil {
		return err
	}
	l.answered = func() bool { return conn.Reconnects() == 0 }
	detached, err = l.drive(ctx, t)
	if detached {
		fmt.Fprintf(a.Err, "[detached; sandgate attach %s %s comes back]\n", id, ch.ID)
	}
	return err
}
