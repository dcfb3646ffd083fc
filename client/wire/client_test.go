package wire_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/client/clienttest"
	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

func fast() wire.Options {
	return wire.Options{MinBackoff: time.Millisecond, MaxBackoff: 5 * time.Millisecond}
}

func start(t *testing.T, script clienttest.Script) (*clienttest.Server, context.Context) {
	t.Helper()
	s := clienttest.New(script)
	t.Cleanup(s.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return s, ctx
}

func connect(t *testing.T, ctx context.Context, url, token string) (*wire.Client, *wire.Conn) {
	t.Helper()
	c, err := wire.New(url, token, fast())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return c, conn
}

// TestCutConnections cuts the connection a hundred times at random bytes while a program's output
// streams down and input streams up, and compares both ends byte by byte.
func TestCutConnections(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { cutConnections(t, seed) })
	}
}

func cutConnections(t *testing.T, seed uint64) {
	const cuts, total = 100, 6 << 20
	rng := rand.New(rand.NewPCG(seed, 0))
	output := make([]byte, total)
	for i := range output {
		output[i] = byte(rng.Uint32())
	}
	input := output[:1<<20]
	got := make(chan []byte, 1)
	s, ctx := start(t, clienttest.Script{Program: func(_ context.Context,
		p *clienttest.Program,
	) protocol.Exit {
		var work sync.WaitGroup
		work.Add(1)
		go func() {
			defer work.Done()
			b, _ := io.ReadAll(p.Stdin)
			got <- b
		}()
		for rest := output; len(rest) > 0; {
			n := min(1+rng.IntN(9000), len(rest))
			p.Stdout(rest[:n])
			rest = rest[n:]
		}
		work.Wait()
		return protocol.Exit{Code: 7}
	}})
	proxy := newChopper(t, strings.TrimPrefix(s.URL, "http://"), cuts, 120_000, seed)
	direct, err := wire.New(s.URL, s.Token, fast())
	if err != nil {
		t.Fatal(err)
	}
	session, err := direct.CreateSession(ctx, protocol.SessionCreate{})
	if err != nil {
		t.Fatal(err)
	}
	_, conn := connect(t, ctx, "http://"+proxy.ln.Addr().String(), s.Token)
	p, err := conn.Start(ctx, protocol.ChannelOpen{
		Session: session.ID, Argv: []string{"x"},
		Stdin: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	sending.Add(1)
	go func() {
		defer sending.Done()
		for rest := input; len(rest) > 0; {
			n := min(20_000, len(rest))
			if err := p.Stdin(ctx, rest[:n]); err != nil {
				t.Errorf("stdin: %v", err)
				break
			}
			rest = rest[n:]
		}
		if err := p.CloseStdin(ctx); err != nil {
			t.Errorf("the end of the input: %v", err)
		}
	}()
	h, n := sha256.New(), 0
	for {
		r, err := p.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		switch r.Kind {
		case frame.KindStdout:
			h.Write(r.Payload)
			n += len(r.Payload)
		case frame.KindExit:
		default:
			t.Fatalf("a record of kind %d: %s", r.Kind, r.Payload)
		}
	}
	sending.Wait()
	if want := sha256.Sum256(output); [32]byte(h.Sum(nil)) != want {
		t.Errorf("the output differs; %d bytes of %d came", n, total)
	}
	if in := <-got; !bytes.Equal(in, input) {
		t.Errorf("the program got %d bytes of input, or others, where %d were sent", len(in),
			len(input))
	}
	if e := p.Exit(); e == nil || e.Code != 7 {
		t.Errorf("exit is %+v, want code 7", e)
	}
	if conn.Reconnects() < cuts/2 {
		t.Errorf("only %d reconnects: the test cut too little", conn.Reconnects())
	}
	if got, err := conn.Channels(ctx, session.ID); err != nil || len(got) != 1 {
		t.Errorf("%d channels (%v), the program must have been started once", len(got), err)
	}
	t.Logf("%d reconnects", conn.Reconnects())
}

// TestExecuteOnce executes cells on a connection that is cut continuously: each cell runs once, in
// order, and gets its own output.
func TestExecuteOnce(t *testing.T) {
	s, ctx := start(t, clienttest.Script{Execute: func(_ context.Context,
		c *clienttest.Cell,
	) message.ExecuteReply {
		c.Stdout("out of " + c.Code + "\n")
		return message.ExecuteReply{Status: "ok"}
	}})
	const cells = 200
	proxy := newChopper(t, strings.TrimPrefix(s.URL, "http://"), 100, 3000, 42)
	direct, _ := wire.New(s.URL, s.Token, fast())
	session, err := direct.CreateSession(ctx, protocol.SessionCreate{})
	if err != nil {
		t.Fatal(err)
	}
	_, conn := connect(t, ctx, "http://"+proxy.ln.Addr().String(), s.Token)
	ch, err := conn.OpenChannel(ctx, protocol.ChannelOpen{Session: session.ID, Kind: "kernel"})
	if err != nil {
		t.Fatal(err)
	}
	k, err := conn.Kernel(ctx, session.ID, ch.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cells {
		code := fmt.Sprint("cell ", i)
		cell, err := k.Execute(ctx, code, wire.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		for {
			r, err := cell.Next(ctx)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", code, err)
			}
			if r.Kind == frame.KindStdout {
				out.Write(r.Payload)
			}
		}
		if want := "out of " + code + "\n"; out.String() != want {
			t.Fatalf("%s printed %q", code, out.String())
		}
	}
	if n := s.Executed(session.ID, ch.ID); n != cells {
		t.Errorf("%d cells ran, %d were executed", n, cells)
	}
	t.Logf("%d reconnects", conn.Reconnects())
}

// TestSlowViewer: the server sends no more than the window ahead of Next, and a viewer that stops
// reading does not block another one.
func TestSlowViewer(t *testing.T) {
	s, ctx := start(t, clienttest.Script{Program: func(_ context.Context,
		p *clienttest.Program,
	) protocol.Exit {
		for range 2000 {
			p.Stdout(make([]byte, 1000))
		}
		return protocol.Exit{}
	}})
	c, conn := connect(t, ctx, s.URL, s.Token)
	session, err := c.CreateSession(ctx, protocol.SessionCreate{})
	if err != nil {
		t.Fatal(err)
	}
	slow, err := conn.Start(ctx, protocol.ChannelOpen{Session: session.ID})
	if err != nil {
		t.Fatal(err)
	}
	quick, err := conn.Process(ctx, session.ID, slow.Channel().ID, wire.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := quick.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	total := 0
	for {
		r, err := slow.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == frame.KindStdout {
			total += len(r.Payload)
		}
	}
	if total != 2000*1000 {
		t.Errorf("%d bytes came", total)
	}
}

// TestResume: a new viewer that begins at another's Offset gets the output that follows.
func TestResume(t *testing.T) {
	s, ctx := start(t, clienttest.Script{Program: func(_ context.Context,
		p *clienttest.Program,
	) protocol.Exit {
		for i := range 100 {
			p.Stdout([]byte(fmt.Sprintln("line", i)))
			p.Stderr([]byte("-"))
		}
		return protocol.Exit{}
	}})
	c, conn := connect(t, ctx, s.URL, s.Token)
	session, _ := c.CreateSession(ctx, protocol.SessionCreate{})
	p, err := conn.Start(ctx, protocol.ChannelOpen{Session: session.ID})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for range 50 {
		r, err := p.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Payload...)
	}
	epoch, offset := p.Offset()
	id := p.Channel().ID
	_ = p.Close()
	if _, err := p.Next(ctx); err == nil {
		// The caller may still read arrived output. Then the viewer must end.
		for err == nil {
			_, err = p.Next(ctx)
		}
	}
	v, err := conn.Attach(ctx, session.ID, id, wire.AttachOptions{Epoch: epoch, Offset: offset})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := v.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == frame.KindStdout || r.Kind == frame.KindStderr {
			got = append(got, r.Payload...)
		}
	}
	var want []byte
	for i := range 100 {
		want = append(want, fmt.Sprintln("line", i)+"-"...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	// Another epoch is reported.
	v, err = conn.Attach(ctx, session.ID, id,
		wire.AttachOptions{Epoch: epoch + 1, Offset: offset})
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Next(ctx)
	if err != nil || r.Kind != frame.KindEvent ||
		!bytes.Contains(r.Payload, []byte(wire.EventEpoch)) {
		t.Errorf("first record after a change of epoch: %+v, %v", r, err)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	s, ctx := start(t, clienttest.Script{})
	c, conn := connect(t, ctx, s.URL, s.Token)
	if _, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "cobol"}); !fault.Is(err,
		fault.InvalidArgument) {
		t.Errorf("a wrong language: %v", err)
	} else if e := new(fault.Error); !errors.As(err, &e) || e.Field != "language" {
		t.Errorf("the field is lost: %+v", e)
	}
	if _, err := c.Session(ctx, "none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a session that is not there: %v", err)
	}
	if _, err := conn.Attach(ctx, "none", "k1", wire.AttachOptions{}); !fault.Is(err,
		fault.NotFound) {
		t.Errorf("a channel that is not there: %v", err)
	}
	if _, err := conn.OpenChannel(ctx, protocol.ChannelOpen{Session: "none"}); !fault.Is(err,
		fault.NotFound) {
		t.Errorf("a session that is not there: %v", err)
	}
	wrong, _ := wire.New(s.URL, "sgt_wrong", fast())
	if _, err := wrong.Sessions(ctx); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a wrong token: %v", err)
	}
	if _, err := wrong.Connect(ctx); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a wrong token over WebSocket: %v", err)
	}
	away, _ := wire.New("http://127.0.0.1:1", "x", fast())
	if _, err := away.Sessions(ctx); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a server that is not there: %v", err)
	}
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	tired := fast()
	tired.OnState = func(error) { cancel() } // after the first attempt
	away, _ = wire.New("http://127.0.0.1:1", "x", tired)
	if _, err := away.Connect(short); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a server that is not there, over WebSocket: %v", err)
	}
	for _, url := range []string{"", "x", "ftp://x", "http://"} {
		if _, err := wire.New(url, "", wire.Options{}); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("address %q: %v", url, err)
		}
	}
}

