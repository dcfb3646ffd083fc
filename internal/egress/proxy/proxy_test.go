package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/audit"
	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// patience is how long a test waits for an event.
const patience = 2 * time.Minute

// receive waits for a value of an event.
func receive[T any](t *testing.T, what string, events <-chan T) T {
	t.Helper()
	select {
	case v := <-events:
		return v
	case <-time.After(patience):
		t.Fatalf("timeout while waiting for: %s", what)
		panic("unreachable")
	}
}

// rig is a proxy between an agent that the test plays and a server on this machine.
type rig struct {
	t       *testing.T
	service *Service
	proxy   *Proxy
	agent   *agent
	port    int           // the server's port
	taken   chan net.Conn // connections that the server has accepted
	life    context.CancelFunc
	fenced  error
	touched atomic.Int64
	in, out atomic.Int64
	journal *journal.Journal
	work    sync.WaitGroup
}

// settings are the parts of a rig that tests change. Allow has the server's address unless the test
// sets it.
type settings struct {
	Config
	allow    []string // the server's list
	private  []netip.Prefix
	network  protocol.Network // the session's network
	used     int64
	required bool
}

// newRig returns a rig whose session may reach the server.
func newRig(t *testing.T, change ...func(r *rig, s *settings)) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	r := &rig{t: t, port: l.Addr().(*net.TCPAddr).Port, taken: make(chan net.Conn, 8)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			_ = c.SetDeadline(time.Now().Add(patience))
			r.taken <- c
		}
	}()
	s := settings{
		allow:   []string{r.host("127.0.0.1")},
		private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	for _, f := range change {
		f(r, &s)
	}
	if s.Gate, err = egress.New(egress.Config{
		Allow: s.allow, Private: s.private,
		Timeout: patience,
	}); err != nil {
		t.Fatal(err)
	}
	cfg, err := s.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if r.journal, err = journal.Open(journal.Options{Dir: t.TempDir(), Name: "audit"}); err != nil {
		t.Fatal(err)
	}
	r.service = NewService(cfg, Options{
		Audit: audit.Log{Journal: r.journal, Required: s.required}, Go: r.work.Go,
		Fenced: func(string) error { return r.fenced },
	})
	life, cancel := context.WithCancel(context.Background())
	r.life = cancel
	r.proxy, err = r.service.New(Owner{
		Kind: "session", Tenant: "t", Subject: "s", Session: "s_1", Life: life,
		Touch: func() { r.touched.Add(1) }, In: &r.in, Out: &r.out,
	}, s.network, s.used)
	if err != nil {
		t.Fatal(err)
	}
	r.agent = newAgent(t, r.proxy)
	t.Cleanup(func() { r.proxy.Close(); cancel(); r.work.Wait() })
	return r
}

// host returns a pattern for the server's port at a host.
func (r *rig) host(name string) string { return name + ":" + strconv.Itoa(r.port) }

// connect opens a connection to the server, and returns both ends.
func (r *rig) connect() (program *program, server net.Conn) {
	r.t.Helper()
	p := r.agent.dial("127.0.0.1", r.port)
	if refused := receive(r.t, "the answer", p.answer); refused != nil {
		r.t.Fatalf("the connection is refused: %+v", refused)
	}
	return p, receive(r.t, "the connection at the server", r.taken)
}

// refused asks for a connection that must be refused.
func (r *rig) refused(host string, port int, kind fault.Kind, message string) {
	r.t.Helper()
	p := receive(r.t, "the answer", r.agent.dial(host, port).answer)
	if p == nil || p.Kind != kind || !strings.Contains(p.Message, message) {
		r.t.Fatalf("%s:%d: %+v, want %s with %q", host, port, p, kind, message)
	}
}

