package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// hook is a webhook with its deliveries, as it is stored.
type hook struct {
	ID          string   `json:"id"`
	Tenant      string   `json:"tenant"`
	URL         string   `json:"url"`
	Types       string   `json:"types,omitempty"`
	Session     string   `json:"session,omitempty"`
	Description string   `json:"description,omitempty"`
	Format      string   `json:"format,omitempty"`
	Disabled    bool     `json:"disabled,omitempty"`
	CreatedMS   int64    `json:"created_ms"`
	Secrets     []secret `json:"secrets"`
	// Cursor is the place in the feed up to which events have become deliveries.
	Cursor string `json:"cursor"`
	// Queue has the deliveries that wait or are being sent, Dead those that were given up, and Sent
	// the last ones that arrived. The last have no event.
	Queue []delivery `json:"queue,omitempty"`
	Dead  []delivery `json:"dead,omitempty"`
	Sent  []delivery `json:"sent,omitempty"`
	Gaps  int64      `json:"gaps,omitempty"`

	version uint64
}

// secret signs requests. UntilMS is when it ends to do so; 0 means never.
type secret struct {
	Value   string `json:"value"`
	UntilMS int64  `json:"until_ms,omitempty"`
}

// delivery is an event for a webhook.
type delivery struct {
	ID       string              `json:"id"`
	Event    *protocol.FeedEvent `json:"event,omitempty"`
	EventID  string              `json:"event_id"`
	Type     string              `json:"type"`
	Attempts int                 `json:"attempts,omitempty"`
	// FirstMS is when the first attempt began. DueMS is when the next one is due.
	FirstMS int64 `json:"first_ms,omitempty"`
	DueMS   int64 `json:"due_ms,omitempty"`
	LastMS  int64 `json:"last_ms,omitempty"`
	// Lease identifies the attempt under way. It ends at LeaseMS.
	Lease   string `json:"lease,omitempty"`
	LeaseMS int64  `json:"lease_ms,omitempty"`
	Status  int    `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
}

func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// newSecret returns a random secret.
func newSecret() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return "whsec_" + hex.EncodeToString(b[:])
}

// add makes an event a delivery that is due now.
func (h *hook) add(e protocol.FeedEvent, now time.Time) *delivery {
	h.Queue = append(h.Queue, delivery{
		ID: newID("d_"), Event: &e, EventID: e.ID, Type: e.Type, DueMS: now.UnixMilli(),
	})
	return &h.Queue[len(h.Queue)-1]
}

// take leases up to limit deliveries that are due.
func (h *hook) take(now time.Time, limit int) (jobs []protocol.WebhookJob) {
	ms := now.UnixMilli()
	sending := 0
	for _, d := range h.Queue {
		if d.LeaseMS > ms {
			sending++
		}
	}
	for i := range h.Queue {
		d := &h.Queue[i]
		if h.Disabled || len(jobs) >= min(limit, maxSending-sending) {
			break
		}
		if d.LeaseMS > ms || d.DueMS > ms {
			continue
		}
		body, signature, err := h.format().encode(h, d.Event, now)
		if err != nil {
			continue
		}
		if d.FirstMS == 0 {
			d.FirstMS = ms
		}
		d.Attempts++
		d.LastMS, d.LeaseMS, d.Lease = ms, now.Add(leaseTime).UnixMilli(), newID("")
		jobs = append(jobs, protocol.WebhookJob{
			Webhook: h.ID, Tenant: h.Tenant, Delivery: d.ID, Lease: d.Lease, Type: d.Type,
			URL: h.URL, Body: string(body), Signature: signature, Format: h.Format,
		})
	}
	return jobs
}

// due returns when the next delivery may be taken; the zero time if none waits.
func (h *hook) due() (next time.Time) {
	for _, d := range h.Queue {
		at := time.UnixMilli(max(d.DueMS, d.LeaseMS))
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// sign returns the value of the header with the signatures of all secrets that are valid.
func (h *hook) sign(body []byte, now time.Time) string {
	t := strconv.FormatInt(now.Unix(), 10)
	out := "t=" + t
	for _, s := range h.Secrets {
		if s.UntilMS != 0 && s.UntilMS <= now.UnixMilli() {
			continue
		}
		mac := hmac.New(sha256.New, []byte(s.Value))
		mac.Write([]byte(t + "."))
		mac.Write(body)
		out += ",v1=" + hex.EncodeToString(mac.Sum(nil))
	}
	return out
}

// finish records the outcome of an attempt. It returns false if the lease is another one: the
// attempt took too long, and the delivery was taken again.
func (h *hook) finish(o protocol.WebhookOutcome, now time.Time) bool {
	i := slices.IndexFunc(h.Queue, func(d delivery) bool {
		return d.ID == o.Delivery && d.Lease == o.Lease
	})
	if i < 0 {
		return false
	}
	d := h.Queue[i]
	d.Lease, d.LeaseMS, d.Status, d.Error = "", 0, o.Status, o.Error
	d.Error = d.Error[:min(len(d.Error), maxError)]
	if o.Status >= 200 && o.Status < 300 {
		d.Event, d.DueMS = nil, 0
		h.Queue = slices.Delete(h.Queue, i, i+1)
		h.Sent = last(append(h.Sent, d), maxSent)
		return true
	}
	next := now.Add(backOff(d.Attempts))
	if next.Sub(time.UnixMilli(d.FirstMS)) > giveUpAfter {
		d.DueMS = 0
		h.Queue = slices.Delete(h.Queue, i, i+1)
		h.Dead = last(append(h.Dead, d), maxDead)
		return true
	}
	d.DueMS = next.UnixMilli()
	h.Queue[i] = d
	return true
}

// last returns the last n elements.
func last(all []delivery, n int) []delivery { return all[max(0, len(all)-n):] }

// backOff returns the time between an attempt and the next one.
func backOff(attempts int) time.Duration {
	steps := []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour,
	}
	return steps[min(max(attempts-1, 0), len(steps)-1)]
}

// resend moves dead deliveries back to the queue: one, or all if id is empty.
func (h *hook) resend(id string, now time.Time) (count int) {
	h.Dead = slices.DeleteFunc(h.Dead, func(d delivery) bool {
		if id != "" && d.ID != id || len(h.Queue) >= maxQueue+maxDead {
			return false
		}
		d.Attempts, d.FirstMS, d.DueMS = 0, 0, now.UnixMilli()
		h.Queue = append(h.Queue, d)
		count++
		return true
	})
	return count
}

// view returns the webhook as clients see it.
func (h *hook) view(now time.Time) protocol.Webhook {
	v := protocol.Webhook{
		ID: h.ID, URL: h.URL, Types: h.Types, Session: h.Session, Description: h.Description,
		Format: h.Format, CreatedMS: h.CreatedMS, Disabled: h.Disabled, Waiting: len(h.Queue),
		Dead: len(h.Dead), Gaps: h.Gaps,
	}
	for _, s := range h.Secrets {
		if s.UntilMS > now.UnixMilli() {
			v.PreviousMS = s.UntilMS
		}
	}
	return v
}

func (d delivery) view(state string) protocol.Delivery {
	return protocol.Delivery{
		ID: d.ID, State: state, Event: d.EventID, Type: d.Type, Attempts: d.Attempts,
		NextMS: d.DueMS, LastMS: d.LastMS, Status: d.Status, Error: d.Error,
	}
}
