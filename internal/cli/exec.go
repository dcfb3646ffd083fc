package cli

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol"
)

type execOptions struct {
	detach, stdin bool
	cwd           string
	env           list
}

func execCommand() command {
	return command{
		name: "exec", args: "SESSION [--] COMMAND [ARGUMENT]...", short: "Run a command in a session",
		long: `
The command's output and its exit status are this command's. Ctrl-C goes to it;
a second one ends it. With -d it is left running: its channel is printed, logs
shows its output, and nothing but its own end, kill or the session's end ends it.
For a terminal take shell.

  sandgate exec s_abc -- ls -la /tmp
  tar -c src | sandgate exec -i s_abc -- tar -x
  sandgate exec -d s_abc -- python3 -m http.server 8000`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			var o execOptions
			set.BoolVar(&o.detach, "detach", false, "Leave it running and print its channel.")
			set.BoolVar(&o.detach, "d", false, "Short for --detach.")
			set.BoolVar(&o.stdin, "stdin", false, "Pass standard input on.")
			set.BoolVar(&o.stdin, "i", false, "Short for --stdin.")
			set.StringVar(&o.cwd, "cwd", "", "Working `directory`, relative to the home; default the home.")
			set.Var(&o.env, "env", "Environment `variable`, NAME=VALUE or NAME; may be given again.")
			if err := parse(set, args, 2, -1); err != nil {
				return err
			}
			argv := set.Args()[1:]
			if argv[0] == "--" {
				argv = argv[1:]
			}
			if len(argv) == 0 {
				return usagef("a COMMAND is needed")
			}
			if o.detach && o.stdin {
				return usagef("what is detached has nobody to give it input: take -d or -i")
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			return execProgram(ctx, a, c, o, set.Arg(0), argv)
		},
	}
}

func execProgram(ctx context.Context, a *app, c *client.Client, o execOptions, session string, argv []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	pass := &signalPasser{cancel: cancel, interrupts: signals}
	go pass.loop(ctx)

	conn, err := c.Connect(ctx)
	if err != nil {
		return pass.why(err)
	}
	defer func() { _ = conn.Close() }()
	open := protocol.ChannelOpen{Session: session, Kind: "process", Argv: argv, Cwd: o.cwd, Env: environment(a, o.env), Stdin: o.stdin}
	if o.detach {
		ch, err := conn.OpenChannel(ctx, open)
		if err != nil {
			return pass.why(err)
		}
		fmt.Fprintln(a.Out, ch.ID)
		return nil
	}
	p, err := conn.Start(ctx, open)
	if err != nil {
		return pass.why(err)
	}
	pass.to(p)
	if o.stdin {
		go feed(ctx, a.In, p) // not waited for, see runProgram
	}
	if err := show(ctx, a, p); err != nil {
		return pass.why(err)
	}
	e := p.Exit()
	if e == nil || e.Code == 0 {
		return nil
	}
	if err := client.ExitError(*e); err != nil {
		return err
	}
	return console.ExitStatus(e.Code)
}