// TestTokenFromURL: the address that serve prints is sufficient, and no error contains its token.
func TestTokenFromURL(t *testing.T) {
	s, ctx := start(t, clienttest.Script{})
	c, err := wire.New(s.URL+"/#token="+s.Token, "", fast())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sessions(ctx); err != nil {
		t.Error(err)
	}
	_, err = wire.New("nonsense#token=sgt_secret", "", fast())
	if err == nil || strings.Contains(err.Error(), "sgt_secret") {
		t.Errorf("got %v", err)
	}
}

func TestFiles(t *testing.T) {
	s, ctx := start(t, clienttest.Script{})
	c, err := wire.New(s.URL, s.Token, fast())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a.txt", "/tmp/b c?#%.txt", "dir/ü.txt"} {
		content := strings.Repeat(path, 1000)
		if _, err := c.Upload(ctx, "s1", path, 0, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		r, err := c.Download(ctx, "s1", path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		b, err := io.ReadAll(r)
		_ = r.Close()
		if err != nil || string(b) != content {
			t.Errorf("%s came back with %d bytes, %v", path, len(b), err)
		}
	}
	if _, err := c.Download(ctx, "s1", "none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestLostSandbox: all arrived output can still be read, then comes the reason.
func TestLostSandbox(t *testing.T) {
	written := make(chan struct{})
	s, ctx := start(t, clienttest.Script{Program: func(ctx context.Context,
		p *clienttest.Program,
	) protocol.Exit {
		p.Stdout([]byte("last words"))
		close(written)
		<-ctx.Done()
		return protocol.Exit{}
	}})
	c, conn := connect(t, ctx, s.URL, s.Token)
	session, _ := c.CreateSession(ctx, protocol.SessionCreate{})
	p, err := conn.Start(ctx, protocol.ChannelOpen{Session: session.ID})
	if err != nil {
		t.Fatal(err)
	}
	<-written
	r, err := p.Next(ctx)
	if err != nil || string(r.Payload) != "last words" {
		t.Fatalf("got %q, %v", r.Payload, err)
	}
	s.Lose(session.ID, "memory")
	if _, err := p.Next(ctx); !fault.Is(err, fault.SandboxLost) ||
		!strings.Contains(err.Error(), "memory") {
		t.Errorf("got %v", err)
	}
}

// TestFinalCloseCode: a close code of 3500 or more ends the connection. After a lower code the
// client reconnects.
func TestFinalCloseCode(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var mu sync.Mutex
	accepted := 0
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r,
			&websocket.AcceptOptions{Subprotocols: []string{protocol.Subprotocol}})
		if err != nil {
			return
		}
		mu.Lock()
		accepted++
		n := accepted
		mu.Unlock()
		if _, _, err := ws.Read(ctx); err != nil {
			return
		}
		_ = ws.Write(ctx, websocket.MessageText,
			[]byte(`{"id":1,"result":{"protocol":"sandgate.v1"}}`))
		if n < 3 {
			_ = ws.Close(websocket.StatusCode(fault.Restarting.Row().Close), "restarting")
			return
		}
		_ = ws.Close(websocket.StatusCode(fault.Unauthenticated.Row().Close),
			"the token was revoked")
	}))
	defer h.Close()
	c, err := wire.New(h.URL, "t", fast())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Channels(ctx, "s") // waits for the reconnections
	if !fault.Is(err, fault.Unauthenticated) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("got %v", err)
	}
	if !fault.Is(conn.Err(), fault.Unauthenticated) {
		t.Errorf("the connection's error is %v", conn.Err())
	}
	mu.Lock()
	defer mu.Unlock()
	if accepted != 3 {
		t.Errorf("%d connections, want 3", accepted)
	}
}

