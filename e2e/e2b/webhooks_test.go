package e2b

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// A delivery is a request of a webhook.
type delivery struct {
	header http.Header
	body   string
}

// TestLifecycleWebhooks registers a webhook of E2B and follows a sandbox through its life. The
// receiver refuses the first request, which is repeated.
func TestLifecycleWebhooks(t *testing.T) {
	t.Parallel()
	const secret = "a secret of the test"
	d := other(t, server(t))
	arrived := make(chan delivery, 100)
	var refused atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || !refused.Swap(true) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		arrived <- delivery{r.Header, string(body)}
	}))
	defer receiver.Close()
	var hook struct {
		ID      string
		Enabled bool
		Events  []string
	}
	a := d.api(t, "POST", "/events/webhooks", map[string]any{
		"name": "lifecycle", "url": receiver.URL, "enabled": true, "signatureSecret": secret,
		"events": []string{
			"sandbox.lifecycle.created", "sandbox.lifecycle.paused", "sandbox.lifecycle.resumed",
			"sandbox.lifecycle.killed",
		},
	})
	expect(t, "create", a, 201, `"enabled":true`)
	check(t, json.Unmarshal(a.body, &hook))
	b := create(t, d, map[string]any{"metadata": map[string]any{"user": "u"}})
	next := func(kind string) {
		t.Helper()
		select {
		case got := <-arrived:
			sum := sha256.Sum256([]byte(secret + got.body))
			h := got.header
			if h.Get("e2b-signature") != base64.RawStdEncoding.EncodeToString(sum[:]) ||
				h.Get("e2b-signature-version") != "v1" || h.Get("e2b-webhook-id") != hook.ID ||
				h.Get("e2b-delivery-id") == "" {
				t.Errorf("the header is %v", h)
			}
			var e struct {
				Type string
				ID   string `json:"sandbox_id"`
				Data struct {
					Metadata map[string]string `json:"sandbox_metadata"`
				} `json:"event_data"`
			}
			check(t, json.Unmarshal([]byte(got.body), &e))
			if e.Type != kind || e.ID != b.info.SandboxID || e.Data.Metadata["user"] != "u" {
				t.Errorf("%s arrived, want %s", got.body, kind)
			}
		case <-b.ctx.Done():
			t.Fatalf("%s did not arrive", kind)
		}
	}
	path := "/sandboxes/" + b.info.SandboxID
	next("sandbox.lifecycle.created") // the second attempt
	expect(t, "pause", d.api(t, "POST", path+"/pause", nil), 204)
	next("sandbox.lifecycle.paused")
	expect(t, "connect", d.api(t, "POST", "/v2"+path+"/connect", nil), 201)
	next("sandbox.lifecycle.resumed")
	expect(t, "kill", d.api(t, "DELETE", path, nil), 204)
	next("sandbox.lifecycle.killed")
	expect(t, "events", d.api(t, "GET", "/events"+path+"?orderAsc=true", nil), 200,
		"sandbox.lifecycle.created", "sandbox.lifecycle.updated", "sandbox.lifecycle.killed")
	expect(t, "another tenant", server(t).api(t, "GET", "/events/webhooks/"+hook.ID, nil), 404)
	expect(t, "no address", d.api(t, "POST", "/events/webhooks", map[string]any{
		"name": "x", "url": "ftp://example.org", "signatureSecret": secret,
		"events": []string{"sandbox.lifecycle.killed"},
	}), 400, "url")
	expect(t, "delete", d.api(t, "DELETE", "/events/webhooks/"+hook.ID, nil), 200)
	expect(t, "get", d.api(t, "GET", "/events/webhooks/"+hook.ID, nil), 404)
}
