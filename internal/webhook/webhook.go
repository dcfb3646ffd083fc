// Package webhook keeps the webhooks of tenants with the state of their deliveries, and hands
// deliveries out to gateways, which send them.
//
// Each step loads a webhook, changes it and stores it if nobody has changed it meanwhile. So any
// node of a cluster serves any webhook, and a delivery has one lease at a time.
//
// Limits: a tenant has 16 webhooks. A webhook has 200 deliveries that wait, of which 8 are sent at
// once, and 200 that were given up. While that many wait, further events stay in the feed.
package webhook

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	mrand "math/rand/v2"
	"net/url"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	maxPerTenant = 16
	maxQueue     = 200
	maxSending   = 8
	maxDead      = 200
	maxSent      = 50
	maxError     = 300
	maxURL       = 2048
	maxText      = 256
	maxKeep      = 7 * 24 * time.Hour
	// leaseTime is how long a gateway has for one attempt and its report.
	leaseTime = time.Minute
	// giveUpAfter is the time after the first attempt after which a delivery is given up.
	giveUpAfter = 24 * time.Hour
	// tries is how often a change is tried that others come before.
	tries = 20
	// maxYield bounds the pause between two tries.
	maxYield = 100 * time.Millisecond
)

// Store keeps webhooks. It is local.WebhookStore or redis.WebhookStore.
type Store interface {
	List(ctx context.Context) ([]cluster.WebhookRecord, error)
	// Replace stores a new state if the stored version is was, and returns false otherwise. was is
	// 0 for a new webhook. Nil data removes it.
	Replace(ctx context.Context, id string, was uint64, data []byte) (bool, error)
}

// Feed is the feed of events.
type Feed interface {
	Read(ctx context.Context, tenant string, q protocol.EventQuery) (protocol.EventPage, error)
}

// Stats are counters since the start.
type Stats struct {
	// Delivered counts deliveries that arrived, Failed attempts that did not, and Dead deliveries
	// that were given up.
	Delivered, Failed, Dead atomic.Int64
}

// Manager manages webhooks. Its methods are safe for concurrent use.
type Manager struct {
	store Store
	feed  Feed
	now   func() time.Time
	aead  cipher.AEAD // nil stores webhooks as they are
	stats Stats
}

// New returns a manager. With a key of 32 bytes webhooks are stored encrypted.
func New(store Store, feed Feed, key []byte) (*Manager, error) {
	m := &Manager{store: store, feed: feed, now: time.Now}
	if key == nil {
		return m, nil
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fault.Wrap(fault.Host, "webhook.new", err)
	}
	m.aead, err = cipher.NewGCM(block)
	return m, fault.Wrap(fault.Host, "webhook.new", err)
}

// Stats returns the counters.
func (m *Manager) Stats() *Stats { return &m.stats }

