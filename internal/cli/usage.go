package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/cli/output"
	"github.com/sandgate/sandgate/internal/config"
)

func usageCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "usage", Short: "Add up the recorded use of sessions: processor, memory, bytes, cells",
		Long: `
Reads the records in data_dir/usage, which needs root but no running server. The server
records a session once a minute and at its end.`,
		Example: `  sudo sandgate usage --by subject --since 24h
  sudo sandgate usage --by day -o json`,
	}
	o := outputFlag(c, output.Table)
	by := c.Flags().String("by", "subject",
		"the `key` to add up by: tenant, subject (within its tenant), session or day")
	since := c.Flags().String("since", "",
		"ignore older records: a `time` span such as 24h, or a date such as 2026-11-21 (UTC)")
	asLines := c.Flags().Bool("json", false, "print a JSON object for each line")
	return a.withConfig(c, func(_ context.Context, cfg *config.Config, _ []string) error {
		from, err := sinceTime(*since, time.Now())
		if err != nil {
			return err
		}
		key, ok := admin.UsageKeys()[*by]
		if !ok {
			return usagef("--by takes tenant, subject, session or day, not %q", *by)
		}
		sums, bad, err := admin.AddUsage(cfg.UsageDir(), from, key)
		if err != nil {
			return err
		}
		if bad > 0 {
			fmt.Fprintf(a.Err, "warning: %d lines are no records and were passed over\n", bad)
		}
		rows := []*admin.UsageSum{}
		for _, k := range slices.Sorted(maps.Keys(sums)) {
			rows = append(rows, sums[k])
		}
		if !*asLines {
			return output.List(output.Printer{W: a.Out, Format: *o}, rows, rows, usageColumns(*by))
		}
		e := json.NewEncoder(a.Out)
		for _, s := range rows {
			if err := e.Encode(s); err != nil {
				return err
			}
		}
		return nil
	})
}

func usageColumns(by string) []output.Column[*admin.UsageSum] {
	return []output.Column[*admin.UsageSum]{
		{
			Name: strings.ToUpper(by),
			Text: func(s *admin.UsageSum) string { return output.Printable(s.Key) },
		},
		{Name: "SESSIONS", Text: func(s *admin.UsageSum) string { return fmt.Sprint(s.Sessions) }},
		{Name: "CELLS", Text: func(s *admin.UsageSum) string { return fmt.Sprint(s.Cells) }},
		{Name: "TIME", Text: func(s *admin.UsageSum) string {
			return seconds(s.Seconds).Round(
				time.Second).String()
		}},
		{Name: "CPU", Text: func(s *admin.UsageSum) string {
			return seconds(s.CPUSeconds).Round(10 * time.Millisecond).String()
		}},
		{Name: "MEMORY", Text: func(s *admin.UsageSum) string {
			return fmt.Sprintf("%.1f GiB·h",
				s.MemorySeconds/1024/3600)
		}},
		{Name: "IN", Text: func(s *admin.UsageSum) string { return output.Size(s.BytesIn) }},
		{Name: "OUT", Text: func(s *admin.UsageSum) string { return output.Size(s.BytesOut) }},
	}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.ParseInLocation(time.DateOnly, text, time.UTC)
	if err != nil {
		return t, usagef("--since takes a span such as 24h or a date such as 2026-11-21, not %q",
			text)
	}
	return t, nil
}
