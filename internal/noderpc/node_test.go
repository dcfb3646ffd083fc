package noderpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// handlerFunc implements Handler with a function.
type handlerFunc func(context.Context, *Link) error

func (f handlerFunc) ServeLink(ctx context.Context, l *Link) error { return f(ctx, l) }

// echo answers every Control request with its parameters and sends every
// other frame back.
func echo(ctx context.Context, l *Link) error {
	for {
		f, err := l.Next()
		if err != nil {
			return err
		}
		if f.Type == frame.Control {
			var r protocol.Request
			if err := json.Unmarshal(f.Body, &r); err != nil {
				return err
			}
			reply := protocol.Reply{ID: r.ID, Result: r.Params}
			if r.Op == "who" {
				reply.Result, _ = json.Marshal(l.Principal())
			}
			if r.Op == "fail" {
				p := fault.PublicOf(fault.Invalid("test", "language", "there is no such language"))
				reply.Error, reply.Result = &p, nil
			}
			body, _ := json.Marshal(reply)
			f = frame.Frame{Type: frame.Control, Body: body}
		}
		if err := l.Send(f); err != nil {
			return err
		}
	}
}

// serve runs a server on a Unix socket until the test ends or stop is called.
func serve(t testing.TB, path string, h handlerFunc) (stop func()) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln, h, nil) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func client(t testing.TB, path string, opts ClientOptions) *Client {
	c := NewClient(Unix(path), opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// noLeaks fails the test when goroutines of this package remain.
func noLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		var stacks string
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); runtime.Gosched() {
			buf := make([]byte, 1<<20)
			stacks = string(buf[:runtime.Stack(buf, true)])
			if !strings.Contains(stacks, "yamux.") && !strings.Contains(stacks, "node.(*") {
				return
			}
		}
		t.Errorf("goroutines remain:\n%s", stacks)
	})
}

var alice = Principal{Tenant: "t1", Subject: "alice", Scopes: []string{"run", "read"}}

func TestRoundTrip(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	serve(t, path, echo)
	c := client(t, path, ClientOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()

	var who Principal
	if err := c.Call(ctx, alice, "who", nil, &who); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(who) != fmt.Sprint(alice) {
		t.Errorf("the node sees %v, want %v", who, alice)
	}
	err := c.Call(ctx, alice, "fail", nil, nil)
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.InvalidArgument || f.Field != "language" {
		t.Errorf("fail: %v, want invalid_argument of language", err)
	}

	// Many links at once, frames of many sizes, in order.
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			l, err := c.Open(ctx, alice)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			sizes := []int{0, 1, 4095, 64 << 10, 300 << 10, 1 << 20}
			go func() {
				for n, size := range sizes {
					body := bytes.Repeat([]byte{byte(i + n)}, size)
					if err := l.Send(frame.Frame{
						Type: frame.Data, Channel: uint32(i),
						Cell: uint32(n), Body: body,
					}); err != nil {
						t.Error(err)
					}
				}
			}()
			for n, size := range sizes {
				f, err := l.Next()
				if err != nil {
					t.Errorf("link %d frame %d: %v", i, n, err)
					return
				}
				if f.Channel != uint32(i) || f.Cell != uint32(n) ||
					!bytes.Equal(f.Body, bytes.Repeat([]byte{byte(i + n)}, size)) {
					t.Errorf("link %d frame %d came back changed: channel %d cell %d, %d bytes", i,
						n, f.Channel, f.Cell, len(f.Body))
				}
			}
		}()
	}
	wg.Wait()
}