// entries ends the proxy's work and returns the audit log.
func (r *rig) entries() (all []protocol.AuditEntry) {
	r.t.Helper()
	r.work.Wait()
	if err := r.journal.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	f, err := os.Open(r.journal.Path())
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var e protocol.AuditEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// wantCounts waits for the end of the proxy's work and fails when its counts differ.
func (r *rig) wantCounts(want Counts) {
	r.t.Helper()
	r.work.Wait()
	if got := r.service.Counts(); got != want {
		r.t.Errorf("the counts are %+v, want %+v", got, want)
	}
	if n := r.proxy.Open(); n != 0 {
		r.t.Errorf("%d connections are open", n)
	}
}

// agent is the agent's end of a wire. It plays programs that connect to the outside.
type agent struct {
	t   *testing.T
	out *frame.Writer

	mu       sync.Mutex // guards all below
	programs map[uint32]*program
}

// program is a connection at the agent.
type program struct {
	a  *agent
	ch uint32
	// answer gets the error of a refused connection, nil for an open one.
	answer chan *fault.Public
	data   chan []byte
	// end gets true when the host has aborted the connection, and false at the end of its data.
	end chan bool
	got uint64
}

func newAgent(t *testing.T, p *Proxy) *agent {
	fromHost, toAgent := io.Pipe()
	fromAgent, toHost := io.Pipe()
	c := client.New(fromAgent, toAgent, nil)
	c.Egress.Handle(p.Handle)
	a := &agent{t: t, out: frame.NewWriter(toHost), programs: map[uint32]*program{}}
	go a.read(frame.NewReader(fromHost, 0))
	t.Cleanup(func() { toHost.Close(); fromHost.Close(); <-c.Done() })
	return a
}

// send sends a frame to the host. It fails only when the test has ended.
func (a *agent) send(f frame.Frame) { _ = a.out.Write(f) }

// dial asks the host for a connection.
func (a *agent) dial(host string, port int) *program {
	a.mu.Lock()
	p := &program{
		a: a, ch: uint32(wire.EgressBase + len(a.programs)),
		answer: make(chan *fault.Public, 1), data: make(chan []byte, 1024), end: make(chan bool, 2),
	}
	a.programs[p.ch] = p
	a.mu.Unlock()
	body, err := json.Marshal(wire.Response{
		Event: "dial", Channel: p.ch,
		Dial: &wire.EgressTarget{Host: host, Port: port},
	})
	if err != nil {
		a.t.Error(err)
	}
	a.send(frame.Frame{Type: frame.Control, Body: body})
	return p
}

func (a *agent) read(in *frame.Reader) {
	for {
		f, err := in.Next()
		if err != nil {
			return
		}
		var q wire.Request
		if f.Type == frame.Control && json.Unmarshal(f.Body, &q) == nil {
			f.Channel = q.Channel
		}
		a.mu.Lock()
		p := a.programs[f.Channel]
		a.mu.Unlock()
		switch {
		case p == nil:
		case f.Type == frame.Control && q.Op == wire.OpEgressAnswer:
			var answer wire.EgressAnswer
			_ = json.Unmarshal(q.Params, &answer)
			p.answer <- answer.Error
		case f.Type == frame.Data:
			if len(f.Body) > 0 {
				p.data <- append([]byte(nil), f.Body...)
				p.got += uint64(len(f.Body))
				a.send(frame.Frame{
					Type: frame.Ack, Channel: p.ch,
					Body: binary.BigEndian.AppendUint64(nil, p.got),
				})
			}
			if f.Flags&frame.FlagEnd != 0 {
				p.end <- f.Flags&wire.FlagAbort != 0
			}
		}
	}
}

// write sends data of the program.
func (p *program) write(text string) {
	p.a.send(frame.Frame{Type: frame.Data, Channel: p.ch, Body: []byte(text)})
}

// closeWrite ends the program's data.
func (p *program) closeWrite() {
	p.a.send(frame.Frame{Type: frame.Data, Flags: frame.FlagEnd, Channel: p.ch})
}

// read returns the next n bytes for the program.
func (p *program) read(n int) string {
	p.a.t.Helper()
	var b []byte
	for len(b) < n {
		b = append(b, receive(p.a.t, "data for the program", p.data)...)
	}
	return string(b)
}

// wantAborted fails unless the host aborts the connection.
func (p *program) wantAborted() {
	p.a.t.Helper()
	for !receive(p.a.t, "the abort of the connection", p.end) {
	}
}

// wantReset fails unless the connection at the server is reset.
func wantReset(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server's connection ended with %v, want a reset", err)
	}
}

