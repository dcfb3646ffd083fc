package webhook

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/e2bname"
	"github.com/sandgate/sandgate/internal/event"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestE2BFormat checks which events a webhook in E2B's format gets, their bodies, and that both
// documented ways to verify their signature agree.
func TestE2BFormat(t *testing.T) {
	const secret = "a secret of the test"
	r, ctx := newRig(t, nil), t.Context()
	h, err := r.Create(ctx, "t", protocol.WebhookCreate{
		URL: "https://hooks.example.org/x", Format: protocol.WebhookE2B, Secret: secret,
		Types: e2bname.EventPaused + "," + e2bname.EventKilled,
	})
	if err != nil || h.Secret != secret || h.Format != protocol.WebhookE2B {
		t.Fatalf("%+v, %v", h, err)
	}
	emit := func(kind string, labels map[string]string) {
		r.feed.Emit(event.Event{Tenant: "t", FeedEvent: protocol.FeedEvent{
			Type: kind, Session: "s_2", Labels: labels,
		}})
	}
	box := map[string]string{e2bname.LabelTemplate: "base", "user": "u"}
	emit(protocol.FeedSessionHibernated, box) // an idle sandbox
	emit(protocol.FeedSessionCreated, box)    // not wanted
	emit(protocol.FeedSessionLost, nil)       // no sandbox
	for range 12 {
		emit(protocol.FeedSessionSuspended, box)
	}
	box[e2bname.LabelOptions] = e2bname.Options{AutoResume: true}.Label()
	emit(protocol.FeedSessionHibernated, box)
	// This one is about no sandbox. All events are in the feed after it.
	r.emit("t", protocol.FeedSessionDeleted)
	for sent := 0; sent < 13; {
		out, err := r.TakeDue(ctx, protocol.WebhookTake{Limit: 100})
		if err != nil || len(out.Jobs) == 0 {
			t.Fatalf("%d were sent, then %+v, %v", sent, out, err)
		}
		for _, j := range out.Jobs {
			sum := sha256.Sum256([]byte(secret + j.Body))
			url := base64.RawURLEncoding.EncodeToString(sum[:])
			if base64.RawStdEncoding.EncodeToString(sum[:]) != j.Signature || url != j.Signature ||
				j.Format != protocol.WebhookE2B || j.Type != e2bname.EventPaused {
				t.Errorf("%+v", j)
			}
			var body map[string]any
			if err := json.Unmarshal([]byte(j.Body), &body); err != nil {
				t.Fatal(err)
			}
			data, _ := body["event_data"].(map[string]any)
			metadata, _ := data["sandbox_metadata"].(map[string]any)
			if body["type"] != e2bname.EventPaused || body["sandbox_id"] != "i2" ||
				body["sandboxId"] != "i2" || body["event_label"] != "paused" ||
				body["sandbox_team_id"] != "t" || len(metadata) != 1 || metadata["user"] != "u" {
				t.Errorf("the body is %s", j.Body)
			}
		}
		sent += len(out.Jobs)
		r.report(200, out.Jobs...)
	}
	r.take(0)
	if _, err := r.Test(ctx, "t", h.ID); err != nil {
		t.Fatal(err)
	}
	if j := r.take(1)[0]; !strings.Contains(j.Body, `"type":"webhook.test"`) {
		t.Errorf("a test sends %s", j.Body)
	}
}

// TestE2BFormatIsChecked checks the fields of webhooks in E2B's format, and that a new secret signs.
func TestE2BFormatIsChecked(t *testing.T) {
	r, ctx := newRig(t, nil), t.Context()
	const url = "https://hooks.example.org/x"
	for field, c := range map[string]protocol.WebhookCreate{
		"format": {URL: url, Format: "other"},
		"secret": {URL: url, Secret: "a secret of the test"},
		"events": {URL: url, Format: protocol.WebhookE2B, Types: protocol.FeedSessionLost},
	} {
		_, err := r.Create(ctx, "t", c)
		if known, ok := errors.AsType[*fault.Error](err); !ok || known.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, secret := range []string{"short", strings.Repeat("x", maxSecret+1)} {
		if _, err := r.Create(ctx, "t", protocol.WebhookCreate{
			URL: url, Format: protocol.WebhookE2B, Secret: secret,
		}); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("a secret of %d bytes: %v", len(secret), err)
		}
	}
	h, err := r.Create(ctx, "t", protocol.WebhookCreate{
		URL: url, Format: protocol.WebhookE2B, Disabled: true,
	})
	if err != nil || !h.Disabled || len(h.Secret) < 32 {
		t.Fatalf("%+v, %v", h, err)
	}
	on, secret := false, "another secret"
	if _, err := r.Update(ctx, "t", protocol.WebhookUpdate{
		Webhook: h.ID, Disabled: &on, Secret: &secret,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Test(ctx, "t", h.ID); err != nil {
		t.Fatal(err)
	}
	j := r.take(1)[0]
	sum := sha256.Sum256([]byte(secret + j.Body))
	if base64.RawStdEncoding.EncodeToString(sum[:]) != j.Signature {
		t.Errorf("the new secret does not sign %+v", j)
	}
}
