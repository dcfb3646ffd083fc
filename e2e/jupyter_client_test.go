package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// jupyterClient follows the kernel of a session through Jupyter's WebSocket, in the framing of JSON.
// It connects again like JupyterLab, and keeps what it has received.
type jupyterClient struct {
	t           *testing.T
	url         string
	done        chan error
	text        strings.Builder // the output of the last cell
	connections int
}

// followJupyter returns once the client is connected. It follows one cell.
func followJupyter(t *testing.T, s *Server, session string) *jupyterClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	base := "/jupyter/s/" + session + "/api/kernels"
	var kernels []struct{ ID string }
	if status, err := s.Get(ctx, base, &kernels); err != nil || len(kernels) != 1 {
		t.Fatalf("the kernels of %s: %d, %v, %+v", session, status, err, kernels)
	}
	c := &jupyterClient{
		t: t, done: make(chan error, 1), url: strings.Replace(s.URL, "http", "ws", 1) + base + "/" +
			kernels[0].ID + "/channels?session_id=follower&token=" + s.Token,
	}
	ready := make(chan struct{})
	go func() { c.done <- c.follow(ctx, ready) }()
	<-ready
	return c
}

// wait returns the output of the cell, after its end.
func (c *jupyterClient) wait() string {
	c.t.Helper()
	check(c.t, <-c.done)
	return c.text.String()
}

// follow connects until the cell has ended. It closes ready once it is connected.
func (c *jupyterClient) follow(ctx context.Context, ready chan<- struct{}) error {
	for {
		ws, res, err := websocket.Dial(ctx, c.url, nil)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("the last handshake: %v, %w", res, err)
			}
			select { // the session moves; the reference has random pauses
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		ws.SetReadLimit(16 << 20)
		if c.connections++; c.connections == 1 {
			close(ready)
		}
		ended, err := c.read(ctx, ws)
		_ = ws.CloseNow()
		if code := websocket.CloseStatus(err); code == websocket.StatusNormalClosure ||
			code == websocket.StatusGoingAway {
			return fmt.Errorf("JupyterLab would not connect again: %w", err)
		}
		if ended || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// read takes messages until the cell or the connection has ended.
func (c *jupyterClient) read(ctx context.Context, ws *websocket.Conn) (ended bool, err error) {
	for {
		_, data, err := ws.Read(ctx)
		if err != nil {
			return false, err
		}
		var m struct {
			Type    string `json:"msg_type"`
			Content struct {
				Text  string `json:"text"`
				State string `json:"execution_state"`
			} `json:"content"`
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return false, err
		}
		switch m.Type {
		case "execute_input", "clear_output":
			c.text.Reset()
		case "stream":
			c.text.WriteString(m.Content.Text)
		case "status":
			if m.Content.State == "idle" && strings.HasSuffix(c.text.String(), "\n299\n") {
				return true, nil
			}
		}
	}
}
