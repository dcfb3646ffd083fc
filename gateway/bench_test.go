package gateway

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol/frame"
)

// nearNode is a node without a network: its links return input unchanged.
type nearNode struct{}

func (nearNode) Open(context.Context, noderpc.Principal) (Link, error) {
	return &nearLink{in: make(chan frame.Frame, 1), closed: make(chan struct{})}, nil
}

func (nearNode) Call(context.Context, noderpc.Principal, string, any, any) error { return nil }

type nearLink struct {
	in     chan frame.Frame
	closed chan struct{}
	once   sync.Once
}

func (l *nearLink) Next() (frame.Frame, error) {
	select {
	case f := <-l.in:
		return f, nil
	case <-l.closed:
		return frame.Frame{}, io.EOF
	}
}

func (l *nearLink) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		f.Type, f.Flags, f.Body = frame.Records, 0, append([]byte(nil), f.Body...)
		l.in <- f
	}
	return nil
}

func (l *nearLink) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// nearWorld is a gateway in front of a nearNode.
func nearWorld(t testing.TB) *world {
	t.Helper()
	return idleWorld(t, nearNode{})
}

// idleWorld is a gateway in front of a node, whose sockets get no pings.
func idleWorld(t testing.TB, n Node) *world {
	t.Helper()
	cfg := Config{Version: "test", Tokens: testTokens()}
	cfg.Limits.PerPrincipal = 20_000
	cfg.Times.Ping = time.Hour // idle sockets answer no pings
	g, err := New(cfg, n, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, ln) }()
	w := &world{t: t, g: g, addr: ln.Addr().String()}
	w.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() { _ = w.stop() })
	return w
}

// TestIdleMemory opens 1,000 WebSockets that send hello and then nothing.
func TestIdleMemory(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	n := min(1000, int(files.Cur)/2-64)
	w := nearWorld(t)
	measure := func() uint64 {
		runtime.GC()
		runtime.GC() // the pools are empty after the second run
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	head := fmt.Sprintf(
		"GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: sandgate.v1\r\n\r\n", tokenAll)
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	before := measure()
	for range n {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		br := bufio.NewReader(c)
		_, _ = io.WriteString(c, head)
		if r, err := http.ReadResponse(br, nil); err != nil || r.StatusCode != 101 {
			t.Fatal(r, err)
		}
		_, _ = c.Write(masked(0x81, []byte(`{"id":1,"op":"hello"}`)))
		readFrame(t, br)
	}
	per := int64(measure()-before) / int64(n)
	t.Logf("%d idle WebSockets: %d bytes each, the test's own end included", n, per)
	if limit := int64(16 << 10); !raced && per > limit {
		t.Errorf("over %d bytes each", limit)
	}
	if s := w.g.Stats(); s.Sockets != int64(n) {
		t.Errorf("%d are open", s.Sockets)
	}
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	// A connection is counted until the server has closed it, which may be
	// after its handler has returned.
	testenv.Eventually(t, "the gateway counts no connection", func() bool {
		s := w.g.Stats()
		return s.Sockets == 0 && s.Connections == 0
	})
}

func echo(b *testing.B, c *client, size int) {
	b.Helper()
	body := append(binary.BigEndian.AppendUint64(nil, 0), make([]byte, size)...)
	msg := frame.AppendMessage(nil, frame.Frame{Type: frame.Input, Channel: 1, Body: body})
	b.SetBytes(int64(2 * len(msg)))
	b.ReportAllocs()
	ctx := context.Background()
	for b.Loop() {
		if err := c.ws.Write(ctx, websocket.MessageBinary, msg); err != nil {
			b.Fatal(err)
		}
		if _, _, err := c.ws.Read(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRelay measures a round trip over TCP through the gateway alone.
func BenchmarkRelay(b *testing.B) {
	for _, size := range []int{16, 64 << 10} {
		b.Run(fmt.Sprint(size),
			func(b *testing.B) { echo(b, nearWorld(b).dial(tokenAll).hello(), size) })
	}
}

// BenchmarkRelayNode adds the node protocol over its Unix socket.
func BenchmarkRelayNode(b *testing.B) {
	for _, size := range []int{16, 64 << 10} {
		b.Run(fmt.Sprint(size),
			func(b *testing.B) { echo(b, newWorld(b, nil).dial(tokenAll).hello(), size) })
	}
}

// BenchmarkTCP measures the same bytes without a gateway: the bare WebSocket library on both ends.
func BenchmarkTCP(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			ws.SetReadLimit(-1)
			for {
				typ, p, err := ws.Read(context.Background())
				if err != nil || ws.Write(context.Background(), typ, p) != nil {
					return
				}
			}
		}),
	}
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()
	ws, _, err := websocket.Dial(context.Background(), "ws://"+ln.Addr().String(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1)
	echo(b, &client{b, ws}, 16)
}
