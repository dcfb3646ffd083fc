package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/session"
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
			key, ok := usageKeys()[*by]
			if !ok {
				return usagef("--by takes tenant, subject, session or day, not %q", *by)
			}
			cfg, err := config.Load(flags, a.env)
			if err != nil {
				return err
			}
			sums, bad, err := addUsage(cfg.UsageDir(), from, key)
			if err != nil {
				return err
			}
			if bad > 0 {
				fmt.Fprintf(a.err, "warning: %d lines are no records and were passed over\n", bad)
			}
			return printUsage(a.out, *by, sums, *asJSON)
		},
	}
}

// usageKeys says what a record is added to.
func usageKeys() map[string]func(session.UsageRecord) string {
	return map[string]func(session.UsageRecord) string{
		"tenant":  func(r session.UsageRecord) string { return r.Tenant },
		"subject": func(r session.UsageRecord) string { return r.Tenant + "/" + r.Subject },
		"session": func(r session.UsageRecord) string { return r.Session },
		"day":     func(r session.UsageRecord) string { return r.Time.UTC().Format(time.DateOnly) },
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

// usageSum is what was used under one key.
type usageSum struct {
	Key           string  `json:"key"`
	Sessions      int     `json:"sessions"`
	Cells         int64   `json:"cells"`
	Seconds       float64 `json:"seconds"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	MemorySeconds float64 `json:"memory_mib_seconds"`
	BytesIn       int64   `json:"bytes_in"`
	BytesOut      int64   `json:"bytes_out"`
	sessions      map[string]bool
}

// addUsage adds up the records since from. What is no record, because a crash
// has cut it short, is counted and passed over.
func addUsage(dir string, from time.Time, key func(session.UsageRecord) string) (map[string]*usageSum, int, error) {
	files, err := journal.Files(dir, "usage")
	if os.IsPermission(err) {
		return nil, 0, fault.New(fault.PermissionDenied, "usage", "%s can be read by root alone; use sudo", dir)
	}
	if err != nil {
		return nil, 0, err
	}
	sums := map[string]*usageSum{}
	bad := 0
	for _, name := range files {
		n, err := readUsage(name, func(r session.UsageRecord) {
			if r.Time.Before(from) {
				return
			}
			k := key(r)
			s := sums[k]
			if s == nil {
				s = &usageSum{Key: k, sessions: map[string]bool{}}
				sums[k] = s
			}
			s.sessions[r.Session] = true
			s.Sessions = len(s.sessions)
			s.Cells += r.Cells
			s.Seconds += r.Seconds
			s.CPUSeconds += r.CPUSeconds
			s.MemorySeconds += r.MemorySeconds
			s.BytesIn += r.BytesIn
			s.BytesOut += r.BytesOut
		})
		bad += n
		if err != nil {
			return nil, bad, err
		}
	}
	return sums, bad, nil
}

func readUsage(name string, each func(session.UsageRecord)) (bad int, err error) {
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return 0, nil // it was the oldest, and has gone
	}
	if err != nil {
		return 0, &fault.Error{Kind: fault.PermissionDenied, Op: "usage", Message: "cannot read " + name + "; use sudo", Err: err}
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, journal.MaxLine)
	for lines.Scan() {
		var r session.UsageRecord
		if json.Unmarshal(lines.Bytes(), &r) != nil || r.Session == "" {
			bad++
			continue
		}
		each(r)
	}
	return bad, fault.Wrap(fault.Host, "usage", lines.Err())
}

func printUsage(out io.Writer, by string, sums map[string]*usageSum, asJSON bool) error {
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
