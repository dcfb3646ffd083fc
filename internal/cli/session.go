package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/cli/flags"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/cli/templatefile"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
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
		}, func(ctx context.Context, c *wire.Client, id string) error {
			_, err := c.PauseSession(ctx, id)
			return err
		}),
		sessionHibernate(a),
		a.eachSession(&cobra.Command{
			Use: "resume SESSION...", Short: "Resume paused, hibernated and suspended sessions",
			Example: "  sandgate session resume s_abc",
		}, func(ctx context.Context, c *wire.Client, id string) error {
			_, err := c.ResumeSession(ctx, id)
			return err
		}),
	)
}

func sessionHibernate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "hibernate SESSION...",
		Short: "Write sessions to disk; the next request to them resumes them",
		Example: `  sandgate session hibernate s_abc
  sandgate session hibernate --suspend s_abc`,
	}
	suspend := c.Flags().Bool("suspend", false,
		"let only sandgate session resume resume them; other requests fail until then")
	return a.eachSession(c, func(ctx context.Context, c *wire.Client, id string) error {
		hibernate := c.HibernateSession
		if *suspend {
			hibernate = c.SuspendSession
		}
		_, err := hibernate(ctx, id)
		return err
	})
}

// eachSession makes a command that calls do for each of its arguments.
func (a *app) eachSession(cmd *cobra.Command, do func(ctx context.Context, c *wire.Client,
	ref string) error,
) *cobra.Command {
	return a.withClient(cmd, func(ctx context.Context, c *wire.Client, args []string) error {
		return a.eachOf(args, func(ref string) error { return do(ctx, c, ref) })
	})
}

func sessionList(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List your sessions",
		Example: `  sandgate session list
  sandgate session list --label team=data --state running
  sandgate session list -o json | jq -r '.sessions[].id'`,
	}
	o := listFlags(c)
	var q protocol.SessionQuery
	labels := flags.List{}
	c.Flags().StringVar(&q.Name, "name", "", "only the session with this `name`")
	c.Flags().StringVar(&q.State, "state", "",
		"only sessions in this `state`: running, paused, hibernated, resuming or lost")
	c.Flags().Var(&labels, "label",
		"only sessions with this label, `KEY[=VALUE]`; can be given again")
	return a.withClient(c, func(ctx context.Context, server *wire.Client, _ []string) error {
		for _, l := range labels {
			q.Labels = append(q.Labels, strings.Replace(l, "=", ":", 1))
		}
		all, err := server.SelectSessions(ctx, q)
		if err != nil {
			return err
		}
		for _, node := range all.Missing {
			fmt.Fprintf(a.Err, "warning: sessions of the node %s may be missing: it is gone\n",
				output.Printable(node))
		}
		return output.List(o.printer(a), all, all.Sessions, sessionColumns())
	})
}

func sessionGet(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "get SESSION", Short: "Show one session",
		Example: `  sandgate session get s_abc
  sandgate session get -o json s_abc`,
	}
	o := outputFlag(c, output.Table)
	return a.withClient(c, func(ctx context.Context, server *wire.Client, args []string) error {
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
			Name: "EXPIRES",
			Text: func(s protocol.Session) string {
				if s.ExpiresReason == protocol.ExpiresByIdleness {
					return output.Expiry(s.ExpiresMS) + " (idle)"
				}
				return output.Expiry(s.ExpiresMS)
			},
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
		{
			Name: "LABELS", Wide: true,
			Text: func(s protocol.Session) string { return labelsText(s.Labels) },
		},
		{Name: "NAME", Text: func(s protocol.Session) string { return output.Printable(s.Name) }},
	}
}

// labelsText returns labels as KEY=VALUE, in the order of the keys.
func labelsText(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+output.Printable(labels[key]))
	}
	return cmp.Or(strings.Join(all, " "), "-")
}

