package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
)

func sessionsCommand() command {
	return command{
		name: "sessions", args: "[ls | create | inspect SESSION | update SESSION | rm SESSION...]", short: "List, make, show, change and end sessions",
		long: `
Without a word, or with ls, it lists your sessions.

  sandgate sessions create --language js --idle-hibernate 5m
  sandgate sessions create --template data --memory 2GiB --cpus 1
  sandgate sessions update --keep-alive=true s_abc
  sandgate sessions inspect s_abc

An idle time is a duration, or never. Limits that are not given are those of the
template, or of the server.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			word := "ls"
			if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				word, args = args[0], args[1:]
			}
			switch word {
			case "ls":
				return listSessions(ctx, a, set, args)
			case "create":
				return createSession(ctx, a, set, args)
			case "inspect":
				return inspectSession(ctx, a, set, args)
			case "update":
				return updateSession(ctx, a, set, args)
			case "rm":
				return rmCommand().run(ctx, a, set, args)
			}
			return usagef("there is no sessions %s: ls, create, inspect, update or rm", word)
		},
	}
}

func listSessions(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	quiet := set.Bool("q", false, "Print the ids alone.")
	if err := parse(set, args, 0, 0); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	all, err := c.Sessions(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	if !*quiet && len(all) > 0 {
		fmt.Fprintln(w, "ID\tLANGUAGE\tSTATE\tAGE\tIDLE\tCHANNELS\tNAME")
	}
	for _, s := range all {
		if *quiet {
			fmt.Fprintln(w, s.ID)
			continue
		}
		state := s.State
		if s.Reason != "" {
			state += " (" + s.Reason + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s.ID, s.Language, state, since(s.CreatedMS), since(s.ActiveMS), len(s.Channels), printable(s.Name))
	}
	return w.Flush()
}

// printable keeps a name that somebody chose from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

func since(ms int64) string {
	d := time.Since(time.UnixMilli(ms)).Round(time.Second)
	if d < 0 {
		d = 0
	}
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func hibernateCommand() command {
	return eachSession("hibernate", "Write sessions to disk; the next work in them wakes them", func(c *client.Client, ctx context.Context, id string) error {
		_, err := c.HibernateSession(ctx, id)
		return err
	})
}

func pauseCommand() command {
	return eachSession("pause", "Freeze sessions in memory; the next work in them lets them go on", func(c *client.Client, ctx context.Context, id string) error {
		_, err := c.PauseSession(ctx, id)
		return err
	})
}

func resumeCommand() command {
	return eachSession("resume", "Wake paused and hibernated sessions", func(c *client.Client, ctx context.Context, id string) error {
		_, err := c.ResumeSession(ctx, id)
		return err
	})
}

// eachSession is a command that does one thing to each session it is given.
func eachSession(name, short string, do func(*client.Client, context.Context, string) error) command {
	return command{
		name: name, args: "SESSION...", short: short,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			if err := parse(set, args, 1, -1); err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			var first error
			for _, id := range set.Args() {
				if err := do(c, ctx, id); err != nil {
					if first == nil {
						first = err
					} else {
						a.fail(err)
					}
				}
			}
			return first
		},
	}
}

// localError is about a file on this machine.
func localError(err error) error {
	kind := fault.InvalidArgument
	switch {
	case errors.Is(err, os.ErrNotExist):
		kind = fault.NotFound
	case errors.Is(err, os.ErrPermission):
		kind = fault.PermissionDenied
	}
	return &fault.Error{Kind: kind, Op: "file", Message: err.Error(), Err: err}
}

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
			w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
			fmt.Fprintf(w, "server\t%s\nversion\t%s\nlanguages\t%s\nsessions\t%d, and %d hibernated\n", c.URL(), s.Version, strings.Join(languages, ", "), s.Sessions, s.Hibernated)
			fmt.Fprintf(w, "pool\t%d of %d ready; %d claims, %d waited, %d refused\n", s.Pool.Ready, s.Pool.Size, s.Pool.Claims, s.Pool.Waits, s.Pool.Refusals)
			if s.Pool.LastError != "" {
				fmt.Fprintf(w, "last error\t%s\n", printable(s.Pool.LastError))
			}
			return w.Flush()
		},
	}
}
