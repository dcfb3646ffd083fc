package agent

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// outside lets the rig's programs connect to the ports of this machine, except for hosts called
// denied.
func (r *rig) outside() (proxy string) {
	r.t.Helper()
	var port int
	seed := strings.Repeat("ab", 32)
	agenttest.Eventually(r.t, "the proxy listens", func() bool {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			r.t.Fatal(err)
		}
		port = l.Addr().(*net.TCPAddr).Port
		l.Close()
		if err = r.Reseed(r.ctx, wire.Reseed{Seed: seed, Proxy: port}); err != nil {
			agenttest.WantKind(r.t, err, fault.Conflict) // another test has taken the port
		}
		return err == nil
	})
	if err := r.Reseed(r.ctx, wire.Reseed{Seed: seed, Proxy: port}); err != nil {
		r.t.Fatal(err) // the second call finds the listener open
	}
	var wg sync.WaitGroup
	r.Egress.Handle(func(to wire.EgressTarget, n *client.Conn) {
		wg.Go(func() {
			if to.Host == "denied.example" {
				n.Refuse(fault.New(fault.PermissionDenied, "test", "denied.example is\r\ndenied"))
				return
			}
			c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(to.Port))
			if err != nil {
				n.Refuse(err)
				return
			}
			defer c.Close()
			n.Accept()
			sent := make(chan error, 1)
			wg.Go(func() {
				_, err := io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{n})
				if err != nil {
					c.(*net.TCPConn).SetLinger(0)
					c.Close()
				}
				c.(*net.TCPConn).CloseWrite()
				sent <- err
			})
			if _, err = io.Copy(struct{ io.Writer }{n}, struct{ io.Reader }{c}); err != nil {
				n.Close()
			}
			n.CloseWrite()
			if <-sent != nil {
				n.Close()
			}
			n.Leave()
		})
	})
	r.t.Cleanup(func() { r.in.Close(); wg.Wait() })
	return "127.0.0.1:" + strconv.Itoa(port)
}

// web returns an HTTP client that uses the proxy, and starts a server outside.
func (r *rig) web(proxy string, h http.HandlerFunc) (*http.Client, int) {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})}
	r.t.Cleanup(func() { tr.CloseIdleConnections(); s.Close() })
	return &http.Client{Transport: tr, Timeout: time.Minute}, l.Addr().(*net.TCPAddr).Port
}

// TestOutboundHTTP sends requests over plain HTTP. Each uses its own connection, has the host's
// name, and has none of the proxy's headers.
func TestOutboundHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy := r.outside()
	c, port := r.web(proxy, func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		fmt.Fprintf(w, "%s %s %s %d %x %q %q", q.Method, q.Host, q.RequestURI, len(body),
			sha256.Sum256(body), q.Header.Get("Proxy-Authorization"), q.Header.Get("X-Kept"))
	})
	host := "registry.example:" + strconv.Itoa(port)
	body := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{1}).Read(body)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			method, sent := "GET", []byte(nil)
			if i%2 == 1 {
				method, sent = "POST", body[:1<<20+i]
			}
			q, _ := http.NewRequest(method, "http://"+host+"/a?b=c", bytes.NewReader(sent))
			if i == 7 {
				q.ContentLength = -1 // in chunks
			}
			q.Header.Set("Proxy-Authorization", "Basic c2VjcmV0")
			q.Header.Set("X-Kept", "yes")
			a, err := c.Do(q)
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Body.Close()
			got, err := io.ReadAll(a.Body)
			want := fmt.Sprintf(`%s %s /a?b=c %d %x "" "yes"`, method, host, len(sent),
				sha256.Sum256(sent))
			if err != nil || string(got) != want {
				t.Errorf("%q, %v, not %q", got, err, want)
			}
		})
	}
	wg.Wait()
	a, err := c.Get("http://denied.example/")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(a.Body)
	if a.StatusCode != 403 || string(text) != "Sandgate: denied.example is??denied\n" ||
		a.Status != "403 Sandgate: denied.example is??denied" {
		t.Errorf("%s: %q", a.Status, text)
	}
	c.CloseIdleConnections()
	agenttest.Eventually(t, "no connection",
		func() bool { s, err := r.Stats(r.ctx); return err == nil && s.Transfers == 0 })
	if ports, err := r.Ports.List(r.ctx); err != nil ||
		strings.Contains(fmt.Sprint(ports), proxy[len("127.0.0.1:"):]) {
		t.Errorf("the proxy is among the ports: %v, %v", ports, err)
	}
	number, _ := strconv.Atoi(proxy[len("127.0.0.1:"):])
	if _, err := r.Ports.Dial(r.ctx, 5, number); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
}

