package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
)

// auditWait bounds how long a required entry waits for the disk.
const auditWait = 5 * time.Second

// maxAuditText bounds a text in an entry, in bytes.
const maxAuditText = 1 << 10

// ClipAudit cuts a text to what an entry of the audit log holds.
func ClipAudit(s string) string { return s[:min(len(s), maxAuditText)] }

// Audit says what is kept of who did what. The zero value keeps nothing.
type Audit struct {
	// Journal takes the entries.
	Journal *journal.Journal
	// Whole keeps the code that is run, to 64 KiB of each cell, beside its
	// hash.
	Whole bool
	// Required refuses what cannot be recorded before it is done. Otherwise
	// an entry that cannot be written is counted, and nothing waits for it.
	Required bool
}

// AuditRecord is an entry of the audit log for an operation that is under way.
type AuditRecord struct {
	protocol.AuditEntry
	Began time.Time
}

// Enabled reports whether anything is recorded.
func (a Audit) Enabled() bool { return a.Journal != nil }

// Announce records that an operation begins, where nothing is done that cannot
// be recorded. It fails with Unavailable when the journal cannot be written.
func (a Audit) Announce(ctx context.Context, e *AuditRecord) error {
	if a.Journal == nil || !a.Required {
		return nil
	}
	begin := e.AuditEntry
	begin.Outcome = "begins"
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	if err := a.Journal.Write(ctx, begin); err != nil {
		return &fault.Error{
			Kind: fault.Unavailable, Op: e.Event, RetryAfter: 10, Err: err,
			Message: "the audit log cannot be written, and this server does nothing that it cannot record",
		}
	}
	return nil
}

// Finish records the outcome of an operation. e may be nil.
func (a Audit) Finish(e *AuditRecord, result any, err error) {
	if e == nil || a.Journal == nil {
		return
	}
	switch r := result.(type) {
	case protocol.Session:
		e.Session, e.Language = r.ID, r.Language
	case protocol.Channel:
		e.Channel, e.Language = r.ID, r.Language
	case protocol.Queued:
		e.Cell, e.Repeated = r.Cell, r.Repeated
	}
	e.Outcome = "ok"
	if err != nil {
		e.Outcome = string(fault.PublicOf(err).Kind)
	}
	e.Millis = float64(time.Since(e.Began).Microseconds()) / 1000
	a.Append(e.AuditEntry)
}

// Append records an entry without waiting for it.
func (a Audit) Append(e protocol.AuditEntry) {
	if a.Journal == nil {
		return
	}
	e.Time = time.Now().UTC()
	a.Journal.Append(e)
}

func (m *Manager) audit(e protocol.AuditEntry) { m.cfg.Audit.Append(e) }

// auditCell records the end of a cell.
func (c *Channel) auditCell(e queue.Result, bytes int64, trace string) {
	s := c.session
	s.m.audit(protocol.AuditEntry{
		Event: "cell.end", Tenant: s.tenant, Subject: s.subject, Session: s.id, Channel: c.id, Language: c.language, Trace: trace,
		Cell: e.Cell, Outcome: e.Status, Millis: float64(e.Took.Microseconds()) / 1000, Bytes: bytes,
	})
}
