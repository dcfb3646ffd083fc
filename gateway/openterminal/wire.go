package openterminal

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/internal/noderpc"
)

// socket translates between a client's WebSocket and the messages of package terminals. A client
// sends input as binary messages, and {"type":"resize","cols":…,"rows":…} as a text. It gets output
// as binary messages.
type socket struct {
	s    *Surface
	ws   *websocket.Conn
	who  noderpc.Principal
	stop func()
}

func newSocket(s *Surface, ws *websocket.Conn, who noderpc.Principal) *socket {
	t := &socket{s: s, ws: ws, who: who}
	ended := make(chan struct{})
	leaving := context.AfterFunc(s.cfg.Leaving, func() {
		_ = ws.Close(websocket.StatusServiceRestart, "the server restarts")
	})
	t.stop = sync.OnceFunc(func() {
		close(ended)
		leaving()
	})
	go t.checkUntil(ended)
	return t
}

// checkUntil ends the connection if the client does not answer or its credentials have ended.
func (t *socket) checkUntil(ended <-chan struct{}) {
	tick := time.NewTicker(t.s.cfg.Ping)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			if !t.s.cfg.Auth.Valid(t.who) || !t.ping() {
				_ = t.ws.CloseNow()
				return
			}
		}
	}
}

func (t *socket) ping() bool {
	ctx, cancel := context.WithTimeout(context.Background(), t.s.cfg.Pong)
	defer cancel()
	return t.ws.Ping(ctx) == nil
}

// Read returns the next message in the form of package terminals. It skips unknown messages.
func (t *socket) Read() (data []byte, isBinary bool, err error) {
	for {
		kind, data, err := t.ws.Read(context.Background())
		if err != nil {
			return nil, false, err
		}
		var list []any
		if kind == websocket.MessageBinary {
			list = []any{"stdin", string(data)}
		} else {
			var m struct {
				Type       string
				Cols, Rows int
			}
			if json.Unmarshal(data, &m) != nil || m.Type != "resize" {
				continue
			}
			list = []any{"set_size", m.Rows, m.Cols}
		}
		data, err = json.Marshal(list)
		return data, false, err
	}
}

// Write sends the output of a message of package terminals.
func (t *socket) Write(data []byte, _ bool) error {
	var list []any
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	text := ""
	if len(list) > 1 && list[0] == "stdout" {
		text, _ = list[1].(string) // it is one
	}
	if text == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.s.cfg.Write)
	defer cancel()
	return t.ws.Write(ctx, websocket.MessageBinary, []byte(text))
}

// Confirm calls got once the client has answered a ping that follows what was written.
func (t *socket) Confirm(got func()) {
	go func() {
		if t.ping() {
			got()
		}
	}()
}
