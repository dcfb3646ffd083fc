package session

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/internal/egress/proxy"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// outsideHost is an outside host: an echo server on a port of this machine.
func outsideHost(t *testing.T) int {
	t.Helper()
	port, _ := serveEcho(t)
	return port
}

// withEgress allows the sessions of a rig to reach some hosts of this machine.
func withEgress(t *testing.T, change func(*proxy.Config), allow ...string) func(*Config) {
	t.Helper()
	gate, err := egress.New(egress.Config{
		Allow:   allow,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return func(c *Config) {
		c.Egress = proxy.Config{Gate: gate, Port: l.Addr().(*net.TCPAddr).Port}
		if change != nil {
			change(&c.Egress)
		}
	}
}

// tunnel asks the proxy of the rig's session for a host, as a program would. A native session
// shares the network with the test.
func (r *rig) tunnel(host string, port int) (net.Conn, *bufio.Reader, string) {
	r.t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(r.m.cfg.Egress.Port))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	fmt.Fprintf(c, "CONNECT %s:%d HTTP/1.1\r\n\r\n", host, port)
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err != nil {
		r.t.Fatal(err)
	}
	if strings.Contains(line, " 200 ") {
		_, _ = in.ReadString('\n')
	}
	return c, in, strings.TrimSpace(line)
}

// TestNetworkRequests creates sessions that request more access than they are allowed.
func TestNetworkRequests(t *testing.T) {
	r := newRig(t, withEgress(t, func(e *proxy.Config) { e.Tenants = []string{alice.Tenant} },
		"packages.example.org", "*.files.example.org:443"))
	create := func(n *protocol.Network) (protocol.Session, error) {
		return call[protocol.Session](r, alice, protocol.OpSessionCreate,
			protocol.SessionCreate{Network: n})
	}
	s, err := create(&protocol.Network{})
	if err != nil || s.Network == nil ||
		strings.Join(s.Network.Allow, " ") != "packages.example.org *.files.example.org:443" {
		t.Fatalf("%+v, %v", s.Network, err)
	}
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
	eventually(t, "its proxy is gone", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(r.m.cfg.Egress.Port))
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	s, err = create(&protocol.Network{Allow: []string{
		"Packages.Example.org:443",
		"a.files.example.org:443",
	}})
	if err != nil || strings.Join(s.Network.Allow,
		" ") != "packages.example.org:443 a.files.example.org:443" {
		t.Errorf("%+v, %v", s.Network, err)
	}
	for _, n := range []*protocol.Network{nil, {Off: true}} {
		if s, err := create(n); err != nil || s.Network != nil {
			t.Errorf("%+v, %v", s.Network, err)
		}
	}
	for _, c := range []struct {
		allow []string
		kind  fault.Kind
	}{
		{[]string{}, fault.InvalidArgument},
		{[]string{"packages.example.org", "2130706433"}, fault.InvalidArgument},
		{[]string{"packages.example.org:22"}, fault.PermissionDenied},
		{[]string{"*"}, fault.PermissionDenied},
		{[]string{"evilpackages.example.org"}, fault.PermissionDenied},
		// without a port it includes port 80
		{[]string{"a.files.example.org"}, fault.PermissionDenied},
	} {
		_, err := create(&protocol.Network{Allow: c.allow})
		wantKind(t, fmt.Sprint(c.allow), err, c.kind, "network.allow")
	}
	_, err = call[protocol.Session](r, mallo, protocol.OpSessionCreate,
		protocol.SessionCreate{Network: &protocol.Network{}})
	wantKind(t, "another tenant", err, fault.PermissionDenied, "network")
}

// TestNetworkUpdate changes the network of a session, within what its tenant may reach.
func TestNetworkUpdate(t *testing.T) {
	port, other := outsideHost(t), outsideHost(t)
	one, two := fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", other)
	r := newRig(t, withEgress(t, nil, one, two))
	s := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Network: &protocol.Network{}})
	update := func(id string, n protocol.Network) (protocol.Session, error) {
		return call[protocol.Session](r, alice, protocol.OpSessionUpdate,
			protocol.SessionUpdate{Session: id, Network: &n})
	}
	c, in, status := r.tunnel("127.0.0.1", port)
	if !strings.Contains(status, " 200 ") {
		t.Fatal(status)
	}
	v, err := update(s.ID, protocol.Network{Allow: []string{two}})
	if err != nil || v.Network == nil || strings.Join(v.Network.Allow, " ") != two {
		t.Fatalf("%+v, %v", v.Network, err)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("a connection that is not allowed any more was not cut")
	}
	c.Close()
	if _, _, status := r.tunnel("127.0.0.1", port); !strings.Contains(status, " 403 ") {
		t.Error(status)
	}
	if _, _, status := r.tunnel("127.0.0.1", other); !strings.Contains(status, " 200 ") {
		t.Error(status)
	}
	_, in, status = r.tunnel("127.0.0.1", other)
	if !strings.Contains(status, " 200 ") {
		t.Fatal(status)
	}
	v, err = update(s.ID, protocol.Network{Deny: []string{"127.0.0.5/24"}})
	if err != nil || strings.Join(v.Network.Deny, " ") != "127.0.0.0/24" {
		t.Fatalf("%+v, %v", v.Network, err)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("a connection to a denied network was not cut")
	}
	if _, _, status := r.tunnel("127.0.0.1", other); !strings.Contains(status, " 403 ") {
		t.Error(status)
	}
	_, err = update(s.ID, protocol.Network{Deny: []string{"example.org"}})
	wantKind(t, "no network", err, fault.InvalidArgument, "network.deny")
	_, err = update(s.ID, protocol.Network{Allow: []string{"example.org"}})
	wantKind(t, "beyond the server", err, fault.PermissionDenied, "network.allow")
	if v, err := update(s.ID, protocol.Network{Off: true}); err != nil || v.Network != nil {
		t.Errorf("off: %+v, %v", v.Network, err)
	}
	if v, err := update(s.ID, protocol.Network{}); err != nil || v.Network == nil {
		t.Errorf("on again: %+v, %v", v.Network, err)
	}
	without := r.create()
	_, err = update(without.ID, protocol.Network{})
	wantKind(t, "a session without a network", err, fault.Conflict, "network")
	if _, err := update(without.ID, protocol.Network{Off: true}); err != nil {
		t.Error(err)
	}
}

