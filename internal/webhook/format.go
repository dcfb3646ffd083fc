package webhook

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Bounds of a secret that a client chooses, in bytes.
const minSecret, maxSecret = 8, 256

// format is the form of the requests of a webhook.
type format interface {
	// checkTypes checks the types of a webhook.
	checkTypes(op, types string) error
	// query returns the types of the feed that may become deliveries.
	query(h *hook) string
	// takes returns the type under which an event is sent, and false for one that is not.
	takes(h *hook, e protocol.FeedEvent) (string, bool)
	// encode returns the body of a request and its signature.
	encode(h *hook, e *protocol.FeedEvent, now time.Time) (body []byte, signature string, err error)
}

// format returns the form of the requests.
func (h *hook) format() format {
	if h.Format == protocol.WebhookE2B {
		return e2bFormat{}
	}
	return ownFormat{}
}

// checkFormat checks the format and the secret that a client asks for. Errors: InvalidArgument.
func checkFormat(op, form, secret string) error {
	switch {
	case form != "" && form != protocol.WebhookE2B:
		return fault.Invalid(op, "format", "it is empty or %s", protocol.WebhookE2B)
	case secret != "" && form == "":
		return fault.Invalid(op, "secret", "only webhooks in the format %s have a given secret",
			protocol.WebhookE2B)
	case secret != "" && (len(secret) < minSecret || len(secret) > maxSecret):
		return fault.Invalid(op, "secret", "it has %d to %d bytes", minSecret, maxSecret)
	}
	return nil
}

// ownFormat is the form of Sandgate.
type ownFormat struct{}

func (ownFormat) checkTypes(op, types string) error {
	_, err := event.ParseTypes(op, types)
	return err
}

func (ownFormat) query(h *hook) string { return h.Types }

func (ownFormat) takes(_ *hook, e protocol.FeedEvent) (string, bool) { return e.Type, true }

func (ownFormat) encode(h *hook, e *protocol.FeedEvent, now time.Time) ([]byte, string, error) {
	body, err := json.Marshal(e)
	return body, h.sign(body, now), err
}

// e2bFormat is the form of E2B.
type e2bFormat struct{}

func (e2bFormat) checkTypes(op, types string) error {
	if types == "" {
		return nil
	}
	_, err := e2bname.ParseEventTypes(op, types)
	return err
}

func (e2bFormat) query(*hook) string { return e2bname.FeedTypes }

func (e2bFormat) takes(h *hook, e protocol.FeedEvent) (string, bool) {
	v, ok := e2bname.EventOf(h.Tenant, e)
	if !ok {
		return e.Type, e.Type == protocol.FeedWebhookTest
	}
	return v.Type, h.Types == "" || slices.Contains(strings.Split(h.Types, ","), v.Type)
}

// encode signs with the newest secret: the header has one signature. One documentation of the
// signature encodes it as URL-safe base64, and another one does not. Spaces after the body change
// the signature until both forms are equal.
func (e2bFormat) encode(h *hook, e *protocol.FeedEvent, _ time.Time) ([]byte, string, error) {
	v, ok := e2bname.EventOf(h.Tenant, *e)
	if !ok {
		v = e2bname.Event{
			ID: e.ID, Version: "v2", Type: e.Type, Timestamp: e2bname.Time(e.TimeMS), Team: h.Tenant,
		}
	}
	body, err := v.Body()
	if err != nil {
		return nil, "", err
	}
	const most = 200 // each space has a chance of one in four
	for range most {
		sum := sha256.Sum256(append([]byte(h.Secrets[0].Value), body...))
		signature := base64.RawStdEncoding.EncodeToString(sum[:])
		if !strings.ContainsAny(signature, "+/") {
			return body, signature, nil
		}
		body = append(body, ' ')
	}
	return nil, "", fault.New(fault.Internal, "webhook.sign", "no signature fits")
}
