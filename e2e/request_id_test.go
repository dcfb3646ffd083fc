package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestRequestIDInUse sends a request with the id of one that has no reply yet. It is refused and has
// no effect. The id can be used again after the reply.
func TestRequestIDInUse(t *testing.T) {
	s := open(t, server)
	ws, _, err := websocket.Dial(s.ctx, "ws"+strings.TrimPrefix(server.URL, "http")+"/v1/ws",
		&websocket.DialOptions{
			Subprotocols: []string{protocol.Subprotocol},
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + server.Token}},
		})
	check(t, err)
	defer func() { _ = ws.CloseNow() }()
	send := func(op string, params any) {
		raw, err := json.Marshal(params)
		check(t, err)
		text, err := json.Marshal(protocol.Request{ID: 5, Op: op, Params: raw})
		check(t, err)
		check(t, ws.Write(s.ctx, websocket.MessageText, text))
	}
	reply := func() (r protocol.Reply) {
		_, text, err := ws.Read(s.ctx)
		check(t, err)
		check(t, json.Unmarshal(text, &r))
		if r.ID != 5 {
			t.Fatalf("a reply to %d", r.ID)
		}
		return r
	}
	send(protocol.OpHello, protocol.Hello{})
	reply()
	send(protocol.OpPortWait, protocol.PortWait{Session: s.id, Port: 8123, Seconds: 1})
	send(protocol.OpFileMkdir, protocol.FileRef{Session: s.id, Path: "made"})
	if r := reply(); r.Error == nil || r.Error.Kind != fault.Conflict || r.Error.Field != "id" {
		t.Errorf("an id in use: %+v", r)
	}
	if r := reply(); r.Error == nil || r.Error.Kind != fault.DeadlineExceeded {
		t.Errorf("the first request: %+v", r)
	}
	send(protocol.OpFileStat, protocol.FileRef{Session: s.id, Path: "made"})
	if r := reply(); r.Error == nil || r.Error.Kind != fault.NotFound {
		t.Errorf("the refused request had an effect: %+v", r)
	}
}
