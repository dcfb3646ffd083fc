package jupyter

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
)

// post is request with a body.
func post(t *testing.T, url, token, body string, v any) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(deadline(t), "POST", url, bytes.NewReader([]byte(body)))
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	check(t, err)
	defer resp.Body.Close()
	if v != nil {
		check(t, json.NewDecoder(resp.Body).Decode(v))
	}
	return resp
}

// parts splits a message in the binary framing: the channel, four JSON objects and buffers.
func parts(t *testing.T, data []byte) [][]byte {
	t.Helper()
	number := func(i int) uint64 { return binary.LittleEndian.Uint64(data[8*i:]) }
	var all [][]byte
	for i := 1; i < int(number(0)); i++ {
		all = append(all, data[number(i):number(i+1)])
	}
	return all
}

// TestVSCode makes the requests of VS Code for an existing server: probes without credentials, lists,
// a session whose document the server does not have, and a WebSocket with credentials in the header
// and in the query, on which it sends pings.
func TestVSCode(t *testing.T) {
	t.Parallel()
	s := server(t)
	base := s.URL + "/jupyter"
	for _, probe := range []string{"/", "/tree?"} {
		if r := request(t, "GET", base+probe, nil, nil); r.StatusCode != 200 {
			t.Errorf("%s: status %d", probe, r.StatusCode)
		}
	}
	auth := header("Authorization", "token "+s.Token)
	for _, list := range []string{"/api/kernels", "/api/kernelspecs", "/api/sessions"} {
		r := request(t, "GET", base+list+"?1732130000000", auth, nil)
		if r.StatusCode != 200 {
			t.Errorf("%s: status %d", list, r.StatusCode)
		}
	}
	const path = "notebooks/a-jvsc-3f0d64d4-6e9c-4c9b-8b16-7be5f0ba1a73.ipynb"
	var session struct {
		ID, Path string
		Kernel   struct{ ID string }
	}
	body := `{"path": "` + path + `", "name": "a.ipynb", "type": "notebook",` +
		` "kernel": {"name": "python3"}}`
	r := post(t, base+"/api/sessions", s.Token, body, &session)
	if r.StatusCode != 201 || session.Path != path {
		t.Fatalf("status %d, %+v", r.StatusCode, session)
	}
	ctx := deadline(t)
	ws, resp, err := websocket.Dial(ctx,
		strings.Replace(base, "http", "ws", 1)+"/api/kernels/"+session.Kernel.ID+
			"/channels?session_id=vscode&token="+s.Token,
		&websocket.DialOptions{HTTPHeader: auth, Subprotocols: []string{wire.V1}})
	check(t, err)
	defer ws.CloseNow()
	if got := resp.Header.Get("Sec-Websocket-Protocol"); got != wire.V1 {
		t.Fatalf("the subprotocol is %q", got)
	}
	ws.SetReadLimit(1 << 20)
	ask := func(kind, id, content string) {
		t.Helper()
		m := wire.Message{
			Channel: wire.Shell, Header: wire.Header{
				ID: id, Type: kind, Session: "vscode", Username: "u", Version: wire.Version,
			}, Content: json.RawMessage(content),
		}
		data, _ := wire.Append(nil, &m, true)
		check(t, ws.Write(ctx, websocket.MessageBinary, data))
	}
	// until reads up to a message that answers the request with an id.
	until := func(kind, id string) (text string) {
		t.Helper()
		for {
			_, data, err := ws.Read(ctx)
			check(t, err)
			part := parts(t, data)
			var head, parent struct {
				ID   string `json:"msg_id"`
				Type string `json:"msg_type"`
			}
			check(t, json.Unmarshal(part[1], &head))
			check(t, json.Unmarshal(part[2], &parent))
			if parent.ID != id {
				continue
			}
			if head.Type == "stream" {
				var c struct{ Text string }
				check(t, json.Unmarshal(part[4], &c))
				text += c.Text
			}
			if head.Type == kind {
				return text
			}
		}
	}
	ask("kernel_info_request", "info", "{}")
	until("kernel_info_reply", "info")
	pinged := make(chan error, 1)
	go func() { pinged <- ws.Ping(ctx) }()
	ask("execute_request", "cell", `{"code": "print(6*7)", "allow_stdin": true}`)
	if text := until("execute_reply", "cell"); text != "42\n" {
		t.Errorf("the text is %q", text)
	}
	ask("kernel_info_request", "again", "{}") // the pong has been read before its reply
	until("kernel_info_reply", "again")
	check(t, <-pinged)
	r = request(t, "DELETE", base+"/api/sessions/"+session.ID, auth, nil)
	if r.StatusCode != 204 {
		t.Errorf("the end of the session: status %d", r.StatusCode)
	}
}
