package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
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
			took, err := oneCell(ctx, c)
			switch {
			case fault.Is(err, fault.Exhausted):
				fmt.Fprintln(a.out, "full: all capacity is in use")
				return nil
			case err != nil:
				return err
			}
			fmt.Fprintf(a.out, "ok: print(6 * 7) in a new sandbox took %s\n", took)
			return nil
		},
	}
}

// oneCell runs code through all of the server and looks at what it prints.
func oneCell(ctx context.Context, c *client.Client) (time.Duration, error) {
	began := time.Now()
	var out strings.Builder
	err := c.Run(ctx, client.RunRequest{Code: "print(6 * 7)"}, func(e client.Event) error {
		if e.Type == "stdout" {
			out.WriteString(e.Text)
		}
		return nil
	})
	if err == nil && strings.TrimSpace(out.String()) != "42" {
		err = fault.New(fault.Internal, "check", "print(6 * 7) printed %q", out.String())
	}
	return time.Since(began).Round(time.Millisecond), err
}