func TestReconnectAfterRestart(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	stop := serve(t, path, echo)
	c := client(t, path, ClientOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	l, err := c.Open(ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Call(ctx, "who", nil, nil); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := l.Next(); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a link whose node is gone: %v, want unavailable", err)
	}
	// The node is started again while a call waits for it.
	result := make(chan error, 1)
	go func() { result <- c.Call(ctx, alice, "who", nil, nil) }()
	serve(t, path, echo)
	if err := <-result; err != nil {
		t.Errorf("a call over the restart: %v", err)
	}
}

func TestUnavailableInTime(t *testing.T) {
	noLeaks(t)
	c := client(t, filepath.Join(t.TempDir(), "nobody"),
		ClientOptions{ConnectTimeout: 100 * time.Millisecond})
	begin := time.Now()
	_, err := c.Open(context.Background(), alice)
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
	if took := time.Since(begin); took > 2*time.Minute {
		t.Errorf("it took %s", took)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Open(ctx, alice); !fault.Is(err, fault.Unavailable) {
		t.Errorf("with an ended context: %v, want unavailable", err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	arrived := make(chan struct{})
	left := make(chan error, 1)
	serve(t, path, func(ctx context.Context, l *Link) error {
		_, err := l.Next()
		if err == nil {
			close(arrived)
			_, err = l.Next()
		}
		left <- err
		return err
	})
	c := client(t, path, ClientOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-arrived
		cancel()
	}()
	if err := c.Call(ctx, alice, "never", nil, nil); !fault.Is(err, fault.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if err := <-left; err != io.EOF {
		t.Errorf("the node saw %v, want the link's end", err)
	}
}

func TestGarbageOnTheSocket(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	serve(t, path, echo)
	valid := func(mux ...byte) []byte { return mux }
	for name, bytes := range map[string][]byte{
		"http":            []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"zeros and stop":  make([]byte, 4096),
		"unknown type":    valid(0, 9, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0),
		"huge data frame": valid(0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 'x'),
		"half a header":   valid(0, 0, 0),
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(bytes); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = conn.(*net.UnixConn).CloseWrite()
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
		if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(),
			"reset") {
			t.Errorf("%s: the node kept the connection: %v", name, err)
		}
		_ = conn.Close()
	}
	c := client(t, path, ClientOptions{})
	if err := c.Call(context.Background(), alice, "who", nil, nil); err != nil {
		t.Errorf("the next gateway: %v", err)
	}
}

// TestRefusedHello sends invalid first frames.
func TestRefusedHello(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	serve(t, path, echo)
	c := client(t, path, ClientOptions{})
	long := strings.Repeat("x", MaxName+1)
	for name, test := range map[string]struct {
		frame frame.Frame
		want  fault.Kind
	}{
		"other version": {frame.Frame{
			Type: frame.Control,
			Body: []byte(`{"version":99,"tenant":"t"}`),
		}, fault.Unsupported},
		"no tenant": {
			frame.Frame{Type: frame.Control, Body: []byte(`{"version":1}`)},
			fault.InvalidArgument,
		},
		"long tenant": {frame.Frame{
			Type: frame.Control,
			Body: []byte(`{"version":1,"tenant":"` + long + `"}`),
		}, fault.InvalidArgument},
		"no json":    {frame.Frame{Type: frame.Control, Body: []byte(`{`)}, fault.Malformed},
		"no control": {frame.Frame{Type: frame.Data, Body: []byte(`x`)}, fault.Malformed},
	} {
		mux, err := c.session(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := mux.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		l := newLink(mux, conn, 0, nil)
		l.client = true
		if err := l.Send(test.frame); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Next(); !fault.Is(err, test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		_ = l.Close()
	}
}

func TestOversizeFrameEndsTheLinkAlone(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	ended := make(chan error, 2)
	serve(t, path, func(ctx context.Context, l *Link) error {
		err := echo(ctx, l)
		ended <- err
		return err
	})
	c := client(t, path, ClientOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	other, err := c.Open(ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l, err := c.Open(ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	head := binary.BigEndian.AppendUint32(nil, maxRequest+1)
	head = append(head, byte(frame.Data), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	if _, err := l.conn.Write(head); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !fault.Is(err, fault.TooLarge) {
		t.Errorf("the node saw %v, want too_large", err)
	}
	if err := other.Call(ctx, "who", nil, nil); err != nil {
		t.Errorf("the other link: %v", err)
	}
}

// TestSlowPeer: a link whose peer does not read ends with Slow and does not delay other links.
func TestSlowPeer(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	slow := make(chan error, 1)
	serve(t, path, func(ctx context.Context, l *Link) error {
		f, err := l.Next()
		if err != nil {
			return err
		}
		if f.Type == frame.Control {
			return l.Send(frame.Frame{Type: frame.Control, Body: []byte(`{"id":1}`)})
		}
		l.writeTimeout = 200 * time.Millisecond
		for body := make([]byte, 64<<10); err == nil; {
			err = l.Send(frame.Frame{Type: frame.Data, Body: body})
		}
		slow <- err
		return err
	})
	c := client(t, path, ClientOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	l, err := c.Open(ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Send(frame.Frame{Type: frame.Data}); err != nil {
		t.Fatal(err)
	}
	if err := c.Call(ctx, alice, "who", nil, nil); err != nil {
		t.Errorf("another link beside the slow one: %v", err)
	}
	if err := <-slow; !fault.Is(err, fault.Slow) {
		t.Errorf("got %v, want slow", err)
	}
}

func TestLinkLimit(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	serve(t, path, echo)
	c := client(t, path, ClientOptions{MaxLinks: 2})
	ctx := context.Background()
	a, err := c.Open(ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Open(ctx, alice)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := c.Open(ctx, alice); !fault.Is(err, fault.Exhausted) {
		t.Errorf("the third link: %v, want exhausted", err)
	}
	_ = a.Close()
	if err := c.Call(ctx, alice, "who", nil, nil); err != nil {
		t.Errorf("after one was closed: %v", err)
	}
}

func TestCloseWakesReaderAndWriter(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	serve(t, path, func(ctx context.Context, l *Link) error { <-ctx.Done(); return nil })
	c := client(t, path, ClientOptions{})
	l, err := c.Open(context.Background(), alice)
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	go func() {
		_, err := l.Next()
		errs <- err
	}()
	filled := make(chan struct{})
	go func() {
		var err error
		for n := 0; err == nil; n++ {
			if n == 3 {
				close(filled)
			}
			err = l.Send(frame.Frame{Type: frame.Data, Body: make([]byte, 64<<10)})
		}
		errs <- err
	}()
	<-filled
	_ = l.Close()
	for range 2 {
		if err := <-errs; !fault.Is(err, fault.Canceled) {
			t.Errorf("got %v, want canceled", err)
		}
	}
}

func TestHandlerPanicEndsItsLinkAlone(t *testing.T) {
	noLeaks(t)
	path := filepath.Join(t.TempDir(), "node")
	serve(t, path, func(ctx context.Context, l *Link) error {
		if l.Principal().Tenant == "bad" {
			panic("a bug")
		}
		return echo(ctx, l)
	})
	c := client(t, path, ClientOptions{})
	if err := c.Call(context.Background(), Principal{Tenant: "bad"}, "x", nil, nil); !fault.Is(err,
		fault.Unavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
	if err := c.Call(context.Background(), alice, "who", nil, nil); err != nil {
		t.Error(err)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	path := filepath.Join(b.TempDir(), "node")
	serve(b, path, echo)
	c := client(b, path, ClientOptions{})
	l, err := c.Open(context.Background(), alice)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	body := make([]byte, 64)
	for b.Loop() {
		if err := l.Send(frame.Frame{Type: frame.Input, Body: body}); err != nil {
			b.Fatal(err)
		}
		if _, err := l.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkThroughput64K(b *testing.B) {
	path := filepath.Join(b.TempDir(), "node")
	body := make([]byte, 64<<10)
	serve(b, path, func(ctx context.Context, l *Link) error {
		for {
			if err := l.Send(frame.Frame{Type: frame.Records, Body: body}); err != nil {
				return err
			}
		}
	})
	c := client(b, path, ClientOptions{})
	l, err := c.Open(context.Background(), alice)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.SetBytes(64 << 10)
	for b.Loop() {
		if _, err := l.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	path := filepath.Join(b.TempDir(), "node")
	serve(b, path, echo)
	c := client(b, path, ClientOptions{})
	for b.Loop() {
		if err := c.Call(context.Background(), alice, "who", nil, nil); err != nil {
			b.Fatal(err)
		}
	}
}
