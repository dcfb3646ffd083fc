package protocol

import "time"

// AuditEntry is a line of the audit log: who did what, where and when, and with which result.
// docs/operation.md describes it.
type AuditEntry struct {
	Time time.Time `json:"time"`
	// Event is the name of an operation, or cell.end, session.end, node.start, node.stop, egress,
	// auth.signin, auth.link or auth.failed.
	Event   string `json:"event"`
	Tenant  string `json:"tenant,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Trace is the id of the trace that the event belongs to.
	Trace   string `json:"trace_id,omitempty"`
	Session string `json:"session,omitempty"`
	Channel string `json:"channel,omitempty"`
	Cell    uint32 `json:"cell,omitempty"`
	// Outcome is ok, begins, a kind of error, or the status of a cell.
	Outcome string `json:"outcome,omitempty"`
	// Reason is the reason for the end of a session.
	Reason   string  `json:"reason,omitempty"`
	Millis   float64 `json:"ms,omitempty"`
	Kind     string  `json:"kind,omitempty"`
	Language string  `json:"language,omitempty"`
	Path     string  `json:"path,omitempty"`
	// To is the destination of a moved or copied file. Name is the name of a session, a snapshot or
	// a template.
	To   string `json:"to,omitempty"`
	Name string `json:"name,omitempty"`
	// Key is the id of the key that was created, rotated or revoked.
	Key      string   `json:"key,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	ReadOnly bool     `json:"read_only,omitempty"`
	// Bytes is the size of a file's content or of a cell's output.
	Bytes int64 `json:"bytes,omitempty"`
	// CodeHash is the SHA-256 of the code. Code is the code itself; it is set if the policy asks
	// for it.
	CodeHash  string `json:"code_sha256,omitempty"`
	CodeBytes int    `json:"code_bytes,omitempty"`
	Code      string `json:"code,omitempty"`
	// Cut is true when Code or Argv is truncated.
	Cut bool `json:"cut,omitempty"`
	// Repeated is true when the cell was already queued under the same key.
	Repeated bool `json:"repeated,omitempty"`
	// Route and Address say where a gateway rejected a client. Count is the number of rejections
	// since the previous entry.
	Route   string `json:"route,omitempty"`
	Address string `json:"address,omitempty"`
	// Host and Port are the destination of a session's connection. Address is then the address that
	// the host's name resolved to.
	Host  string `json:"host,omitempty"`
	Port  int    `json:"port,omitempty"`
	Count int    `json:"count,omitempty"`
}

// AuditNotes are entries about events at a gateway.
type AuditNotes struct {
	Entries []AuditEntry `json:"entries"`
}
