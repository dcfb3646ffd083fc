package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/console"
	"github.com/sandgate/sandgate/protocol"
)

func execCommand(a *app) *cobra.Command {
	var o execOptions
	c := &cobra.Command{
		Use: "exec SESSION [--] COMMAND [ARGUMENT]...", Short: "Run a command in a session",
		Long: `
The command's output and its exit status are this command's. Ctrl-C goes to it; a second one ends
it. With -d it is left running: its channel is printed, logs shows its output, and only its own
end, kill or the session's end stops it. For a terminal use shell.`,
		Example: `  sandgate exec s_abc -- ls -la /tmp
  tar -c src | sandgate exec -i s_abc -- tar -x
  sandgate exec -d s_abc -- python3 -m http.server 8000`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("the argument SESSION is missing")
			case len(args) == 1 || len(args) == 2 && args[1] == "--":
				return usagef("the argument COMMAND is missing")
			case o.detach && o.stdin:
				return usagef("a detached command has no input: use -d or -i")
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.BoolVarP(&o.detach, "detach", "d", false, "leave it running and print its channel")
	flags.BoolVarP(&o.stdin, "stdin", "i", false, "pass standard input on")
	flags.StringVar(&o.cwd, "cwd", "", "working `directory`, relative to the home; else the home")
	flags.Var(&o.env, "env", "environment `variable`, NAME=VALUE or NAME; can be given again")
	passArguments(c)
	return a.withClient(c, func(ctx context.Context, server *client.Client, args []string) error {
		argv := args[1:]
		if argv[0] == "--" {
			argv = argv[1:]
		}
		return execProgram(ctx, a, server, o, args[0], argv)
	})
}

type execOptions struct {
	detach, stdin bool
	cwd           string
	env           list
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
