package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// send sends a request of a session with the server's token.
func (s *session) send(ctx context.Context, method, path string, body io.Reader,
) (*http.Response, string, error) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, server.URL+"/v1/sessions/"+s.id+path, body)
	check(s.t, err)
	r.Header.Set("Authorization", "Bearer "+server.Token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

// TestUploadOfAnEndedSession deletes the session when half of an upload has been sent.
func TestUploadOfAnEndedSession(t *testing.T) {
	for _, path := range []string{"/files/x", "/files/x/?archive=tar"} {
		s := open(t, server)
		out, in := io.Pipe()
		go func() {
			part := make([]byte, 1<<20)
			_, err := in.Write(part)
			if err == nil {
				err = s.client.DeleteSession(s.ctx, s.id)
			}
			if err == nil {
				_, err = in.Write(part)
			}
			_ = in.CloseWithError(err)
		}()
		resp, body, err := s.send(s.ctx, "PUT", path, out)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if resp.StatusCode >= 500 && !strings.Contains(body, `"sandbox_lost"`) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

// TestChangingFileIsAnswered reads a small file that a program rewrites all the time. Each request
// gets the file or an error, and never a connection that is closed without a response.
func TestChangingFileIsAnswered(t *testing.T) {
	s := open(t, server)
	s.run("ok", `
import threading, time
going = True
def write():
    n = 0
    while going:
        n += 1
        open('x', 'w').write(str(n % 10) * (200 + n % 100))
        time.sleep(0.002)
threading.Thread(target=write, daemon=True).start()
time.sleep(0.1)`)
	statuses := map[int]int{}
	for range 300 {
		resp, _, err := s.send(s.ctx, "GET", "/files/x", nil)
		if err != nil {
			t.Errorf("after %v: %v", statuses, err)
			break
		}
		statuses[resp.StatusCode]++
	}
	t.Logf("statuses: %v", statuses)
	if len(statuses) == 0 || statuses[http.StatusInternalServerError] > 0 {
		t.Errorf("statuses: %v", statuses)
	}
	s.run("ok", "going = False")
}

// silent is a server whose path /hang never answers, and whose path /short ends its connection in
// the middle of a response.
const silent = `
import http.server, time
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == '/hang': time.sleep(600)
        self.send_response(200)
        self.send_header('Content-Length', '1000' if self.path == '/short' else '9')
        self.end_headers()
        self.wfile.write(b'nine byte')
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), H)
print('listening', flush=True)
s.serve_forever()
`

// TestAbandonedPortRequests: requests to a port whose clients have left hold no place, and a response
// that is cut is visible as such.
func TestAbandonedPortRequests(t *testing.T) {
	s := open(t, server)
	_, err := s.client.Upload(s.ctx, s.id, "silent.py", 0, strings.NewReader(silent))
	check(t, err)
	p, err := s.conn.Start(s.ctx,
		protocol.ChannelOpen{Session: s.id, Argv: []string{"python3", "silent.py"}})
	check(t, err)
	for out := ""; !strings.Contains(out, "listening"); {
		r, err := p.Next(s.ctx)
		check(t, err)
		if r.Kind == frame.KindExit {
			t.Fatal("the program has ended")
		}
		out += string(r.Payload)
	}
	const most = 128 // connections to the ports of a session
	left := make(chan struct{}, most)
	for range most {
		go func() {
			ctx, cancel := context.WithTimeout(s.ctx, 3*time.Second)
			defer cancel()
			_, _, _ = s.send(ctx, "GET", "/ports/8000/hang", nil)
			left <- struct{}{}
		}()
	}
	for range most {
		<-left
	}
	eventually(t, "a request is answered", func() bool {
		resp, body, err := s.send(s.ctx, "GET", "/ports/8000/", nil)
		check(t, err)
		return resp.StatusCode == http.StatusOK && body == "nine byte"
	})
	resp, body, err := s.send(s.ctx, "GET", "/ports/8000/short", nil)
	if resp == nil && err != nil {
		t.Errorf("a response that was cut: %q, %v", body, err)
	}
}

// TestRefusalsAgree: the WebSocket and HTTP refuse the same things in the same words.
func TestRefusalsAgree(t *testing.T) {
	s := open(t, server)
	refused := func(op string, params any, kind fault.Kind, field string) {
		t.Helper()
		err := s.conn.Call(s.ctx, op, params, nil, false, "")
		if p := fault.PublicOf(err); !fault.Is(err, kind) || p.Field != field {
			t.Errorf("%s %v: %v, field %q", op, params, err, p.Field)
		}
	}
	for _, path := range []string{"../../../etc/passwd", "a/../b", "/tmp/.."} {
		refused(protocol.OpFileStat, map[string]any{"session": s.id, "path": path},
			fault.InvalidArgument, "path")
		refused(protocol.OpFileCopy, map[string]any{"session": s.id, "path": "x", "to": path},
			fault.InvalidArgument, "to")
	}
	refused(protocol.OpFileList, map[string]any{"session": s.id, "path": true},
		fault.InvalidArgument, "path")
	refused(protocol.OpFileList, map[string]any{"session": true, "path": "x"},
		fault.InvalidArgument, "session")
	refused(protocol.OpSessionCreate, map[string]any{"limits": map[string]any{"memory_byte": 1}},
		fault.InvalidArgument, "limits.memory_byte")
	refused(protocol.OpSnapshotList, []int{1}, fault.InvalidArgument, "params")
	refused(protocol.OpSnapshotList, map[string]any{"session": s.id}, fault.InvalidArgument, "session")
	resp, err := server.Do(s.ctx, "POST", "/v1/sessions",
		map[string]any{"limits": map[string]any{"memory_byte": 1}})
	check(t, err)
	if text := read(t, resp.Body, nil); resp.StatusCode != http.StatusBadRequest ||
		!strings.Contains(text, `"field":"limits.memory_byte"`) {
		t.Errorf("an unknown field over HTTP: %d %s", resp.StatusCode, text)
	}
	code := strings.Repeat("1", protocol.MaxCode+1)
	if _, err := s.kernel.Execute(s.ctx, code, wire.ExecuteOptions{}); !fault.Is(err,
		fault.TooLarge) {
		t.Errorf("long code over the WebSocket: %v", err)
	}
	resp, err = server.Do(s.ctx, "POST", "/v1/run",
		protocol.RunRequest{Language: "python", Code: code})
	check(t, err)
	if text := read(t, resp.Body, nil); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("long code in a run: %d %s", resp.StatusCode, text)
	}
}
