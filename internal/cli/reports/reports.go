// Package reports has the commands on the use of sessions and on the audit log.
package reports

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/cli/flags"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/protocol"
)

// Program has the functions of the program that the commands use.
type Program struct {
	Out, Err func() io.Writer
	// Connect adds the flags of a connection. The result returns a client of the server that they,
	// the environment or the profile name.
	Connect func(c *cobra.Command) func() (*wire.Client, error)
	// Config adds the flags of the server's settings. The result loads the settings.
	Config func(c *cobra.Command) func() (*config.Config, error)
	// Format adds the flag of the output's format.
	Format func(c *cobra.Command) *output.Format
	// Usage makes an error of usage.
	Usage func(format string, args ...any) error
}

// get reads an answer of the server.
func get(
	ctx context.Context, c *wire.Client, op, path string, q url.Values, out any,
) error {
	return c.Decode(ctx, wire.HTTPRequest{
		Op: op, Method: http.MethodGet, Path: []string{"v1", path}, Query: q,
	}, out)
}

// UsageCommand returns the command usage.
func UsageCommand(a Program) *cobra.Command {
	c := &cobra.Command{
		Use: "usage", Short: "Add up the recorded use of sessions: processor, memory, bytes, cells",
		Long: `
Asks the server, which adds up the records of all its nodes: those of your tenant, or of all tenants
for an admin. The server records a session once a minute and at its end.

With --local it reads the records in data_dir/usage of this machine. That needs root but no running
server. The flags of settings are for --local only.`,
		Example: `  sandgate usage --by session --since 24h
  sandgate usage --label team=data --by day --csv
  sudo sandgate usage --local --by subject`,
	}
	format := a.Format(c)
	by := c.Flags().String("by", "subject",
		"the `key` to add up by: tenant, subject (within its tenant), session, day or label:KEY")
	since := c.Flags().String("since", "",
		"ignore older records: a `time` span such as 24h, or a date such as 2026-11-21 (UTC)")
	labels := flags.List{}
	c.Flags().Var(&labels, "label",
		"only sessions that had this label, `KEY[=VALUE]`; can be given again")
	local := c.Flags().Bool("local", false, "read the records of this machine, as root")
	asLines := c.Flags().Bool("json", false, "print a JSON object for each line")
	asCSV := c.Flags().Bool("csv", false, "print comma-separated values")
	connect := a.Connect(c)
	own := map[string]bool{"help": true}
	c.Flags().VisitAll(flagNames(own))
	load := a.Config(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		from, err := sinceTime(a, *since, time.Now())
		if err != nil {
			return err
		}
		var report protocol.UsageReport
		switch {
		case *local && len(labels) > 0:
			return a.Usage("--label needs a server; leave --local out")
		case *local:
			report, err = readLocal(a, load, *by, from)
		default:
			if name := foreign(cmd, own); name != "" {
				return a.Usage("--%s is a setting of the server; it needs --local", name)
			}
			var server *wire.Client
			if server, err = connect(); err != nil {
				return err
			}
			q := url.Values{"by": {*by}}
			for _, l := range labels {
				q.Add("label", strings.Replace(l, "=", ":", 1))
			}
			setTime(q, from)
			err = get(cmd.Context(), server, protocol.OpUsageReport, "usage", q, &report)
		}
		if err != nil {
			return err
		}
		warnMissing(a, report.Missing)
		switch {
		case *asCSV:
			return csv.NewWriter(a.Out()).WriteAll(report.Table())
		case *asLines:
			e := json.NewEncoder(a.Out())
			for _, s := range report.Sums {
				if err := e.Encode(s); err != nil {
					return err
				}
			}
			return nil
		}
		return output.List(output.Printer{W: a.Out(), Format: *format}, report, report.Sums,
			usageColumns(*by))
	}
	return c
}

// warnMissing says which records of nodes that have gone may be missing.
func warnMissing(a Program, all []protocol.MissingRecords) {
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	for _, m := range all {
		text := ""
		if m.FromMS != 0 {
			text += " after " + at(m.FromMS)
		}
		if m.ToMS != 0 {
			text += " before " + at(m.ToMS)
		}
		fmt.Fprintf(a.Err(), "warning: records of the node %s%s may be missing: it has gone\n",
			output.Printable(m.Node), text)
	}
}

// readLocal adds up the records of this machine.
func readLocal(
	a Program, load func() (*config.Config, error), by string, from time.Time,
) (report protocol.UsageReport, err error) {
	report.Sums = []protocol.UsageSum{}
	cfg, err := load()
	if err != nil {
		return report, err
	}
	key, ok := admin.UsageKeys()[by]
	if !ok {
		return report, a.Usage("--by takes tenant, subject, session or day with --local, not %q", by)
	}
	sums, bad, err := admin.AddUsage(cfg.UsageDir(), from, key)
	if err != nil {
		return report, err
	}
	if bad > 0 {
		fmt.Fprintf(a.Err(), "warning: %d lines are no records and were passed over\n", bad)
	}
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		report.Sums = append(report.Sums, sums[k].UsageSum)
	}
	return report, nil
}

func usageColumns(by string) []output.Column[protocol.UsageSum] {
	type sum = protocol.UsageSum
	size := func(of func(sum) int64) func(sum) string {
		return func(s sum) string { return output.Size(of(s)) }
	}
	return []output.Column[sum]{
		{Name: strings.ToUpper(by), Text: func(s sum) string { return output.Printable(s.Key) }},
		{Name: "SESSIONS", Text: func(s sum) string { return fmt.Sprint(s.Sessions) }},
		{Name: "CELLS", Text: func(s sum) string { return fmt.Sprint(s.Cells) }},
		{Name: "TIME", Text: func(s sum) string {
			return seconds(s.Seconds).Round(time.Second).String()
		}},
		{Name: "CPU", Text: func(s sum) string {
			return seconds(s.CPUSeconds).Round(10 * time.Millisecond).String()
		}},
		{Name: "MEMORY", Text: func(s sum) string {
			return fmt.Sprintf("%.1f GiB·h", s.MemorySeconds/1024/3600)
		}},
		{Name: "IN", Text: size(func(s sum) int64 { return s.BytesIn })},
		{Name: "OUT", Text: size(func(s sum) int64 { return s.BytesOut })},
		{Name: "NET-IN", Wide: true, Text: size(func(s sum) int64 { return s.NetworkIn })},
		{Name: "NET-OUT", Wide: true, Text: size(func(s sum) int64 { return s.NetworkOut })},
	}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func sinceTime(a Program, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.ParseInLocation(time.DateOnly, text, time.UTC)
	if err != nil {
		return t, a.Usage("--since takes a span such as 24h or a date such as 2026-11-21, not %q",
			text)
	}
	return t, nil
}

func setTime(q url.Values, from time.Time) {
	if !from.IsZero() {
		q.Set("from_ms", strconv.FormatInt(from.UnixMilli(), 10))
	}
}