// TestNetworkWithoutEgress requests access from a server that allows no outbound connections.
func TestNetworkWithoutEgress(t *testing.T) {
	r := newRig(t)
	_, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{Network: &protocol.Network{}})
	wantKind(t, "no egress", err, fault.PermissionDenied, "network")
}

// TestEgress transfers bytes in both directions, refuses destinations that are not allowed, bounds
// connections, and records all of this.
func TestEgress(t *testing.T) {
	port := outsideHost(t)
	allow := "127.0.0.1:" + strconv.Itoa(port)
	r, entries := audited(t, func(*audit.Log) {},
		withEgress(t, func(e *proxy.Config) { e.Connections = 3 }, allow))
	s, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{
			Network: &protocol.Network{},
			Env:     map[string]string{"NO_PROXY": "mine"},
		})
	if err != nil {
		t.Fatal(err)
	}
	p := r.open()
	p.attach(1, s.ID, "k1")
	proxy := "http://127.0.0.1:" + strconv.Itoa(r.m.cfg.Egress.Port)
	for name, want := range map[string]string{
		"HTTPS_PROXY": proxy, "http_proxy": proxy,
		"NO_PROXY": "mine", "no_proxy": "localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY": "1",
	} {
		if text, _ := p.run(1, "env "+name); text != want {
			t.Errorf("%s is %q", name, text)
		}
	}
	c, in, line := r.tunnel("127.0.0.1", port)
	if line != "HTTP/1.1 200 Connection established" {
		t.Fatal(line)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	go func() { _, _ = c.Write(sent); _ = c.(*net.TCPConn).CloseWrite() }()
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes returned, %v", len(got), len(sent), err)
	}
	for host, want := range map[string]string{
		"LOCALHOST": "HTTP/1.1 403 Sandgate: localhost:" + strconv.Itoa(port) +
			" is not among what this server lets out (egress.allow)",
		"127.1":      "HTTP/1.1 400 Sandgate: an address is written in full, as 192.0.2.1 or 2001:db8::1",
		"2130706433": "HTTP/1.1 400 Sandgate: an address is written in full, as 192.0.2.1 or 2001:db8::1",
		"[::1]": "HTTP/1.1 403 Sandgate: [::1]:" + strconv.Itoa(port) +
			" is not among what this server lets out (egress.allow)",
		"a%2eexample": "HTTP/1.1 400 Sandgate: this is no host's name",
	} {
		if _, _, line := r.tunnel(host, port); line != want {
			t.Errorf("%s: %q", host, line)
		}
	}
	if denied := r.m.egress.Counts().Denied; denied != 5 {
		t.Errorf("%d were counted as denied", denied)
	}
	open := r.session(s.ID).egress.Open
	eventually(t, "none is open", func() bool { return open() == 0 })
	var held []net.Conn
	for range 3 {
		c, _, line := r.tunnel("127.0.0.1", port)
		if !strings.Contains(line, " 200 ") {
			t.Fatal(line)
		}
		held = append(held, c)
	}
	if _, _, line := r.tunnel("127.0.0.1", port); !strings.HasPrefix(line,
		"HTTP/1.1 429 Sandgate: the session has 3 connections") {
		t.Error(line)
	}
	for _, c := range held {
		c.Close()
	}
	eventually(t, "none is open", func() bool { return open() == 0 })

	// The end of a session cuts its connections on both sides.
	c, in, _ = r.tunnel("127.0.0.1", port)
	fmt.Fprint(c, "x")
	if _, err := in.ReadByte(); err != nil {
		t.Fatal(err)
	}
	must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: s.ID})
	if _, err := in.ReadByte(); err == nil {
		t.Error("a connection outlives its session")
	}
	eventually(t, "none is open", func() bool { return open() == 0 })
	if n := r.m.egress.Counts().Opened; n != 5 {
		t.Errorf("%d were counted as opened", n)
	}
	var seen []string
	for _, e := range only(entries(), "egress") {
		if e.Session != s.ID || e.Tenant != alice.Tenant || e.Port != port {
			t.Errorf("%+v", e)
		}
		seen = append(seen, fmt.Sprintf("%s %s %d %q", e.Outcome, e.Host, e.Bytes, e.Address))
	}
	for _, want := range []string{
		fmt.Sprintf("ok 127.0.0.1 %d %q", 2*len(sent), "127.0.0.1"),
		`permission_denied localhost 0 ""`, `invalid_argument 127.1 0 ""`,
		`canceled 127.0.0.1 2 "127.0.0.1"`,
	} {
		if !slices.Contains(seen, want) {
			t.Errorf("no entry %q in %q", want, seen)
		}
	}
}