// encode returns the stored form of a webhook.
func (m *Manager) encode(h *hook) ([]byte, error) {
	data, err := json.Marshal(h)
	if err != nil || m.aead == nil {
		return data, err
	}
	nonce := make([]byte, m.aead.NonceSize(), m.aead.NonceSize()+len(data)+m.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return m.aead.Seal(nonce, nonce, data, []byte("sandgate webhook "+h.ID)), nil
}

func (m *Manager) decode(r cluster.WebhookRecord) (*hook, error) {
	data := r.Data
	if m.aead != nil {
		n := m.aead.NonceSize()
		if len(data) < n {
			return nil, fault.New(fault.Malformed, "webhook.load", "a webhook is cut short")
		}
		var err error
		data, err = m.aead.Open(nil, data[:n], data[n:], []byte("sandgate webhook "+r.ID))
		if err != nil {
			return nil, fault.Wrap(fault.Malformed, "webhook.load", err)
		}
	}
	h := &hook{version: r.Version}
	if err := json.Unmarshal(data, h); err != nil {
		return nil, fault.Wrap(fault.Malformed, "webhook.load", err)
	}
	return h, nil
}

// hooksOf returns the webhooks of a tenant, or of all tenants for "". It
// leaves out webhooks that cannot be read.
func (m *Manager) hooksOf(ctx context.Context, tenant string) ([]*hook, error) {
	records, err := m.store.List(ctx)
	if err != nil {
		return nil, err
	}
	var hooks []*hook
	for _, r := range records {
		if h, err := m.decode(r); err == nil && (tenant == "" || h.Tenant == tenant) {
			hooks = append(hooks, h)
		}
	}
	return hooks, nil
}

// find returns a webhook of a tenant.
func (m *Manager) find(ctx context.Context, op, tenant, id string) (*hook, error) {
	hooks, err := m.hooksOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	for _, h := range hooks {
		if h.ID == id {
			return h, nil
		}
	}
	return nil, &fault.Error{
		Kind: fault.NotFound, Op: op, Field: "webhook", Message: "there is no such webhook",
	}
}

// storeHook stores a changed webhook. It returns false if another change came first.
func (m *Manager) storeHook(ctx context.Context, h *hook) (bool, error) {
	data, err := m.encode(h)
	if err != nil {
		return false, fault.Wrap(fault.Internal, "webhook.save", err)
	}
	for len(data) > cluster.MaxWebhookBytes && len(h.Dead) > 0 {
		h.Dead = h.Dead[(len(h.Dead)+1)/2:] // the oldest
		if data, err = m.encode(h); err != nil {
			return false, fault.Wrap(fault.Internal, "webhook.save", err)
		}
	}
	return m.store.Replace(ctx, h.ID, h.version, data)
}

// modify changes a webhook of a tenant. do is called again when another change came first.
func (m *Manager) modify(
	ctx context.Context, op, tenant, id string, do func(h *hook) error,
) (*hook, error) {
	for i := range tries {
		if err := yield(ctx, op, i); err != nil {
			return nil, err
		}
		h, err := m.find(ctx, op, tenant, id)
		if err != nil {
			return nil, err
		}
		if err := do(h); err != nil {
			return nil, err
		}
		if done, err := m.storeHook(ctx, h); done || err != nil {
			return h, err
		}
	}
	return nil, busy(op)
}

// yield waits before a try other than the first, for a random time that grows with the number of
// tries, so that two changes do not come before each other again and again.
func yield(ctx context.Context, op string, try int) error {
	if try == 0 {
		return nil
	}
	timer := time.NewTimer(mrand.N(min(time.Millisecond<<try, maxYield)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

func busy(op string) error {
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, RetryAfter: 1,
		Message: "the webhook is being changed by too many others",
	}
}

// check checks the parts that a client sets.
func (h *hook) check(op string) error {
	u, err := url.Parse(h.URL)
	if err != nil || len(h.URL) > maxURL || u.Host == "" || u.Hostname() == "" || u.User != nil ||
		u.Scheme != "https" && u.Scheme != "http" {
		return fault.Invalid(op, "url",
			"it is an address such as https://hooks.example.org/sandgate, without a user, of at most %d bytes",
			maxURL)
	}
	if len(h.Description) > maxText || !utf8.ValidString(h.Description) {
		return fault.Invalid(op, "description", "it has at most %d bytes", maxText)
	}
	if len(h.Session) > maxText {
		return fault.Invalid(op, "session", "there is no such session")
	}
	return h.format().checkTypes(op, h.Types)
}

// Create makes a webhook that gets the events from now on.
func (m *Manager) Create(
	ctx context.Context, tenant string, r protocol.WebhookCreate,
) (protocol.NewWebhook, error) {
	const op = protocol.OpWebhookCreate
	var none protocol.NewWebhook
	now := m.now()
	h := &hook{
		ID: newID("wh_"), Tenant: tenant, URL: r.URL, Types: r.Types, Session: r.Session,
		Description: r.Description, CreatedMS: now.UnixMilli(), Format: r.Format,
		Disabled: r.Disabled, Secrets: []secret{{Value: cmp.Or(r.Secret, newSecret())}},
	}
	if err := checkFormat(op, r.Format, r.Secret); err != nil {
		return none, err
	}
	if err := h.check(op); err != nil {
		return none, err
	}
	all, err := m.hooksOf(ctx, "")
	if err != nil {
		return none, err
	}
	mine := 0
	for _, other := range all {
		if other.Tenant == tenant {
			mine++
		}
	}
	if mine >= maxPerTenant || len(all) >= cluster.MaxWebhooks {
		return none, &fault.Error{
			Kind: fault.Exhausted, Op: op, Field: "webhooks",
			Message: "the tenant has as many webhooks as it can; delete one",
		}
	}
	page, err := m.feed.Read(ctx, tenant, protocol.EventQuery{After: protocol.LatestEvent})
	if err != nil {
		return none, err
	}
	h.Cursor = page.Cursor
	if done, err := m.storeHook(ctx, h); err != nil || !done {
		return none, err
	}
	return protocol.NewWebhook{Webhook: h.view(now), Secret: h.Secrets[0].Value}, nil
}

// List lists the webhooks of a tenant, oldest first.
func (m *Manager) List(ctx context.Context, tenant string) (protocol.WebhookList, error) {
	l := protocol.WebhookList{Webhooks: []protocol.Webhook{}}
	all, err := m.hooksOf(ctx, tenant)
	if err != nil {
		return l, err
	}
	sortByAge(all)
	for _, h := range all {
		l.Webhooks = append(l.Webhooks, h.view(m.now()))
	}
	return l, nil
}

// Get returns a webhook of a tenant.
func (m *Manager) Get(ctx context.Context, tenant, id string) (protocol.Webhook, error) {
	h, err := m.find(ctx, protocol.OpWebhookGet, tenant, id)
	if err != nil {
		return protocol.Webhook{}, err
	}
	return h.view(m.now()), nil
}

// Update changes a webhook.
func (m *Manager) Update(
	ctx context.Context, tenant string, r protocol.WebhookUpdate,
) (protocol.Webhook, error) {
	const op = protocol.OpWebhookUpdate
	h, err := m.modify(ctx, op, tenant, r.Webhook, func(h *hook) error {
		for to, value := range map[*string]*string{
			&h.URL: r.URL, &h.Types: r.Types, &h.Session: r.Session, &h.Description: r.Description,
		} {
			if value != nil {
				*to = *value
			}
		}
		if r.Disabled != nil {
			h.Disabled = *r.Disabled
		}
		if r.Secret != nil {
			if err := checkFormat(op, h.Format, *r.Secret); err != nil {
				return err
			}
			h.Secrets = []secret{{Value: cmp.Or(*r.Secret, newSecret())}}
		}
		return h.check(op)
	})
	if err != nil {
		return protocol.Webhook{}, err
	}
	return h.view(m.now()), nil
}

// Delete removes a webhook and its deliveries.
func (m *Manager) Delete(ctx context.Context, tenant, id string) error {
	const op = protocol.OpWebhookDelete
	for i := range tries {
		if err := yield(ctx, op, i); err != nil {
			return err
		}
		h, err := m.find(ctx, op, tenant, id)
		if err != nil {
			return err
		}
		if done, err := m.store.Replace(ctx, h.ID, h.version, nil); done || err != nil {
			return err
		}
	}
	return busy(op)
}

// Test adds a delivery of the type webhook.test.
func (m *Manager) Test(ctx context.Context, tenant, id string) (protocol.Delivery, error) {
	const op = protocol.OpWebhookTest
	var made protocol.Delivery
	_, err := m.modify(ctx, op, tenant, id, func(h *hook) error {
		if len(h.Queue) >= maxQueue+maxDead {
			return fault.New(fault.Exhausted, op, "too many deliveries of the webhook wait")
		}
		now := m.now()
		made = h.add(protocol.FeedEvent{
			ID: newID("test_"), Type: protocol.FeedWebhookTest, TimeMS: now.UnixMilli(),
		}, now).view(protocol.DeliveryWaiting)
		return nil
	})
	return made, err
}

// Rotate gives a webhook a new secret.
func (m *Manager) Rotate(
	ctx context.Context, tenant string, r protocol.WebhookRotate,
) (protocol.NewWebhook, error) {
	const op = protocol.OpWebhookRotate
	if r.KeepSeconds < 0 || r.KeepSeconds > int64(maxKeep/time.Second) {
		return protocol.NewWebhook{}, fault.Invalid(op, "keep_seconds",
			"the previous secret signs for 0 to %d seconds", int64(maxKeep/time.Second))
	}
	now := m.now()
	h, err := m.modify(ctx, op, tenant, r.Webhook, func(h *hook) error {
		before := h.Secrets[0]
		h.Secrets = []secret{{Value: newSecret()}}
		if r.KeepSeconds > 0 {
			before.UntilMS = now.UnixMilli() + 1000*r.KeepSeconds
			h.Secrets = append(h.Secrets, before)
		}
		return nil
	})
	if err != nil {
		return protocol.NewWebhook{}, err
	}
	return protocol.NewWebhook{Webhook: h.view(now), Secret: h.Secrets[0].Value}, nil
}

// Deliveries lists deliveries of a webhook: those that wait, then the dead ones, then the last ones
// that arrived.
func (m *Manager) Deliveries(
	ctx context.Context, tenant string, q protocol.DeliveryQuery,
) (protocol.DeliveryList, error) {
	const op = protocol.OpWebhookDeliveries
	l := protocol.DeliveryList{Deliveries: []protocol.Delivery{}}
	h, err := m.find(ctx, op, tenant, q.Webhook)
	if err != nil {
		return l, err
	}
	known := q.State == ""
	for _, part := range []struct {
		state string
		all   []delivery
	}{
		{protocol.DeliveryWaiting, h.Queue},
		{protocol.DeliveryDead, h.Dead},
		{protocol.DeliveryDelivered, h.Sent},
	} {
		known = known || part.state == q.State
		for _, d := range part.all {
			if q.State == "" || part.state == q.State {
				l.Deliveries = append(l.Deliveries, d.view(part.state))
			}
		}
	}
	if !known {
		return l, fault.Invalid(op, "state", "it is waiting, delivered or dead")
	}
	return l, nil
}

// Resend sends dead deliveries again.
func (m *Manager) Resend(
	ctx context.Context, tenant string, r protocol.WebhookResend,
) (out protocol.Resent, err error) {
	const op = protocol.OpWebhookResend
	_, err = m.modify(ctx, op, tenant, r.Webhook, func(h *hook) error {
		out.Count = h.resend(r.Delivery, m.now())
		if out.Count == 0 && r.Delivery != "" {
			return &fault.Error{
				Kind: fault.NotFound, Op: op, Field: "delivery",
				Message: "no delivery with this id was given up",
			}
		}
		return nil
	})
	return out, err
}