// TestCarry carries bytes both ways until both directions have ended.
func TestCarry(t *testing.T) {
	r := newRig(t)
	p, server := r.connect()
	if r.proxy.Open() != 1 {
		t.Errorf("%d connections are open", r.proxy.Open())
	}
	p.write("question")
	p.closeWrite()
	if b, err := io.ReadAll(server); string(b) != "question" || err != nil {
		t.Errorf("the server got %q, %v", b, err)
	}
	if _, err := io.WriteString(server, "the answer"); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if got := p.read(10); got != "the answer" {
		t.Errorf("the program got %q", got)
	}
	if receive(t, "the end", p.end) {
		t.Error("a connection that ended is aborted")
	}
	r.wantCounts(Counts{Opened: 1, Bytes: 18})
	if r.in.Load() != 10 || r.out.Load() != 8 || r.touched.Load() < 3 {
		t.Errorf("%d bytes in, %d out, %d touches", r.in.Load(), r.out.Load(), r.touched.Load())
	}
	if n, used := r.proxy.State(); n == nil || used != 18 {
		t.Errorf("the state is %+v, %d bytes", n, used)
	}
	all := r.entries()
	if len(all) != 1 {
		t.Fatalf("the audit log is %+v", all)
	}
	if e := all[0]; e.Event != "egress" || e.Outcome != "ok" || e.Tenant != "t" ||
		e.Subject != "s" || e.Session != "s_1" ||
		e.Host != "127.0.0.1" || e.Address != "127.0.0.1" || e.Port != r.port || e.Bytes != 18 {
		t.Errorf("the entry is %+v", e)
	}
}

// TestLargeTransfer carries more than the windows hold, in both directions at once.
func TestLargeTransfer(t *testing.T) {
	r := newRig(t)
	p, server := r.connect()
	const size = 4 << 20
	go func() { _, _ = io.Copy(server, server); _ = server.(*net.TCPConn).CloseWrite() }()
	part := strings.Repeat("x", 32<<10)
	for sent := 0; sent < size; sent += len(part) {
		p.write(part)
		p.read(len(part)) // a program that did not read would have to respect the window
	}
	p.closeWrite()
	if receive(t, "the end", p.end) {
		t.Error("the connection was aborted")
	}
	r.wantCounts(Counts{Opened: 1, Bytes: 2 * size})
}

// TestLists: a target has to be in the server's list and in the session's, and to be public.
func TestLists(t *testing.T) {
	r := newRig(t, func(r *rig, s *settings) {
		s.allow = append(s.allow, "127.0.0.2:7777", "files.example.org")
		s.network = protocol.Network{Allow: []string{r.host("127.0.0.1"), "127.0.0.3:7777"}}
	})
	if n := r.proxy.Network(); n == nil || len(n.Allow) != 2 {
		t.Errorf("the network is %+v", n)
	}
	r.refused("example.com", 443, fault.PermissionDenied, "egress.allow")
	r.refused("127.0.0.1", r.port+1, fault.PermissionDenied, "egress.allow")
	// the session's list does not extend the server's
	r.refused("127.0.0.3", 7777, fault.PermissionDenied, "egress.allow")
	r.refused("127.0.0.2", 7777, fault.PermissionDenied, "network.allow")
	r.refused("files.example.org", 443, fault.PermissionDenied, "network.allow")
	r.refused("no host", 443, fault.InvalidArgument, "")
	r.refused("127.0.0.1", 0, fault.InvalidArgument, "")
	r.wantCounts(Counts{Denied: 7})
	for _, e := range r.entries() {
		if e.Outcome != string(fault.PermissionDenied) &&
			e.Outcome != string(fault.InvalidArgument) || e.Bytes != 0 || e.Host == "" {
			t.Errorf("the entry is %+v", e)
		}
	}
	if len(r.taken) != 0 {
		t.Error("a refused connection reached the server")
	}

	private := newRig(t, func(_ *rig, s *settings) { s.private = nil })
	private.refused("127.0.0.1", private.port, fault.PermissionDenied, "not public")
	private.wantCounts(Counts{Denied: 1})

	if _, err := r.service.New(Owner{}, protocol.Network{Allow: []string{"not a host"}},
		0); !fault.Is(err, fault.InvalidArgument) {
		t.Errorf("a list that is no list: %v", err)
	}
}

