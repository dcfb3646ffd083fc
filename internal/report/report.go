// Package report answers questions about the records of use and about the audit log: of a node, from
// their files, and of nodes that have gone, from the blob store.
//
// Limits: two questions at a time, further ones wait until their context ends. An answer has at most
// 10,000 keys, or 1,000 entries and those of the same time as the last.
package report

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/report/archive"
	"github.com/sandgate/sandgate/internal/report/join"
	"github.com/sandgate/sandgate/internal/session/listing"
	"github.com/sandgate/sandgate/internal/usage"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	maxKeys    = 10_000
	maxEntries = 1000
	// lookEvery is after how many lines a reader checks whether its caller still waits.
	lookEvery = 4096
)

// Archive has the journals of the nodes of a cluster in the blob store.
type Archive interface {
	// Folder returns the folder of this node.
	Folder() string
	Read(ctx context.Context, q archive.Query, each func(line []byte) error) (
		[]protocol.MissingRecords, error)
}

// Reader reads the journals. Create one with New.
type Reader struct {
	usageDir, auditDir string
	archive            Archive
	slots              chan struct{}
}

// New returns a reader of the journals in two folders. a is nil if no other node reads them.
func New(usageDir, auditDir string, a Archive) *Reader {
	return &Reader{usageDir, auditDir, a, make(chan struct{}, 2)}
}

// folder returns the folder of this node in the blob store; empty without one.
func (r *Reader) folder() string {
	if r.archive == nil {
		return ""
	}
	return r.archive.Folder()
}

// readStored reads the journals of nodes that have gone. Errors: Unsupported without a blob store.
func (r *Reader) readStored(ctx context.Context, op string, q archive.Query,
	each func(line []byte) error,
) ([]protocol.MissingRecords, error) {
	if r.archive == nil {
		return nil, fault.New(fault.Unsupported, op, "this node stores no records")
	}
	return r.archive.Read(ctx, q, each)
}

// begin waits for a slot.
func (r *Reader) begin(ctx context.Context, op string) (leave func(), err error) {
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots }, nil
	case <-ctx.Done():
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

// keyOf returns the function that returns a record's key.
func keyOf(by string) (func(usage.Record) string, error) {
	if label, ok := strings.CutPrefix(by, "label:"); ok && label != "" {
		return func(r usage.Record) string { return r.Labels[label] }, nil
	}
	switch by {
	case "", "tenant":
		return func(r usage.Record) string { return r.Tenant }, nil
	case "subject":
		return func(r usage.Record) string { return r.Tenant + "/" + r.Subject }, nil
	case "session":
		return func(r usage.Record) string { return r.Session }, nil
	case "day":
		return func(r usage.Record) string { return r.Time.UTC().Format(time.DateOnly) }, nil
	}
	return nil, fault.Invalid(protocol.OpUsageReport, "by",
		"it is tenant, subject, session, day or label:KEY")
}

// Usage adds up the use of a tenant on this node, or of all tenants for "".
func (r *Reader) Usage(
	ctx context.Context, tenant string, q protocol.UsageQuery,
) (protocol.UsageReport, error) {
	const op = protocol.OpUsageReport
	report, err := r.addUp(ctx, op, tenant, q, func(each func([]byte) error) error {
		return readLines(ctx, op, r.usageDir, "usage", each)
	})
	report.Folder = r.folder()
	return report, err
}

// StoredUsage is Usage for the nodes that have gone.
func (r *Reader) StoredUsage(
	ctx context.Context, tenant string, q protocol.StoredRecords,
) (protocol.UsageReport, error) {
	const op = protocol.OpUsageStored
	var missing []protocol.MissingRecords
	report, err := r.addUp(ctx, op, tenant, q.Usage, func(each func([]byte) error) (err error) {
		missing, err = r.readStored(ctx, op, archive.Query{
			Journal: "usage", Except: q.Except, FromMS: q.Usage.FromMS, ToMS: q.Usage.ToMS,
		}, each)
		return err
	})
	report.Missing = missing
	return report, err
}

