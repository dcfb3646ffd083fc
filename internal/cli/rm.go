package cli

import (
	"context"
	"flag"

	"github.com/sandgate/sandgate/fault"
)

func rmCommand() command {
	return command{
		name: "rm", args: "SESSION... | SESSION:PATH...", short: "End sessions and remove all that is in them, or remove files in them",
		long: `
  sandgate rm s_abc              ends the session
  sandgate rm s_abc:old.csv      removes a file in it, or an empty folder
  sandgate rm -r s_abc:build     removes a folder with all below it
  sandgate rm -f s_abc:none      what is not there is no error`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			recursive := set.Bool("r", false, "Remove folders with all below them.")
			force := set.Bool("f", false, "What is not there is no error.")
			if err := parse(set, args, 1, -1); err != nil {
				return err
			}
			for _, arg := range set.Args() {
				// s_abc: would be the home, and looks like the session.
				if _, name, ok := remote(arg); ok && name == "" {
					return usagef("%q names no file; to end the session leave out the colon", arg)
				}
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			return a.eachOf(set.Args(), func(arg string) error {
				var err error
				if session, name, ok := remote(arg); ok {
					err = c.Remove(ctx, session, name, *recursive)
				} else {
					err = c.DeleteSession(ctx, arg)
				}
				if *force && fault.Is(err, fault.NotFound) {
					return nil
				}
				return err
			})
		},
	}
}