// TestUnreachable: a target that does not accept is counted as a failure.
func TestUnreachable(t *testing.T) {
	r := newRig(t, func(r *rig, s *settings) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			r.t.Fatal(err)
		}
		r.port = l.Addr().(*net.TCPAddr).Port
		l.Close()
		s.allow = []string{r.host("127.0.0.1")}
	})
	r.refused("127.0.0.1", r.port, fault.Unavailable, "cannot be reached")
	r.wantCounts(Counts{Failed: 1})
	if all := r.entries(); len(all) != 1 || all[0].Outcome != string(fault.Unavailable) ||
		all[0].Address != "127.0.0.1" {
		t.Errorf("the audit log is %+v", all)
	}
}

// TestFenced: a node that may not own the session opens no connection.
func TestFenced(t *testing.T) {
	r := newRig(t)
	r.fenced = fault.New(fault.Unavailable, "test", "the owner is not known")
	r.refused("127.0.0.1", r.port, fault.Unavailable, "the owner is not known")
	r.wantCounts(Counts{Failed: 1})
}

// TestConnectionLimit: a session has at most Config.Connections at once.
func TestConnectionLimit(t *testing.T) {
	r := newRig(t, func(_ *rig, s *settings) { s.Connections = 2 })
	p1, s1 := r.connect()
	p2, s2 := r.connect()
	r.refused("127.0.0.1", r.port, fault.Exhausted, "egress.connections")
	p1.closeWrite()
	p2.closeWrite()
	s1.Close()
	s2.Close()
	r.work.Wait()
	_, s3 := r.connect()
	s3.Close()
	r.proxy.Cut()
	r.wantCounts(Counts{Opened: 3, Denied: 1})
}

