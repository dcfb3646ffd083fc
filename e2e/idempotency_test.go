package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket/wsjson"

	"github.com/sandgate/sandgate/protocol"
)

// answer is a response to a request with an idempotency key.
type answer struct {
	status   int
	body     string
	replayed bool
}

// keyed sends a request with an idempotency key.
func (s *Server) keyed(t *testing.T, method, path, key, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	check(t, err)
	r.Header.Set("Authorization", "Bearer "+s.Token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(protocol.HeaderIdempotencyKey, key)
	resp, err := http.DefaultClient.Do(r)
	check(t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	check(t, err)
	return answer{resp.StatusCode, string(b), resp.Header.Get(protocol.HeaderReplayed) == "true"}
}

// createdOnce sends 100 requests for a session with one key to the servers, and returns the one id.
func createdOnce(t *testing.T, key string, servers ...*Server) string {
	t.Helper()
	var mu sync.Mutex
	ids := map[string]int{}
	first := 0
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			a := servers[i%len(servers)].keyed(t, "POST", "/v1/sessions", key, `{}`)
			var s protocol.Session
			if err := json.Unmarshal([]byte(a.body), &s); err != nil || a.status != 201 {
				t.Errorf("the answer is %d %s", a.status, a.body)
			}
			mu.Lock()
			defer mu.Unlock()
			if ids[s.ID]++; !a.replayed {
				first++
			}
		})
	}
	all.Wait()
	if len(ids) != 1 || first != 1 {
		t.Fatalf("100 requests created %v, %d of them without a replay", ids, first)
	}
	for id := range ids {
		return id
	}
	return ""
}

// repeatOnSockets opens a terminal with one key on WebSockets of two servers.
func repeatOnSockets(t *testing.T, a, b *Server, session string) {
	t.Helper()
	params, err := json.Marshal(protocol.ChannelOpen{Session: session, Kind: "terminal"})
	check(t, err)
	var replies []protocol.Reply
	for _, s := range []*Server{a, b} {
		ws := dialAsker(t, t.Context(), s, s.Token).ws
		check(t, wsjson.Write(t.Context(), ws, protocol.Request{
			ID: 7, Op: protocol.OpChannelOpen, Params: params, IdempotencyKey: "terminal",
		}))
		var r protocol.Reply
		check(t, wsjson.Read(t.Context(), ws, &r))
		replies = append(replies, r)
	}
	first, again := replies[0], replies[1]
	if first.Error != nil || first.Replayed || !again.Replayed ||
		!bytes.Equal(first.Result, again.Result) {
		t.Errorf("two WebSockets got %+v and %+v", first, again)
	}
}

// sessions returns the ids of a server's sessions.
func (s *Server) sessions(t *testing.T) (ids []string) {
	t.Helper()
	var list protocol.SessionList
	if status, err := s.Get(t.Context(), "/v1/sessions", &list); err != nil || status != 200 {
		t.Fatalf("the list has the status %d: %v", status, err)
	}
	for _, one := range list.Sessions {
		ids = append(ids, one.ID)
	}
	return ids
}

// TestIdempotencyKeys sends each kind of request with a key twice, kills the node between two
// repeats, and looks for secrets on the disk.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), "pool: {size: 1, spare: 0}\ngateway: {self_check: 0}")
	check(t, err)
	t.Cleanup(func() { check(t, s.Stop()) })
	id := createdOnce(t, "one", s)
	if ids := s.sessions(t); len(ids) != 1 || ids[0] != id {
		t.Fatalf("the server has the sessions %v", ids)
	}
	if a := s.keyed(t, "POST", "/v1/sessions", "one", `{"name":"x"}`); a.status != 409 ||
		!strings.Contains(a.body, "other parameters") {
		t.Errorf("other parameters answer %d %s", a.status, a.body)
	}
	if a := s.keyed(t, "POST", "/v1/sessions", "a b", `{}`); a.status != 400 ||
		!strings.Contains(a.body, protocol.HeaderIdempotencyKey) {
		t.Errorf("a malformed key answers %d %s", a.status, a.body)
	}
	repeatOnSockets(t, s, s, id)
	in := "/v1/sessions/" + id
	for _, c := range []struct{ path, body string }{
		{in + "/exec", `{"cmd":"echo x >> times; wc -l < times"}`},
		{in + "/run", `{"code":"try: n += 1\nexcept NameError: n = 1\nn"}`},
		{"/v1/run", `{"code":"import random; print(random.random())"}`},
		{in + "/fork", `{}`},
		{in + "/snapshots", `{"name":"snap"}`},
		{in + "/channels", `{"kind":"process","argv":["sleep","60"]}`},
		{in + "/files/links", `{"path":"times"}`},
		{in + "/links", `{}`},
		{"/v1/volumes", `{"name":"data"}`},
		{"/v1/keys", `{"name":"ci","role":"viewer"}`},
		{"/v1/tickets", ``},
	} {
		first := s.keyed(t, "POST", c.path, "k1", c.body)
		again := s.keyed(t, "POST", c.path, "k1", c.body)
		if first.status >= 300 || first.replayed || !again.replayed || first.body != again.body ||
			first.status != again.status {
			t.Errorf("%s answers %+v, and then %+v", c.path, first, again)
		}
	}

	// A result survives a killed node. A secret does not, and is not on the disk.
	created := s.keyed(t, "POST", "/v1/keys", "secret", `{"name":"secret","role":"viewer"}`)
	var key protocol.NewKey
	check(t, json.Unmarshal([]byte(created.body), &key))
	kept := s.keyed(t, "POST", "/v1/sessions", "durable", `{"durable":true}`)
	node, err := s.Child("node")
	check(t, err)
	check(t, syscall.Kill(node, syscall.SIGKILL))
	eventually(t, "the node is back", func() bool {
		a := s.keyed(t, "POST", "/v1/sessions", "durable", `{"durable":true}`)
		if a.status == 201 && (!a.replayed || a.body != kept.body) {
			t.Fatalf("after the restart the answer is %+v, before it was %+v", a, kept)
		}
		return a.status == 201
	})
	if a := s.keyed(t, "POST", "/v1/keys", "secret",
		`{"name":"secret","role":"viewer"}`); a.status != 409 || !strings.Contains(a.body, "new key") {
		t.Errorf("after the restart the key answers %+v", a)
	}
	withoutSecret(t, s.Dir, key.Secret)
}

