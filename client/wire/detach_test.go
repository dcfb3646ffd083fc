package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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

// keepDetaching detaches a session at random moments until stop is called, and mutes it before some
// of them. The pauses choose the moments; nothing waits for them.
func keepDetaching(s *clienttest.Server, session string, seed uint64) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	rng := rand.New(rand.NewPCG(seed, 0))
	var work sync.WaitGroup
	times := 0
	work.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(rng.Int64N(int64(8 * time.Millisecond))))
			if rng.IntN(2) == 0 {
				s.Mute(session)
				time.Sleep(time.Duration(rng.Int64N(int64(4 * time.Millisecond))))
			}
			s.Detach(session, fault.Unavailable)
			times++
		}
	})
	return func() int { cancel(); work.Wait(); return times }
}

// TestDetachedCells: the node of a session ends its link again and again. Each cell runs once, in
// order, and gets its output. The connection stays, and a session on another node notices nothing.
func TestDetachedCells(t *testing.T) {
	s, ctx := start(t, clienttest.Script{
		Execute: func(_ context.Context, c *clienttest.Cell) message.ExecuteReply {
			c.Stdout("out of " + c.Code)
			return message.ExecuteReply{Status: "ok"}
		},
		Program: func(_ context.Context, p *clienttest.Program) protocol.Exit {
			_, _ = io.Copy(programOutput{p}, p.Stdin)
			return protocol.Exit{}
		},
	})
	c, conn := connect(t, ctx, s.URL, s.Token)
	moves, _ := c.CreateSession(ctx, protocol.SessionCreate{})
	stays, _ := c.CreateSession(ctx, protocol.SessionCreate{})
	echo, err := conn.Start(ctx, protocol.ChannelOpen{
		Session: stays.ID, Argv: []string{"cat"}, Stdin: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.OpenChannel(ctx, protocol.ChannelOpen{Session: moves.ID, Kind: "kernel"})
	if err != nil {
		t.Fatal(err)
	}
	k, err := conn.Kernel(ctx, moves.ID, ch.ID)
	if err != nil {
		t.Fatal(err)
	}
	stop := keepDetaching(s, moves.ID, 1)
	const cells = 200
	for i := range cells {
		code := fmt.Sprint("cell ", i)
		cell, err := k.Execute(ctx, code, wire.ExecuteOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if out := stdout(t, ctx, cell.Next); out != "out of "+code {
			t.Fatalf("%s printed %q", code, out)
		}
		if err := echo.Stdin(ctx, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	times := stop()
	if err := echo.CloseStdin(ctx); err != nil {
		t.Fatal(err)
	}
	if out := stdout(t, ctx, echo.Next); len(out) != cells {
		t.Errorf("the other session echoed %d bytes", len(out))
	}
	if n := s.Executed(moves.ID, ch.ID); n != cells {
		t.Errorf("%d cells ran, %d were executed", n, cells)
	}
	if conn.Reconnects() != 0 || times < 10 {
		t.Errorf("%d reconnects, detached %d times", conn.Reconnects(), times)
	}
}

// programOutput writes to a program's output.
type programOutput struct{ p *clienttest.Program }

func (w programOutput) Write(b []byte) (int, error) {
	w.p.Stdout(b)
	return len(b), nil
}

// stdout reads records up to io.EOF and returns the standard output.
func stdout(t *testing.T, ctx context.Context,
	next func(context.Context) (frame.Record, error),
) string {
	t.Helper()
	var out bytes.Buffer
	for {
		r, err := next(ctx)
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		switch r.Kind {
		case frame.KindStdout:
			out.Write(r.Payload)
		case frame.KindGap, frame.KindEvent:
			t.Fatalf("a record of kind %d: %s", r.Kind, r.Payload)
		}
	}
}

// TestDetachedInput: input and output of a program are complete while the node ends its link again and
// again.
func TestDetachedInput(t *testing.T) {
	s, ctx := start(t, clienttest.Script{
		Program: func(_ context.Context, p *clienttest.Program) protocol.Exit {
			_, _ = io.Copy(programOutput{p}, p.Stdin)
			return protocol.Exit{Code: 7}
		},
	})
	c, conn := connect(t, ctx, s.URL, s.Token)
	session, _ := c.CreateSession(ctx, protocol.SessionCreate{})
	p, err := conn.Start(ctx, protocol.ChannelOpen{
		Session: session.ID, Argv: []string{"cat"}, Stdin: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	input := make([]byte, 2<<20)
	rng := rand.New(rand.NewPCG(2, 0))
	for i := range input {
		input[i] = byte(rng.Uint32())
	}
	stop := keepDetaching(s, session.ID, 3)
	var sending sync.WaitGroup
	sending.Go(func() {
		for rest := input; len(rest) > 0; {
			n := min(1+rng.IntN(4000), len(rest))
			if err := p.Stdin(ctx, rest[:n]); err != nil {
				t.Errorf("stdin: %v", err)
				return
			}
			rest = rest[n:]
		}
		if err := p.CloseStdin(ctx); err != nil {
			t.Errorf("the end of the input: %v", err)
		}
	})
	out := stdout(t, ctx, p.Next)
	sending.Wait()
	if times := stop(); conn.Reconnects() != 0 || times < 10 {
		t.Errorf("%d reconnects, detached %d times", conn.Reconnects(), times)
	}
	if out != string(input) {
		t.Errorf("%d bytes came back of %d, or others", len(out), len(input))
	}
}

// TestDetachedRequests: without a reply, a request that may be repeated is sent again, and another one
// fails. A reason that a repetition cannot remove ends the viewers on that node only.
func TestDetachedRequests(t *testing.T) {
	s, ctx := start(t, clienttest.Script{
		Program: func(ctx context.Context, _ *clienttest.Program) protocol.Exit {
			<-ctx.Done()
			return protocol.Exit{}
		},
	})
	c, conn := connect(t, ctx, s.URL, s.Token)
	one, _ := c.CreateSession(ctx, protocol.SessionCreate{})
	two, _ := c.CreateSession(ctx, protocol.SessionCreate{})
	p, err := conn.Start(ctx, protocol.ChannelOpen{Session: one.ID, Argv: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	other, err := conn.Start(ctx, protocol.ChannelOpen{Session: two.ID, Argv: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Mute(one.ID)
	signalled := make(chan error, 1)
	listed := make(chan error, 1)
	go func() { signalled <- p.Signal(ctx, "SIGINT") }()
	go func() {
		_, err := conn.Channels(ctx, one.ID)
		listed <- err
	}()
	select {
	case err := <-signalled:
		t.Fatalf("a request without a reply: %v", err)
	case err := <-listed:
		t.Fatalf("a request without a reply: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	s.Detach(one.ID, fault.Restarting)
	if err := <-signalled; !fault.Is(err, fault.Unavailable) {
		t.Errorf("a signal: %v", err)
	}
	if err := <-listed; err != nil {
		t.Errorf("a list: %v", err)
	}
	if err := p.Signal(ctx, "SIGINT"); err != nil {
		t.Errorf("attached again: %v", err)
	}
	s.Detach(one.ID, fault.PermissionDenied)
	if _, err := p.Next(ctx); !fault.Is(err, fault.PermissionDenied) {
		t.Errorf("a viewer whose node refuses the connection: %v", err)
	}
	if err := other.Signal(ctx, "SIGINT"); err != nil {
		t.Errorf("the other node: %v", err)
	}
	if n := conn.Reconnects(); n != 0 {
		t.Errorf("%d reconnects", n)
	}
}

// TestDetachedWatch: a watch begins again over the same connection, also when its node cannot be
// reached at first, and reports that it may have missed changes.
func TestDetachedWatch(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r,
			&websocket.AcceptOptions{Subprotocols: []string{protocol.Subprotocol}})
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		say := func(format string, args ...any) {
			_ = ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...))
		}
		for watches := 0; ; {
			_, body, err := ws.Read(ctx)
			if err != nil {
				return
			}
			var q protocol.Request
			if err := json.Unmarshal(body, &q); err != nil {
				t.Error(err)
			}
			if q.Op == protocol.OpHello {
				say(`{"id":%d,"result":{"protocol":"sandgate.v1"}}`, q.ID)
			}
			if q.Op != protocol.OpFileWatch {
				continue
			}
			switch watches++; watches {
			case 1:
				say(`{"id":%d,"result":{"path":"/w","dir":true}}`, q.ID)
				say(`{"event":"detached","params":{"channels":[%d],"error":{"kind":"unavailable"}}}`,
					q.Ch)
			case 2:
				say(`{"id":%d,"error":{"kind":"unavailable","message":"the node cannot be reached"}}`,
					q.ID)
			default:
				say(`{"id":%d,"result":{"path":"/w","dir":true}}`, q.ID)
				say(`{"event":"file","ch":%d,"params":{"session":"s","changes":[],"ended":true}}`, q.Ch)
			}
		}
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
	overflow := false
	err = conn.Watch(ctx, protocol.FileWatch{FileRef: protocol.FileRef{Session: "s", Path: "w"}}, nil,
		func(f protocol.FileChanges) error {
			overflow = overflow || f.Overflow
			return nil
		})
	if err != nil || !overflow || conn.Reconnects() != 0 {
		t.Errorf("the watch ended with %v, overflow %t, %d reconnects", err, overflow,
			conn.Reconnects())
	}
}
