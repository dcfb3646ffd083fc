package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// spans is a collector of OpenTelemetry's protocol.
type spans struct {
	mu  sync.Mutex
	all map[string]spanSeen // by id
	raw []string
}

type spanSeen struct {
	name, service, trace, parent string
	begin, end                   uint64
}

func (c *spans) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var m collector.ExportTraceServiceRequest
	if proto.Unmarshal(b, &m) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range m.ResourceSpans {
		service := ""
		for _, a := range rs.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.all[hex.EncodeToString(s.SpanId)] = spanSeen{
					s.Name, service,
					hex.EncodeToString(s.TraceId), hex.EncodeToString(s.ParentSpanId),
					s.StartTimeUnixNano, s.EndTimeUnixNano,
				}
				c.raw = append(c.raw, s.String())
			}
		}
	}
}

// path returns the names from the span of that name up to the root, and the id of the
// root's parent. It returns nil if the span has not arrived yet.
func (c *spans) path(trace, name string) (names []string, root string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.all {
		if s.trace != trace || s.name != name {
			continue
		}
		for {
			names = append(names, s.name)
			p, ok := c.all[s.parent]
			if !ok {
				return names, s.parent
			}
			s = p
		}
	}
	return nil, ""
}

// TestTrace checks that one run has one tree of spans from the gateway to the agent, below
// the caller's span, and that an operation on a WebSocket has one too. The id is in errors,
// in the audit log and in the server's log. No span has code, paths or tokens.
func TestTrace(t *testing.T) {
	c := &spans{all: map[string]spanSeen{}}
	receiver := httptest.NewServer(c)
	defer receiver.Close()
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	srv, err := Start(
		ctx, "pool: {size: 1, languages: [bash], memory: 0}\ngateway: {self_check: 0}\ntracing: {endpoint: \""+receiver.URL+"/v1/traces\", sample: 0}")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	const span = "00f067aa0ba902b7"
	post := func(id, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(ctx, "POST", srv.URL+path, strings.NewReader(body))
		check(t, err)
		req.Header.Set("Authorization", "Bearer "+srv.Token)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Traceparent", "00-"+id+"-"+span+"-01")
		res, err := http.DefaultClient.Do(req)
		check(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		check(t, err)
		return res.StatusCode, string(b)
	}
	await := func(what string, is func() bool) {
		t.Helper()
		defer func() {
			if t.Failed() {
				c.mu.Lock()
				defer c.mu.Unlock()
				t.Logf("the spans are\n%s", strings.Join(c.raw, "\n"))
			}
		}()
		eventually(t, what, is)
	}
	want := func(trace, leaf string, way ...string) {
		t.Helper()
		await(leaf+" below "+strings.Join(way, ", "), func() bool {
			names, root := c.path(trace, leaf)
			return strings.Join(names, ", ") == strings.Join(append([]string{leaf}, way...),
				", ") && root == span
		})
	}

	run := strings.Repeat("a1", 16)
	code, body := post(run, "/v1/run",
		`{"language":"bash","code":"echo treasure > /tmp/chest; cat /tmp/chest"}`)
	if code != 200 || !strings.Contains(body, "treasure") {
		t.Fatalf("the run: %d %s", code, body)
	}
	want(run, "claim", "node session.create", "POST /v1/run")
	want(run, "cell queued", "cell", "node execute", "POST /v1/run")
	want(run, "cell running", "cell", "node execute", "POST /v1/run")
	want(run, "agent driver", "cell", "node execute", "POST /v1/run")
	c.mu.Lock()
	var running, driver spanSeen
	for _, s := range c.all {
		switch s.name {
		case "cell running":
			running = s
		case "agent driver":
			driver = s
		case "POST /v1/run":
			if s.service != "sandgate-gateway" {
				t.Errorf("%+v", s)
			}
		}
	}
	if driver.service != "sandgate-node" || driver.begin < running.begin ||
		driver.end > running.end || driver.begin >= driver.end {
		t.Errorf("the driver's time is not within the cell's: %+v %+v", driver, running)
	}
	c.mu.Unlock()

	// An error has the id of its trace.
	failed := strings.Repeat("b2", 16)
	code, body = post(failed, "/v1/sessions", `{"language":"cobol"}`)
	var e struct {
		Error struct {
			Trace string `json:"trace_id"`
		} `json:"error"`
	}
	if code < 400 || json.Unmarshal([]byte(body), &e) != nil || e.Error.Trace != failed {
		t.Errorf("an error: %d %s", code, body)
	}
	want(failed, "node session.create", "POST /v1/sessions")

	// An operation on a WebSocket has the client's span in a field.
	cl, err := wire.New(srv.URL, srv.Token, wire.Options{})
	check(t, err)
	s, err := cl.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
	check(t, err)
	socket := strings.Repeat("c3", 16)
	ws, _, err := websocket.Dial(ctx, strings.Replace(srv.URL, "http", "ws", 1)+"/v1/ws",
		&websocket.DialOptions{
			Subprotocols: []string{protocol.Subprotocol},
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + srv.Token}},
		})
	check(t, err)
	defer ws.CloseNow()
	say := func(text string) (reply protocol.Reply) {
		t.Helper()
		check(t, ws.Write(ctx, websocket.MessageText, []byte(text)))
		_, b, err := ws.Read(ctx)
		check(t, err)
		check(t, json.Unmarshal(b, &reply))
		return reply
	}
	say(`{"id":1,"op":"hello","params":{}}`)
	say(`{"id":2,"op":"session.get","params":{"session":"` + s.ID + `"},"traceparent":"00-` +
		socket + "-" + span + `-01"}`)
	want(socket, "node session.get", "socket session.get")
	if r := say(`{"id":3,"op":"session.get","params":{"session":"` + s.ID +
		`"},"traceparent":"nonsense"}`); r.ID != 3 || r.Error != nil {
		t.Errorf("an invalid traceparent: %+v", r.Error)
	}
	hibernate := strings.Repeat("d4", 16)
	if code, body := post(hibernate, "/v1/sessions/"+s.ID+"/hibernate", ""); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	want(hibernate, "hibernate", "node session.hibernate", "POST /v1/sessions/:id/hibernate")
	wake := strings.Repeat("e5", 16)
	if code, body := post(wake, "/v1/sessions/"+s.ID+"/resume", ""); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	want(wake, "restore", "wake", "node session.resume", "POST /v1/sessions/:id/resume")

	audit, err := os.ReadFile(filepath.Join(srv.Dir, "data", "audit", "audit.jsonl"))
	check(t, err)
	if n := strings.Count(string(audit), `"trace_id":"`+run+`"`); n < 3 {
		// session.create, execute, cell.end
		t.Errorf("%d lines of the audit log have the trace", n)
	}
	if !strings.Contains(srv.Log(), "trace="+run) {
		t.Error("the gateway's log has no trace")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.raw {
		if strings.Contains(line, "treasure") || strings.Contains(line, "chest") ||
			strings.Contains(line, srv.Token) {
			t.Errorf("a span has secret text: %s", line)
		}
	}
}