func sessionDelete(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "delete SESSION...", Short: "End sessions and remove their content",
		Example: "  sandgate session delete s_abc",
	}
	force := c.Flags().BoolP("force", "f", false, "a session that does not exist is no error")
	return a.eachSession(c, func(ctx context.Context, server *wire.Client, id string) error {
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
	remove, lifetime flags.Idle
	keep             bool
	name, onExpiry   string
	labels           flags.Pairs
}

func addPolicyFlags(set *pflag.FlagSet) *policyFlags {
	p := new(policyFlags)
	set.StringVar(&p.name, "name", "", "its `name`, which no other session has")
	p.labels = flags.Pairs{}
	set.Var(p.labels, "label", "a label, `KEY=VALUE`; can be given again")
	set.Var(&p.pause, "idle-pause", "`time` without work until it is paused, or never")
	set.Var(&p.hibernate, "idle-hibernate", "`time` without work until it is hibernated, or never")
	set.BoolVar(&p.keep, "keep-alive", false, "never pause or hibernate it for being idle")
	set.Var(&p.remove, "idle-delete", "`time` without work until it is deleted, or never")
	set.Var(&p.lifetime, "lifetime", "`time` until it ends, busy or not, or never")
	set.StringVar(&p.onExpiry, "on-expiry", "",
		"`what` happens at the end of its lifetime: delete (the default), hibernate or suspend")
	return p
}

func sessionCreate(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "create", Short: "Create a session and print its id",
		Long: `
An idle time and a lifetime are durations, or never. Limits that are not given come from the template or from the
server.`,
		Example: `  sandgate session create --language js --idle-hibernate 5m
  sandgate session create --template data --memory 2GiB --cpus 1
  sandgate session create --name work --exist-ok
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
	exist := set.Bool("exist-ok", false,
		"print the id of the session that has the name, if there is one")
	out := set.Bool("network", false, "let it reach the hosts that the server allows")
	set.Var(
		&hosts, "allow", "let it reach this `host`, such as python, git.example.org or *.example.org:443; can be repeated")
	set.Var((*flags.Mounts)(&r.Volumes), "volume",
		"give it a volume, `NAME[:/PATH][:ro]`, at /volumes/NAME with a link at PATH; can be given again")
	set.Var(env, "env", "a variable, `NAME=VALUE`; can be given again")
	services := set.String("services", "", "a YAML `file` with a list of its services")
	set.BoolVar(&r.WaitReady, "wait-ready", false, "return when its services are ready")
	limits := addLimitFlags(set)
	return a.withClient(c, func(ctx context.Context, server *wire.Client, _ []string) error {
		r.Limits = limits()
		if *services != "" {
			all, err := templatefile.ReadServices(*services)
			if err != nil {
				return err
			}
			r.Services = all
		}
		if *durable {
			r.Durable = durable
		}
		r.Network = flags.Network(*out, hosts)
		r.Name, r.Labels, r.Env, r.KeepAlive = p.name, p.labels, env, p.keep
		r.IdlePauseSeconds, r.IdleHibernateSeconds = p.pause.Seconds, p.hibernate.Seconds
		r.IdleDeleteSeconds, r.LifetimeSeconds = p.remove.Seconds, p.lifetime.Seconds
		r.OnExpiry = p.onExpiry
		if *exist && r.Name == "" {
			return usagef("--exist-ok needs --name")
		}
		if *exist {
			s, err := server.EnsureSession(ctx, r)
			if err == nil {
				fmt.Fprintln(a.Out, s.ID)
			}
			return err
		}
		s, err := server.CreateSession(ctx, r)
		if err == nil {
			fmt.Fprintln(a.Out, s.ID)
		}
		return err
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
		Use: "update SESSION", Short: "Change a session's name, its labels and its times",
		Long: `
Only the given settings change. Labels that are given replace all others. The session is printed as JSON.
The network of a session that was created with one can change: --egress=none cuts all its connections.`,
		Example: "  sandgate session update --keep-alive=true s_abc\n" +
			"  sandgate session update --egress python --egress git.example.org s_abc",
	}
	p, hosts := addPolicyFlags(c.Flags()), flags.List{}
	c.Flags().Var(&hosts, "egress",
		"let it reach only this `host`, as in --allow of create; can be repeated; or all or none")
	return a.withClient(c, func(ctx context.Context, server *wire.Client, args []string) error {
		r := protocol.SessionUpdate{Session: args[0]}
		c.Flags().Visit(func(f *pflag.Flag) {
			switch f.Name {
			case "name":
				r.Name = &p.name
			case "label":
				r.Labels = (*map[string]string)(&p.labels)
			case "idle-pause":
				r.IdlePauseSeconds = &p.pause.Seconds
			case "idle-hibernate":
				r.IdleHibernateSeconds = &p.hibernate.Seconds
			case "keep-alive":
				r.KeepAlive = &p.keep
			case "lifetime":
				r.LifetimeSeconds = &p.lifetime.Seconds
			case "on-expiry":
				r.OnExpiry = &p.onExpiry
			case "idle-delete":
				r.IdleDeleteSeconds = &p.remove.Seconds
			case "egress":
				r.Network = flags.Egress(hosts)
			}
		})
		s, err := server.UpdateSession(ctx, r)
		if err != nil {
			return err
		}
		return output.WriteJSON(a.Out, s)
	})
}
