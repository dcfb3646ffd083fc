package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

func volumeCommand() command {
	return command{
		name: "volume", args: "create NAME | ls | inspect NAME | rm NAME... | lease NAME | renew NAME | release NAME", short: "Folders that outlive sessions, and that sessions share",
		long: `
  sandgate volume create --max 5GiB data
  sandgate sessions create --volume data:/home/user/data
  sandgate sessions create --volume data::ro
  sandgate volume lease --ttl 5m --holder loader data    prints a token
  sandgate volume renew --token 3 data
  sandgate volume release --token 3 data
  sandgate volume rm data

In a session a volume is the folder /volumes/NAME. A lease is advisory: those who
share a volume agree to write while they have it.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			var most int64
			set.Var(size{&most}, "max", "What it may hold, a `size` (create).")
			holder := set.String("holder", "", "Who has the lease, for people (lease).")
			ttl := set.Duration("ttl", time.Minute, "How long the lease lasts (lease, renew).")
			token := set.Uint64("token", 0, "The lease's `token` (renew, release).")
			quiet := set.Bool("q", false, "Print the names alone (ls).")
			// Flags stand before and behind the verb.
			if err := set.Parse(args); err != nil {
				return &parseError{err}
			}
			verb := set.Arg(0)
			if !slices.Contains([]string{"create", "ls", "inspect", "rm", "lease", "renew", "release"}, verb) {
				return usagef("say create, ls, inspect, rm, lease, renew or release")
			}
			least, most1 := 1, 1
			switch verb {
			case "ls":
				least, most1 = 0, 0
			case "rm":
				most1 = -1
			}
			if err := parse(set, set.Args()[1:], least, most1); err != nil {
				return err
			}
			if (verb == "renew" || verb == "release") && *token == 0 {
				return usagef("say which lease: --token")
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			name := set.Arg(0)
			switch verb {
			case "create":
				v, err := c.CreateVolume(ctx, protocol.VolumeCreate{Name: name, MaxBytes: most})
				if err == nil {
					fmt.Fprintln(a.Out, v.Name)
				}
				return err
			case "inspect":
				v, err := c.Volume(ctx, name)
				if err != nil {
					return err
				}
				return a.printJSON(v)
			case "rm":
				return a.eachOf(set.Args(), func(name string) error { return c.DeleteVolume(ctx, name) })
			case "release":
				return c.ReleaseVolume(ctx, name, *token)
			case "lease", "renew":
				p := protocol.VolumeLease{Name: name, Holder: *holder, TTLSeconds: int64(*ttl / time.Second)}
				if verb == "renew" {
					p.Token = *token
				}
				l, err := c.LeaseVolume(ctx, p)
				if err == nil {
					fmt.Fprintln(a.Out, l.Token)
				}
				return err
			}
			return a.listVolumes(ctx, c, *quiet)
		},
	}
}

func (a *app) listVolumes(ctx context.Context, c *client.Client, quiet bool) error {
	all, err := c.Volumes(ctx)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
	if !quiet && len(all) > 0 {
		fmt.Fprintln(w, "NAME\tAGE\tSIZE\tMAX\tSESSIONS\tLEASE")
	}
	for _, v := range all {
		if quiet {
			fmt.Fprintln(w, v.Name)
			continue
		}
		lease := "-"
		if v.Lease != nil {
			lease = fmt.Sprint(v.Lease.Token, " ", printable(v.Lease.Holder))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", v.Name, since(v.CreatedMS), config.Size(v.Bytes>>10<<10), config.Size(v.MaxBytes), v.Sessions, lease)
	}
	return w.Flush()
}