// TestByteLimit: a session that has moved all its bytes is cut, and opens no further connection.
func TestByteLimit(t *testing.T) {
	r := newRig(t, func(_ *rig, s *settings) { s.Bytes, s.used = 20, 5 })
	p, server := r.connect()
	p.write("ten bytes.")
	if _, err := io.ReadFull(server, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(server, "five."); err != nil {
		t.Fatal(err)
	}
	if got := p.read(5); got != "five." {
		t.Errorf("the program got %q", got)
	}
	if _, err := io.WriteString(server, "one more"); err != nil {
		t.Fatal(err)
	}
	p.wantAborted()
	wantReset(t, server)
	r.work.Wait()
	if _, used := r.proxy.State(); used != 20 {
		t.Errorf("%d bytes are used", used)
	}
	r.refused("127.0.0.1", r.port, fault.Exhausted, "egress.bytes")
	r.wantCounts(Counts{Opened: 1, Denied: 1, Over: 1, Bytes: 15})
	all := r.entries()
	if len(all) != 2 || all[0].Bytes != 15 || all[0].Outcome != string(fault.Exhausted) ||
		all[1].Outcome != string(fault.Exhausted) {
		t.Errorf("the audit log is %+v", all)
	}
}

// TestByteLimitOfAProgram: the bytes of a program count like those of a server.
func TestByteLimitOfAProgram(t *testing.T) {
	r := newRig(t, func(_ *rig, s *settings) { s.Bytes = 10 })
	p, server := r.connect()
	p.write("ten bytes.")
	if _, err := io.ReadFull(server, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	p.write("one more")
	p.wantAborted()
	wantReset(t, server)
	r.wantCounts(Counts{Opened: 1, Over: 1, Bytes: 10})
}

// TestRate: bytes beyond the rate wait.
func TestRate(t *testing.T) {
	const rate, extra = partSize, 16 << 10
	r := newRig(t, func(_ *rig, s *settings) { s.Rate = rate })
	p, server := r.connect()
	began := time.Now()
	p.write(strings.Repeat("x", rate))
	p.write(strings.Repeat("x", extra))
	if _, err := io.ReadFull(server, make([]byte, rate+extra)); err != nil {
		t.Fatal(err)
	}
	if took, least := time.Since(began), time.Second*extra/rate; took < least*9/10 {
		t.Errorf("%d bytes beyond the rate took %s, want %s or more", extra, took, least)
	}
	r.proxy.Cut()
	r.wantCounts(Counts{Opened: 1, Bytes: rate + extra})
}

// TestCut resets connections on both sides. Later ones are possible until Close.
func TestCut(t *testing.T) {
	r := newRig(t)
	p, server := r.connect()
	p.write("half")
	if _, err := io.ReadFull(server, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	r.proxy.Cut()
	p.wantAborted()
	wantReset(t, server)
	r.work.Wait()

	p, server = r.connect()
	r.proxy.Close()
	p.wantAborted()
	wantReset(t, server)
	r.refused("127.0.0.1", r.port, fault.Unavailable, "has ended")
	r.wantCounts(Counts{Opened: 2, Bytes: 4})
	all := r.entries()
	if len(all) != 2 || all[0].Outcome != string(fault.Canceled) || all[0].Bytes != 4 ||
		all[1].Outcome != string(fault.Canceled) {
		t.Errorf("the audit log is %+v", all)
	}
}

// TestSet changes the hosts that a session may reach: a connection to a host that is not allowed any
// more is cut, another one stays, and new connections follow the new list.
func TestSet(t *testing.T) {
	r := newRig(t)
	set := func(n protocol.Network) {
		t.Helper()
		if err := r.proxy.Set(n); err != nil {
			t.Fatal(err)
		}
	}
	p, server := r.connect()
	set(protocol.Network{Allow: []string{r.host("127.0.0.1")}})
	p.write("stay")
	if _, err := io.ReadFull(server, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	set(protocol.Network{Allow: []string{"example.org"}})
	p.wantAborted()
	wantReset(t, server)
	r.refused("127.0.0.1", r.port, fault.PermissionDenied, "network.allow")
	set(protocol.Network{})
	p, server = r.connect()
	set(protocol.Network{Off: true})
	p.wantAborted()
	wantReset(t, server)
	r.refused("127.0.0.1", r.port, fault.PermissionDenied, "network.allow")
	if n, _ := r.proxy.State(); r.proxy.Network() != nil || n == nil || !n.Off {
		t.Errorf("the network that is off is %+v", n)
	}
	if err := r.proxy.Set(protocol.Network{Allow: []string{"not a host"}}); err == nil {
		t.Error("a list that is no list was taken")
	}
}

// TestEndOfTheOwner cuts the connections of a session that ends.
func TestEndOfTheOwner(t *testing.T) {
	r := newRig(t)
	p, server := r.connect()
	r.life()
	p.wantAborted()
	wantReset(t, server)
	r.wantCounts(Counts{Opened: 1})
}

// TestResetByTheServer: a program learns that the server has reset its connection.
func TestResetByTheServer(t *testing.T) {
	r := newRig(t)
	p, server := r.connect()
	_ = server.(*net.TCPConn).SetLinger(0)
	server.Close()
	p.wantAborted()
	r.wantCounts(Counts{Opened: 1})
	if all := r.entries(); len(all) != 1 || all[0].Outcome != string(fault.Canceled) {
		t.Errorf("the audit log is %+v", all)
	}
}

// TestIdle cuts a connection that carries nothing.
func TestIdle(t *testing.T) {
	r := newRig(t, func(_ *rig, s *settings) { s.Idle = 50 * time.Millisecond })
	p, server := r.connect()
	p.wantAborted()
	wantReset(t, server)
	r.wantCounts(Counts{Opened: 1})
}

// TestAuditRequired: a server that must record everything opens no connection that it cannot
// record, and records the beginning of each.
func TestAuditRequired(t *testing.T) {
	required := func(_ *rig, s *settings) { s.required = true }
	r := newRig(t, required)
	p, server := r.connect()
	p.closeWrite()
	server.Close()
	if all := r.entries(); len(all) != 2 || all[0].Outcome != "begins" || all[1].Outcome != "ok" {
		t.Errorf("the audit log is %+v", all)
	}
	r.refused("127.0.0.1", r.port, fault.Unavailable, "audit log") // entries has closed the journal
	r.work.Wait()
	if len(r.taken) != 0 {
		t.Error("the connection reached the server")
	}
}

// TestNoNetwork: the proxy of a session without a network is nil.
func TestNoNetwork(t *testing.T) {
	var p *Proxy
	p.Cut()
	p.Close()
	if n, used := p.State(); n != nil || used != 0 || p.Network() != nil {
		t.Errorf("a session without a network has %+v, %d", n, used)
	}
}
