package trace

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	wire "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receive starts a collector that stores the spans it receives and answers with status.
func receive(t *testing.T, status func() int) (address string, spans func() []*wire.Span) {
	t.Helper()
	var mu sync.Mutex
	var all []*wire.Span
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		var m collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &m); err != nil {
			t.Error(err)
		}
		code := status()
		if code == http.StatusOK {
			mu.Lock()
			for _, rs := range m.ResourceSpans {
				for _, ss := range rs.ScopeSpans {
					all = append(all, ss.Spans...)
				}
			}
			mu.Unlock()
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1/traces", func() []*wire.Span {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func ok() int { return http.StatusOK }

const parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"

// TestSpans: a span has its parent, its children and the kind of its error, and no part of the
// error's message.
func TestSpans(t *testing.T) {
	address, spans := receive(t, ok)
	tr, err := New(Options{Endpoint: address, Service: "s"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, root := tr.Begin(context.Background(), "root", parent)
	root.Set(Session, strings.Repeat("x", 1000))
	_, child := Start(ctx, "child")
	now := time.Now()
	child.Part("part", now.Add(-time.Second), now)
	child.End(errors.New("/secret/path"))
	root.End(nil)
	if ID(ctx) != parent[3:35] || root.ID() != ID(ctx) ||
		!strings.HasPrefix(Parent(ctx), parent[:36]) || root.Parent() != Parent(ctx) {
		t.Errorf("%s %s", ID(ctx), Parent(ctx))
	}
	// Not sampled: a parent without the sampled flag, and no parent with a sampling rate of 0.
	for _, p := range []string{"", parent[:53] + "00", "nonsense"} {
		if c, s := tr.Begin(context.Background(), "no", p); s != nil || Parent(c) != "" {
			t.Errorf("%q is sampled", p)
		}
	}
	if _, s := tr.Join(context.Background(), "no", ""); s != nil {
		t.Error("a root where none is to be")
	}
	if err := tr.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	all := map[string]*wire.Span{}
	for _, s := range spans() {
		all[s.Name] = s
		if strings.Contains(s.String(), "secret") || len(s.String()) > 1000 {
			t.Errorf("it says too much: %s", s)
		}
	}
	if len(all) != 3 || string(all["child"].ParentSpanId) != string(all["root"].SpanId) ||
		string(all["part"].ParentSpanId) != string(all["child"].SpanId) {
		t.Fatalf("%v", all)
	}
	if d := all["part"].EndTimeUnixNano - all["part"].StartTimeUnixNano; d != uint64(time.Second) {
		t.Errorf("the part took %d", d)
	}
	if all["child"].Status.GetCode() != wire.Status_STATUS_CODE_ERROR ||
		all["child"].Status.Message != "internal" {
		t.Errorf("%v", all["child"].Status)
	}
	if sent, dropped := tr.Counts(); sent != 3 || dropped != 0 {
		t.Errorf("%d sent, %d dropped", sent, dropped)
	}
}

// TestNothingWaits: a collector that does not answer costs spans but no time.
func TestNothingWaits(t *testing.T) {
	hold := make(chan struct{})
	address, _ := receive(t, func() int { <-hold; return http.StatusServiceUnavailable })
	tr, err := New(Options{Endpoint: address, Sample: 1, Queue: 64})
	if err != nil {
		t.Fatal(err)
	}
	const n = 5000
	for range n {
		_, s := tr.Begin(context.Background(), "x", "")
		s.End(nil)
	}
	if _, dropped := tr.Counts(); dropped < n-64-2*batch {
		t.Errorf("%d were dropped", dropped)
	}
	close(hold)
	_ = tr.Close(context.Background())
	if sent, dropped := tr.Counts(); sent != 0 || dropped != n {
		t.Errorf("in the end %d were sent and %d dropped", sent, dropped)
	}
}

// TestOff: without an endpoint all spans are nil, and nothing is sent.
func TestOff(t *testing.T) {
	tr, err := New(Options{})
	if err != nil || tr != nil {
		t.Fatal(tr, err)
	}
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		c, s := tr.Begin(ctx, "x", parent)
		c, p := Start(c, "y")
		s.Set(Session, "s")
		s.Part("z", time.Time{}, time.Time{})
		_, _, _ = ID(c), Parent(c), s.ID()
		p.End(nil)
		s.End(nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := tr.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestCheckParent(t *testing.T) {
	for text, want := range map[string]bool{
		parent: true, parent + "-more": true, "": false, parent + "x": false,
		strings.ToUpper(parent): false,
		"ff" + parent[2:]:       false,
		"00-00000000000000000000000000000000-0123456789abcdef-01": false,
		"00-0123456789abcdef0123456789abcdef-0000000000000000-01": false,
		strings.Replace(parent, "a", "g", 1):                      false,
		parent + "-" + strings.Repeat("x", 300):                   false,
	} {
		if got := CheckParent(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func BenchmarkSpan(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request,
	) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer s.Close()
	for name, endpoint := range map[string]string{"off": "", "on": s.URL} {
		b.Run(name, func(b *testing.B) {
			tr, err := New(Options{Endpoint: endpoint, Sample: 1})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				ctx, s := tr.Begin(context.Background(), "x", "")
				_, p := Start(ctx, "y")
				p.End(nil)
				s.Set(Session, "s_1")
				s.End(nil)
			}
			_ = tr.Close(context.Background())
		})
	}
}
