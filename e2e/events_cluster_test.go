package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/protocol"
)

// TestEventsOverGateways makes sessions through two gateways with a node each. Both gateways have
// one feed in the same order, and a webhook gets each event once.
func TestEventsOverGateways(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	arrived := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var e protocol.FeedEvent
		if json.Unmarshal(body, &e) == nil {
			mu.Lock()
			arrived[e.ID]++
			mu.Unlock()
		}
	}))
	defer receiver.Close()
	p := newPair(t, "webhooks: {allow: [127.0.0.0/8]}")
	var hook protocol.NewWebhook
	code, err := p.servers[0].JSON(p.ctx, http.MethodPost, "/v1/webhooks",
		protocol.WebhookCreate{URL: receiver.URL, Types: "session.*"}, &hook)
	check(t, err)
	if code != http.StatusCreated {
		t.Fatalf("the webhook: %d", code)
	}
	awaitJupyterEvent(p)
	const sessions = 6
	var work sync.WaitGroup
	for i := range sessions {
		work.Go(func() {
			var v protocol.Session
			s := p.servers[i%2]
			code, err := s.JSON(p.ctx, http.MethodPost, "/v1/sessions", nil, &v)
			if err != nil || code != http.StatusCreated {
				t.Errorf("session %d: %d %v", i, code, err)
				return
			}
			if err := deleteSession(p.ctx, p.servers[(i+1)%2], v.ID); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	var pages [2]protocol.EventPage
	p.await("both gateways have all events", func() bool {
		for i, s := range p.servers {
			pages[i] = s.eventPage(p.ctx, t, "", "&types=session.*")
		}
		return len(pages[0].Events) >= 2*sessions && len(pages[1].Events) >= 2*sessions
	})
	if fmt.Sprint(pages[0]) != fmt.Sprint(pages[1]) {
		t.Errorf("the gateways have the feeds\n%v\n%v", pages[0], pages[1])
	}
	p.await("all events have arrived", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(arrived) >= 2*sessions
	})
	mu.Lock()
	defer mu.Unlock()
	for id, n := range arrived {
		if n != 1 {
			t.Errorf("the event %s arrived %d times", id, n)
		}
	}
}

// awaitJupyterEvent waits until a subscriber at one gateway gets an event that a client has posted
// at the other one.
func awaitJupyterEvent(p *pair) {
	p.t.Helper()
	from, to := p.servers[0], p.servers[1]
	ws, _, err := websocket.Dial(p.ctx, "ws"+strings.TrimPrefix(to.URL, "http")+
		"/jupyter/api/events/subscribe?token="+to.Token, nil)
	check(p.t, err)
	defer ws.CloseNow()
	const event = `{"schema_id": "https://example.org/e", "version": 1, "data": {"n": 7}}`
	code, err := from.JSON(p.ctx, http.MethodPost, "/jupyter/api/events",
		json.RawMessage(event), nil)
	check(p.t, err)
	if code != http.StatusNoContent {
		p.t.Fatalf("the event: status %d", code)
	}
	_, text, err := ws.Read(p.ctx)
	check(p.t, err)
	var e struct {
		N int
	}
	if err := json.Unmarshal(text, &e); err != nil || e.N != 7 {
		p.t.Errorf("the other gateway's client gets %s: %v", text, err)
	}
}
