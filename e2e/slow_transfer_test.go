package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// rawRequest sends the header of a request, and returns its connection.
func (s *session) rawRequest(method, path string, length int) (net.Conn, *bufio.Reader) {
	s.t.Helper()
	host := strings.TrimPrefix(server.URL, "http://")
	c, err := net.Dial("tcp", host)
	check(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	// The server's other limits are later.
	check(s.t, c.SetDeadline(time.Now().Add(25*time.Second)))
	_, err = fmt.Fprintf(c, "%s /v1/sessions/%s/files/%s HTTP/1.1\r\nHost: %s\r\n"+
		"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", method, s.id, path, host,
		server.Token, length)
	check(s.t, err)
	return c, bufio.NewReader(c)
}

// TestSlowTransfersDoNotHoldARest hibernates a session while an upload stalls, another one trickles,
// and a client does not read its download. All are cut, and the uploads get the reason.
func TestSlowTransfersDoNotHoldARest(t *testing.T) {
	s := open(t, server)
	s.run("ok", "with open('large', 'wb') as f: f.write(bytes(64 << 20))")
	stalled, stalledReply := s.rawRequest("PUT", "stalled", 1<<20)
	_, err := stalled.Write(make([]byte, 100))
	check(t, err)
	trickling, tricklingReply := s.rawRequest("PUT", "trickling", 1<<20)
	go func() {
		for err := error(nil); err == nil; time.Sleep(time.Second / 5) {
			_, err = trickling.Write(make([]byte, 100))
		}
	}()
	_, unread := s.rawRequest("GET", "large", 0)
	download, err := http.ReadResponse(unread, nil)
	check(t, err)
	var v protocol.Session
	ref := protocol.SessionRef{Session: s.id}
	check(t, s.conn.Call(s.ctx, protocol.OpHibernate, ref, &v, false, ""))
	if v.State != "hibernated" {
		t.Errorf("the session is %s", v.State)
	}
	for name, reply := range map[string]*bufio.Reader{
		"stalled": stalledReply, "trickling": tricklingReply,
	} {
		resp, err := http.ReadResponse(reply, nil)
		if err != nil {
			t.Errorf("the %s upload: %v", name, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusConflict ||
			!strings.Contains(string(body), "the transfer was too slow to wait for") {
			t.Errorf("the %s upload: %d %s, %v", name, resp.StatusCode, body, err)
		}
	}
	if n, err := io.Copy(io.Discard, download.Body); err == nil {
		t.Errorf("the download ended as if it were whole, after %d bytes", n)
	}
	s.run("ok", "import os; assert not {'stalled', 'trickling'} & set(os.listdir())")
}
