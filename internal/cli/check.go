package cli

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/admin"
)

func checkCommand() command {
	return command{
		name: "check", short: "Run one cell through the whole server, and say how it went",
		long: `
Makes a session, runs print(6 * 7) in it, looks at the answer and deletes the
session. Exits with 0 when that worked, or when all capacity is in use. For a
container's health check or a monitor; GET /readyz answers from such a check
that the gateway runs by itself.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			limit := set.Duration("timeout", 30*time.Second, "How long it may take (a `duration`).")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, *limit)
			defer cancel()
			took, err := admin.OneCell(ctx, c)
			switch {
			case fault.Is(err, fault.Exhausted):
				fmt.Fprintln(a.Out, "full: all capacity is in use")
				return nil
			case err != nil:
				return err
			}
			fmt.Fprintf(a.Out, "ok: print(6 * 7) in a new sandbox took %s\n", took)
			return nil
		},
	}
}
