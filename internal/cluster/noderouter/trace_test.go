package noderouter

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/trace"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestTraceGoesOn: the node that carries out a request gets the request's trace, below the span of
// finding the node, over calls and links alike.
func TestTraceGoesOn(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer collector.Close()
	tracer, err := trace.New(trace.Options{Endpoint: collector.URL, Sample: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tracer.Close(context.Background()) }()
	f, _ := startNodes(t, "a", "b")
	f.tracer = tracer
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	who := noderpc.Principal{Tenant: "t"}
	var s protocol.Session
	if err := f.Call(ctx, who, protocol.OpSessionCreate, protocol.SessionCreate{}, &s); err != nil {
		t.Fatal(err)
	}
	in, span := tracer.Begin(ctx, "root", "")
	defer span.End(nil)
	var got struct{ Trace string }
	if err := f.Call(in, who, protocol.OpSessionGet, protocol.SessionRef{
		Session: s.ID,
	}, &got); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.Trace, "00-"+span.ID()+"-") || got.Trace == span.Parent() {
		t.Errorf("a call: the node got %q of %q", got.Trace, span.Parent())
	}
	l, err := f.Open(ctx, who)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	body, _ := json.Marshal(protocol.Request{
		ID: 1, Op: protocol.OpSessionGet,
		Params: json.RawMessage(
			`{"session":"` + s.ID + `"}`,
		), Trace: span.Parent(),
	})
	if err := l.Send(frame.Frame{Type: frame.Control, Body: body}); err != nil {
		t.Fatal(err)
	}
	frame, err := l.Next()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(frame.Body), span.ID()) {
		t.Errorf("a link: the node answered %s", frame.Body)
	}
	var none struct{ Trace string }
	if err := f.Call(ctx, who, protocol.OpSessionGet, protocol.SessionRef{
		Session: s.ID,
	}, &none); err != nil || none.Trace != "" {
		t.Errorf("without a trace: %q %v", none.Trace, err)
	}
}
