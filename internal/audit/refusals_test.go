package audit

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/protocol"
)

// TestHardening_RefusalsDoNotFloodTheLog floods the log with refused operations of one tenant. The
// log still records the operations of another tenant, and those that succeed.
func TestHardening_RefusalsDoNotFloodTheLog(t *testing.T) {
	j, err := journal.Open(journal.Options{
		Dir: t.TempDir(), Name: "audit", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	a := Log{Journal: j, Refusals: new(Refusals)}
	const flood = 10_000
	end := func(tenant, event string, err error) {
		e := &Record{Began: time.Now()}
		e.Tenant, e.Event = tenant, event
		e.Session = strings.Repeat("\x01", maxText)
		e.Argv = []string{strings.Repeat("\x01", 8<<10)}
		a.Finish(e, nil, err)
	}
	for range flood {
		end("flood", protocol.OpAttach, errors.New("there is no such session"))
	}
	end("flood", protocol.OpSessionCreate, nil)
	end("other", protocol.OpAttach, errors.New("there is no such session"))
	a.Flush()
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 200<<10 {
		t.Errorf("%d refused operations take %d bytes", flood, len(text))
	}
	for _, want := range []string{
		`"event":"session.create","tenant":"flood"`, `"event":"attach","tenant":"other"`,
		`"count":99`, // nearly all of them, whatever the time that the flood takes
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log lacks %s", want)
		}
	}
}

// TestRefusals checks the share of a tenant over time.
func TestRefusals(t *testing.T) {
	var r Refusals
	now := time.Now()
	e := protocol.AuditEntry{Tenant: "a", Event: "attach", Outcome: "not_found"}
	for i := range refusedBurst {
		if ok, _ := r.admit(e, now); !ok {
			t.Fatalf("entry %d is counted", i)
		}
	}
	if ok, first := r.admit(e, now); ok || !first {
		t.Error("the share has no end, or its first count is not the first")
	}
	if ok, first := r.admit(e, now); ok || first {
		t.Error("the second count is the first")
	}
	if ok, _ := r.admit(e, now.Add(refusedEvery)); !ok {
		t.Error("the share does not come back")
	}
	if all := r.collect(); len(all) != 1 || all[0].Count != 2 || all[0].Tenant != "a" {
		t.Errorf("%+v", all)
	}
	for i := range 3 * maxRefused {
		e.Subject = strings.Repeat("x", i)
		r.admit(e, now)
	}
	if n := len(r.collect()); n > maxRefused {
		t.Errorf("%d counts", n)
	}
}
