package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/usage"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// write writes the lines of a journal.
func write[T any](t *testing.T, dir, name string, lines ...T) {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: dir, Name: name, MaxFile: 400})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if err := j.Write(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func at(seconds int) time.Time { return time.Unix(1_790_000_000+int64(seconds), 0).UTC() }

// TestUsage checks the sums by each key, over several files, and that a tenant gets its own only.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	record := func(second int, tenant, session, team string, cpu float64) usage.Record {
		return usage.Record{
			Time: at(second), Tenant: tenant, Subject: "k", Session: session, CPUSeconds: cpu,
			Cells: 1, Labels: map[string]string{"team": team},
		}
	}
	write(t, dir, "usage",
		record(0, "a", "s_1", "red", 1), record(60, "a", "s_1", "red", 2),
		record(120, "a", "s_2", "blue", 4), record(180, "b", "s_3", "red", 8))
	r := New(dir, dir, nil)
	for _, test := range []struct {
		tenant string
		q      protocol.UsageQuery
		want   string
	}{
		{"", protocol.UsageQuery{}, "a 2 7, b 1 8"},
		{"a", protocol.UsageQuery{}, "a 2 7"},
		{"", protocol.UsageQuery{By: "session"}, "s_1 1 3, s_2 1 4, s_3 1 8"},
		{"a", protocol.UsageQuery{By: "label:team"}, "blue 1 4, red 1 3"},
		{"", protocol.UsageQuery{By: "subject"}, "a/k 2 7, b/k 1 8"},
		{"a", protocol.UsageQuery{Session: "s_3"}, ""},
		{"", protocol.UsageQuery{Labels: []string{"team:red"}}, "a 1 3, b 1 8"},
		{"a", protocol.UsageQuery{Labels: []string{"team:red", "team"}, FromMS: at(1).UnixMilli()}, "a 1 2"},
		{"", protocol.UsageQuery{Labels: []string{"team:green"}}, ""},
		{"", protocol.UsageQuery{Labels: []string{"owner"}}, ""},
		{
			"",
			protocol.UsageQuery{FromMS: at(60).UnixMilli(), ToMS: at(180).UnixMilli()},
			"a 2 6",
		},
	} {
		report, err := r.Usage(t.Context(), test.tenant, test.q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range report.Sums {
			got = append(got, fmt.Sprint(s.Key, " ", s.Sessions, " ", s.CPUSeconds))
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%s %+v: %s, want %s", test.tenant, test.q, text, test.want)
		}
	}
	for field, q := range map[string]protocol.UsageQuery{
		"by": {By: "x"}, "label": {Labels: []string{":red"}},
	} {
		_, err := r.Usage(t.Context(), "a", q)
		if known, ok := errors.AsType[*fault.Error](err); !ok || known.Field != field {
			t.Errorf("%s: the error is %v", field, err)
		}
	}
}

// TestAudit reads a log in pages. Each page continues where the one before it ended, also where
// entries have the same time.
func TestAudit(t *testing.T) {
	dir := t.TempDir()
	var lines []protocol.AuditEntry
	for i := range 25 {
		tenant := []string{"a", "b"}[i%2]
		lines = append(lines, protocol.AuditEntry{
			Time: at(i / 4), Event: "session.create", Tenant: tenant,
			Session: fmt.Sprint("s_", i),
		})
	}
	lines = append(lines, protocol.AuditEntry{Time: at(90), Event: "session.end", Tenant: "a"})
	write(t, dir, "audit", lines...)
	r := New(dir, dir, nil)
	seen := map[string]bool{}
	q := protocol.AuditQuery{Limit: 3, Event: "session.create"}
	for {
		p, err := r.Audit(t.Context(), "a", q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			if seen[e.Session] || e.Tenant != "a" {
				t.Errorf("the entry %+v", e)
			}
			seen[e.Session] = true
		}
		if q.Cursor = p.NextCursor; q.Cursor == "" {
			break
		}
	}
	if len(seen) != 13 {
		t.Errorf("%d entries, want 13", len(seen))
	}
	if p, err := r.Audit(t.Context(), "", protocol.AuditQuery{
		FromMS: at(90).UnixMilli(),
	}); err != nil || len(p.Entries) != 1 || p.NextCursor != "" {
		t.Errorf("from a time: %+v, %v", p, err)
	}
	for field, q := range map[string]protocol.AuditQuery{
		"limit": {Limit: 1001}, "cursor": {Cursor: "x"},
	} {
		_, err := r.Audit(t.Context(), "a", q)
		if known, ok := errors.AsType[*fault.Error](err); !ok || known.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