// withoutSecret fails if a file below a folder has a secret, or if the journal of keys has the result
// of a request with one.
func withoutSecret(t *testing.T, dir, secret string) {
	t.Helper()
	secrets := 0
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // the server may just have removed it
		}
		info, err := d.Info()
		if err != nil || info.Size() > 16<<20 {
			return nil // the memory of a sandbox
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s has the secret", path)
		}
		for line := range bytes.Lines(b) {
			if d.Name() == "keys.jsonl" && bytes.Contains(line, []byte(`"outcome":"secret"`)) {
				secrets++
				if bytes.Contains(line, []byte(`"result"`)) {
					t.Errorf("%s has a result with a secret", path)
				}
			}
		}
		return nil
	}))
	if secrets == 0 {
		t.Error("the journal has no record of a request with a secret")
	}
}

// TestIdempotencyKeysInACluster sends requests with one key to two gateways with two nodes.
func TestIdempotencyKeysInACluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	id := createdOnce(t, "one", c.Servers[0], c.Servers[1])
	repeatOnSockets(t, c.Servers[0], c.Servers[1], id)
	if ids := c.Servers[1].sessions(t); len(ids) != 1 || ids[0] != id {
		t.Fatalf("the cluster has the sessions %v", ids)
	}
	path, body := "/v1/sessions/"+id+"/exec", `{"cmd":"echo x >> times; wc -l < times"}`
	first := c.Servers[0].keyed(t, "POST", path, "e", body)
	again := c.Servers[1].keyed(t, "POST", path, "e", body)
	if first.status != 200 || !again.replayed || again.body != first.body {
		t.Errorf("two gateways answer %+v and %+v", first, again)
	}
	// While the node of a key is away, its repeats wait for it and create nothing elsewhere.
	body = `{"durable":true}`
	before := c.Servers[0].keyed(t, "POST", "/v1/sessions", "d", body)
	var s protocol.Session
	check(t, json.Unmarshal([]byte(before.body), &s))
	owner := c.owner(s.ID)
	node, err := c.Servers[owner].Child("node")
	check(t, err)
	other := c.Servers[1-owner]
	check(t, syscall.Kill(node, syscall.SIGKILL))
	eventually(t, "the node is back", func() bool {
		again = other.keyed(t, "POST", "/v1/sessions", "d", body)
		if again.status != 503 && again.status != 201 {
			t.Fatalf("without its node the key answers %+v", again)
		}
		return again.status == 201
	})
	if !again.replayed || again.body != before.body {
		t.Errorf("the repeat answers %+v, the first answer was %+v", again, before)
	}
	// Sessions work without the directory, also for requests with keys.
	live := other.keyed(t, "POST", "/v1/sessions", "live", `{}`)
	check(t, json.Unmarshal([]byte(live.body), &s))
	path = "/v1/sessions/" + s.ID + "/exec"
	if a := other.keyed(t, "POST", path, "with", `{"cmd":"true"}`); a.status != 200 {
		t.Fatalf("a command answers %+v", a)
	}
	c.StopRedis()
	if a := other.keyed(t, "POST", path, "without", `{"cmd":"true"}`); a.status != 200 {
		t.Errorf("without the directory a command answers %+v", a)
	}
}

// withoutOutcomes removes the outcomes from the journals below a folder, as if the node had been
// killed after the work and before the result.
func withoutOutcomes(t *testing.T, dir string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "keys.jsonl" {
			return nil
		}
		b, err := os.ReadFile(path)
		var kept []byte
		for line := range bytes.Lines(b) {
			if bytes.Contains(line, []byte(`"seed"`)) {
				kept = append(kept, line...)
			}
		}
		if err == nil {
			err = os.WriteFile(path, kept, 0o600)
		}
		return err
	}))
}

// TestIdempotencyKeyOfAnInterruptedRequest kills the node between the creation of a session and the
// record of the result. A repeat creates no second session.
func TestIdempotencyKeyOfAnInterruptedRequest(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), "pool: {size: 1, spare: 0}\ngateway: {self_check: 0}")
	check(t, err)
	t.Cleanup(func() { check(t, s.Stop()) })
	for _, body := range []string{`{}`, `{"durable":true}`} {
		var first, again protocol.Session
		check(t, json.Unmarshal([]byte(s.keyed(t, "POST", "/v1/sessions", body, body).body), &first))
		node, err := s.Child("node")
		check(t, err)
		check(t, syscall.Kill(node, syscall.SIGSTOP))
		withoutOutcomes(t, s.Dir)
		check(t, syscall.Kill(node, syscall.SIGKILL))
		var last answer
		eventually(t, "the node is back", func() bool {
			last = s.keyed(t, "POST", "/v1/sessions", body, body)
			return last.status != 503
		})
		check(t, json.Unmarshal([]byte(last.body), &again))
		count := 0
		for _, id := range s.sessions(t) {
			if id == first.ID {
				count++
			}
		}
		if last.status != 201 || again.ID != first.ID || count != 1 {
			t.Errorf("%s: the repeat answers %+v, the first session is %s; the list has it %d times",
				body, last, first.ID, count)
		}
	}
}
