package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
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
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
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

// policyFlags are those that create and update have in common.
type policyFlags struct {
	pause, hibernate idle
	keep             bool
	lifetime         time.Duration
	name             string
}

func addPolicyFlags(set *flag.FlagSet) *policyFlags {
	p := new(policyFlags)
	set.StringVar(&p.name, "name", "", "What you call it.")
	set.Var(&p.pause, "idle-pause", "`time` without work until it is paused, or never.")
	set.Var(&p.hibernate, "idle-hibernate", "`time` without work until it is hibernated, or never.")
	set.BoolVar(&p.keep, "keep-alive", false, "`switch` Being idle is no reason to pause or hibernate it.")
	set.DurationVar(&p.lifetime, "lifetime", 0, "`time` until it ends, whatever it does.")
	return p
}

func createSession(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	p := addPolicyFlags(set)
	env := pairs{}
	var r protocol.SessionCreate
	var l protocol.Limits
	set.StringVar(&r.Language, "language", "", "The `language` that is warm in it.")
	set.StringVar(&r.Template, "template", "", "The `template` that it is made from.")
	set.StringVar(&r.Snapshot, "snapshot", "", "The `snapshot`, an id or a name, that it goes on from.")
	durable := set.Bool("durable", false, "It comes back, as of when it last fell idle, after the server was killed.")
	out := set.Bool("network", false, "It may reach outside what the server lets out.")
	var hosts list
	set.Var(&hosts, "allow", "A `host` that it may reach outside, as pypi.org or *.example.org:443; may be given again.")
	set.Var((*mounts)(&r.Volumes), "volume", "A volume that it has, `NAME[:/PATH][:ro]`, at /volumes/NAME and linked to at PATH; may be given again.")
	set.Var(env, "env", "A variable, `NAME=VALUE`; may be given again.")
	set.Var(size{&l.MemoryBytes}, "memory", "Its memory, a `size`.")
	set.Float64Var(&l.CPUs, "cpus", 0, "Its processors, a `number`.")
	set.IntVar(&l.Processes, "processes", 0, "Its processes and threads, a `number`.")
	set.IntVar(&l.OpenFiles, "open-files", 0, "Open files of one process, a `number`.")
	set.Var(size{&l.DiskBytes}, "disk", "What it may write outside /tmp, a `size`.")
	set.Var(size{&l.TmpBytes}, "tmp", "The `size` of /tmp.")
	set.Int64Var(&l.Inodes, "inodes", 0, "Files and folders that it may make, a `number`.")
	set.Var(size{&l.OutputBytesPerSecond}, "output", "What a channel may print in a second, a `size`.")
	cell := set.Duration("cell", 0, "The `time` that a cell may run.")
	if err := parse(set, args, 0, 0); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	l.CellSeconds = int64(*cell / time.Second)
	if l != (protocol.Limits{}) {
		r.Limits = &l
	}
	if *durable {
		r.Durable = durable
	}
	r.Network = network(*out, hosts)
	r.Name, r.Env, r.KeepAlive = p.name, env, p.keep
	r.IdlePauseSeconds, r.IdleHibernateSeconds = p.pause.seconds, p.hibernate.seconds
	r.LifetimeSeconds = int64(p.lifetime / time.Second)
	s, err := c.CreateSession(ctx, r)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Out, s.ID)
	return nil
}

func updateSession(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	p := addPolicyFlags(set)
	if err := parse(set, args, 1, 1); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	r := protocol.SessionUpdate{Session: set.Arg(0)}
	seconds := int64(p.lifetime / time.Second)
	set.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "name":
			r.Name = &p.name
		case "idle-pause":
			r.IdlePauseSeconds = &p.pause.seconds
		case "idle-hibernate":
			r.IdleHibernateSeconds = &p.hibernate.seconds
		case "keep-alive":
			r.KeepAlive = &p.keep
		case "lifetime":
			r.LifetimeSeconds = &seconds
		}
	})
	s, err := c.UpdateSession(ctx, r)
	if err != nil {
		return err
	}
	return a.printJSON(s)
}

func inspectSession(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
	conn := connectionFlags(set)
	if err := parse(set, args, 1, 1); err != nil {
		return err
	}
	c, err := conn.client(a)
	if err != nil {
		return err
	}
	s, err := c.Session(ctx, set.Arg(0))
	if err != nil {
		return err
	}
	return a.printJSON(s)
}