// TestEgressOfIdleSession checks that an open connection does not keep a session awake, and is closed
// when the session is paused. Afterwards the session can open a new connection.
func TestEgressOfIdleSession(t *testing.T) {
	port := outsideHost(t)
	out := withEgress(t, func(e *proxy.Config) { e.Idle = time.Hour }, "127.0.0.1:"+
		strconv.Itoa(port))
	r := newRig(t, out)
	s, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{Network: &protocol.Network{}})
	if err != nil {
		t.Fatal(err)
	}
	_, in, line := r.tunnel("127.0.0.1", port)
	if !strings.Contains(line, " 200 ") {
		t.Fatal(line)
	}
	x := r.session(s.ID)
	eventually(t, "the session is paused",
		func() bool { newJanitor(r.m).pauseIdle(x, farFuture()); return x.is(paused) })
	eventually(t, "none is open", func() bool { return x.egress.Open() == 0 })
	must[protocol.Session](r, protocol.OpResume, protocol.SessionRef{Session: s.ID})
	if _, err := in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ends with %v", err)
	}
	if _, _, line := r.tunnel("127.0.0.1", port); !strings.Contains(line, " 200 ") {
		t.Error(line)
	}
}

// TestEgressIdle checks that a connection without traffic is closed.
func TestEgressIdle(t *testing.T) {
	port := outsideHost(t)
	r := newRig(t, withEgress(t, func(e *proxy.Config) { e.Idle = 50 * time.Millisecond },
		"127.0.0.1:"+strconv.Itoa(port)))
	if _, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{Network: &protocol.Network{}}); err != nil {
		t.Fatal(err)
	}
	_, in, _ := r.tunnel("127.0.0.1", port)
	if _, err := in.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an idle connection ends with %v", err)
	}
}

// TestEgressBytes moves as many bytes as a session may, and checks that further ones are refused.
func TestEgressBytes(t *testing.T) {
	port := outsideHost(t)
	r := newRig(t, withEgress(t, func(e *proxy.Config) { e.Bytes, e.Rate = 1<<20, 64<<20 },
		"127.0.0.1:"+strconv.Itoa(port)))
	s, err := call[protocol.Session](r, alice, protocol.OpSessionCreate,
		protocol.SessionCreate{Network: &protocol.Network{}})
	if err != nil {
		t.Fatal(err)
	}
	c, in, _ := r.tunnel("127.0.0.1", port)
	wrote := make(chan error, 1)
	go func() { _, err := c.Write(make([]byte, 8<<20)); wrote <- err }()
	if n, _ := io.Copy(io.Discard, in); n > 1<<20 {
		t.Errorf("%d bytes returned", n)
	}
	if err := <-wrote; err == nil {
		t.Error("8 MiB were sent")
	}
	// Each direction may exceed the limit by one part.
	if _, used := r.session(s.ID).egress.State(); used < 1<<20 || used > 1<<20+2*64<<10 {
		t.Errorf("%d bytes were counted", used)
	}
	if _, _, line := r.tunnel("127.0.0.1", port); !strings.HasPrefix(line,
		"HTTP/1.1 429 Sandgate: the session has moved 1048576 bytes") {
		t.Error(line)
	}
	if r.m.egress.Counts().Over == 0 {
		t.Error("the limit was not counted")
	}
}
