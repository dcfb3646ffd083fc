package cluster

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"strconv"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/tenant"
)

//go:embed lua/till.lua
var luaTill string

// Till is where a cluster's gateways settle what they let through, on its Redis
// server: one bucket for each quota, which ends by itself.
type Till struct{ r *Redis }

// Till returns the cluster's.
func (r *Redis) Till() Till { return Till{r} }

// Settle takes what was let through out of the buckets, and returns what all
// gateways have left in each; less than nothing is a debt.
func (t Till) Settle(ctx context.Context, all []tenant.Spent) ([]float64, error) {
	const op = "cluster.till"
	if len(all) > tenant.MaxSpent {
		return nil, fault.New(fault.TooLarge, op, "%d quotas are settled at once, at most %d can be", len(all), tenant.MaxSpent)
	}
	keys, args := make([]string, len(all)), make([]any, 0, 3*len(all))
	for i, s := range all {
		sum := sha256.Sum256([]byte(s.Name)) // which may hold anything
		keys[i] = t.r.prefix + "rate:" + hex.EncodeToString(sum[:16])
		args = append(args, s.Rate, s.Most, s.Requests)
	}
	out, err := t.r.run(ctx, op, t.r.till, keys, args...)
	if err != nil {
		return nil, err
	}
	left := make([]float64, len(all))
	for i := range left {
		if left[i], err = strconv.ParseFloat(out[i], 64); err != nil {
			return nil, fault.Wrap(fault.Internal, op, err)
		}
	}
	return left, nil
}
