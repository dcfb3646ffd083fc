package protocol

import "time"

// AuditEntry is a line of the audit log: who did what, where and when, and
// with what result. docs/operation.md describes it.
type AuditEntry struct {
	Time time.Time `json:"time"`
	// Event is an operation's name, or cell.end, session.end, node.start,
	// node.stop, egress, auth.signin, auth.link or auth.failed.
	Event   string `json:"event"`
	Tenant  string `json:"tenant,omitempty"`
	Subject string `json:"subject,omitempty"`
	// Trace is the id of the trace that it was part of.
	Trace   string `json:"trace_id,omitempty"`
	Session string `json:"session,omitempty"`
	Channel string `json:"channel,omitempty"`
	Cell    uint32 `json:"cell,omitempty"`
	// Outcome is ok, begins, a kind of error, or a cell's status.
	Outcome string `json:"outcome,omitempty"`
	// Reason is that of a session's end.
	Reason   string  `json:"reason,omitempty"`
	Millis   float64 `json:"ms,omitempty"`
	Kind     string  `json:"kind,omitempty"`
	Language string  `json:"language,omitempty"`
	Path     string  `json:"path,omitempty"`
	// To is where a file was moved or copied; Name that of a session, a
	// snapshot or a template.
	To   string `json:"to,omitempty"`
	Name string `json:"name,omitempty"`
	// Key is the id of the one that was made, rotated or revoked.
	Key      string   `json:"key,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	ReadOnly bool     `json:"read_only,omitempty"`
	// Bytes are those of a file's content or of a cell's output.
	Bytes int64 `json:"bytes,omitempty"`
	// CodeHash is the SHA-256 of the code, Code itself is there by policy.
	CodeHash  string `json:"code_sha256,omitempty"`
	CodeBytes int    `json:"code_bytes,omitempty"`
	Code      string `json:"code,omitempty"`
	// Cut says that Code or Argv is not whole.
	Cut bool `json:"cut,omitempty"`
	// Repeated says that the cell was queued before, under the same key.
	Repeated bool `json:"repeated,omitempty"`
	// Route and Address are where a gateway turned somebody away, Count how
	// many times since the entry before.
	Route   string `json:"route,omitempty"`
	Address string `json:"address,omitempty"`
	// Host and Port are where a session wanted to go, Address is then what the
	// host's name led to.
	Host  string `json:"host,omitempty"`
	Port  int    `json:"port,omitempty"`
	Count int    `json:"count,omitempty"`
}

// AuditNotes are entries of what happened at a gateway.
type AuditNotes struct {
	Entries []AuditEntry `json:"entries"`
}
