package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/protocol"
)

// TestJupyterTakeOver kills the node of a durable session while a client of Jupyter waits for a cell
// that began after the copy. The client connects again and gets an error as the reply, with the right
// parent. Its next cell has the variables of the copy.
func TestJupyterTakeOver(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	c, _ := newStoreCluster(t)
	const at, other = 0, 1
	srv, stays := c.Servers[at], c.Servers[other]
	durable := true
	s := c.openOn(t, stays, at, protocol.SessionCreate{Durable: &durable})
	s.run("ok", "v = 6\nprint('x' * 2_000_000)") // more than a client gets again
	ran := time.Now()
	stored := regexp.MustCompile(`copy is in the blob store" .*session=` + s.id + ` .*as_of=(\S+)`)
	eventually(t, "a copy in the store", func() bool {
		for _, m := range stored.FindAllStringSubmatch(srv.Log(), -1) {
			if at, err := time.Parse(time.RFC3339, m[1]); err == nil && at.After(ran) {
				return true
			}
		}
		return false
	})

	var kernels []struct{ ID string }
	base := "/jupyter/s/" + s.id + "/api/kernels"
	if status, err := stays.Get(s.ctx, base, &kernels); err != nil || len(kernels) != 1 {
		t.Fatalf("the kernels: %d, %v, %+v", status, err, kernels)
	}
	n := &notebookClient{t: t, ctx: s.ctx, url: strings.Replace(stays.URL, "http", "ws", 1) + base +
		"/" + kernels[0].ID + "/channels?session_id=notebook&token=" + stays.Token}
	n.connect()
	n.execute("m1", "print('begun', flush=True)\nimport time\ntime.sleep(600)")
	n.await("stream m1")
	// The supervisor is stopped, so that it does not start the node again.
	syscall.Kill(srv.PID(), syscall.SIGSTOP)
	srv.Signal(syscall.SIGKILL)
	srv.Halt(syscall.SIGKILL)
	n.await("execute_reply m1")
	got := n.since("execute_input m1")
	contains(t, got, "error m1 SandboxLost", "execute_reply m1 error SandboxLost", "run it again")
	n.await("status m1 idle")
	if c.owner(s.id) != other {
		t.Error("the session is not the other node's")
	}
	n.execute("m2", "print(v * 7)")
	n.await("execute_reply m2 ok")
	contains(t, n.since("execute_input m2"), "stream m2 42")
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Minute)
	defer cancel()
	check(t, srv.Boot(ctx))
}

// notebookClient is a client of Jupyter in the framing of JSON. It connects again like JupyterLab.
type notebookClient struct {
	t        *testing.T
	ctx      context.Context
	url      string
	ws       *websocket.Conn
	received []string // the type, the parent, and parts of the content
}

// connect connects as soon as the kernel can be reached.
func (n *notebookClient) connect() {
	eventually(n.t, "a connection to the kernel", func() (ok bool) {
		ws, _, err := websocket.Dial(n.ctx, n.url, nil)
		n.ws = ws
		return err == nil
	})
	n.ws.SetReadLimit(16 << 20)
}

func (n *notebookClient) execute(id, code string) {
	n.t.Helper()
	check(n.t, n.ws.Write(n.ctx, websocket.MessageText, fmt.Appendf(nil,
		`{"channel":"shell","header":{"msg_id":%q,"session":"notebook","username":"",
		"msg_type":"execute_request","version":"5.3"},"content":{"code":%q}}`, id, code)))
}

// await reads messages until one begins with a text.
func (n *notebookClient) await(text string) {
	n.t.Helper()
	for {
		_, data, err := n.ws.Read(n.ctx)
		if n.ctx.Err() != nil {
			n.t.Fatalf("%s never came: %v", text, n.received)
		}
		if err != nil {
			n.connect()
			continue
		}
		var m struct {
			Type   string `json:"msg_type"`
			Parent struct {
				ID string `json:"msg_id"`
			} `json:"parent_header"`
			Content struct {
				Text   string `json:"text"`
				State  string `json:"execution_state"`
				Status string `json:"status"`
				Name   string `json:"ename"`
				Value  string `json:"evalue"`
			} `json:"content"`
		}
		check(n.t, json.Unmarshal(data, &m))
		all := m.Content
		line := strings.Join(strings.Fields(strings.Join([]string{
			m.Type, m.Parent.ID, all.Status, all.State, all.Name, all.Value, all.Text,
		}, " ")), " ")
		n.received = append(n.received, line)
		if strings.HasPrefix(line, text) {
			return
		}
	}
}

// since returns the messages after one that begins with a text.
func (n *notebookClient) since(text string) string {
	all := strings.Join(n.received, "\n")
	_, after, _ := strings.Cut(all, text)
	return after
}
