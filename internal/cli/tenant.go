package cli

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

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
			w := tabwriter.NewWriter(a.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "TENANT\tSESSIONS\tRUNNING\tCPUS\tMEMORY\tDISK\tSNAPSHOTS\tKEYS\tQUOTA")
			for _, t := range all {
				fmt.Fprintf(w, "%s\t%d\t%d\t%g\t%s\t%s\t%d\t%d\t%s\n", t.Name, t.Use.Sessions, t.Use.Running, t.Use.CPUs, sizeOf(t.Use.MemoryBytes), sizeOf(t.Use.DiskBytes), t.Use.Snapshots, t.Keys, quotaText(t.Quota))
			}
			return w.Flush()
		},
	}
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

func quotaFlags(set *flag.FlagSet, q *protocol.Quota) {
	set.IntVar(&q.Sessions, "max-sessions", 0, "Quota: sessions that exist, hibernated ones among them; 0 for none, as with all quotas.")
	set.IntVar(&q.Running, "max-running", 0, "Quota: sessions with a sandbox.")
	set.Float64Var(&q.CPUs, "max-cpus", 0, "Quota: processors of those, added up.")
	set.Var(size{&q.MemoryBytes}, "max-memory", "Quota: memory of those, added up, a `size`.")
	set.Var(size{&q.DiskBytes}, "max-disk", "Quota: what snapshots, templates and hibernated sessions take, a `size`.")
	set.IntVar(&q.Snapshots, "max-snapshots", 0, "Quota: snapshots.")
	set.Float64Var(&q.RequestsPerSecond, "max-requests", 0, "Quota: requests a second.")
}
