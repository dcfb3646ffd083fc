package gateway

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// listening is a Node that keeps the audit entries of the gateway.
type listening struct {
	notes chan protocol.AuditNotes
}

func (l *listening) Open(context.Context, noderpc.Principal) (Link, error) {
	return nil, fault.New(fault.Unavailable, "test", "no links")
}

func (l *listening) Call(_ context.Context, who noderpc.Principal, op string, params, _ any) error {
	if op != protocol.OpAudit {
		return fault.New(fault.Unavailable, "test", "the node is away")
	}
	if who.Tenant == noderpc.GatewayTenant {
		l.notes <- params.(protocol.AuditNotes)
	}
	return nil
}

// TestDenialsAreReported: rejected requests appear in the audit log. Many equal rejections become few
// entries, and so do many different ones.
func TestDenialsAreReported(t *testing.T) {
	l := &listening{notes: make(chan protocol.AuditNotes, 100)}
	url, g := serveNode(t, l)
	began := time.Now()
	for range 50 {
		get(t, url+"/v1/sessions", "wrong")
	}
	get(t, url+"/v1/status", tokenViewer)
	// Rejections within auditDelay are one entry, and the viewer's rejection is another.
	most := int(time.Since(began)/auditDelay) + 2
	told := map[string]int{}
	entries := 0
	for told["unauthenticated /v1/sessions "] < 50 || told["permission_denied /v1/status vic"] < 1 {
		select {
		case n := <-l.notes:
			for _, e := range n.Entries {
				entries++
				told[strings.Join([]string{e.Outcome, e.Route, e.Subject}, " ")] += e.Count
				if e.Event != "auth.failed" || e.Address != "127.0.0.1" {
					t.Errorf("%+v", e)
				}
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("told were %v", told)
		}
	}
	if entries > most {
		t.Errorf("%d entries of 51 denials, want at most %d", entries, most)
	}
	if lost := total(g.stats.notesLost); lost != 0 {
		t.Errorf("%d were lost", lost)
	}
}

// TestMetricsWithoutNode: a gateway whose node cannot be reached reports its own metrics.
func TestMetricsWithoutNode(t *testing.T) {
	url, _ := serveNode(t, &listening{notes: make(chan protocol.AuditNotes, 100)})
	status, body := get(t, url+"/metrics", tokenAll)
	if status != http.StatusOK || !strings.Contains(body, "\nsandgate_gateway_node_up 0\n") ||
		strings.Contains(body, "sandgate_node_") {
		t.Errorf("%d: %s", status, body)
	}
	if status, _ := get(t, url+"/metrics", tokenViewer); status != http.StatusForbidden {
		t.Errorf("a viewer reads metrics: %d", status)
	}
	if _, body := get(t, url+"/metrics", tokenAll); !strings.Contains(body,
		`sandgate_gateway_errors_total{kind="permission_denied"} 1`) {
		t.Errorf("the refusal was not counted: %s", body)
	}
}

// partlyUp is a cluster with a node that sends no metrics.
type partlyUp struct{ listening }

func (*partlyUp) Call(_ context.Context, _ noderpc.Principal, op string, _, result any) error {
	if op == protocol.OpMetrics {
		*result.(*protocol.Metrics) = protocol.Metrics{Nodes: map[string]bool{"a": true, "b": false}}
	}
	return nil
}

// TestMetricsWithMissingNode: a gateway of a cluster reports each node that sent no metrics.
func TestMetricsWithMissingNode(t *testing.T) {
	url, _ := serveNode(t, &partlyUp{})
	_, body := get(t, url+"/metrics", tokenAll)
	for _, line := range []string{
		`sandgate_gateway_node_up{node="a"} 1`, `sandgate_gateway_node_up{node="b"} 0`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("there is no %s in %s", line, body)
		}
	}
}

// serveNode starts a gateway in front of the given node.
func serveNode(t *testing.T, n Node) (url string, g *Gateway) {
	t.Helper()
	g, err := New(Config{Version: "test", Tokens: testTokens()}, n, nil)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String(), g
}

func get(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, read(t, resp)
}
