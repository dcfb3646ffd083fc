package nodeapi

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Reports answers questions about the records of use and the audit log: those of this node, and
// those of nodes that have gone.
type Reports interface {
	Usage(ctx context.Context, tenant string, q protocol.UsageQuery) (protocol.UsageReport, error)
	Audit(ctx context.Context, tenant string, q protocol.AuditQuery) (protocol.AuditPage, error)
	StoredUsage(ctx context.Context, tenant string, q protocol.StoredRecords) (
		protocol.UsageReport, error)
	StoredAudit(ctx context.Context, tenant string, q protocol.StoredRecords) (
		protocol.AuditPage, error)
}

// report returns the handler of a question. Errors: Unsupported without records.
func report[Q, R any](
	answer func(Reports, context.Context, string, Q) (R, error),
) func(context.Context, *call, Q) (R, error) {
	return func(ctx context.Context, c *call, q Q) (none R, _ error) {
		if c.server.cfg.Reports == nil {
			return none, fault.New(fault.Unsupported, c.op(), "this node has no records")
		}
		return answer(c.server.cfg.Reports, ctx, c.realm(), q)
	}
}

func sessionSeries(
	_ context.Context, c *call, p protocol.SeriesQuery,
) (protocol.Series, error) {
	s, err := c.session(p.Session)
	if err != nil {
		return protocol.Series{}, err
	}
	at := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms)
	}
	points, err := s.Series(at(p.FromMS), at(p.ToMS))
	return protocol.Series{Points: points}, err
}
