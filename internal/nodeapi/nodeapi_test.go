package nodeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/internal/nodeapi/serial"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

var alice = noderpc.Principal{Tenant: "alice", Subject: "a"}

// fakeNode is a node without sessions.
type fakeNode struct{ registry *prometheus.Registry }

func (n fakeNode) Status() protocol.NodeStatus {
	return protocol.NodeStatus{Version: "1", Counters: map[string]int64{"forks": 2}}
}
func (n fakeNode) Uses() map[string]tenant.Use   { return nil }
func (n fakeNode) Metrics() *prometheus.Registry { return n.registry }

// fakeSessions finds no session.
type fakeSessions struct{ Sessions }

func (fakeSessions) Find(noderpc.Principal, string) (*session.Session, error) {
	return nil, &fault.Error{
		Kind: fault.NotFound, Op: "session.find", Field: "session",
		Message: "there is no such session",
	}
}

// fakeSnapshots has no snapshot.
type fakeSnapshots struct{ Snapshots }

func (fakeSnapshots) Get(context.Context, noderpc.Principal, string) (protocol.Snapshot, error) {
	return protocol.Snapshot{}, fault.New(fault.NotFound, "test", "there is no such snapshot")
}

func (fakeSnapshots) Delete(context.Context, noderpc.Principal, string) error {
	return fault.New(fault.NotFound, "test", "there is no such snapshot")
}

// logBuffer collects the log.
type logBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// harness is a Server on a socket, with a client.
type harness struct {
	t      testing.TB
	ctx    context.Context
	server *Server
	client *noderpc.Client
	log    *logBuffer
}

func newHarness(t testing.TB, change ...func(*Config, *Server)) *harness {
	t.Helper()
	h := &harness{t: t, log: &logBuffer{}}
	cfg := Config{
		Sessions: fakeSessions{}, Node: fakeNode{prometheus.NewRegistry()}, Version: "1",
		Logger: slog.New(slog.NewTextHandler(h.log, nil)),
	}
	var err error
	if h.server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&h.server.cfg, h.server)
	}
	path := filepath.Join(t.TempDir(), "node.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h.ctx = ctx
	served := make(chan error, 1)
	go func() { served <- noderpc.Serve(ctx, ln, h.server, nil) }()
	h.client = noderpc.NewClient(noderpc.Unix(path), noderpc.ClientOptions{})
	t.Cleanup(func() {
		_ = h.client.Close()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return h
}

// link is a client's link.
type link struct {
	*noderpc.Link
	h    *harness
	next uint64
}

func (h *harness) open(p noderpc.Principal) *link {
	h.t.Helper()
	l, err := h.client.Open(h.ctx, p)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = l.Close() })
	return &link{Link: l, h: h}
}

// ask makes a request and returns its reply. The link must have no other request.
func (l *link) ask(op string, ch uint32, params any) protocol.Reply {
	l.h.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		l.h.t.Fatal(err)
	}
	l.next++
	body, err := json.Marshal(protocol.Request{ID: l.next, Op: op, Ch: ch, Params: raw})
	if err == nil {
		err = l.Send(frame.Frame{Type: frame.Control, Body: body})
	}
	if err != nil {
		l.h.t.Fatal(err)
	}
	f, err := l.Next()
	if err != nil {
		l.h.t.Fatalf("%s: %v", op, err)
	}
	var r protocol.Reply
	if err := json.Unmarshal(f.Body, &r); err != nil {
		l.h.t.Fatal(err)
	}
	if r.ID != l.next {
		l.h.t.Fatalf("%s: a reply to %d, want %d", op, r.ID, l.next)
	}
	return r
}

