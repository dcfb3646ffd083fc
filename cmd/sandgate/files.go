package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
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
					fmt.Fprintf(a.out, "%s:\n", printable(arg))
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
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
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

func watchCommand() command {
	return command{
		name: "watch", args: "SESSION:[PATH]", short: "Print changes to files in a session as they happen",
		long: `
Each line is a kind, created, modified or removed, and a path. A line that says
overflow means that there was more than could be told.

  sandgate watch -r s_abc:src`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			recursive := set.Bool("r", false, "Watch all folders below it too.")
			if err := parse(set, args, 1, 1); err != nil {
				return err
			}
			session, name, ok := remote(set.Arg(0))
			if !ok {
				return usagef("%q is not SESSION:PATH", set.Arg(0))
			}
			if name == "" {
				name = "."
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			link, err := c.Connect(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = link.Close() }()
			err = link.Watch(ctx, protocol.FileWatch{FileRef: protocol.FileRef{Session: session, Path: name}, Recursive: *recursive}, func() {
				fmt.Fprintln(a.err, "watching")
			}, func(f protocol.FileChanges) error {
				for _, one := range f.Changes {
					if _, err := fmt.Fprintf(a.out, "%-8s %s\n", one.Kind, printable(one.Path)); err != nil {
						return err
					}
				}
				if f.Overflow {
					fmt.Fprintln(a.out, "overflow")
				}
				return nil
			})
			if ctx.Err() != nil {
				return nil
			}
			return err
		},
	}
}
