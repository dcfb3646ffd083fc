package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/internal/cli/flags"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

func tenantCommand(a *app) *cobra.Command {
	return group("tenant", "List tenants with their usage, and set their quotas", `
Quotas take the role admin.`,
		`  sandgate tenant list
  sandgate tenant quota --max-sessions 20 --max-memory 16GiB acme`,
		tenantList(a), tenantQuota(a))
}

func tenantList(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the tenants with their usage",
		Example: "  sandgate tenant list",
	}
	o := listFlags(c)
	return a.withClient(c, func(ctx context.Context, server *wire.Client, _ []string) error {
		all, err := server.Tenants(ctx)
		if err != nil {
			return err
		}
		return output.List(o.printer(a), protocol.TenantList{Tenants: all}, all, tenantColumns())
	})
}

func tenantColumns() []output.Column[protocol.Tenant] {
	return []output.Column[protocol.Tenant]{
		{Name: "TENANT", Text: func(t protocol.Tenant) string { return t.Name }},
		{Name: "SESSIONS", Text: func(t protocol.Tenant) string {
			return fmt.Sprint(t.Use.Sessions)
		}},
		{Name: "RUNNING", Text: func(t protocol.Tenant) string {
			return fmt.Sprint(t.Use.Running)
		}},
		{Name: "CPUS", Text: func(t protocol.Tenant) string { return fmt.Sprint(t.Use.CPUs) }},
		{Name: "MEMORY", Text: func(t protocol.Tenant) string {
			return output.Size(t.Use.MemoryBytes)
		}},
		{Name: "DISK", Text: func(t protocol.Tenant) string {
			return output.Size(t.Use.DiskBytes)
		}},
		{Name: "SNAPSHOTS", Text: func(t protocol.Tenant) string {
			return fmt.Sprint(t.Use.Snapshots)
		}},
		{Name: "KEPT ALIVE", Wide: true, Text: func(t protocol.Tenant) string {
			return fmt.Sprint(t.Use.KeepAlive)
		}},
		{Name: "KEYS", Text: func(t protocol.Tenant) string { return fmt.Sprint(t.Keys) }},
		{
			Name: "OWN QUOTA", Wide: true,
			Text: func(t protocol.Tenant) string { return fmt.Sprint(t.Own) },
		},
		{Name: "QUOTA", Text: func(t protocol.Tenant) string { return quotaText(t.Quota) }},
	}
}

func tenantQuota(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "quota TENANT", Short: "Set a tenant's quota",
		Long: `
A quota replaces the whole previous quota. '*' means all tenants without a quota of their own.`,
		Example: `  sandgate tenant quota --max-sessions 20 --max-memory 16GiB acme
  sandgate tenant quota --max-sessions 5 '*'
  sandgate tenant quota --clear acme`,
	}
	q := new(protocol.Quota)
	quotaFlags(c.Flags(), q)
	remove := c.Flags().Bool("clear", false, "remove the tenant's own quota")
	return a.withClient(c, func(ctx context.Context, server *wire.Client, args []string) error {
		if *remove {
			return server.SetQuota(ctx, args[0], nil)
		}
		return server.SetQuota(ctx, args[0], q)
	})
}

func quotaFlags(set *pflag.FlagSet, q *protocol.Quota) {
	set.IntVar(&q.Sessions, "max-sessions", 0,
		"quota: sessions, including hibernated ones; 0 means no quota, for all quotas")
	set.IntVar(&q.Running, "max-running", 0, "quota: sessions with a sandbox")
	set.Float64Var(&q.CPUs, "max-cpus", 0, "quota: total processors of sessions with a sandbox")
	set.Var(flags.Size{N: &q.MemoryBytes}, "max-memory",
		"quota: total memory of sessions with a sandbox, a `size`")
	set.Var(flags.Size{N: &q.DiskBytes}, "max-disk",
		"quota: disk of snapshots, templates, hibernated sessions, volumes and output, a `size`")
	set.IntVar(&q.Snapshots, "max-snapshots", 0, "quota: snapshots")
	set.IntVar(&q.KeepAlive, "max-keep-alive", 0, "quota: sessions that are kept alive")
	set.Float64Var(&q.RequestsPerSecond, "max-requests", 0, "quota: requests a second")
}

// quotaText formats a quota on one line; - means none.
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
	add("kept alive", q.KeepAlive != 0, q.KeepAlive)
	add("requests/s", q.RequestsPerSecond != 0, q.RequestsPerSecond)
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, ", ")
}
