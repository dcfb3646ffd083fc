package cli

import (
	"context"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
)

func mvCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "mv SESSION:PATH SESSION:PATH|NAME", Short: "Move or rename a file or a folder in a session",
		Long: `
The destination is SESSION:PATH, of the same session, or a path alone. The file goes into the
folder that it names, when that exists or ends in a slash, and becomes the destination otherwise. A
file that is already there is replaced, unless -n.`,
		Example: `  sandgate mv s_abc:draft.csv final.csv
  sandgate mv s_abc:a.csv s_abc:data/`,
	}
	keep := c.Flags().BoolP("no-clobber", "n", false, "replace nothing")
	return a.withClient(c, func(ctx context.Context, server *client.Client, args []string) error {
		session, from, ok := remote(args[0])
		if !ok || from == "" {
			return usagef("%q is not SESSION:PATH", args[0])
		}
		to := args[1]
		if other, name, ok := remote(to); ok && other != session {
			return usagef("files are moved within a session; between sessions use cp, and rm")
		} else if ok {
			to = name
		}
		to, err := within(ctx, server, session, from, to)
		if err != nil {
			return err
		}
		_, err = server.Move(ctx, session, from, to, !*keep)
		return err
	})
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
