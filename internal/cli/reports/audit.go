package reports

import (
	"encoding/csv"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/protocol"
)

// flagNames returns a function that adds the name of a flag to a set.
func flagNames(set map[string]bool) func(*pflag.Flag) {
	return func(f *pflag.Flag) { set[f.Name] = true }
}

// foreign returns a flag that was given and is not in a set; empty for none.
func foreign(c *cobra.Command, own map[string]bool) (name string) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if !own[f.Name] {
			name = f.Name
		}
	})
	return name
}

// AuditCommand returns the command audit.
func AuditCommand(a Program) *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "List entries of the audit log, oldest first",
		Long: `
Asks the server for the entries of your tenant, or of all tenants for an admin.`,
		Example: `  sandgate audit --since 1h
  sandgate audit --event session.create --csv`,
	}
	format := a.Format(c)
	since := c.Flags().String("since", "",
		"ignore older entries: a `time` span such as 24h, or a date such as 2026-11-21 (UTC)")
	event := c.Flags().String("event", "", "only entries of this `event`")
	session := c.Flags().String("session", "", "only entries about this `session`")
	asCSV := c.Flags().Bool("csv", false, "print comma-separated values")
	connect := a.Connect(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		from, err := sinceTime(a, *since, time.Now())
		if err != nil {
			return err
		}
		server, err := connect()
		if err != nil {
			return err
		}
		q := url.Values{"event": {*event}, "session": {*session}, "limit": {"1000"}}
		setTime(q, from)
		all := protocol.AuditPage{Entries: []protocol.AuditEntry{}}
		for {
			var page protocol.AuditPage
			if err := get(cmd.Context(), server, protocol.OpAuditList, "audit", q,
				&page); err != nil {
				return err
			}
			all.Entries = append(all.Entries, page.Entries...)
			all.Missing = page.Missing
			if page.NextCursor == "" {
				break
			}
			q.Set("cursor", page.NextCursor)
		}
		warnMissing(a, all.Missing)
		if *asCSV {
			return csv.NewWriter(a.Out()).WriteAll(all.Table())
		}
		return output.List(output.Printer{W: a.Out(), Format: *format}, all, all.Entries,
			auditColumns())
	}
	return c
}

func auditColumns() []output.Column[protocol.AuditEntry] {
	type entry = protocol.AuditEntry
	return []output.Column[entry]{
		{Name: "TIME", Text: func(e entry) string { return e.Time.UTC().Format(time.RFC3339) }},
		{Name: "EVENT", Text: func(e entry) string { return output.Printable(e.Event) }},
		{Name: "TENANT", Text: func(e entry) string { return output.Printable(e.Tenant) }},
		{Name: "SUBJECT", Text: func(e entry) string { return output.Printable(e.Subject) }},
		{Name: "SESSION", Text: func(e entry) string { return output.Printable(e.Session) }},
		{Name: "OUTCOME", Text: func(e entry) string { return output.Printable(e.Outcome) }},
		{Name: "REASON", Wide: true, Text: func(e entry) string {
			return output.Printable(e.Reason)
		}},
		{Name: "PATH", Wide: true, Text: func(e entry) string { return output.Printable(e.Path) }},
		{Name: "ADDRESS", Wide: true, Text: func(e entry) string {
			return output.Printable(e.Address)
		}},
	}
}
