package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/usage"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// audited returns a rig with an audit log and a usage record, and a function that stops the rig and
// returns the entries of the audit log.
func audited(t *testing.T, change func(*audit.Log),
	more ...func(*Config),
) (r *rig, entries func() []protocol.AuditEntry) {
	dir := filepath.Join(t.TempDir(), "audit")
	a := audit.Log{}
	var err error
	if a.Journal, err = journal.Open(journal.Options{Dir: dir, Name: "audit"}); err != nil {
		t.Fatal(err)
	}
	change(&a)
	r = newRig(t, append(more, func(c *Config) { c.Audit = a })...)
	return r, func() []protocol.AuditEntry {
		t.Helper()
		r.stop()
		if err := a.Journal.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var all []protocol.AuditEntry
		for line := range bytes.Lines(data) {
			var e protocol.AuditEntry
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			if err := d.Decode(&e); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			all = append(all, e)
		}
		return all
	}
}

// only returns the entries of an event.
func only(all []protocol.AuditEntry, event string) (some []protocol.AuditEntry) {
	for _, e := range all {
		if e.Event == event {
			some = append(some, e)
		}
	}
	return some
}

func TestAuditRecordsActor(t *testing.T) {
	r, entries := audited(t, func(*audit.Log) {})
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "print secret-word")
	p.run(1, "fail")
	if _, err := call[protocol.Session](r, mallo, protocol.OpSessionDelete,
		protocol.SessionRef{Session: s.ID}); err == nil {
		t.Error("mallory deleted the session")
	}
	up, err := r.c.Open(r.ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(protocol.Request{
		ID: 1, Op: protocol.OpFileWrite,
		Params: json.RawMessage(`{"session":"` + s.ID + `","path":"a\nb"}`),
	})
	if err := up.Send(frame.Frame{Type: frame.Control, Body: body},
		frame.Frame{
			Type: frame.Data, Body: []byte("seven b"),
			Flags: frame.FlagEnd,
		}); err != nil {
		t.Fatal(err)
	}
	if _, err := up.Next(); err != nil {
		t.Fatal(err)
	}
	_ = up.Close()
	if err := r.c.Call(r.ctx, alice, protocol.OpAudit, protocol.AuditNotes{}, nil); !fault.Is(err,
		fault.PermissionDenied) {
		t.Errorf("a user added to the audit log: %v", err)
	}
	notes := protocol.AuditNotes{Entries: []protocol.AuditEntry{{
		Event: "auth.failed", Route: "/v1",
		Count: 3,
	}}}
	if err := r.c.Call(r.ctx, noderpc.Principal{Tenant: noderpc.GatewayTenant}, protocol.OpAudit,
		notes, nil); err != nil {
		t.Error(err)
	}
	must[protocol.SessionList](r, protocol.OpParked, struct{}{})
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
	all := entries()

	sum := sha256.Sum256([]byte("print secret-word"))
	runs, ends := only(all, protocol.OpExecute), only(all, "cell.end")
	if len(runs) != 2 || len(ends) != 2 {
		t.Fatalf("%d executes and %d ends in %+v", len(runs), len(ends), all)
	}
	for _, e := range append(runs, ends...) {
		if e.Tenant != "alice" || e.Subject != "a" || e.Session != s.ID || e.Channel != "k1" ||
			time.Since(e.Time) > time.Minute {
			t.Errorf("%+v", e)
		}
	}
	if e := runs[0]; e.Cell != 1 || e.Outcome != "ok" || e.CodeHash != hex.EncodeToString(sum[:]) ||
		e.CodeBytes != 17 || e.Code != "" {
		t.Errorf("the first execute: %+v", e)
	}
	if e := ends[0]; e.Cell != 1 || e.Outcome != "ok" || e.Bytes != int64(len("secret-word")) {
		t.Errorf("the first end: %+v", e)
	}
	if e := ends[1]; e.Cell != 2 || e.Outcome != "error" {
		t.Errorf("the second end: %+v", e)
	}
	if d := only(all, protocol.OpSessionDelete); len(d) != 2 || d[0].Tenant != "mallory" ||
		d[0].Outcome != "not_found" || d[0].Session != s.ID || d[1].Outcome != "ok" {
		t.Errorf("deletes: %+v", d)
	}
	if f := only(all, protocol.OpFileWrite); len(f) != 1 || f[0].Path != "a\nb" ||
		f[0].Bytes != 7 || f[0].Outcome != "ok" {
		t.Errorf("writes: %+v", f)
	}
	if e := only(all, "session.end"); len(e) != 1 || e[0].Reason != "deleted" {
		t.Errorf("ends: %+v", e)
	}
	if e := only(all, protocol.OpParked); len(e) > 0 {
		t.Errorf("a list of parked sessions is recorded: %+v", e)
	}
	if e := only(all, "auth.failed"); len(e) != 1 || e[0].Count != 3 {
		t.Errorf("denials: %+v", e)
	}
	if len(only(all, protocol.OpSessionCreate)) != 1 || len(only(all, protocol.OpAttach)) != 1 ||
		all[0].Event != "node.start" || all[len(all)-1].Event != "node.stop" {
		t.Errorf("%+v", all)
	}
}