// addUp adds up the records that read reads.
func (r *Reader) addUp(
	ctx context.Context, op, tenant string, q protocol.UsageQuery,
	read func(each func(line []byte) error) error,
) (protocol.UsageReport, error) {
	report := protocol.UsageReport{Sums: []protocol.UsageSum{}}
	key, err := keyOf(q.By)
	if err != nil {
		return report, err
	}
	labels, err := listing.ParseLabels(op, q.Labels)
	if err != nil {
		return report, err
	}
	leave, err := r.begin(ctx, op)
	if err != nil {
		return report, err
	}
	defer leave()
	sums := map[string]*protocol.UsageSum{}
	sessions := map[[2]string]bool{}
	err = read(func(line []byte) error {
		var u usage.Record
		if json.Unmarshal(line, &u) != nil || u.Session == "" ||
			!selects(tenant, u.Tenant, q.Session, u.Session, q.FromMS, q.ToMS, u.Time) ||
			!labels.Match(u.Labels) {
			return nil // a crash may have cut the line short
		}
		k := key(u)
		if sums[k] == nil {
			if len(sums) >= maxKeys {
				return fault.Invalid(op, "by", "the answer has more than %d keys", maxKeys)
			}
			sums[k] = &protocol.UsageSum{Key: k}
		}
		one := protocol.UsageSum{
			Cells: u.Cells, Seconds: u.Seconds, CPUSeconds: u.CPUSeconds,
			MemorySeconds: u.MemorySeconds, BytesIn: u.BytesIn, BytesOut: u.BytesOut,
			NetworkIn: u.NetworkIn, NetworkOut: u.NetworkOut,
		}
		if id := [2]string{k, u.Session}; !sessions[id] {
			sessions[id] = true
			one.Sessions = 1
		}
		join.Include(sums[k], one)
		return nil
	})
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		report.Sums = append(report.Sums, *sums[k])
	}
	return report, err
}

// Audit returns entries of a tenant on this node, or of all tenants for "".
func (r *Reader) Audit(
	ctx context.Context, tenant string, q protocol.AuditQuery,
) (protocol.AuditPage, error) {
	const op = protocol.OpAuditList
	page, err := r.page(ctx, op, tenant, q, func(_ int64, each func([]byte) error) error {
		return readLines(ctx, op, r.auditDir, "audit", each)
	})
	page.Folder = r.folder()
	return page, err
}

// StoredAudit is Audit for the nodes that have gone.
func (r *Reader) StoredAudit(
	ctx context.Context, tenant string, q protocol.StoredRecords,
) (protocol.AuditPage, error) {
	const op = protocol.OpAuditStored
	var missing []protocol.MissingRecords
	page, err := r.page(ctx, op, tenant, q.Audit, func(from int64, each func([]byte) error) (
		err error,
	) {
		missing, err = r.readStored(ctx, op, archive.Query{
			Journal: "audit", Except: q.Except, FromMS: from, ToMS: q.Audit.ToMS,
		}, each)
		return err
	})
	page.Missing = missing
	return page, err
}

// page returns the first of the entries that read reads, which may begin at a time in ms.
func (r *Reader) page(
	ctx context.Context, op, tenant string, q protocol.AuditQuery,
	read func(from int64, each func(line []byte) error) error,
) (protocol.AuditPage, error) {
	page := protocol.AuditPage{Entries: []protocol.AuditEntry{}}
	if q.Limit < 0 || q.Limit > maxEntries {
		return page, fault.Invalid(op, "limit", "it is between 0 and %d", maxEntries)
	}
	after := int64(0)
	if q.Cursor != "" {
		var err error
		if after, err = strconv.ParseInt(q.Cursor, 10, 64); err != nil {
			return page, fault.Invalid(op, "cursor", "it is next_cursor of the previous page")
		}
	}
	leave, err := r.begin(ctx, op)
	if err != nil {
		return page, err
	}
	defer leave()
	var all []protocol.AuditEntry
	more := false
	from := max(q.FromMS, after/int64(time.Millisecond))
	err = read(from, func(line []byte) error {
		var e protocol.AuditEntry
		if json.Unmarshal(line, &e) != nil || e.Event == "" || e.Time.UnixNano() <= after ||
			q.Event != "" && e.Event != q.Event ||
			!selects(tenant, e.Tenant, q.Session, e.Session, q.FromMS, q.ToMS, e.Time) {
			return nil
		}
		if all = append(all, e); len(all) > 4*maxEntries {
			part := join.Page(all, q.Limit, false)
			all, more = part.Entries, more || part.NextCursor != ""
		}
		return nil
	})
	if err != nil {
		return page, err
	}
	return join.Page(all, q.Limit, more), nil
}

// readLines calls each for every line of a journal, oldest file first.
func readLines(
	ctx context.Context, op, dir, name string, each func(line []byte) error,
) error {
	files, err := journal.Files(dir, name)
	if err != nil {
		return err
	}
	for _, path := range files {
		if err := readFile(ctx, op, path, each); err != nil {
			return err
		}
	}
	return nil
}

func readFile(ctx context.Context, op, path string, each func(line []byte) error) error {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil // the oldest file was removed meanwhile
	}
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, journal.MaxLine)
	for n := 1; lines.Scan(); n++ {
		if n%lookEvery == 0 && ctx.Err() != nil {
			return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
		if err := each(lines.Bytes()); err != nil {
			return err
		}
	}
	return fault.Wrap(fault.Host, op, lines.Err())
}

// selects reports whether a record is one that a question is about.
func selects(
	tenant, of, session, about string, from, to int64, at time.Time,
) bool {
	ms := at.UnixMilli()
	return (tenant == "" || tenant == of) && (session == "" || session == about) && ms >= from &&
		(to == 0 || ms < to)
}