func TestKernel(t *testing.T) {
	s, ctx := start(t, clienttest.Script{
		Execute: func(ctx context.Context, c *clienttest.Cell) message.ExecuteReply {
			switch c.Code {
			case "loop":
				c.Stdout("looping")
				<-c.Interrupted
				c.Message(message.ErrorType, message.Error{EName: "KeyboardInterrupt"})
				return message.ExecuteReply{Status: "error", EName: "KeyboardInterrupt"}
			case "ask":
				line, ok := c.Ask("name? ", false)
				c.Stdout(fmt.Sprint("hello ", line, " ", ok))
			}
			return message.ExecuteReply{Status: "ok"}
		},
		Complete: func(p protocol.Complete) message.Reply {
			return message.Reply{Matches: []message.Match{{Text: p.Code + "t"}}}
		},
		IsComplete: func(string) message.Reply {
			return message.Reply{
				IsComplete: "incomplete",
				Indent:     "  ",
			}
		},
		Inspect: func(protocol.Complete) message.Reply { return message.Reply{Found: true} },
	})
	c, conn := connect(t, ctx, s.URL, s.Token)
	session, _ := c.CreateSession(ctx, protocol.SessionCreate{})
	ch, err := conn.OpenChannel(ctx, protocol.ChannelOpen{Session: session.ID, Kind: "kernel"})
	if err != nil {
		t.Fatal(err)
	}
	k, err := conn.Kernel(ctx, session.ID, ch.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = k.Close() }()
	loop, err := k.Execute(ctx, "loop", wire.ExecuteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := loop.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == frame.KindStdout {
			break
		}
	}
	if err := k.Interrupt(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
	if reply, err := loop.Wait(ctx); err != nil || reply.EName != "KeyboardInterrupt" {
		t.Errorf("interrupted: %+v, %v", reply, err)
	}
	ask, err := k.Execute(ctx, "ask", wire.ExecuteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	heard := ""
	for {
		r, err := ask.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind == frame.KindStdout {
			heard += string(r.Payload)
		}
		if r.Kind == frame.KindMessage &&
			bytes.Contains(r.Payload, []byte(message.InputRequestType)) {
			if err := k.Input(ctx, protocol.InputReply{Cell: ask.Number(), Value: "Ada"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if heard != "hello Ada true" {
		t.Errorf("got %q", heard)
	}
	if r, err := k.Complete(ctx, "prin", 4); err != nil || len(r.Matches) != 1 ||
		r.Matches[0].Text != "print" {
		t.Errorf("complete: %+v, %v", r, err)
	}
	if r, err := k.IsComplete(ctx, "def f():"); err != nil || r.IsComplete != "incomplete" {
		t.Errorf("is_complete: %+v, %v", r, err)
	}
	if r, err := k.Inspect(ctx, protocol.Complete{Code: "f", Cursor: 1}); err != nil || !r.Found {
		t.Errorf("inspect: %+v, %v", r, err)
	}
}

// TestCloseEndsEverything: all waiting calls return, and no goroutine remains.
func TestCloseEndsEverything(t *testing.T) {
	s, ctx := start(t, clienttest.Script{Program: func(ctx context.Context,
		_ *clienttest.Program,
	) protocol.Exit {
		<-ctx.Done()
		return protocol.Exit{}
	}})
	c, conn := connect(t, ctx, s.URL, s.Token)
	session, _ := c.CreateSession(ctx, protocol.SessionCreate{})
	p, err := conn.Start(ctx, protocol.ChannelOpen{Session: session.ID})
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() { _, err := p.Next(ctx); got <- err }()
	_ = conn.Close()
	if err := <-got; !fault.Is(err, fault.Canceled) {
		t.Errorf("Next returned %v", err)
	}
	if _, err := conn.Channels(ctx, session.ID); !fault.Is(err, fault.Canceled) {
		t.Errorf("a call after Close returned %v", err)
	}
	if _, err := conn.Attach(ctx, session.ID, "p1", wire.AttachOptions{}); !fault.Is(err,
		fault.Canceled) {
		t.Errorf("an attach after Close returned %v", err)
	}
}

func TestRun(t *testing.T) {
	s, ctx := start(t, clienttest.Script{Run: []string{
		`{"type":"start","session":"s1","cell":1}`, `{"type":"keepalive"}`,
		`{"type":"stdout","text":"42"}`, `{"type":"done","status":"ok","elapsed_ms":1.5}`,
	}})
	c, err := wire.New(s.URL, s.Token, fast())
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	err = c.Run(ctx, protocol.RunRequest{Code: "6*7"}, func(e protocol.RunEvent) error {
		types = append(types, e.Type+e.Text+e.Status)
		return nil
	})
	if err != nil || strings.Join(types, ",") != "start,stdout42,doneok" {
		t.Errorf("got %q, %v", types, err)
	}
	want := errors.New("enough")
	err = c.Run(ctx, protocol.RunRequest{}, func(protocol.RunEvent) error { return want })
	if !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
}

// TestRunCutShort: a stream of events without its end is an error.
func TestRunCutShort(t *testing.T) {
	s, ctx := start(t, clienttest.Script{Run: []string{`{"type":"start"}`}})
	c, _ := wire.New(s.URL, s.Token, fast())
	err := c.Run(ctx, protocol.RunRequest{}, func(protocol.RunEvent) error { return nil })
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	s, _ = start(
		t, clienttest.Script{
			Run: []string{
				`{"type":"done","status":"lost","fault":{"kind":"sandbox_lost","message":"gone"}}`,
			},
		})
	c, _ = wire.New(s.URL, s.Token, fast())
	err = c.Run(ctx, protocol.RunRequest{}, func(protocol.RunEvent) error { return nil })
	if !fault.Is(err, fault.SandboxLost) {
		t.Errorf("got %v", err)
	}
}
