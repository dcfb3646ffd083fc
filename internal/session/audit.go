package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of an entry in the audit log, in bytes: what is longer is cut.
const (
	maxAuditText = 1 << 10
	maxAuditArgs = 8 << 10
	maxAuditCode = 64 << 10
	// maxAuditNotes is how many entries a gateway may add with one request.
	maxAuditNotes = 64
)

// auditWait bounds how long a required entry waits for the disk.
const auditWait = 5 * time.Second

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

// unaudited are the operations that leave no entry: they look at what the
// caller has, or are of no consequence. What is not here is recorded, also
// what is added later.
var unaudited = map[string]bool{
	protocol.OpHello: true, protocol.OpSessionGet: true, protocol.OpSessionList: true, protocol.OpChannelList: true,
	protocol.OpDetach: true, protocol.OpResize: true, protocol.OpComplete: true, protocol.OpInspect: true, protocol.OpIsComplete: true,
	protocol.OpVariables: true, protocol.OpHistory: true, protocol.OpFollow: true, protocol.OpComm: true, protocol.OpInput: true, protocol.OpFileStat: true,
	protocol.OpSessionKeepalive: true, protocol.OpPortList: true, protocol.OpFileList: true, protocol.OpTemplateList: true, protocol.OpTemplateGet: true,
	protocol.OpSnapshotList: true, protocol.OpSnapshotGet: true, protocol.OpVolumeList: true, protocol.OpVolumeGet: true, protocol.OpStatus: true, protocol.OpMetrics: true, protocol.OpAudit: true,
	protocol.OpSessionWatch: true, protocol.OpKeyList: true, protocol.OpTenantList: true, protocol.OpKeyWatch: true, protocol.OpLinkList: true,
}

// auditEntry is a line of the audit log under way.
type AuditRecord struct {
	protocol.AuditEntry
	Began time.Time
	// later says that the operation goes on after it has returned and ends
	// the entry itself.
	later bool
}

type entryKey struct{}

// entryOf is the entry of the operation that ctx is of; nil if it has none.
func entryOf(ctx context.Context) *AuditRecord {
	e, _ := ctx.Value(entryKey{}).(*AuditRecord)
	return e
}

// carry carries out an operation and records it.
func (c *linkHandler) carry(ctx context.Context, o operation, r protocol.Request) (any, error) {
	a := c.m.cfg.Audit
	if a.Journal == nil || unaudited[r.Op] {
		return o.run(ctx, c, r)
	}
	e := c.entry(r)
	e.Trace = trace.ID(ctx)
	if err := c.m.announce(ctx, e); err != nil {
		return nil, err
	}
	result, err := o.run(context.WithValue(ctx, entryKey{}, e), c, r)
	if e.later && err == nil {
		return result, err
	}
	c.m.recorded(e, result, err)
	return result, err
}

// announce records that an operation begins, where nothing is done that cannot
// be recorded.
func (m *Manager) announce(ctx context.Context, e *AuditRecord) error {
	a := m.cfg.Audit
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

// entry begins the entry of a request.
func (c *linkHandler) entry(r protocol.Request) *AuditRecord {
	e := &AuditRecord{Began: time.Now()}
	e.Event, e.Tenant, e.Subject = r.Op, c.principal.Tenant, c.principal.Subject
	var p struct {
		Session, Channel, Kind, Language, File, Path, To, Name, Signal, Code, ID string
		Argv                                                                     []string
		ReadOnly                                                                 bool `json:"read_only"`
	}
	// What is not of these types is the operation's own affair to refuse.
	_ = json.Unmarshal(r.Params, &p)
	e.Key = clip(p.ID)
	e.Session, e.Channel, e.Kind, e.Language = clip(p.Session), clip(p.Channel), clip(p.Kind), clip(p.Language)
	e.Path, e.To, e.Name, e.Signal, e.ReadOnly = clip(p.Path), clip(p.To), clip(p.Name), clip(p.Signal), p.ReadOnly
	if p.File != "" {
		e.Path = clip(p.File)
	}
	room := maxAuditArgs
	for _, arg := range p.Argv {
		arg = clip(arg)
		if room -= len(arg); room < 0 {
			e.Cut = true
			break
		}
		e.Argv = append(e.Argv, arg)
	}
	if r.Op == protocol.OpExecute {
		sum := sha256.Sum256([]byte(p.Code))
		e.CodeHash, e.CodeBytes = hex.EncodeToString(sum[:]), len(p.Code)
		if c.m.cfg.Audit.Whole {
			e.Code, e.Cut = p.Code[:min(len(p.Code), maxAuditCode)], len(p.Code) > maxAuditCode
		}
	}
	if a := c.find(r.Ch); r.Ch != 0 && a != nil && e.Session == "" {
		e.Session, e.Channel = a.session.id, a.channel.id
	}
	return e
}

func clip(s string) string { return s[:min(len(s), maxAuditText)] }

// recorded ends an entry.
func (m *Manager) recorded(e *AuditRecord, result any, err error) {
	if e == nil || m.cfg.Audit.Journal == nil {
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
	m.audit(e.AuditEntry)
}

// audit writes an entry without waiting for it.
func (m *Manager) audit(e protocol.AuditEntry) {
	if m.cfg.Audit.Journal == nil {
		return
	}
	e.Time = time.Now().UTC()
	m.cfg.Audit.Journal.Append(e)
}

// auditCell records the end of a cell.
func (c *Channel) auditCell(e queue.Result, bytes int64, trace string) {
	s := c.session
	s.m.audit(protocol.AuditEntry{
		Event: "cell.end", Tenant: s.tenant, Subject: s.subject, Session: s.id, Channel: c.id, Language: c.language, Trace: trace,
		Cell: e.Cell, Outcome: e.Status, Millis: float64(e.Took.Microseconds()) / 1000, Bytes: bytes,
	})
}

// opAudit takes entries of what happened at a gateway. No user's principal
// may add any.
func opAudit(_ context.Context, c *linkHandler, r protocol.Request) (any, error) {
	p, err := params[protocol.AuditNotes](r)
	if err != nil {
		return nil, err
	}
	if c.principal.Tenant != noderpc.GatewayTenant {
		return nil, fault.New(fault.PermissionDenied, r.Op, "only a gateway adds to the audit log")
	}
	if len(p.Entries) > maxAuditNotes {
		return nil, fault.Invalid(r.Op, "entries", "at most %d at a time", maxAuditNotes)
	}
	for _, e := range p.Entries {
		c.m.audit(e)
	}
	return nothing{}, nil
}
