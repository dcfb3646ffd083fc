package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestWatchGoesOn loses the connection during a watch: the watch begins again and reports that it
// may have missed changes. The states of a session are reported, too.
func TestWatchGoesOn(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var count atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r,
			&websocket.AcceptOptions{Subprotocols: []string{protocol.Subprotocol}})
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		links := count.Add(1)
		say := func(format string, args ...any) {
			_ = ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...))
		}
		for {
			_, body, err := ws.Read(ctx)
			if err != nil {
				return
			}
			var q protocol.Request
			if err := json.Unmarshal(body, &q); err != nil {
				t.Error(err)
			}
			switch q.Op {
			case protocol.OpHello:
				say(`{"id":%d,"result":{"protocol":"sandgate.v1"}}`, q.ID)
			case protocol.OpFileWatch:
				say(`{"id":%d,"result":{"path":"/w","dir":true}}`, q.ID)
				say(
					`{"event":"state","ch":%d,"params":{"session":"s","state":"resuming","phase":"memory","percent":10}}`, q.Ch)
				say(
					`{"event":"file","ch":%d,"params":{"session":"s","changes":[{"path":"/w/%d","kind":"created"}]}}`, q.Ch, links)
				if links == 1 {
					return // cut
				}
				say(
					`{"event":"file","ch":%d,"params":{"session":"s","changes":[],"ended":true,"error":{"kind":"sandbox_lost","message":"gone"}}}`, q.Ch)
			}
		}
	}))
	defer h.Close()
	states := make(chan protocol.StateChange, 8)
	opts := fast()
	opts.OnSession = func(s protocol.StateChange) { states <- s }
	c, err := wire.New(h.URL, "t", opts)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	told := ""
	ready := 0
	err = conn.Watch(ctx, protocol.FileWatch{FileRef: protocol.FileRef{Session: "s", Path: "w"}},
		func() { ready++ }, func(f protocol.FileChanges) error {
			for _, one := range f.Changes {
				told += one.Kind + one.Path + " "
			}
			if f.Overflow {
				told += "overflow "
			}
			return nil
		})
	if !fault.Is(err, fault.SandboxLost) {
		t.Errorf("the watch ended with %v", err)
	}
	if told != "created/w/1 overflow created/w/2 " || ready != 1 {
		t.Errorf("told %q, ready %d times", told, ready)
	}
	if s := <-states; s.State != "resuming" || s.Phase != protocol.PhaseMemory || s.Percent != 10 {
		t.Errorf("the session's state: %+v", s)
	}
}
