package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// pair is two servers that are one: each with a gateway and a node.
type pair struct {
	t       *testing.T
	ctx     context.Context
	dir     string
	redis   *exec.Cmd
	address string // of Redis
	servers [2]*Server
}

func newPair(t *testing.T, settings string) *pair {
	t.Helper()
	dir, err := os.MkdirTemp("", "sandgate-pair-")
	check(t, err)
	check(t, os.Chmod(dir, 0o755))
	ctx, cancel := context.WithTimeout(deadline(t), 4*time.Minute)
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
	for _, args := range [][]string{{"init", dir + "/ca"}, {"join", dir + "/ca", "n0"}, {"join", dir + "/ca", "n1"}} {
		out, err := exec.Command(bin, append([]string{"cluster"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	const token = "sg_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGH"
	var starts sync.WaitGroup
	for i := range p.servers {
		config := fmt.Sprintf("%[1]s\ncluster: {redis: \"redis://%[2]s/0\", node: n%[3]d, listen: \"%[4]s\", dir: %[5]s/ca/n%[3]d, lease: 30s, keys_grace: 3s}",
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
	return p
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (p *pair) start() {
	p.t.Helper()
	_, port, _ := net.SplitHostPort(p.address)
	p.redis = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", p.dir)
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

// await waits for what has to come, and says how long it took.
func (p *pair) await(what string, is func() bool) time.Duration {
	p.t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > time.Minute {
			p.t.Fatalf("it never came: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
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

// door is the status of a request that needs credentials and nothing behind the
// gateway: 404 for who is let in.
func (p *pair) door(s *Server, token string) int {
	p.t.Helper()
	code, _ := p.ask(s, token, "DELETE", "/v1/tickets/none", "")
	return code
}

// ticket makes a ticket for a WebSocket.
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
	ws, res, err := websocket.Dial(p.ctx, "ws"+strings.TrimPrefix(s.URL, "http")+"/v1/ws", &websocket.DialOptions{Subprotocols: []string{protocol.Subprotocol, ticket}})
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

// TestKeysOverGateways: what is made and revoked at one gateway counts at the
// other; a ticket is good once over both; and without Redis what is known goes
// on for its time, all else is refused until Redis is back, without its data.
func TestKeysOverGateways(t *testing.T) {
	p := newPair(t, "pool: {size: 1, languages: [bash], memory: 0}\ngateway: {self_check: 0}")
	a, b := p.servers[0], p.servers[1]
	id, secret := p.key(a, `{"tenant":"acme","role":"owner"}`)
	kept, other := p.key(b, `{"tenant":"acme","role":"driver"}`)
	took := p.await("the key at the other gateway", func() bool { return p.door(b, secret) == 404 })
	p.await("the other key", func() bool { return p.door(a, other) == 404 })
	c, err := client.New(b.URL, secret, client.Options{})
	check(t, err)
	ws, err := c.Connect(p.ctx)
	check(t, err)
	defer ws.Close()

	// Ten at once, at both gateways, and one gets in.
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
		t.Errorf("%d got in with one ticket, %d did not", in.Load(), out.Load())
	}
	if code := p.enter(b, p.ticket(a, secret)); code != 101 {
		t.Errorf("a ticket at the other gateway: %d", code)
	}

	// A sign-in is good at both, since they share the seal. A quota is seen by both.
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
	gone := p.await("the revocation at the other gateway", func() bool { return p.door(b, secret) == 401 })
	t.Logf("the other gateway knew a key after %s, and its end after %s", took, gone)
	if code := p.door(a, secret); code != 401 {
		t.Errorf("a revoked key: %d", code)
	}
	p.await("the end of its WebSocket", func() bool { return ws.Err() != nil })

	// Redis ends. Tickets are refused, known keys go on, unknown ones may be
	// good elsewhere.
	unused := p.ticket(a, other)
	p.stop()
	for _, s := range p.servers {
		if code := p.enter(s, unused); code != 503 {
			t.Errorf("a ticket without Redis: %d", code)
		}
	}
	p.await("the doubt", func() bool { return p.door(a, secret) == 503 && p.door(b, secret) == 503 })
	p.await("the end of the grace", func() bool { return p.door(a, other) == 503 && p.door(b, other) == 503 })
	if code := p.door(a, a.Token); code != 404 {
		t.Errorf("the operator's token: %d", code)
	}

	// Redis begins anew without its data: the nodes put the keys back.
	p.start()
	for _, s := range p.servers {
		p.await("the keys", func() bool { return p.door(s, other) == 404 && p.door(s, secret) == 401 })
	}
	if code := p.enter(b, p.ticket(a, other)); code != 101 {
		t.Errorf("a ticket afterwards: %d", code)
	}
	p.await("the nodes", func() bool { code, _ := p.ask(b, b.Token, "GET", "/v1/keys", ""); return code == 200 })
	_, third := p.key(b, `{"tenant":"acme","role":"viewer"}`)
	p.await("a new key", func() bool { return p.door(a, third) == 404 })
	if code, _ := p.ask(b, b.Token, "DELETE", "/v1/keys/"+kept, ""); code != 200 {
		t.Errorf("the second revocation: %d", code)
	}
	p.await("its end", func() bool { return p.door(a, other) == 401 })
}