// TestOutboundOneRequest sends a second request, for another host, on the connection that was
// allowed for the first. It goes nowhere.
func TestOutboundOneRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy := r.outside()
	seen, begun := make(chan string, 1), make(chan struct{})
	port := listen(t, "127.0.0.1:0", func(c *net.TCPConn) {
		first := make([]byte, 1)
		_, _ = io.ReadFull(c, first)
		close(begun)
		all, _ := io.ReadAll(c)
		seen <- string(first) + string(all)
	})
	tcp, err := net.Dial("tcp", proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	first := fmt.Sprintf(
		"POST http://a.example:%d/ HTTP/1.1\r\nHost: b.example\r\nContent-Length: 3\r\n\r\nabc",
		port)
	for _, part := range []string{
		first[:len(first)-2],
		"bcGET http://denied.example/ HTTP/1.1\r\nHost: denied.example\r\nCookie: secret\r\n\r\n",
	} {
		fmt.Fprint(tcp, part)
		<-begun // data that is sent now arrives after the data that was read with the head
	}
	tcp.(*net.TCPConn).CloseWrite()
	want := fmt.Sprintf(
		"POST / HTTP/1.1\r\nHost: a.example:%d\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", port)
	if got := <-seen; got != want {
		t.Errorf("%q went out, not %q", got, want)
	}
}

// TestOutboundTunnel carries megabytes over CONNECT, closes one direction first, and then cuts from
// both ends.
func TestOutboundTunnel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy := r.outside()
	connect := func(port int) (net.Conn, *bufio.Reader, string) {
		c, err := net.Dial("tcp", proxy)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(c, "CONNECT a.example:%d HTTP/1.1\r\nHost: a.example\r\n\r\n", port)
		in := bufio.NewReader(c)
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, " 200 ") {
			in.ReadString('\n')
		}
		return c, in, line
	}
	port := listen(t, "127.0.0.1:0", echo)
	c, in, line := connect(port)
	defer c.Close()
	if line != "HTTP/1.1 200 Connection established\r\n" {
		t.Fatal(line)
	}
	body := make([]byte, 3<<20+1)
	rand.NewChaCha8([32]byte{2}).Read(body)
	go func() { c.Write(body); c.(*net.TCPConn).CloseWrite() }()
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(body), err)
	}
	// A reseed cuts the connections, because a copy of a sandbox begins with it.
	c, in, _ = connect(port)
	number, _ := strconv.Atoi(proxy[len("127.0.0.1:"):])
	if err := r.Reseed(r.ctx, wire.Reseed{
		Seed:  strings.Repeat("cd", 32),
		Proxy: number,
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection that a copy has ends with %v", err)
	}
	c.Close()
	// The host outside cuts.
	c, in, _ = connect(listen(t, "127.0.0.1:0",
		func(c *net.TCPConn) { c.Read(make([]byte, 1)); c.SetLinger(0) }))
	fmt.Fprint(c, "x")
	if _, err := in.ReadByte(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a reset looks like an end: %v", err)
	}
	c.Close()
	// The program cuts.
	cut := make(chan error, 1)
	c, _, _ = connect(listen(t, "127.0.0.1:0",
		func(c *net.TCPConn) { _, err := io.Copy(io.Discard, c); cut <- err }))
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
	select {
	case <-cut:
	case <-time.After(2 * time.Minute):
		t.Error("the host outside was not told")
	}
	if _, _, line := connect(closedPort(t)); !strings.HasPrefix(line, "HTTP/1.1 502 Sandgate: ") {
		t.Error(line)
	}
	agenttest.Eventually(t, "no connection",
		func() bool { s, err := r.Stats(r.ctx); return err == nil && s.Transfers == 0 })
	agenttest.Eventually(t, "none is counted", func() bool { return r.Egress.Open() == 0 })
}

// TestOutboundWithoutNetwork tries a session without network, and opens more connections than are
// allowed.
func TestOutboundWithoutNetwork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proxy := r.outside()
	r.Egress.Handle(nil)
	open := func() net.Conn {
		c, err := net.Dial("tcp", proxy)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	c := open()
	fmt.Fprint(c, "CONNECT a.example:443 HTTP/1.1\r\n\r\n")
	if all, err := io.ReadAll(c); err != nil ||
		!strings.HasPrefix(string(all), "HTTP/1.1 403 Sandgate: this session has no network") {
		t.Errorf("%q, %v", all, err)
	}
	c.Close()
	var held []net.Conn
	for range wire.MaxEgress {
		held = append(held, open())
	}
	agenttest.Eventually(t, "all are open",
		func() bool {
			s, err := r.Stats(r.ctx)
			return err == nil &&
				s.Transfers == wire.MaxEgress
		})
	c = open()
	if all, _ := io.ReadAll(c); !strings.HasPrefix(string(all), "HTTP/1.1 429 ") {
		t.Errorf("%q", all)
	}
	c.Close()
	if _, err := r.write(1000, "f", "files go on"); err != nil {
		t.Error(err)
	}
	for _, c := range held {
		c.Close()
	}
	agenttest.Eventually(t, "no connection",
		func() bool { s, err := r.Stats(r.ctx); return err == nil && s.Transfers == 0 })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = r.Reseed(r.ctx, wire.Reseed{
		Seed:  strings.Repeat("ab", 32),
		Proxy: l.Addr().(*net.TCPAddr).Port,
	})
	agenttest.WantKind(t, err, fault.Conflict)
}
