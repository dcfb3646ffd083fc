package jupyter

import (
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/e2e"
)

// TestDrain stops a server that has WebSockets of a kernel and of a terminal. They end with the code
// after which clients connect again.
func TestDrain(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	s, err := e2e.Start(ctx, settings)
	check(t, err)
	t.Cleanup(func() { check(t, s.Stop()) })
	base := s.URL + "/jupyter"
	var kernel struct{ ID string }
	var terminal struct{ Name string }
	post(t, base+"/api/kernels", s.Token, `{"name": "python3"}`, &kernel)
	post(t, base+"/api/terminals", s.Token, "", &terminal)
	var open []*websocket.Conn
	for _, path := range []string{
		"/api/kernels/" + kernel.ID + "/channels", "/terminals/websocket/" + terminal.Name,
	} {
		ws, _, err := websocket.Dial(ctx, strings.Replace(base, "http", "ws", 1)+path+
			"?token="+s.Token, nil)
		check(t, err)
		defer ws.CloseNow()
		_, _, err = ws.Read(ctx) // a state, or setup
		check(t, err)
		open = append(open, ws)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Halt(syscall.SIGTERM) }()
	for i, ws := range open {
		for err == nil {
			_, _, err = ws.Read(ctx)
		}
		if code := websocket.CloseStatus(err); code != websocket.StatusServiceRestart {
			t.Errorf("the WebSocket %d ends with %v", i, err)
		}
		err = nil
	}
	check(t, <-ended)
}
