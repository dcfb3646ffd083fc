package webhook

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// maxTake is how many deliveries a gateway takes with one request, and maxOutcomes how many
	// outcomes it reports.
	maxTake, maxOutcomes = 256, 256
	// maxTakeWait bounds how long a request waits for a delivery.
	maxTakeWait = 50 * time.Second
	// lookEvery is how often a waiting request looks for new events and for deliveries that are
	// due.
	lookEvery = 200 * time.Millisecond
)

// sortByAge sorts webhooks, the oldest first.
func sortByAge(all []*hook) {
	slices.SortFunc(all, func(a, b *hook) int {
		return cmp.Or(cmp.Compare(a.CreatedMS, b.CreatedMS), cmp.Compare(a.ID, b.ID))
	})
}

// TakeDue returns deliveries that are due, each under a lease. It waits for the first one as long as
// the request says.
func (m *Manager) TakeDue(
	ctx context.Context, r protocol.WebhookTake,
) (protocol.WebhookJobs, error) {
	const op = protocol.OpWebhookTake
	out := protocol.WebhookJobs{Jobs: []protocol.WebhookJob{}}
	if r.Limit < 1 || r.Limit > maxTake {
		return out, fault.Invalid(op, "limit", "it is between 1 and %d", maxTake)
	}
	ctx, cancel := context.WithTimeout(ctx,
		min(time.Duration(r.WaitSeconds)*time.Second, maxTakeWait))
	defer cancel()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		// A step does not end with the time for which the request waits.
		jobs, err := m.takeNow(context.WithoutCancel(ctx), r.Limit)
		if err != nil || len(jobs) > 0 {
			return protocol.WebhookJobs{Jobs: append(out.Jobs, jobs...)}, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return out, nil
		}
	}
}

// takeNow takes the deliveries that are due now. Each webhook gets its share of the limit, so that
// one with many events delays no other.
func (m *Manager) takeNow(ctx context.Context, limit int) (jobs []protocol.WebhookJob, err error) {
	hooks, err := m.hooksOf(ctx, "")
	if err != nil {
		return nil, err
	}
	now := m.now()
	// The webhook whose delivery is due for longest comes first.
	slices.SortFunc(hooks, func(a, b *hook) int { return a.due().Compare(b.due()) })
	for i, h := range hooks {
		share := max(1, (limit-len(jobs))/(len(hooks)-i))
		if h.Disabled || len(jobs) >= limit {
			continue
		}
		filled, err := m.fill(ctx, h, now)
		if err != nil {
			return jobs, err
		}
		taken := h.take(now, share)
		if !filled && len(taken) == 0 {
			continue
		}
		// Another node may have changed the webhook; then the jobs are its own.
		done, err := m.storeHook(ctx, h)
		if err != nil {
			return jobs, err
		}
		if done {
			jobs = append(jobs, taken...)
		}
	}
	return jobs, nil
}

// fill makes new events of the feed deliveries, as long as not too many wait. It reports whether the
// webhook has changed.
func (m *Manager) fill(ctx context.Context, h *hook, now time.Time) (bool, error) {
	room := maxQueue - len(h.Queue)
	if room <= 0 {
		return false, nil
	}
	page, err := m.feed.Read(ctx, h.Tenant, protocol.EventQuery{
		After: h.Cursor, Limit: room, Types: h.format().query(h), Session: h.Session,
	})
	if err != nil {
		return false, err
	}
	if page.Gap {
		h.Gaps++
	}
	for _, e := range page.Events {
		if kind, ok := h.format().takes(h, e); ok {
			h.add(e, now).Type = kind
		}
	}
	changed := page.Cursor != h.Cursor || page.Gap
	h.Cursor = page.Cursor
	return changed, nil
}

// Done records the outcomes of attempts. An outcome of a lease that has ended is ignored.
func (m *Manager) Done(ctx context.Context, r protocol.WebhookOutcomes) error {
	const op = protocol.OpWebhookDone
	if len(r.Outcomes) > maxOutcomes {
		return fault.Invalid(op, "outcomes", "at most %d at a time", maxOutcomes)
	}
	byHook := map[string][]protocol.WebhookOutcome{}
	for _, o := range r.Outcomes {
		byHook[o.Webhook] = append(byHook[o.Webhook], o)
	}
	for id, outcomes := range byHook {
		var delivered, failed, dead int64
		_, err := m.modify(ctx, op, "", id, func(h *hook) error {
			delivered, failed = 0, 0
			before := len(h.Dead)
			for _, o := range outcomes {
				switch {
				case !h.finish(o, m.now()):
				case o.Status >= 200 && o.Status < 300:
					delivered++
				default:
					failed++
				}
			}
			dead = int64(max(0, len(h.Dead)-before))
			return nil
		})
		if err != nil && !fault.Is(err, fault.NotFound) { // it may have been deleted
			return err
		}
		if err == nil {
			m.stats.Delivered.Add(delivered)
			m.stats.Failed.Add(failed)
			m.stats.Dead.Add(dead)
		}
	}
	return nil
}