func TestAuditKeepsCodeByPolicy(t *testing.T) {
	r, entries := audited(t, func(a *audit.Log) { a.Whole = true })
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "print x\x1b[31m")
	p.run(1, "print "+strings.Repeat("x", (64<<10)))
	runs := only(entries(), protocol.OpExecute)
	if len(runs) != 2 || runs[0].Code != "print x\x1b[31m" || runs[0].Cut ||
		len(runs[1].Code) != (64<<10) || !runs[1].Cut || runs[1].CodeBytes != (64<<10)+6 {
		t.Errorf("%d: %+v", len(runs), runs[0])
	}
}

// TestAuditFullDisk checks that a full disk loses audit entries but does not stop work by default.
// Where the log is required, no action runs that could not be recorded.
func TestAuditFullDisk(t *testing.T) {
	for _, required := range []bool{false, true} {
		full := ""
		r, entries := audited(t, func(a *audit.Log) {
			a.Required = required
			full = filepath.Dir(a.Journal.Path())
		})
		s := r.create()
		p := r.open()
		p.attach(1, s.ID, "k1")
		p.run(1, "print before")
		if err := syscall.Mount("tmpfs", full, "tmpfs", 0, "size=4k"); err != nil {
			t.Fatal("this test requires root: ", err)
		}
		// The journal's file is open on the disk below. Make the journal open another file, on the
		// full filesystem.
		lost := func() int64 { return r.m.cfg.Audit.Journal.Stats().Dropped }
		r.m.cfg.Audit.Journal.Reopen()
		if err := os.WriteFile(filepath.Join(full, "all"), make([]byte, 8<<10), 0o600); err == nil {
			t.Error("the disk is not full")
		}
		err := p.ask(protocol.OpExecute, 1, protocol.Execute{Code: "print full"}, nil)
		if required && !fault.Is(err, fault.Unavailable) || !required && err != nil {
			t.Errorf("required %v: %v", required, err)
		}
		if !required {
			p.run(1, "print full")
		} else if _, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
			protocol.SessionCreate{}); !fault.Is(err, fault.Unavailable) {
			t.Errorf("a session without an entry: %v", err)
		}
		if got := must[protocol.SessionList](r, protocol.OpSessionList,
			nil).Sessions; len(got) != 1 {
			t.Errorf("%d sessions", len(got))
		}
		// This line is written after the lines before it.
		if err := r.m.cfg.Audit.Journal.Write(r.ctx, struct{}{}); !fault.Is(err, fault.DiskFull) {
			t.Errorf("a write to a full disk: %v", err)
		}
		if lost() == 0 {
			t.Error("nothing was counted as lost")
		}
		if err := syscall.Unmount(full, syscall.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
		r.m.cfg.Audit.Journal.Reopen()
		p.run(1, "print after")
		runs := only(entries(), protocol.OpExecute)
		want := 2
		if required {
			want = 4
		}
		if len(runs) != want {
			t.Errorf("required %v: %d entries, want %d: %+v", required, len(runs), want, runs)
		}
	}
}

// TestUsageAddsUp checks that the sum of a session's records is the session's use.
func TestUsageAddsUp(t *testing.T) {
	dir := t.TempDir()
	j, err := journal.Open(journal.Options{Dir: dir, Name: "usage"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) { c.Usage = j })
	s := r.create()
	p := r.open()
	p.attach(1, s.ID, "k1")
	p.run(1, "print eleven-byte")
	found, err := r.m.Find(alice, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	found.measure(false, "")
	p.run(1, "print more")
	ref := protocol.SeriesQuery{Session: s.ID}
	series := must[protocol.Series](r, protocol.OpSessionSeries, ref)
	sent := int64(0)
	for _, at := range series.Points { // a minute may have begun meanwhile
		sent += at.SentBytes
	}
	if sent < 10 {
		t.Errorf("the series is %+v", series)
	}
	if late := must[protocol.Series](r, protocol.OpSessionSeries, protocol.SeriesQuery{
		Session: s.ID, FromMS: time.Now().Add(time.Hour).UnixMilli(),
	}); len(late.Points) != 0 {
		t.Errorf("the series of later minutes is %+v", late)
	}
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
	r.stop()
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(j.Path())
	if err != nil {
		t.Fatal(err)
	}
	var sum usage.Record
	n := 0
	for line := range bytes.Lines(data) {
		var u usage.Record
		if err := json.Unmarshal(line, &u); err != nil {
			t.Fatal(err)
		}
		n++
		sum.Cells, sum.BytesOut, sum.Ended = sum.Cells+u.Cells, sum.BytesOut+u.BytesOut, u.Ended
		if u.Tenant != "alice" || u.Subject != "a" || u.Session != s.ID {
			t.Errorf("%+v", u)
		}
	}
	if n < 2 || sum.Cells != 2 || sum.BytesOut < 15 || sum.Ended != "deleted" {
		t.Errorf("%d records, %+v", n, sum)
	}
}