// TestPanicEndsOneOperation: a panic in an operation of any order, or in a goroutine that it
// started, is answered with an internal error, logged with its stack and counted. The link and the
// node continue.
func TestPanicEndsOneOperation(t *testing.T) {
	boom := func(context.Context, *call, none) (none, error) { panic("boom") }
	later := func(_ context.Context, c *call, _ none, _ func(none, error)) error {
		c.background(c.op(), func() { panic("boom") }, c.fail)
		return nil
	}
	// The orders by channel need a viewer, but use only its queue.
	join := func(_ context.Context, c *call, _ none) (none, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.viewers[c.request.Ch] = &viewer{link: c.linkHandler, requests: serial.New(&c.work)}
		return none{}, nil
	}
	leave := func(_ context.Context, c *call, _ none) (none, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.viewers, c.request.Ch)
		return none{}, nil
	}
	table := []protocol.Operation{
		{
			Name: protocol.OpHello, Params: protocol.Hello{}, Result: protocol.Welcome{},
			Order: protocol.Inline,
		},
		{Name: "inline", Order: protocol.Inline},
		{Name: "concurrent", Order: protocol.Concurrent},
		{Name: "channel", Order: protocol.PerChannel, Channel: protocol.NamesChannel},
		{Name: "later", Order: protocol.Inline},
		{Name: "join", Order: protocol.Inline},
		{Name: "leave", Order: protocol.Inline},
	}
	all, err := newOperations(table, []handler{
		handle(protocol.OpHello, hello), handle("inline", boom), handle("concurrent", boom),
		handle("channel", boom),
		handleLater("later", later), handle("join", join), handle("leave", leave),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, func(_ *Config, s *Server) { s.operations = all })
	l := h.open(alice)
	l.ask("join", 1, nil)
	for i, op := range []string{"inline", "concurrent", "channel", "later"} {
		if r := l.ask(op, 1, nil); r.Error == nil || r.Error.Kind != fault.Internal {
			t.Errorf("%s: %+v, want an internal error", op, r)
		}
		if n := h.server.metrics.panics.Load(); n != int64(i+1) {
			t.Errorf("%s: %d panics are counted, want %d", op, n, i+1)
		}
		if r := l.ask(protocol.OpHello, 0, protocol.Hello{}); r.Error != nil {
			t.Errorf("after %s the link is of no use: %+v", op, r.Error)
		}
	}
	l.ask("leave", 1, nil)
	if text := h.log.String(); strings.Count(text, "an operation panicked") != 4 ||
		!strings.Contains(text, "TestPanicEndsOneOperation") {
		t.Errorf("the log lacks the panics or their stacks:\n%s", text)
	}
	// All slots are free again.
	for range 2 * maxRequests {
		if r := l.ask("concurrent", 0, nil); r.Error == nil || r.Error.Kind != fault.Internal {
			t.Fatalf("%+v", r)
		}
	}
}

// TestPanicIsAudited: an operation that panics has an outcome in the audit log.
func TestPanicIsAudited(t *testing.T) {
	j, err := journal.Open(journal.Options{Dir: t.TempDir(), Name: "audit"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := newOperations([]protocol.Operation{{Name: "boom"}}, []handler{
		handle("boom", func(context.Context, *call, none) (none, error) { panic("boom") }),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, func(c *Config,
		s *Server,
	) {
		s.operations, c.Audit = all, audit.Log{Journal: j}
	})
	h.open(alice).ask("boom", 0, nil)
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := j.Stats(); s.Lines != 1 {
		t.Errorf("the audit log has %d lines, want 1", s.Lines)
	}
}

// TestStatusHasAllCounters: the node's counters and those of the operations.
func TestStatusHasAllCounters(t *testing.T) {
	h := newHarness(t)
	var st protocol.NodeStatus
	if err := json.Unmarshal(h.open(alice).ask(protocol.OpStatus, 0, nil).Result, &st); err != nil {
		t.Fatal(err)
	}
	if st.Counters["forks"] != 2 || st.Counters["links"] != 1 || st.Counters["requests"] != 1 {
		t.Errorf("%+v", st.Counters)
	}
	var m protocol.Metrics
	if err := json.Unmarshal(h.open(alice).ask(protocol.OpMetrics, 0, nil).Result, &m); err != nil {
		t.Fatal(err)
	}
	for _, c := range h.server.metrics.counters() {
		if !strings.Contains(m.Text, "\nsandgate_node_"+c.name+"_total ") {
			t.Errorf("there is no metric of %s", c.name)
		}
	}
}

// TestSearchesAreNoErrors: a gateway of a cluster asks all nodes for a resource. Those that do not
// have it count no error.
func TestSearchesAreNoErrors(t *testing.T) {
	h := newHarness(t, func(c *Config, _ *Server) { c.Snapshots = fakeSnapshots{} })
	l := h.open(alice)
	counted := func(n string) bool {
		var m protocol.Metrics
		if err := json.Unmarshal(l.ask(protocol.OpMetrics, 0, nil).Result, &m); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(m.Text, "\nsandgate_node_errors_total{kind=\"not_found\"} "+n+"\n")
	}
	for _, op := range []string{protocol.OpSnapshotDel, protocol.OpSnapshotGet} {
		r := l.ask(op, 0, protocol.SnapshotRef{Snapshot: "x"})
		if r.Error == nil || r.Error.Kind != fault.NotFound || !counted("0") {
			t.Errorf("%s: %+v is counted", op, r.Error)
		}
	}
	if l.ask(protocol.OpSessionGet, 0, protocol.SessionRef{Session: "s_x"}); !counted("1") {
		t.Error("an unknown session is not counted")
	}
}

// TestOneSessionCredentials: credentials for one session may use only the operations that the table
// allows for them.
func TestOneSessionCredentials(t *testing.T) {
	h := newHarness(t)
	l := h.open(noderpc.Principal{
		Tenant: "alice", Subject: "link:a",
		Scopes: tenant.Viewer.Scopes(), Session: "s_1",
	})
	for _, row := range protocol.Operations() {
		if row.OneSession || row.Target == protocol.AtGateway {
			continue
		}
		if r := l.ask(row.Name, 1, nil); r.Error == nil || r.Error.Kind != fault.PermissionDenied {
			t.Errorf("%s: %+v, want permission_denied", row.Name, r)
		}
	}
}
