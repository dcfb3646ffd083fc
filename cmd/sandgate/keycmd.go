package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

func keyCommand() command {
	return command{
		name: "key", args: "create | ls | rotate KEY | revoke KEY...", short: "Make, list, rotate and revoke API keys",
		long: `
  sandgate key create --name ci --role driver --expires 720h
  sandgate key create --tenant acme --role owner --max-sessions 10
  sandgate key ls --all
  sandgate key rotate --keep 1h KEY
  sandgate key revoke KEY

Roles: admin (everything, and all tenants), owner (everything in its tenant),
driver (runs code, writes files), viewer (reads), run (POST /v1/run alone),
metrics (GET /metrics alone, for Prometheus). A key's secret is printed once, on
standard output; the server keeps its hash. KEY is an id of ls. What the key is
revoked for takes effect at once: its connections are closed.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			p := protocol.KeyCreate{}
			set.StringVar(&p.Name, "name", "", "What the key is for, up to 64 bytes (create).")
			set.StringVar(&p.Role, "role", "owner", "Its `role`: admin, owner, driver, viewer, run or metrics (create).")
			set.StringVar(&p.Tenant, "tenant", "", "Whose it is; your own tenant if empty (create, ls).")
			expires := set.Duration("expires", 0, "End it after this time, such as 720h; 0 means never (create).")
			keep := set.Duration("keep", 0, "How long the present secret stays good (rotate).")
			all := set.Bool("all", false, "Those of all tenants (ls).")
			quiet := set.Bool("q", false, "Print the ids alone (ls).")
			quotaFlags(set, &p.Quota)
			verb, err := verbOf(set, args, map[string][2]int{"create": {0, 0}, "ls": {0, 0}, "rotate": {1, 1}, "revoke": {1, -1}})
			if err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			switch verb {
			case "create":
				p.ExpiresSeconds = int64(*expires / time.Second)
				k, err := c.CreateKey(ctx, p)
				return a.tellKey(c, k, err)
			case "rotate":
				k, err := c.RotateKey(ctx, protocol.KeyRotate{ID: set.Arg(0), KeepSeconds: int64(*keep / time.Second)})
				return a.tellKey(c, k, err)
			case "revoke":
				return a.revokeKeys(ctx, c, set.Args())
			}
			keys, err := c.Keys(ctx, protocol.KeyQuery{Tenant: p.Tenant, All: *all})
			if err != nil {
				return err
			}
			return a.listKeys(keys, *quiet)
		},
	}
}

// verbOf parses flags that stand before and behind a verb, and checks how many
// arguments follow it.
func verbOf(set *flag.FlagSet, args []string, verbs map[string][2]int) (string, error) {
	if err := set.Parse(args); err != nil {
		return "", &parseError{err}
	}
	verb := set.Arg(0)
	n, known := verbs[verb]
	if !known {
		var all []string
		for v := range verbs {
			all = append(all, v)
		}
		slices.Sort(all)
		return "", usagef("say one of %s", strings.Join(all, ", "))
	}
	return verb, parse(set, set.Args()[1:], n[0], n[1])
}

func quotaFlags(set *flag.FlagSet, q *protocol.Quota) {
	set.IntVar(&q.Sessions, "max-sessions", 0, "Quota: sessions that exist, hibernated ones among them; 0 for none, as with all quotas.")
	set.IntVar(&q.Running, "max-running", 0, "Quota: sessions with a sandbox.")
	set.Float64Var(&q.CPUs, "max-cpus", 0, "Quota: processors of those, added up.")
	set.Var(size{&q.MemoryBytes}, "max-memory", "Quota: memory of those, added up, a `size`.")
	set.Var(size{&q.DiskBytes}, "max-disk", "Quota: what snapshots, templates and hibernated sessions take, a `size`.")
	set.IntVar(&q.Snapshots, "max-snapshots", 0, "Quota: snapshots.")
	set.Float64Var(&q.RequestsPerSecond, "max-requests", 0, "Quota: requests a second.")
}

// tellKey prints the secret alone on standard output, for scripts.
func (a *app) tellKey(c *client.Client, k protocol.NewKey, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintln(a.out, k.Secret)
	fmt.Fprintf(a.err, "Key %s, %s of the tenant %s. This is the only time that its secret is shown.\n", k.Key.ID, k.Key.Role, k.Key.Tenant)
	if k.Key.Role != "run" && k.Key.Role != "metrics" {
		fmt.Fprintf(a.err, "Whoever opens %s/#token=<secret> is signed in with it.\n", c.URL())
	}
	return nil
}

func (a *app) revokeKeys(ctx context.Context, c *client.Client, ids []string) error {
	var first error
	for _, id := range ids {
		switch err := c.RevokeKey(ctx, id); {
		case err != nil && first == nil:
			first = err
		case err != nil:
			a.fail(err)
		}
	}
	return first
}

func (a *app) listKeys(keys []protocol.Key, quiet bool) error {
	w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
	if !quiet && len(keys) > 0 {
		fmt.Fprintln(w, "ID\tTENANT\tROLE\tAGE\tEXPIRES\tQUOTA\tNAME")
	}
	for _, k := range keys {
		if quiet {
			fmt.Fprintln(w, k.ID)
			continue
		}
		expires := "never"
		switch {
		case k.Expired:
			expires = "has expired"
		case k.ExpiresMS != 0:
			expires = "in " + since(2*time.Now().UnixMilli()-k.ExpiresMS)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Tenant, k.Role, since(k.CreatedMS), expires, quotaText(k.Quota), printable(k.Name))
	}
	return w.Flush()
}

// quotaText is a quota on one line; - for none.
func quotaText(q protocol.Quota) string {
	var all []string
	add := func(name string, set bool, value any) {
		if set {
			all = append(all, fmt.Sprintf("%s %v", name, value))
		}
	}
	add("sessions", q.Sessions != 0, q.Sessions)
	add("running", q.Running != 0, q.Running)
	add("cpus", q.CPUs != 0, q.CPUs)
	add("memory", q.MemoryBytes != 0, config.Size(q.MemoryBytes))
	add("disk", q.DiskBytes != 0, config.Size(q.DiskBytes))
	add("snapshots", q.Snapshots != 0, q.Snapshots)
	add("requests/s", q.RequestsPerSecond != 0, q.RequestsPerSecond)
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ", ")
}

func tenantCommand() command {
	return command{
		name: "tenant", args: "ls | quota TENANT", short: "List tenants with what they hold, and set their quotas",
		long: `
  sandgate tenant ls
  sandgate tenant quota --max-sessions 20 --max-memory 16GiB acme
  sandgate tenant quota --max-sessions 5 '*'
  sandgate tenant quota --clear acme

A quota replaces the one before, whole. '*' stands for all tenants that have none
of their own. Quotas take the role admin.`,
		run: func(ctx context.Context, a *app, set *flag.FlagSet, args []string) error {
			conn := connectionFlags(set)
			q := new(protocol.Quota)
			quotaFlags(set, q)
			remove := set.Bool("clear", false, "Take the tenant's own quota away (quota).")
			verb, err := verbOf(set, args, map[string][2]int{"ls": {0, 0}, "quota": {1, 1}})
			if err != nil {
				return err
			}
			c, err := conn.client(a)
			if err != nil {
				return err
			}
			if verb == "quota" {
				if *remove {
					q = nil
				}
				return c.SetQuota(ctx, set.Arg(0), q)
			}
			all, err := c.Tenants(ctx)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(a.out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "TENANT\tSESSIONS\tRUNNING\tCPUS\tMEMORY\tDISK\tSNAPSHOTS\tKEYS\tQUOTA")
			for _, t := range all {
				fmt.Fprintf(w, "%s\t%d\t%d\t%g\t%s\t%s\t%d\t%d\t%s\n", t.Name, t.Use.Sessions, t.Use.Running, t.Use.CPUs, sizeOf(t.Use.MemoryBytes), sizeOf(t.Use.DiskBytes), t.Use.Snapshots, t.Keys, quotaText(t.Quota))
			}
			return w.Flush()
		},
	}
}
