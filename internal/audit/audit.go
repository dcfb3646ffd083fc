// Package audit records who did what, in a journal.
package audit

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// writeLimit bounds how long a required entry waits for the disk.
const writeLimit = 5 * time.Second

// maxText bounds a text in an entry, in bytes.
const maxText = 1 << 10

// Clip cuts a text to the length that an entry can hold.
func Clip(s string) string { return s[:min(len(s), maxText)] }

// Log is an audit log. The zero value records nothing.
type Log struct {
	// Journal takes the entries.
	Journal *journal.Journal
	// Whole records the code of cells, up to 64 KiB each, besides its hash.
	Whole bool
	// Required refuses operations that cannot be recorded before they begin.
	// Otherwise an entry that cannot be written is counted, and nothing waits
	// for it.
	Required bool
	// Refusals limits the entries about refused operations; nil records all of them in full.
	Refusals *Refusals
}

// Record is the entry of an operation that has not ended yet.
type Record struct {
	protocol.AuditEntry
	Began time.Time
}

// Enabled reports whether anything is recorded.
func (a Log) Enabled() bool { return a.Journal != nil }

// Announce records that an operation begins, if the log is required. Errors:
// Unavailable when the journal cannot be written.
func (a Log) Announce(ctx context.Context, e *Record) error {
	if a.Journal == nil || !a.Required {
		return nil
	}
	begin := e.AuditEntry
	begin.Outcome = "begins"
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
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
func (a Log) Finish(e *Record, result any, err error) {
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
	if err == nil || a.Refusals == nil {
		a.Append(e.AuditEntry)
		return
	}
	ok, first := a.Refusals.admit(e.AuditEntry, time.Now())
	switch {
	case ok:
		a.Append(brief(e.AuditEntry))
	case first:
		time.AfterFunc(refusedDelay, a.Flush)
	}
}

// Flush records the counts of refused operations that have no entry of their own.
func (a Log) Flush() {
	if a.Refusals == nil {
		return
	}
	for _, e := range a.Refusals.collect() {
		a.Append(e)
	}
}

// Append records an entry without waiting for it.
func (a Log) Append(e protocol.AuditEntry) {
	if a.Journal == nil {
		return
	}
	e.Time = time.Now().UTC()
	a.Journal.Append(e)
}
