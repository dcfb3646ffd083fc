package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
)

func statusCommand() command {
	return command{
		name: "status", short: "Print how the server is",
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			s, err := c.Status(ctx)
			if err != nil {
				return err
			}
			var languages []string
			for _, l := range s.Languages {
				languages = append(languages, l.Name)
			}
			w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintf(w, "server\t%s\nversion\t%s\nlanguages\t%s\nsessions\t%d, and %d hibernated\n", c.URL(), s.Version, strings.Join(languages, ", "), s.Sessions, s.Hibernated)
			fmt.Fprintf(w, "pool\t%d of %d ready; %d claims, %d waited, %d refused\n", s.Pool.Ready, s.Pool.Size, s.Pool.Claims, s.Pool.Waits, s.Pool.Refusals)
			if s.Pool.LastError != "" {
				fmt.Fprintf(w, "last error\t%s\n", printable(s.Pool.LastError))
			}
			return w.Flush()
		},
	}
}
