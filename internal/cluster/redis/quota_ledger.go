package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Report implements cluster.QuotaLedger.
func (d Directory) Report(ctx context.Context, r cluster.UsageReport) (cluster.UsageReply, error) {
	const op = "redis.quota"
	if len(r.All) > cluster.MaxHolders {
		return cluster.UsageReply{}, fault.New(
			fault.TooLarge, op, "%d holders at once, at most %d can be", len(r.All),
			cluster.MaxHolders,
		)
	}
	keys := []string{d.c.directoryKey(), d.c.node(r.Node), d.c.wanted(r.Node)}
	args := []any{
		string(r.Node), number(r.Incarnation), (cluster.UsageLife * r.Lease).Milliseconds(),
		d.c.node(""), d.c.session(""), d.c.wanted(""), number(cluster.Token(r.Number)),
		flag(r.Complete), flag(r.Collect), cluster.ReclaimTime.Microseconds(), cluster.MaxHolders,
	}
	for _, h := range r.All {
		sum := sha256.Sum256([]byte(h.Holder))
		hash := hex.EncodeToString(sum[:16])
		keys = append(keys, d.c.prefix+"held:"+hash, d.c.prefix+"left:"+hash)
		name, entry, err := leftEntry(r.Node, h.Released)
		if err != nil {
			return cluster.UsageReply{}, err
		}
		args = append(args, h.Holder, flag(h.Reclaim), text(h.Used), name, entry)
	}
	out, err := d.c.run(ctx, op, d.c.scripts.quotaReport, keys, args...)
	if err != nil {
		return cluster.UsageReply{}, err
	}
	switch out[0] {
	case "expired":
		return cluster.UsageReply{}, cluster.LeaseExpired(op)
	case "old":
		return cluster.UsageReply{}, cluster.OldReport(op)
	}
	reply := cluster.UsageReply{
		Incarnation: r.Incarnation, Totals: make([]cluster.Amounts, len(r.All)),
		Reclaim: out[1+len(r.All):],
	}
	for i := range r.All {
		for _, text := range strings.Fields(out[1+i]) {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return reply, fault.Wrap(fault.Internal, op, err)
			}
			reply.Totals[i] = append(reply.Totals[i], x)
		}
	}
	return reply, nil
}

// leftEntry encodes a session that its node has released, or a snapshot in the blob store: its field
// and the value.
func leftEntry(node cluster.NodeID, r *cluster.ReleasedSession) (name, entry string, err error) {
	if r == nil {
		return "", "", nil
	}
	if err := cluster.CheckSession(r.Session); err != nil {
		return "", "", err
	}
	name, of := "p:"+string(r.Session), "="
	if r.Stored {
		name, of = "s:"+string(r.Session), string(node)
	}
	return name, fmt.Sprintf("%d %s %s", r.Until.UnixMicro(), of, text(r.Used)), nil
}

// text encodes amounts for a script.
func text(a cluster.Amounts) string {
	parts := make([]string, len(a))
	for i, x := range a {
		parts[i] = strconv.FormatFloat(x, 'f', 3, 64)
	}
	return strings.Join(parts, " ")
}
