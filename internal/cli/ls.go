package cli

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

func lsCommand() command {
	return command{
		name: "ls", args: "SESSION:[PATH]...", short: "List files in a session",
		long: `
A relative PATH is in the session's home directory. Names that begin with a dot
are shown with -a.

  sandgate ls s_abc:
  sandgate ls -l s_abc:/tmp s_abc:src`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			long := set.Bool("l", false, "Show mode, size and time too.")
			all := set.Bool("a", false, "Show names that begin with a dot.")
			if err := parse(set, args, 1, -1); err != nil {
				return err
			}
			for _, arg := range set.Args() {
				if _, _, ok := remote(arg); !ok {
					return usagef("%q is not SESSION:PATH", arg)
				}
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			return a.eachOf(set.Args(), func(arg string) error {
				if set.NArg() > 1 {
					fmt.Fprintf(a.Out, "%s:\n", printable(arg))
				}
				session, name, _ := remote(arg)
				return a.listFiles(ctx, c, session, name, *long, *all)
			})
		},
	}
}

func (a *app) listFiles(ctx context.Context, c *client.Client, session, name string, long, all bool) error {
	if name == "" {
		name = "."
	}
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	show := func(f protocol.File) {
		base := printable(path.Base(f.Path))
		if f.Dir && f.Type == "folder" {
			base += "/"
		}
		if !long {
			fmt.Fprintln(w, base)
			return
		}
		if f.Target != "" {
			base += " -> " + printable(f.Target)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", modeOf(f), f.Size, time.UnixMilli(f.ModifiedMS).Format("2006-01-02 15:04"), base)
	}
	f, err := c.Stat(ctx, session, name)
	if err != nil {
		return err
	}
	if !f.Dir {
		show(f)
		return w.Flush()
	}
	for f, err := range c.Files(ctx, session, name) {
		if err != nil {
			return err
		}
		if all || !strings.HasPrefix(path.Base(f.Path), ".") {
			show(f)
		}
	}
	return w.Flush()
}

func modeOf(f protocol.File) string {
	m := fs.FileMode(f.Mode & 0o777)
	switch f.Type {
	case "folder":
		m |= fs.ModeDir
	case "link":
		m |= fs.ModeSymlink
	case "fifo":
		m |= fs.ModeNamedPipe
	case "socket":
		m |= fs.ModeSocket
	case "device":
		m |= fs.ModeDevice
	}
	return m.String()
}
