package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
)

func tokenCommand() command {
	return command{
		name: "token", short: "Print the access token that the client's commands use, or rotate the server's",
		long: `
--rotate, as root on the server's machine, puts a new token in the place of the
present one and prints the address with it. A server that runs takes it up
at once; connections stay. The present one is good for --keep longer.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			c := connectionFlags(set)
			flags := config.AddFlags(set)
			rotate := set.Bool("rotate", false, "Puts a new token in the place of the present one.")
			keep := set.Duration("keep", 10*time.Minute, "With --rotate: how long the present token is good for (a `duration`); 0 ends it at once.")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			if *rotate {
				cfg, err := config.Load(flags, a.Env)
				if err != nil {
					return err
				}
				return admin.RotateToken(ctx, a.Invocation, cfg, max(0, *keep))
			}
			p, err := c.find(a)
			if err != nil {
				return err
			}
			if _, t, ok := strings.Cut(p.URL, "#token="); ok && p.Token == "" {
				p.Token = t
			}
			if p.Token == "" {
				return fault.New(fault.Unauthenticated, "token", "no token was found; start sandgate serve, or set SANDGATE_TOKEN")
			}
			fmt.Fprintln(a.Out, p.Token)
			return nil
		},
	}
}
