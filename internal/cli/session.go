package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/internal/cli/flags"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/protocol"
)

func sessionCommand(a *app) *cobra.Command {
	return group("session", "Create, list, change and delete sessions", `
A session is a sandbox with its kernels, terminals, processes and files.`,
		`  sandgate session create --language js --idle-hibernate 5m
  sandgate session list -o wide
  sandgate session delete s_abc`,
		sessionCreate(a), sessionList(a), sessionGet(a), sessionUpdate(a), sessionDelete(a),
		sessionFork(a),
		a.eachSession(&cobra.Command{
			Use:     "pause SESSION...",
			Short:   "Freeze sessions in memory; the next request to them resumes them",
			Example: "  sandgate session pause s_abc",
		}, func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.PauseSession(ctx, id)
			return err
		}),
		a.eachSession(&cobra.Command{
			Use:     "hibernate SESSION...",
			Short:   "Write sessions to disk; the next request to them resumes them",
			Example: "  sandgate session hibernate s_abc",
		}, func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.HibernateSession(ctx, id)
			return err
		}),
		a.eachSession(&cobra.Command{
			Use: "resume SESSION...", Short: "Resume paused and hibernated sessions",
			Example: "  sandgate session resume s_abc",
		}, func(ctx context.Context, c *client.Client, id string) error {
			_, err := c.ResumeSession(ctx, id)
			return err
		}),
	)
}

// eachSession makes a command that calls do for each of its arguments.
func (a *app) eachSession(cmd *cobra.Command, do func(ctx context.Context, c *client.Client,
	ref string) error,
) *cobra.Command {
	return a.withClient(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		return a.eachOf(args, func(ref string) error { return do(ctx, c, ref) })
	})
}

func sessionList(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List your sessions",
		Example: `  sandgate session list
  sandgate session list -o json | jq -r '.sessions[].id'`,
	}
	o := listFlags(c)
	return a.withClient(c, func(ctx context.Context, server *client.Client, _ []string) error {
		all, err := server.Sessions(ctx)
		if err != nil {
			return err
		}
		return output.List(o.printer(a), protocol.SessionList{Sessions: all}, all, sessionColumns())
	})
}

func sessionGet(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "get SESSION", Short: "Show one session",
		Example: `  sandgate session get s_abc
  sandgate session get -o json s_abc`,
	}
	o := outputFlag(c, output.Table)
	return a.withClient(c, func(ctx context.Context, server *client.Client, args []string) error {
		s, err := server.Session(ctx, args[0])
		if err != nil {
			return err
		}
		return output.Object(output.Printer{W: a.Out, Format: *o}, s, sessionColumns())
	})
}

func sessionColumns() []output.Column[protocol.Session] {
	return []output.Column[protocol.Session]{
		{Name: "ID", Text: func(s protocol.Session) string { return s.ID }},
		{Name: "LANGUAGE", Text: func(s protocol.Session) string { return s.Language }},
		{Name: "STATE", Text: func(s protocol.Session) string {
			if s.Reason != "" {
				return s.State + " (" + s.Reason + ")"
			}
			return s.State
		}},
		{Name: "AGE", Text: func(s protocol.Session) string { return output.Age(s.CreatedMS) }},
		{Name: "IDLE", Text: func(s protocol.Session) string { return output.Age(s.ActiveMS) }},
		{Name: "CHANNELS", Text: func(s protocol.Session) string {
			return fmt.Sprint(
				len(s.Channels))
		}},
		{
			Name: "EXPIRES", Wide: true,
			Text: func(s protocol.Session) string { return output.Expiry(s.ExpiresMS) },
		},
		{
			Name: "TEMPLATE", Wide: true,
			Text: func(s protocol.Session) string { return cmp.Or(s.Template, "-") },
		},
		{
			Name: "ORIGIN", Wide: true,
			Text: func(s protocol.Session) string { return cmp.Or(s.Origin, "-") },
		},
		{
			Name: "DURABLE", Wide: true,
			Text: func(s protocol.Session) string { return fmt.Sprint(s.Durable) },
		},
		{Name: "NAME", Text: func(s protocol.Session) string { return output.Printable(s.Name) }},
	}
}

