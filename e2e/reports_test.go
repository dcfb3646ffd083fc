package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// TestReports reads the use of a session by its label, as JSON and as CSV, and its entries in the
// audit log.
func TestReports(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var v protocol.Session
	code, err := server.JSON(ctx, http.MethodPost, "/v1/sessions",
		protocol.SessionCreate{Labels: map[string]string{"team": "reports"}}, &v)
	check(t, err)
	if code != http.StatusCreated {
		t.Fatalf("the session: %d", code)
	}
	check(t, deleteSession(ctx, server, v.ID))
	var report protocol.UsageReport
	for len(report.Sums) == 0 && ctx.Err() == nil { // the record is written in the background
		_, err = server.Get(ctx, "/v1/usage?by=label:team&label=team:reports&session="+v.ID, &report)
		check(t, err)
	}
	if len(report.Sums) != 1 || report.Sums[0].Key != "reports" || report.Sums[0].Sessions != 1 ||
		report.Sums[0].Seconds <= 0 {
		t.Errorf("the use is %+v", report)
	}
	var none protocol.UsageReport
	_, err = server.Get(ctx, "/v1/usage?label=team:others&session="+v.ID, &none)
	check(t, err)
	if len(none.Sums) != 0 {
		t.Errorf("the use with another label is %+v", none)
	}
	res, err := server.Do(ctx, http.MethodGet,
		"/v1/usage?format=csv&by=label:team&session="+v.ID, nil)
	check(t, err)
	defer res.Body.Close()
	table, err := io.ReadAll(res.Body)
	check(t, err)
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/csv") ||
		!strings.HasPrefix(string(table), "key,sessions,") ||
		!strings.Contains(string(table), "\nreports,1,") {
		t.Errorf("%s: %s", kind, table)
	}
	var page protocol.AuditPage
	for len(page.Entries) < 3 && ctx.Err() == nil {
		_, err = server.Get(ctx, "/v1/audit?session="+v.ID, &page)
		check(t, err)
	}
	var events []string
	for _, e := range page.Entries {
		events = append(events, e.Event)
	}
	if got := strings.Join(events, " "); !strings.Contains(got, "session.create") ||
		!strings.Contains(got, "session.delete") {
		t.Errorf("the audit log has %s", got)
	}
}
