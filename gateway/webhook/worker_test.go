package webhook

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// scriptedNode hands out deliveries and keeps their outcomes.
type scriptedNode struct {
	jobs     chan protocol.WebhookJob
	outcomes chan protocol.WebhookOutcome
}

func (n *scriptedNode) Call(
	ctx context.Context, _ noderpc.Principal, op string, params, result any,
) error {
	if op == protocol.OpWebhookDone {
		for _, o := range params.(protocol.WebhookOutcomes).Outcomes {
			n.outcomes <- o
		}
		return nil
	}
	select {
	case j := <-n.jobs:
		out := result.(*protocol.WebhookJobs)
		out.Jobs = append(out.Jobs, j)
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
	return nil
}

// runWorker runs a worker until the test ends.
func runWorker(t *testing.T, allow ...netip.Prefix) *scriptedNode {
	n := &scriptedNode{
		jobs:     make(chan protocol.WebhookJob, 100),
		outcomes: make(chan protocol.WebhookOutcome, 100),
	}
	w := New(Config{
		Node: n, Log: slog.New(slog.DiscardHandler), Version: "1", Allow: allow,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		work.Wait()
	})
	return n
}

func (n *scriptedNode) send(t *testing.T, url string) protocol.WebhookOutcome {
	t.Helper()
	n.jobs <- protocol.WebhookJob{
		Webhook: "wh_1", Delivery: "d_1", Lease: "l", Type: "session.lost", URL: url,
		Body: `{"id":"1-0"}`, Signature: "t=1,v1=x",
	}
	return n.outcome(t)
}

func (n *scriptedNode) outcome(t *testing.T) protocol.WebhookOutcome {
	t.Helper()
	select {
	case o := <-n.outcomes:
		return o
	case <-time.After(2 * time.Minute):
		t.Fatal("no outcome was reported")
	}
	return protocol.WebhookOutcome{}
}

func loopback() netip.Prefix { return netip.MustParsePrefix("127.0.0.0/8") }

// TestAttempt checks the request of a delivery, and that a redirect is not followed.
func TestAttempt(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redirect" {
			http.Redirect(w, r, "/hook", http.StatusFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprint(r.Method, " ", r.URL.Path, " ", string(body), " ",
			r.Header.Get("Sandgate-Signature"), " ", r.Header.Get("Sandgate-Event"), " ",
			r.Header.Get("Sandgate-Delivery"), " ", r.Header.Get("Content-Type")))
		w.WriteHeader(http.StatusAccepted)
	}))
	defer s.Close()
	n := runWorker(t, loopback())
	if o := n.send(t, s.URL+"/redirect"); o.Status != http.StatusFound {
		t.Errorf("a redirect: %+v", o)
	}
	if o := n.send(t, s.URL+"/hook"); o.Status != http.StatusAccepted || o.Delivery != "d_1" ||
		o.Lease != "l" || o.Webhook != "wh_1" {
		t.Errorf("the outcome is %+v", o)
	}
	want := `POST /hook {"id":"1-0"} t=1,v1=x session.lost d_1 application/json`
	if len(got) != 1 || got[0] != want {
		t.Errorf("the receiver got %q", got)
	}
}

// TestPrivateAddresses checks that no webhook reaches an address that is not public, by any spelling
// of it, unless the operator lists its network.
func TestPrivateAddresses(t *testing.T) {
	reached := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached = true
	}))
	defer s.Close()
	_, port, _ := netSplit(s.URL)
	n := runWorker(t)
	for _, host := range []string{
		"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1",
		"0.0.0.0", "192.168.1.1", "100.64.0.1", "[fd00::1]", "[fe80::1]", "[64:ff9b::7f00:1]",
	} {
		o := n.send(t, "http://"+host+":"+port+"/")
		if o.Status != 0 || o.Error == "" {
			t.Errorf("%s: %+v", host, o)
		}
	}
	if reached {
		t.Error("a request arrived")
	}
	if o := runWorker(t, loopback()).send(t, s.URL); o.Status != 200 || !reached {
		t.Errorf("an allowed network: %+v", o)
	}
}

func netSplit(url string) (host, port string, err error) {
	a, err := netip.ParseAddrPort(url[len("http://"):])
	return a.Addr().String(), fmt.Sprint(a.Port()), err
}

// TestSlowReceiver checks that receivers that do not answer delay no other one.
func TestSlowReceiver(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
	}))
	defer s.Close()
	defer close(release)
	n := runWorker(t, loopback())
	for range 8 { // as many as the node hands out of one webhook
		n.jobs <- protocol.WebhookJob{Webhook: "slow", URL: s.URL + "/slow"}
	}
	if o := n.send(t, s.URL+"/fast"); o.Webhook != "wh_1" || o.Status != 200 {
		t.Errorf("the first outcome is %+v", o)
	}
}
