package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/internal/admin"
	"github.com/sandgate/sandgate/internal/config"
)

func usageCommand() command {
	return command{
		name: "usage", short: "Add up what sessions have used: processor, memory, bytes, cells",
		long: `
Reads the records in data_dir/usage, which only root can, whether or not the
server runs. A session is recorded once a minute and at its end.`,
		run: func(_ context.Context, a *app, set *flag.FlagSet, args []string) error {
			flags := config.AddFlags(set)
			by := set.String("by", "subject", "What to add up by: `tenant`, subject (within its tenant), session or day.")
			since := set.String("since", "", "Passes over what is older: a `time` span such as 24h, or a date such as 2026-11-21 (UTC).")
			asJSON := set.Bool("json", false, "Prints a JSON object for each line.")
			if err := parse(set, args, 0, 0); err != nil {
				return err
			}
			from, err := sinceTime(*since, time.Now())
			if err != nil {
				return err
			}
			key, ok := admin.UsageKeys()[*by]
			if !ok {
				return usagef("--by takes tenant, subject, session or day, not %q", *by)
			}
			cfg, err := config.Load(flags, a.Env)
			if err != nil {
				return err
			}
			sums, bad, err := admin.AddUsage(cfg.UsageDir(), from, key)
			if err != nil {
				return err
			}
			if bad > 0 {
				fmt.Fprintf(a.Err, "warning: %d lines are no records and were passed over\n", bad)
			}
			return printUsage(a.Out, *by, sums, *asJSON)
		},
	}
}

func sinceTime(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.ParseInLocation(time.DateOnly, text, time.UTC)
	if err != nil {
		return t, usagef("--since takes a span such as 24h or a date such as 2026-11-21, not %q", text)
	}
	return t, nil
}

func printUsage(out io.Writer, by string, sums map[string]*admin.UsageSum, asJSON bool) error {
	keys := slices.Sorted(maps.Keys(sums))
	if asJSON {
		e := json.NewEncoder(out)
		for _, k := range keys {
			if err := e.Encode(sums[k]); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tSESSIONS\tCELLS\tTIME\tCPU\tMEMORY\tIN\tOUT\n", map[string]string{"tenant": "TENANT", "subject": "SUBJECT", "session": "SESSION", "day": "DAY"}[by])
	for _, k := range keys {
		s := sums[k]
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%.1f GiB·h\t%s\t%s\n", printable(k), s.Sessions, s.Cells,
			time.Duration(s.Seconds*float64(time.Second)).Round(time.Second), time.Duration(s.CPUSeconds*float64(time.Second)).Round(10*time.Millisecond),
			s.MemorySeconds/1024/3600, sizeOf(s.BytesIn), sizeOf(s.BytesOut))
	}
	return w.Flush()
}
