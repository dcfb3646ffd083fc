package cli

import (
	"context"
	"flag"
	"fmt"

	"github.com/sandgate/sandgate/protocol"
)

func forkCommand() command {
	return command{
		name: "fork", args: "SESSION", short: "Copy a live session with all that runs in it",
		long: `
The copies begin where SESSION is now: its variables, files, shells and
programs go on in each of them, and in SESSION itself. Cells that wait run in
SESSION alone. The ids of the copies are printed.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			count := set.Int("n", 1, "How many copies to make, at most 32.")
			name := set.String("name", "", "Name of the copies; empty means that of the session.")
			if err := parse(set, args, 1, 1); err != nil {
				return err
			}
			if *count < 1 {
				return usagef("-n must be at least 1")
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			f, err := c.ForkSession(ctx, protocol.SessionFork{Session: set.Arg(0), Count: *count, Name: *name})
			if err != nil {
				return err
			}
			for _, s := range f.Sessions {
				fmt.Fprintln(a.Out, s.ID)
			}
			return nil
		},
	}
}
