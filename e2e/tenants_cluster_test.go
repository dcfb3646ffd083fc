package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
)

// pair is a cluster of two servers, each with a gateway and a node.
type pair struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	redis   *exec.Cmd
	address string // the address of Redis
	servers [2]*Server
}

func newPair(t *testing.T, settings string) *pair {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandgate-pair-")
	check(t, err)
	check(t, os.Chmod(dir, 0o755))
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	p := &pair{t: t, ctx: ctx, dir: dir, address: freePort(t)}
	t.Cleanup(func() {
		for _, s := range p.servers {
			if s != nil {
				check(t, s.Stop())
			}
		}
		p.stop()
		cancel()
		check(t, os.RemoveAll(dir))
	})
	p.start()
	bin, err := Bin("sandgate")
	check(t, err)
	for _, args := range [][]string{
		{"init", dir + "/ca"},
		{"join", "--role", "both", dir + "/ca", "n0"},
		{"join", "--role", "both", dir + "/ca", "n1"},
	} {
		out, err := exec.Command(bin, append([]string{"cluster"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	const token = "sg_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH"
	var starts sync.WaitGroup
	for i := range p.servers {
		config := fmt.Sprintf(
			"%[1]s\ncluster: {redis: \"redis://%[2]s/0\", node: n%[3]d, listen: \"%[4]s\", dir: %[5]s/ca/n%[3]d, lease: 30s, keys_grace: 3s}",
			settings, p.address, i, freePort(t), dir)
		starts.Go(func() {
			s, err := start(ctx, config, token)
			if err != nil {
				t.Error(err)
				return
			}
			p.servers[i] = s
		})
	}
	if starts.Wait(); t.Failed() {
		t.FailNow()
	}
	for _, s := range p.servers {
		p.await("a gateway that has received the keys", func() bool {
			code, err := s.Get(ctx, "/readyz", nil)
			check(t, err)
			return code == http.StatusOK
		})
	}
	return p
}

func freePort(t *testing.T) string {
	t.Helper()
	address, err := testenv.FreeAddress()
	check(t, err)
	return address
}

func (p *pair) start() {
	p.t.Helper()
	_, port, _ := net.SplitHostPort(p.address)
	p.redis = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
		"--dir", p.dir)
	p.redis.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(p.t, p.redis.Start())
	p.await("Redis", func() bool {
		conn, err := net.Dial("tcp", p.address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func (p *pair) stop() {
	p.redis.Process.Kill()
	p.redis.Wait()
}

// await waits until a condition holds, and returns how long it took.
func (p *pair) await(what string, is func() bool) time.Duration {
	p.t.Helper()
	began := time.Now()
	eventually(p.t, what, is)
	return time.Since(began)
}

// ask makes a request with a token, and returns the status and the answer.
func (p *pair) ask(s *Server, token, method, path, body string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.ctx, method, s.URL+path, strings.NewReader(body))
	check(p.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	check(p.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	check(p.t, err)
	return res.StatusCode, string(b)
}

// authStatus returns the status of a request that needs credentials and reaches no node.
// It is 404 for valid credentials.
func (p *pair) authStatus(s *Server, token string) int {
	p.t.Helper()
	code, _ := p.ask(s, token, "DELETE", "/v1/tickets/none", "")
	return code
}

// ticket creates a ticket for a WebSocket.
func (p *pair) ticket(s *Server, token string) string {
	p.t.Helper()
	code, body := p.ask(s, token, "POST", "/v1/tickets", "")
	var t struct {
		Protocol string `json:"protocol"`
	}
	if code != 201 || json.Unmarshal([]byte(body), &t) != nil {
		p.t.Fatalf("a ticket: %d %s", code, body)
	}
	return t.Protocol
}

// enter opens a WebSocket with a ticket and returns the status.
func (p *pair) enter(s *Server, ticket string) int {
	p.t.Helper()
	ws, res, err := websocket.Dial(p.ctx, "ws"+strings.TrimPrefix(s.URL, "http")+"/v1/ws",
		&websocket.DialOptions{Subprotocols: []string{protocol.Subprotocol, ticket}})
	if err == nil {
		ws.CloseNow()
		return 101
	}
	if res == nil {
		p.t.Fatal(err)
	}
	return res.StatusCode
}

func (p *pair) key(s *Server, args string) (id, secret string) {
	p.t.Helper()
	code, body := p.ask(s, s.Token, "POST", "/v1/keys", args)
	var k protocol.NewKey
	if code != 201 || json.Unmarshal([]byte(body), &k) != nil {
		p.t.Fatalf("a key: %d %s", code, body)
	}
	return k.Key.ID, k.Secret
}

// TestKeysOverGateways checks that keys that are created and revoked at one gateway count
// at the other, and that a ticket is valid once over both. Without Redis, known keys stay
// valid for a time, and everything else is rejected until Redis is back, without its data.
func TestKeysOverGateways(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	p := newPair(t, "pool: {size: 1, languages: [bash], memory: 0}\ngateway: {self_check: 0}")
	a, b := p.servers[0], p.servers[1]
	id, secret := p.key(a, `{"tenant":"acme","role":"owner"}`)
	kept, other := p.key(b, `{"tenant":"acme","role":"driver"}`)
	took := p.await("the key at the other gateway",
		func() bool { return p.authStatus(b, secret) == 404 })
	p.await("the other key", func() bool { return p.authStatus(a, other) == 404 })
	c, err := wire.New(b.URL, secret, wire.Options{})
	check(t, err)
	ws, err := c.Connect(p.ctx)
	check(t, err)
	defer ws.Close()

	// Ten clients use one ticket at once, at both gateways, and one of them is admitted.
	ticket := p.ticket(a, secret)
	var in, out atomic.Int32
	var all sync.WaitGroup
	for n := range 10 {
		all.Go(func() {
			switch code := p.enter(p.servers[n%2], ticket); code {
			case 101:
				in.Add(1)
			case 401:
				out.Add(1)
			default:
				t.Errorf("status %d", code)
			}
		})
	}
	all.Wait()
	if in.Load() != 1 || out.Load() != 9 {
		t.Errorf("%d clients were admitted with one ticket, %d were not", in.Load(), out.Load())
	}
	if code := p.enter(b, p.ticket(a, secret)); code != 101 {
		t.Errorf("a ticket at the other gateway: %d", code)
	}

	// A sign-in is valid at both gateways, since they share the key. A quota counts at both.
	if code, body := p.ask(a, a.Token, "PUT", "/v1/tenants/acme", `{"sessions":3}`); code != 200 {
		t.Fatalf("a quota: %d %s", code, body)
	}
	p.await("the quota", func() bool {
		_, body := p.ask(b, secret, "GET", "/v1/tenants", "")
		return strings.Contains(body, `"sessions":3`)
	})

	if code, body := p.ask(a, a.Token, "DELETE", "/v1/keys/"+id, ""); code != 200 {
		t.Fatalf("the revocation: %d %s", code, body)
	}
	gone := p.await("the revocation at the other gateway",
		func() bool { return p.authStatus(b, secret) == 401 })
	t.Logf("the other gateway knew a key after %s, and its end after %s", took, gone)
	if code := p.authStatus(a, secret); code != 401 {
		t.Errorf("a revoked key: %d", code)
	}
	p.await("the end of its WebSocket", func() bool { return ws.Err() != nil })

	// Redis ends. Tickets are rejected, known keys stay valid, and unknown keys may be valid
	// at another gateway.
	unused := p.ticket(a, other)
	p.stop()
	for _, s := range p.servers {
		if code := p.enter(s, unused); code != 503 {
			t.Errorf("a ticket without Redis: %d", code)
		}
	}
	p.await("the doubt", func() bool {
		return p.authStatus(a, secret) == 503 &&
			p.authStatus(b, secret) == 503
	})
	p.await("the end of the grace", func() bool {
		return p.authStatus(a, other) == 503 &&
			p.authStatus(b, other) == 503
	})
	if code := p.authStatus(a, a.Token); code != 404 {
		t.Errorf("the operator's token: %d", code)
	}

	// Redis starts again without its data, and the nodes write the keys again.
	p.start()
	for _, s := range p.servers {
		p.await("the keys", func() bool {
			return p.authStatus(s, other) == 404 &&
				p.authStatus(s, secret) == 401
		})
	}
	if code := p.enter(b, p.ticket(a, other)); code != 101 {
		t.Errorf("a ticket afterwards: %d", code)
	}
	p.await("the nodes", func() bool {
		code, _ := p.ask(b, b.Token, "GET", "/v1/keys",
			"")
		return code == 200
	})
	_, third := p.key(b, `{"tenant":"acme","role":"viewer"}`)
	p.await("a new key", func() bool { return p.authStatus(a, third) == 404 })
	if code, _ := p.ask(b, b.Token, "DELETE", "/v1/keys/"+kept, ""); code != 200 {
		t.Errorf("the second revocation: %d", code)
	}
	p.await("its end", func() bool { return p.authStatus(a, other) == 401 })
}

// page runs code like a page of another site with a run token, and returns the answer's
// lines up to the first one that contains stop.
func (p *pair) page(s *Server,
	ticket, path, body, stop string,
) (code int, text string, rest io.ReadCloser) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.ctx, "POST", s.URL+path, strings.NewReader(body))
	check(p.t, err)
	req.Header.Set("Authorization", "Bearer "+ticket)
	req.Header.Set("Origin", "https://chat.example")
	req.Header.Set("Accept", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	check(p.t, err)
	lines := bufio.NewReader(res.Body)
	for stop != "" && !strings.Contains(text, stop) {
		line, err := lines.ReadString('\n')
		text += line
		if err != nil {
			break
		}
	}
	return res.StatusCode, text, res.Body
}

// TestCredentialsOverGateways sends each request to another gateway than the one before,
// as a load balancer does. All credentials are valid, counted once, and ended everywhere.
func TestCredentialsOverGateways(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	p := newPair(t, "pool: {size: 1, languages: [bash], memory: 0}\ngateway: {self_check: 0}")
	turn := 0
	next := func() *Server { turn++; return p.servers[turn%2] }
	token := p.servers[0].Token

	var minted struct{ Ticket, ID string }
	issue := func(uses, concurrent int) (ticket, id string) {
		t.Helper()
		body := fmt.Sprintf(
			`{"scopes":["run"],"origin":"https://chat.example","uses":%d,"limits":{"concurrent":%d}}`, uses, concurrent)
		code, answer := p.ask(next(), token, "POST", "/v1/tickets", body)
		if code != 201 || json.Unmarshal([]byte(answer), &minted) != nil {
			t.Fatalf("a run token: %d %s", code, answer)
		}
		return minted.Ticket, minted.ID
	}
	const hello = `{"language":"bash","code":"echo hel''lo"}`
	run := func(ticket string, want int) {
		t.Helper()
		code, text, body := p.page(next(), ticket, "/v1/run", hello, `"done"`)
		body.Close()
		if code != want || want == 200 && !strings.Contains(text, "hello") {
			t.Errorf("a run: %d %s", code, text)
		}
	}
	t.Run("run tickets", func(t *testing.T) {
		// The browser's preflight request comes first, and reaches another gateway again.
		ticket, id := issue(3, 2)
		req, err := http.NewRequestWithContext(p.ctx, "OPTIONS", next().URL+"/v1/run", nil)
		check(t, err)
		req.Header.Set("Origin", "https://chat.example")
		res, err := http.DefaultClient.Do(req)
		check(t, err)
		res.Body.Close()
		if res.StatusCode != 204 ||
			res.Header.Get("Access-Control-Allow-Origin") != "https://chat.example" {
			t.Errorf("the preflight request: %d %v", res.StatusCode, res.Header)
		}
		for range 3 {
			run(ticket, 200)
		}
		run(ticket, 401)
		run(ticket, 401)
		if code, answer := p.ask(next(), token, "DELETE", "/v1/tickets/"+id, ""); code != 200 {
			t.Errorf("the revocation: %d %s", code, answer)
		}
		run(ticket, 403) // no token names the origin any longer
		run(ticket, 403)

		// A run gets input over the other gateway. Meanwhile the limit of runs is reached.
		ticket, _ = issue(5, 1)
		code, text, body := p.page(next(), ticket, "/v1/run",
			`{"language":"bash","code":"read x; echo got $x","interactive":true}`,
			`"input_request"`)
		defer body.Close()
		var start struct {
			Session, Channel string
			Cell             uint32
		}
		if code != 200 || json.Unmarshal([]byte(strings.SplitN(text, "\n", 2)[0]), &start) != nil ||
			start.Session == "" {
			t.Fatalf("%d %s", code, text)
		}
		run(ticket, 429)
		run(ticket, 429)
		other, _ := issue(1, 1)
		answer := fmt.Sprintf(`{"channel":%q,"cell":%d,"value":"fed"}`, start.Channel, start.Cell)
		for _, x := range []struct {
			ticket string
			code   int
		}{{other, 404}, {other, 404}, {ticket, 200}} {
			code, text, body := p.page(next(), x.ticket, "/v1/run/"+start.Session+"/input", answer,
				"}")
			body.Close()
			if code != x.code {
				t.Errorf("input: %d %s, want %d", code, text, x.code)
			}
		}
		rest, err := io.ReadAll(body)
		check(t, err)
		contains(t, string(rest), "got fed", `"done"`)
		run(ticket, 200)
	})

	code, answer := p.ask(next(), token, "POST", "/v1/sessions", `{"language":"bash"}`)
	var made protocol.Session
	if code != 201 || json.Unmarshal([]byte(answer), &made) != nil {
		t.Fatalf("a session: %d %s", code, answer)
	}
	t.Run("links", func(t *testing.T) {
		var link struct{ Token string }
		code, answer := p.ask(next(), token, "POST", "/v1/sessions/"+made.ID+"/links", "")
		if code != 201 || json.Unmarshal([]byte(answer), &link) != nil {
			t.Fatalf("a link: %d %s", code, answer)
		}
		for range 2 {
			if code, answer := p.ask(next(), link.Token, "GET", "/v1/sessions/"+made.ID,
				""); code != 200 {
				t.Errorf("reading: %d %s", code, answer)
			}
			if code := p.enter(next(), p.ticket(next(), link.Token)); code != 101 {
				t.Errorf("a WebSocket: %d", code)
			}
		}
	})
	t.Run("ports", func(t *testing.T) {
		code, answer := p.ask(next(), token, "POST", "/v1/sessions/"+made.ID+"/ports", `{"port":9}`)
		var way struct{ URL string }
		if code != 201 || json.Unmarshal([]byte(answer), &way) != nil {
			t.Fatalf("a port: %d %s", code, answer)
		}
		at, err := url.Parse(way.URL)
		check(t, err)
		get := func(query string, cookies []*http.Cookie) *http.Response {
			req, err := http.NewRequestWithContext(p.ctx, "GET", next().URL+at.Path+query, nil)
			check(t, err)
			if at.Host != "" { // ports have host names
				req.Host = at.Hostname() + ":" + req.URL.Port()
			}
			for _, c := range cookies {
				req.AddCookie(c)
			}
			res, err := http.DefaultTransport.RoundTrip(req)
			check(t, err)
			res.Body.Close()
			return res
		}
		res := get("?"+at.RawQuery, nil)
		if res.StatusCode == 401 || len(res.Cookies()) != 1 {
			t.Fatalf("the ticket: %d %v", res.StatusCode, res.Cookies())
		}
		for range 2 {
			if res := get("", res.Cookies()); res.StatusCode == 401 || res.StatusCode == 403 {
				t.Errorf("the cookie: %d", res.StatusCode)
			}
			if res := get("?"+at.RawQuery, nil); res.StatusCode != 401 {
				t.Errorf("the ticket again: %d", res.StatusCode)
			}
		}
	})
	p.stop()
	if code, _, body := p.page(next(), minted.Ticket, "/v1/run", hello, ""); code != 503 {
		t.Errorf("a run token without Redis: %d", code)
	} else {
		body.Close()
	}
}

// TestQuotasOverNodes checks that a tenant's quota holds over all nodes, also when many
// requests arrive at both gateways at once. A place that becomes free on one node counts on
// the other, an idle session is evicted there, and a Redis server that lost its data
// receives the use again.
func TestQuotasOverNodes(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	p := newPair(
		t, "pool: {size: 1, languages: [bash], memory: 0}\ngateway: {self_check: 0}\nlog: {level: debug}")
	a, b := p.servers[0], p.servers[1]
	_, secret := p.key(a, `{"tenant":"acme","role":"owner"}`)
	p.await("the key at the other gateway", func() bool { return p.authStatus(b, secret) == 404 })
	quota := func(q string) {
		t.Helper()
		if code, body := p.ask(a, a.Token, "PUT", "/v1/tenants/acme", q); code != 200 {
			t.Fatalf("a quota: %d %s", code, body)
		}
		p.await("the quota", func() bool {
			_, body := p.ask(b, secret, "GET", "/v1/tenants", "")
			return strings.Contains(body, strings.Trim(q, "{}"))
		})
	}
	const most = 4
	quota(`{"sessions":4}`)
	var mu sync.Mutex
	var made []string
	var refused int
	create := func(s *Server) int {
		code, body := p.ask(s, secret, "POST", "/v1/sessions", `{"language":"bash"}`)
		mu.Lock()
		defer mu.Unlock()
		var x protocol.Session
		switch {
		case code == 201 && json.Unmarshal([]byte(body), &x) == nil:
			made = append(made, x.ID)
		case code == 429 && strings.Contains(body, "quota."):
			refused++
		default:
			t.Errorf("a session: %d %s", code, body)
		}
		return code
	}
	history := &cluster{&Cluster{Servers: p.servers[:]}, t}
	spread := func() bool {
		owners := map[int]bool{}
		for _, id := range made {
			owners[history.owner(id)] = true
		}
		return len(owners) == 2
	}
	for try := 0; len(made) == 0 || !spread(); try++ {
		if try == 6 {
			t.Fatal("all sessions are on one node")
		}
		for _, id := range made {
			if code, body := p.ask(a, secret, "DELETE", "/v1/sessions/"+id, ""); code != 200 {
				t.Fatalf("%d %s", code, body)
			}
		}
		made = nil
		var all sync.WaitGroup
		for n := range 3 * most {
			all.Go(func() { create(p.servers[n%2]) })
		}
		all.Wait()
		t.Logf("of %d requests at once %d succeeded", 3*most, len(made))
		if len(made) > most {
			t.Fatalf("%d sessions, the quota is %d", len(made), most)
		}
		// Two requests for the last place at once may both have been rejected.
		p.await("the quota is used", func() bool {
			return len(made) == most ||
				create(p.servers[len(made)%2]) == 201 && len(made) == most
		})
	}
	for _, s := range p.servers {
		if code := create(s); code != 429 {
			t.Errorf("a fifth session: %d", code)
		}
	}

	// Redis comes back without its data. The quota holds when the nodes are back.
	p.stop()
	p.start()
	p.await("the nodes", func() bool {
		code, _ := p.ask(a, a.Token, "GET", "/v1/sessions", "")
		other, _ := p.ask(b, b.Token, "GET", "/v1/sessions", "")
		return code == 200 && other == 200
	})
	time.Sleep(3 * time.Second) // one heartbeat: until then a node may be unknown, as documented
	p.await("an answer", func() bool {
		code, body := p.ask(b, secret, "POST", "/v1/sessions", `{"language":"bash"}`)
		if code == 201 {
			t.Fatalf("a fifth session after Redis lost its data: %s", body)
		}
		return code == 429
	})

	// A place that becomes free on one node counts on the other.
	if code, body := p.ask(a, secret, "DELETE", "/v1/sessions/"+made[0], ""); code != 200 {
		t.Fatalf("%d %s", code, body)
	}
	p.await("its place", func() bool { return create(b) == 201 })

	// The number of running sessions is limited to four. Idle sessions of any node are evicted.
	quota(`{"running":4}`)
	for range 2 {
		for _, s := range p.servers {
			p.await("room by idle sessions of any node", func() bool { return create(s) == 201 })
		}
	}
	_, body := p.ask(b, secret, "GET", "/v1/sessions", "")
	var list protocol.SessionList
	check(t, json.Unmarshal([]byte(body), &list))
	runs := 0
	for _, s := range list.Sessions {
		if s.State != "hibernated" {
			runs++
		}
	}
	if runs > 4 || len(list.Sessions) != 8 {
		t.Errorf("%d of %d sessions have a sandbox", runs, len(list.Sessions))
	}
}
