package protocol

import (
	"strconv"
	"time"
)

// The operations on records of use and on the audit log.
const (
	OpUsageReport   = "usage.report"
	OpAuditList     = "audit.list"
	OpSessionSeries = "session.series"
)

// UsageQuery asks for the use of sessions. Callers without the scope admin get that of their
// tenant.
type UsageQuery struct {
	// FromMS and ToMS bound the time of the records. 0 means no bound.
	FromMS int64 `json:"from_ms,omitempty"`
	ToMS   int64 `json:"to_ms,omitempty"`
	// By is tenant, subject, session, day or label:KEY; empty means tenant.
	By string `json:"by,omitempty"`
	// Session selects the records of one session.
	Session string `json:"session,omitempty"`
	// Labels select the records of sessions that had the labels at that time: key:value, or a key
	// with any value. The parameter of an URL is label, which can be repeated.
	Labels []string `json:"labels,omitempty" query:"label"`
}

// UsageSum is the use under one key.
type UsageSum struct {
	Key string `json:"key"`
	// Sessions counts sessions. A session that has moved counts once for each of its nodes.
	Sessions int   `json:"sessions"`
	Cells    int64 `json:"cells"`
	// Seconds is the time with a sandbox. CPUSeconds is processor time. MemorySeconds are MiB times
	// seconds.
	Seconds       float64 `json:"seconds"`
	CPUSeconds    float64 `json:"cpu_seconds"`
	MemorySeconds float64 `json:"memory_mib_seconds"`
	// BytesIn are input and files written, BytesOut output and files read.
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
	// NetworkIn and NetworkOut are the bytes from and to the outside.
	NetworkIn  int64 `json:"network_in"`
	NetworkOut int64 `json:"network_out"`
}

// UsageReport has the sums, sorted by key.
type UsageReport struct {
	Sums []UsageSum `json:"sums"`
	// Missing has what a cluster cannot find of nodes that have gone.
	Missing []MissingRecords `json:"missing,omitempty"`
	// Folder is where a node stores its records. Gateways leave it out.
	Folder string `json:"folder,omitempty"`
}

// MissingRecords says that records of a node that has gone may be missing: those of a time, which
// FromMS and ToMS bound. 0 means no bound.
type MissingRecords struct {
	Node   string `json:"node"`
	FromMS int64  `json:"from_ms,omitempty"`
	ToMS   int64  `json:"to_ms,omitempty"`
}

// Table returns the report as lines of a table. The first has the names of the columns.
func (r UsageReport) Table() [][]string {
	out := [][]string{{
		"key", "sessions", "cells", "seconds", "cpu_seconds", "memory_mib_seconds", "bytes_in",
		"bytes_out", "network_in", "network_out",
	}}
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	part := func(f float64) string { return strconv.FormatFloat(f, 'f', 3, 64) }
	for _, s := range r.Sums {
		out = append(out, []string{
			s.Key, strconv.Itoa(s.Sessions), whole(s.Cells), part(s.Seconds), part(s.CPUSeconds),
			part(s.MemorySeconds), whole(s.BytesIn), whole(s.BytesOut), whole(s.NetworkIn),
			whole(s.NetworkOut),
		})
	}
	return out
}

// AuditQuery asks for entries of the audit log. Callers without the scope admin get those of their
// tenant.
type AuditQuery struct {
	// FromMS and ToMS bound the time of the entries. 0 means no bound.
	FromMS int64 `json:"from_ms,omitempty"`
	ToMS   int64 `json:"to_ms,omitempty"`
	// Event and Session select entries.
	Event   string `json:"event,omitempty"`
	Session string `json:"session,omitempty"`
	// Limit is the approximate maximum number of entries, at most 1,000; 0 means 100. Entries of
	// the same time are never divided.
	Limit int `json:"limit,omitempty"`
	// Cursor is NextCursor of the previous page.
	Cursor string `json:"cursor,omitempty"`
}

// AuditPage is a part of the audit log, oldest entry first.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	// NextCursor is empty on the last page.
	NextCursor string `json:"next_cursor,omitempty"`
	// Missing and Folder are as in UsageReport.
	Missing []MissingRecords `json:"missing,omitempty"`
	Folder  string           `json:"folder,omitempty"`
}

// Table returns the page as lines of a table. The first has the names of the columns.
func (p AuditPage) Table() [][]string {
	out := [][]string{{
		"time", "event", "tenant", "subject", "session", "channel", "outcome", "reason", "path",
		"name", "address",
	}}
	for _, e := range p.Entries {
		out = append(out, []string{
			e.Time.UTC().Format(time.RFC3339Nano), e.Event, e.Tenant, e.Subject, e.Session,
			e.Channel, e.Outcome, e.Reason, e.Path, e.Name, e.Address,
		})
	}
	return out
}

// SeriesQuery asks for the use of a session in the minutes of the last day.
type SeriesQuery struct {
	Session string `json:"session"`
	// FromMS and ToMS bound the beginning of the minutes: at FromMS or later, and before ToMS. 0
	// means no bound.
	FromMS int64 `json:"from_ms,omitempty"`
	ToMS   int64 `json:"to_ms,omitempty"`
}

// SeriesPoint is the use of a session in one minute.
type SeriesPoint struct {
	// Time is the beginning of the minute.
	Time time.Time `json:"time"`
	// CPUSeconds is the processor time of the sandbox, gVisor included.
	CPUSeconds float64 `json:"cpu_seconds"`
	// MemoryBytes is the memory of the sandbox at the end of the minute; 0 without a sandbox.
	MemoryBytes int64 `json:"memory_bytes"`
	// SentBytes are output, files read, and bytes to the outside. ReceivedBytes are input, files
	// written, and bytes from the outside.
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
}

// Series has the points of a session, oldest first. A minute in which the session used nothing,
// because it was hibernated, has no point.
type Series struct {
	Points []SeriesPoint `json:"points"`
}

// Table returns the series as lines of a table. The first has the names of the columns.
func (s Series) Table() [][]string {
	out := [][]string{{"time", "cpu_seconds", "memory_bytes", "sent_bytes", "received_bytes"}}
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	for _, p := range s.Points {
		out = append(out, []string{
			p.Time.UTC().Format(time.RFC3339), strconv.FormatFloat(p.CPUSeconds, 'f', 3, 64),
			whole(p.MemoryBytes), whole(p.SentBytes), whole(p.ReceivedBytes),
		})
	}
	return out
}