func sessionDelete(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "delete SESSION...", Short: "End sessions and remove their content",
		Example: "  sandgate session delete s_abc",
	}
	force := c.Flags().BoolP("force", "f", false, "a session that does not exist is no error")
	return a.eachSession(c, func(ctx context.Context, server *client.Client, id string) error {
		err := server.DeleteSession(ctx, id)
		if *force && fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
}

func sessionFork(a *app) *cobra.Command {
	c := forkCommand(a)
	c.Example = "  sandgate session fork -n 3 s_abc"
	return c
}

// policyFlags are the flags that create and update share.
type policyFlags struct {
	pause, hibernate flags.Idle
	keep             bool
	lifetime         time.Duration
	name             string
}

func addPolicyFlags(set *pflag.FlagSet) *policyFlags {
	p := new(policyFlags)
	set.StringVar(&p.name, "name", "", "its `name`")
	set.Var(&p.pause, "idle-pause", "`time` without work until it is paused, or never")
	set.Var(&p.hibernate, "idle-hibernate", "`time` without work until it is hibernated, or never")
	set.BoolVar(&p.keep, "keep-alive", false, "never pause or hibernate it for being idle")
	set.DurationVar(&p.lifetime, "lifetime", 0, "`time` until it ends, busy or not")
	return p
}

func sessionCreate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "create", Short: "Create a session and print its id",
		Long: `
An idle time is a duration, or never. Limits that are not given come from the template or from the
server.`,
		Example: `  sandgate session create --language js --idle-hibernate 5m
  sandgate session create --template data --memory 2GiB --cpus 1
  sandgate session create --snapshot clean
  sandgate session create --volume data:/home/user/data`,
	}
	set := c.Flags()
	p := addPolicyFlags(set)
	env, hosts := flags.Pairs{}, flags.List{}
	var r protocol.SessionCreate
	set.StringVar(&r.Language, "language", "", "the `language` that is warm in it")
	set.StringVar(&r.Template, "template", "", "the `template` to create it from")
	set.StringVar(&r.Snapshot, "snapshot", "",
		"the `snapshot`, an id or a name, that it continues from")
	durable := set.Bool("durable", false,
		"restore it after the server was killed, in the state in which it was last idle")
	out := set.Bool("network", false, "let it reach the hosts that the server allows")
	set.Var(
		&hosts, "allow", "let it reach this `host`, such as python, git.example.org or *.example.org:443; can be repeated")
	set.Var((*flags.Mounts)(&r.Volumes), "volume",
		"give it a volume, `NAME[:/PATH][:ro]`, at /volumes/NAME with a link at PATH; can be given again")
	set.Var(env, "env", "a variable, `NAME=VALUE`; can be given again")
	limits := addLimitFlags(set)
	return a.withClient(c, func(ctx context.Context, server *client.Client, _ []string) error {
		r.Limits = limits()
		if *durable {
			r.Durable = durable
		}
		r.Network = flags.Network(*out, hosts)
		r.Name, r.Env, r.KeepAlive = p.name, env, p.keep
		r.IdlePauseSeconds, r.IdleHibernateSeconds = p.pause.Seconds, p.hibernate.Seconds
		r.LifetimeSeconds = int64(p.lifetime / time.Second)
		s, err := server.CreateSession(ctx, r)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Out, s.ID)
		return nil
	})
}

// addLimitFlags adds the flags of a session's limits. The returned function returns the limits, or
// nil if no flag was given.
func addLimitFlags(set *pflag.FlagSet) func() *protocol.Limits {
	var l protocol.Limits
	set.Var(flags.Size{N: &l.MemoryBytes}, "memory", "its memory, a `size`")
	set.Float64Var(&l.CPUs, "cpus", 0, "its processors, a `number`")
	set.IntVar(&l.Processes, "processes", 0, "its processes and threads, a `number`")
	set.IntVar(&l.OpenFiles, "open-files", 0, "open files of one process, a `number`")
	set.Var(flags.Size{N: &l.DiskBytes}, "disk",
		"the bytes that it may write outside /tmp, a `size`")
	set.Var(flags.Size{N: &l.TmpBytes}, "tmp", "the `size` of /tmp")
	set.Int64Var(&l.Inodes, "inodes", 0, "files and folders that it may create, a `number`")
	set.Var(flags.Size{N: &l.OutputBytesPerSecond}, "output",
		"the bytes that a channel may print in a second, a `size`")
	cell := set.Duration("cell", 0, "the `time` that a cell may run")
	return func() *protocol.Limits {
		l.CellSeconds = int64(*cell / time.Second)
		if l == (protocol.Limits{}) {
			return nil
		}
		return &l
	}
}

func sessionUpdate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "update SESSION", Short: "Change a session's name and its times",
		Long: `
Only the given settings change. The session is printed as JSON.`,
		Example: "  sandgate session update --keep-alive=true s_abc",
	}
	p := addPolicyFlags(c.Flags())
	return a.withClient(c, func(ctx context.Context, server *client.Client, args []string) error {
		r := protocol.SessionUpdate{Session: args[0]}
		seconds := int64(p.lifetime / time.Second)
		c.Flags().Visit(func(f *pflag.Flag) {
			switch f.Name {
			case "name":
				r.Name = &p.name
			case "idle-pause":
				r.IdlePauseSeconds = &p.pause.Seconds
			case "idle-hibernate":
				r.IdleHibernateSeconds = &p.hibernate.Seconds
			case "keep-alive":
				r.KeepAlive = &p.keep
			case "lifetime":
				r.LifetimeSeconds = &seconds
			}
		})
		s, err := server.UpdateSession(ctx, r)
		if err != nil {
			return err
		}
		return output.WriteJSON(a.Out, s)
	})
}
