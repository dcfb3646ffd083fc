package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// TestWebhooks sends the events of a session to a receiver that fails once. It checks the signature,
// the retry and a test delivery.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	type arrival struct{ kind, body, signature string }
	arrived := make(chan arrival, 100)
	var failed atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !failed.Swap(true) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		arrived <- arrival{
			r.Header.Get("Sandgate-Event"), string(body), r.Header.Get("Sandgate-Signature"),
		}
	}))
	defer receiver.Close()
	srv, err := Start(ctx,
		"pool: {size: 1, languages: [python]}\nwebhooks: {allow: [127.0.0.0/8]}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	var hook protocol.NewWebhook
	code, err := srv.JSON(ctx, http.MethodPost, "/v1/webhooks",
		protocol.WebhookCreate{URL: receiver.URL, Types: "session.*"}, &hook)
	check(t, err)
	if code != http.StatusCreated || hook.Secret == "" {
		t.Fatalf("%d %+v", code, hook)
	}
	var v protocol.Session
	_, err = srv.JSON(ctx, http.MethodPost, "/v1/sessions", nil, &v)
	check(t, err)
	next := func(want string) {
		t.Helper()
		select {
		case a := <-arrived:
			stamp, signature, _ := strings.Cut(strings.TrimPrefix(a.signature, "t="), ",v1=")
			mac := hmac.New(sha256.New, []byte(hook.Secret))
			mac.Write([]byte(stamp + "." + a.body))
			if hex.EncodeToString(mac.Sum(nil)) != signature {
				t.Errorf("the signature %q does not fit", a.signature)
			}
			var e protocol.FeedEvent
			check(t, json.Unmarshal([]byte(a.body), &e))
			if a.kind != want || e.Type != want {
				t.Errorf("a delivery of %s: %s, want %s", a.kind, a.body, want)
			}
		case <-ctx.Done():
			t.Fatalf("%s did not arrive", want)
		}
	}
	next(protocol.FeedSessionCreated) // the second attempt
	check(t, deleteSession(ctx, srv, v.ID))
	next(protocol.FeedSessionDeleted)
	_, err = srv.JSON(ctx, http.MethodPost, "/v1/webhooks/"+hook.ID+"/test", nil, nil)
	check(t, err)
	next(protocol.FeedWebhookTest)
	for delivered := 0; delivered < 3; time.Sleep(50 * time.Millisecond) {
		var l protocol.DeliveryList
		_, err = srv.Get(ctx, "/v1/webhooks/"+hook.ID+"/deliveries?state=delivered", &l)
		check(t, err)
		delivered = len(l.Deliveries)
		if delivered == 3 && l.Deliveries[0].Attempts != 2 {
			t.Errorf("the first delivery is %+v", l.Deliveries[0])
		}
	}
}
