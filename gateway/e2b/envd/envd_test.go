package envd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/gateway/e2b/sandbox"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// scripted is a node with the results of operations. An attachment gets the records.
type scripted struct {
	results map[string]any
	records []frame.Record

	mu  sync.Mutex
	ops []string
}

func (n *scripted) Open(context.Context, noderpc.Principal) (nodecall.Link, error) {
	return &scriptedLink{n: n, frames: make(chan frame.Frame, 8), done: make(chan struct{})}, nil
}

type scriptedLink struct {
	n      *scripted
	frames chan frame.Frame
	done   chan struct{}
	once   sync.Once
}

func (l *scriptedLink) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *scriptedLink) Next() (frame.Frame, error) {
	select {
	case f := <-l.frames:
		return f, nil
	case <-l.done:
		return frame.Frame{}, io.EOF
	}
}

func (l *scriptedLink) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		var req protocol.Request
		if f.Type != frame.Control || json.Unmarshal(f.Body, &req) != nil {
			continue
		}
		l.n.mu.Lock()
		l.n.ops = append(l.n.ops, req.Op)
		l.n.mu.Unlock()
		reply := protocol.Reply{ID: req.ID}
		if err, ok := l.n.results[req.Op].(error); ok {
			p := fault.PublicOf(err)
			reply.Error = &p
		} else {
			reply.Result, _ = json.Marshal(l.n.results[req.Op])
		}
		body, err := json.Marshal(reply)
		if err != nil {
			return err
		}
		l.frames <- frame.Frame{Type: frame.Control, Body: body}
		if req.Op == protocol.OpAttach {
			records := binary.BigEndian.AppendUint64(nil, 0)
			for _, r := range l.n.records {
				records = frame.AppendRecord(records, r)
			}
			l.frames <- frame.Frame{Type: frame.Records, Channel: 1, Body: records}
		}
	}
	return nil
}

func get(n *scripted, method, path string) *httptest.ResponseRecorder {
	h := New(Config{
		Node: n, Log: slog.New(slog.DiscardHandler), Base: context.Background(), Call: time.Minute,
		Go: func(f func()) bool { go f(); return true },
	})
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	ctx := sandbox.WithTarget(r.Context(), &sandbox.Target{Session: "s_1"})
	h.ServeHTTP(w, r.WithContext(ctx))
	return w
}

// TestRoutes checks the routes that need no node.
func TestRoutes(t *testing.T) {
	for request, want := range map[string]int{
		"GET /health": 204, "POST /init": 403, "POST /freeze": 403, "POST /unfreeze": 403,
		"POST /fsfreeze": 403, "GET /other": 404, "POST /process.Process/Other": 404,
		"GET /process.Process/List": 405,
	} {
		method, path, _ := strings.Cut(request, " ")
		w := get(&scripted{}, method, path)
		if w.Code != want {
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}
		if want == 403 && !strings.Contains(w.Body.String(), `"code":403`) {
			t.Errorf("%s: %s", request, w.Body)
		}
	}
}

// TestMetrics translates the use of a session.
func TestMetrics(t *testing.T) {
	const mib = 1 << 20
	now := time.UnixMilli(1_700_000_000_000)
	v := protocol.Session{
		CreatedMS: now.UnixMilli() - 10_000,
		Limits:    &protocol.Limits{CPUs: 1.5, MemoryBytes: 512 * mib, DiskBytes: 3},
		Usage:     &protocol.Usage{MemoryBytes: 5 * mib, CPUMS: 3000},
	}
	want := use{
		Time: now.Unix(), CPUs: 2, CPUPercent: 20, MemTotal: 512 * mib, MemUsed: 5 * mib,
		MemTotalMiB: 512, MemUsedMiB: 5, DiskTotal: 3,
	}
	if got := useOf(v, protocol.Series{}, now); got != want {
		t.Errorf("%+v", got)
	}
	want.CPUPercent = 50
	series := protocol.Series{Points: []protocol.SeriesPoint{{
		Time: now.Add(-time.Minute), CPUSeconds: 45,
	}}}
	if got := useOf(v, series, now); got != want {
		t.Errorf("%+v", got)
	}
	n := &scripted{results: map[string]any{
		protocol.OpSessionGet: v, protocol.OpSessionSeries: series,
	}}
	var got use
	w := get(n, "GET", "/metrics")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.MemUsedMiB != 5 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	n.results[protocol.OpSessionGet] = fault.New(fault.Unavailable, "x", "away")
	if w := get(n, "GET", "/metrics"); w.Code != 503 ||
		!strings.Contains(w.Body.String(), `"code":503`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestEnvs lists the variables of the sandbox.
func TestEnvs(t *testing.T) {
	n := &scripted{
		results: map[string]any{
			protocol.OpChannelOpen:  protocol.Channel{ID: "p1"},
			protocol.OpAttach:       protocol.Attached{Channel: protocol.Channel{ID: "p1"}},
			protocol.OpChannelClose: struct{}{},
		},
		records: []frame.Record{
			{Kind: frame.KindStdout, Payload: []byte("HOME=/home/user\x00A=1=2\nx\x00B=\x00")},
			{Kind: frame.KindExit, Payload: []byte(`{"code":0}`)},
		},
	}
	var got map[string]string
	w := get(n, "GET", "/envs")
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil ||
		!reflect.DeepEqual(got, map[string]string{"A": "1=2\nx", "B": ""}) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if n.ops[len(n.ops)-1] != protocol.OpChannelClose {
		t.Error(n.ops)
	}
	n.results[protocol.OpChannelOpen] = fault.New(fault.NotFound, "x", "there is no program")
	if w := get(n, "GET", "/envs"); w.Code != http.StatusNotFound {
		t.Error(w.Code)
	}
}
