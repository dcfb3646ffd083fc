package cli

import (
	"context"
	"flag"
	"path"
	"strings"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
)

func mvCommand() command {
	return command{
		name: "mv", args: "SESSION:FROM TO", short: "Move or rename a file or a folder in a session",
		long: `
TO is SESSION:PATH, of the same session, or PATH alone. What is moved goes into
the folder that TO names, when that is there or ends in a slash, and becomes TO
otherwise. A file that is there is replaced, unless -n.

  sandgate mv s_abc:draft.csv final.csv
  sandgate mv s_abc:a.csv s_abc:data/`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			keep := set.Bool("n", false, "Replace nothing.")
			if err := parse(set, args, 2, 2); err != nil {
				return err
			}
			session, from, ok := remote(set.Arg(0))
			if !ok || from == "" {
				return usagef("%q is not SESSION:PATH", set.Arg(0))
			}
			to := set.Arg(1)
			if other, name, ok := remote(to); ok && other != session {
				return usagef("files are moved within a session; between sessions take cp, and rm")
			} else if ok {
				to = name
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			if to, err = within(ctx, c, session, from, to); err != nil {
				return err
			}
			_, err = c.Move(ctx, session, from, to, !*keep)
			return err
		},
	}
}

// within is where something goes that is moved or copied to a path of a
// session: into a folder that is there, or is meant by a slash.
func within(ctx context.Context, c *client.Client, session, from, to string) (string, error) {
	if to == "" || strings.HasSuffix(to, "/") {
		return path.Join(to, path.Base(from)), nil
	}
	f, err := c.Stat(ctx, session, to)
	switch {
	case err == nil && f.Dir:
		return path.Join(to, path.Base(from)), nil
	case err != nil && !fault.Is(err, fault.NotFound):
		return "", err
	}
	return to, nil
}
