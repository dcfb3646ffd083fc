package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

// pairs is a flag of NAME=VALUE that may be given again and again.
type pairs map[string]string

func (p pairs) String() string { return "" }

func (p pairs) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=VALUE", text)
	}
	p[name] = value
	return nil
}

// idle is a flag of an idle time: a duration, or never.
type idle struct{ seconds int64 }

func (i *idle) String() string { return "" }

func (i *idle) Set(text string) error {
	if text == "never" {
		i.seconds = protocol.Never
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return fmt.Errorf("%q is neither a duration from 1s on nor never", text)
	}
	i.seconds = int64(d / time.Second)
	return nil
}

// size is a flag of a number of bytes.
type size struct{ n *int64 }

func (s size) String() string { return "" }

func (s size) Set(text string) error {
	n, err := config.ParseSize(text)
	*s.n = int64(n)
	return err
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
	fmt.Fprintln(a.out, s.ID)
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

// printJSON prints for people and programs alike. JSON has no control
// characters in it.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
