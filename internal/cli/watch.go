package cli

import (
	"context"
	"flag"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/sandgate/sandgate/protocol"
)

func watchCommand() command {
	return command{
		name: "watch", args: "SESSION:[PATH]", short: "Print changes to files in a session as they happen",
		long: `
Each line is a kind, created, modified or removed, and a path. A line that says
overflow means that there was more than could be told.

  sandgate watch -r s_abc:src`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			recursive := set.Bool("r", false, "Watch all folders below it too.")
			if err := parse(set, args, 1, 1); err != nil {
				return err
			}
			session, name, ok := remote(set.Arg(0))
			if !ok {
				return usagef("%q is not SESSION:PATH", set.Arg(0))
			}
			if name == "" {
				name = "."
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			link, err := c.Connect(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = link.Close() }()
			err = link.Watch(ctx, protocol.FileWatch{FileRef: protocol.FileRef{Session: session, Path: name}, Recursive: *recursive}, func() {
				fmt.Fprintln(a.Err, "watching")
			}, func(f protocol.FileChanges) error {
				for _, one := range f.Changes {
					if _, err := fmt.Fprintf(a.Out, "%-8s %s\n", one.Kind, printable(one.Path)); err != nil {
						return err
					}
				}
				if f.Overflow {
					fmt.Fprintln(a.Out, "overflow")
				}
				return nil
			})
			if ctx.Err() != nil {
				return nil
			}
			return err
		},
	}
}
