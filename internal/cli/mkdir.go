package cli

import (
	"context"
	"flag"

	"github.com/sandgate/sandgate/fault"
)

func mkdirCommand() command {
	return command{
		name: "mkdir", args: "SESSION:PATH...", short: "Make folders in a session",
		long: `
The folders above it are made too. One that is there is no error.

  sandgate mkdir s_abc:data/raw`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			if err := parse(set, args, 1, -1); err != nil {
				return err
			}
			for _, arg := range set.Args() {
				if _, name, ok := remote(arg); !ok || name == "" {
					return usagef("%q is not SESSION:PATH", arg)
				}
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			return a.eachOf(set.Args(), func(arg string) error {
				session, name, _ := remote(arg)
				_, err := c.Mkdir(ctx, session, name)
				if fault.Is(err, fault.Conflict) {
					if f, serr := c.Stat(ctx, session, name); serr == nil && f.Dir {
						return nil
					}
				}
				return err
			})
		},
	}
}
