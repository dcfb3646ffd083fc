package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Report implements cluster.QuotaLedger.
func (d Directory) Report(
	ctx context.Context, node cluster.NodeID, incarnation cluster.Token, lease time.Duration,
	all []cluster.NodeUsage,
) ([]cluster.Totals, error) {
	const op = "redis.quota"
	if len(all) > cluster.MaxHolders {
		return nil, fault.New(
			fault.TooLarge, op, "%d holders at once, at most %d can be", len(all),
			cluster.MaxHolders,
		)
	}
	keys := make([]string, len(all))
	args := []any{
		string(node), number(incarnation), lease.Milliseconds(), d.c.node(""), d.c.session(""),
	}
	for i, h := range all {
		sum := sha256.Sum256([]byte(h.Holder))
		keys[i] = d.c.prefix + "held:" + hex.EncodeToString(sum[:16])
		released := ""
		if p := h.Released; p != nil {
			if err := cluster.CheckSession(p.Session); err != nil {
				return nil, err
			}
			released = fmt.Sprintf("p:%s %d %s", p.Session, p.Until.UnixMicro(), text(p.Used))
			if p.Stored {
				released = fmt.Sprintf("s:%s %d %s %s", p.Session, p.Until.UnixMicro(), node,
					text(p.Used))
			}
		}
		args = append(args, flag(h.Reclaim), text(h.Used), released)
	}
	out, err := d.c.run(ctx, op, d.c.scripts.quotaReport, keys, args...)
	if err != nil {
		return nil, err
	}
	if out[0] == "expired" {
		return nil, cluster.LeaseExpired(op)
	}
	totals := make([]cluster.Totals, len(all))
	for i := range totals {
		totals[i].Reclaim = out[1+2*i] == "1"
		for _, text := range strings.Fields(out[2+2*i]) {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, fault.Wrap(fault.Internal, op, err)
			}
			totals[i].Used = append(totals[i].Used, x)
		}
	}
	return totals, nil
}

// text encodes amounts for a script.
func text(a cluster.Amounts) string {
	parts := make([]string, len(a))
	for i, x := range a {
		parts[i] = strconv.FormatFloat(x, 'f', 3, 64)
	}
	return strings.Join(parts, " ")
}
