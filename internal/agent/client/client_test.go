package client

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// fake is an agent that is controlled by the test.
type fake struct {
	*Client
	t    *testing.T
	in   *frame.Reader // frames from the client
	out  *frame.Writer
	shut func()
}

func newFake(t *testing.T, sink Sink) *fake {
	fromClient, toAgent := io.Pipe()
	fromAgent, toClient := io.Pipe()
	f := &fake{t: t, in: frame.NewReader(fromClient, 0), out: frame.NewWriter(toClient)}
	f.shut = func() { toClient.Close(); fromClient.Close() }
	f.Client = New(fromAgent, toAgent, sink)
	t.Cleanup(func() { f.shut(); <-f.Done() })
	return f
}

func (f *fake) send(r wire.Response) {
	b, err := json.Marshal(r)
	if err != nil {
		f.t.Error(err)
	}
	if err := f.out.Write(frame.Frame{Type: frame.Control, Body: b}); err != nil {
		f.t.Error(err)
	}
}

// next returns the next request.
func (f *fake) next() wire.Request {
	m, err := f.in.Next()
	if err != nil {
		f.t.Error(err)
		return wire.Request{}
	}
	var r wire.Request
	if m.Type != frame.Control || json.Unmarshal(m.Body, &r) != nil {
		f.t.Errorf("the client sent %+v", m)
	}
	return r
}

func TestHello(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	agenttest.WantKind(t, f.WaitHello(ctx), fault.DeadlineExceeded)
	f.send(wire.Response{Event: "hello", Version: wire.Version})
	if err := f.WaitHello(context.Background()); err != nil {
		t.Error(err)
	}
	g := newFake(t, nil)
	g.send(wire.Response{Event: "hello", Version: wire.Version + 1})
	if err := agenttest.WantKind(t, g.WaitHello(context.Background()),
		fault.SandboxLost); !strings.Contains(err.Error(), "version") {
		t.Errorf("another version gives %v", err)
	}
}

// TestEveryWaiterLearnsOfTheEnd fails when a caller keeps waiting for a sandbox that has ended.
func TestEveryWaiterLearnsOfTheEnd(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	go func() { // an agent that reads and never answers
		for {
			if _, err := f.in.Next(); err != nil {
				return
			}
		}
	}()
	ctx := context.Background()
	calls := []func() error{
		func() error { return f.WaitHello(ctx) },
		func() error { return f.Ping(ctx) },
		func() error { _, err := f.Kernels.Start(ctx, 1, wire.StartKernel{}); return err },
		func() error { _, err := f.StartProcess(ctx, 2, wire.StartProcess{}); return err },
		func() error {
			_, err := f.Kernels.Request(ctx, 1,
				kernel.Request{Op: "execute"})
			return err
		},
		func() error { return f.Interrupt(ctx, 1) },
		func() error { return f.Signal(ctx, 1, "SIGINT") },
		func() error { return f.Close(ctx, 1) },
		func() error { return f.Reseed(ctx, wire.Reseed{}) },
		func() error {
			_, err := f.Files.Stat(ctx, wire.FileDescribe{Path: "x"})
			return err
		},
		func() error {
			_, err := f.Files.Write(ctx, 5, wire.FileWrite{},
				strings.NewReader(strings.Repeat("x", 3*wire.Window)))
			return err
		},
		func() error {
			_, err := f.Files.Read(ctx, 6, wire.FileRead{Path: "x"}, nil,
				io.Discard)
			return err
		},
	}
	errs := make(chan error, len(calls))
	for _, call := range calls {
		go func() { errs <- call() }()
	}
	agenttest.Eventually(t, "all wait", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.waiting) == len(calls)-1
	})
	f.shut()
	for range calls {
		select {
		case err := <-errs:
			agenttest.WantKind(t, err, fault.SandboxLost)
		case <-time.After(2 * time.Minute):
			t.Fatal("somebody waits for ever")
		}
	}
	for _, call := range calls {
		agenttest.WantKind(t, call(), fault.SandboxLost)
	}
	agenttest.WantKind(t, f.Input(1, nil, true), fault.SandboxLost)
	agenttest.WantKind(t, f.Kernels.Notify(1, kernel.Request{Op: "input"}), fault.SandboxLost)
	agenttest.WantKind(t, f.Err(), fault.SandboxLost)
}

// TestCanceledCall drops the late answer.
func TestCanceledCall(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Ping(ctx) }()
	late := f.next()
	cancel()
	agenttest.WantKind(t, <-done, fault.Canceled)
	f.send(wire.Response{ID: late.ID, Result: json.RawMessage("{}")})
	go func() { done <- f.Ping(context.Background()) }()
	f.send(wire.Response{ID: f.next().ID, Result: json.RawMessage("{}")})
	if err := <-done; err != nil {
		t.Error(err)
	}
	if f.Stray() != 1 {
		t.Errorf("%d frames were stray, want 1", f.Stray())
	}
}

// TestStuckSandboxBlocksNobody: the agent reads nothing at all.
func TestStuckSandboxBlocksNobody(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, err := f.Kernels.Request(ctx, 1,
				kernel.Request{Op: "execute", Code: strings.Repeat("x", 1<<20*(1+i%2))})
			agenttest.WantKind(t, err, fault.DeadlineExceeded)
		}()
	}
	wg.Wait()
	var err error
	for i := 0; i < 1000 && err == nil; i++ {
		err = f.Kernels.Notify(1, kernel.Request{Op: "input", Value: strings.Repeat("x", 64<<10)})
	}
	agenttest.WantKind(t, err, fault.Slow)
}

func TestSetSink(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	for ch := range uint32(2) {
		done := make(chan error, 1)
		go func() {
			_, err := f.StartProcess(context.Background(), ch+1, wire.StartProcess{})
			done <- err
		}()
		f.send(wire.Response{ID: f.next().ID, Result: json.RawMessage(`{"pid":7}`)})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	f.out.Write(frame.Frame{Type: frame.Stdout, Channel: 1, Body: []byte("before")})
	f.send(wire.Response{Event: "exit", Channel: 1, Exit: &wire.Exit{Code: 3}})
	agenttest.Eventually(t, "the exit has come",
		func() bool { f.sinkMu.Lock(); defer f.sinkMu.Unlock(); return len(f.early) == 1 })
	if f.Dropped() != 6 {
		t.Errorf("%d bytes were dropped, want 6", f.Dropped())
	}
	first, second := agenttest.NewRecorder(), agenttest.NewRecorder()
	f.SetSink(first)
	if e := first.WaitExit(t, 1); e.Code != 3 || first.Text(1, 0) != "" {
		t.Errorf("the exit is %+v after %q", e, first.Text(1, 0))
	}
	f.out.Write(frame.Frame{Type: frame.Stdout, Channel: 2, Body: []byte("one")})
	first.Until(t, "output", func() bool { return first.Bytes[2] == 3 })
	f.SetSink(second)
	f.out.Write(frame.Frame{Type: frame.Stdout, Channel: 2, Body: []byte("two")})
	second.Until(t, "output", func() bool { return second.Bytes[2] == 3 })
	if first.Text(2, 0) != "one" {
		t.Errorf("the first sink has %q", first.Text(2, 0))
	}
	// Frames of unknown channels reach no sink.
	f.out.Write(frame.Frame{Type: frame.Stdout, Channel: 99, Body: []byte("x")})
	f.send(wire.Response{Event: "exit", Channel: 99, Exit: &wire.Exit{}})
	agenttest.Eventually(t, "both are counted", func() bool { return f.Stray() == 2 })
}

// FuzzClient fails when an agent, which a user may control, can make the client panic or hang.
func FuzzClient(f *testing.F) {
	add := func(frames ...frame.Frame) {
		var b []byte
		for _, m := range frames {
			b = frame.Append(b, m)
		}
		f.Add(b)
	}
	add(frame.Frame{Type: frame.Control, Body: []byte(`{"event":"hello","version":1}`)})
	add(frame.Frame{Type: frame.Control, Body: []byte(`{"id":1,"result":{}}`)},
		frame.Frame{Type: frame.Stdout, Channel: 1, Body: []byte("x")})
	add(frame.Frame{Type: frame.Control, Body: []byte(`{"id":1,"error":{"kind":"nonsense"}}`)})
	add(frame.Frame{Type: frame.Data, Channel: 2, Flags: wire.FlagAbort, Body: []byte("{")})
	add(frame.Frame{Type: frame.Ack, Channel: 1, Body: []byte("12345678")},
		frame.Frame{Type: frame.Records})
	add(frame.Frame{Type: frame.Control, Body: []byte(`{"event":"exit","channel":1,"exit":{}}`)})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, w := io.Pipe()
		c := New(r, io.Discard, agenttest.NewRecorder())
		done := make(chan struct{}, 2)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		go func() { c.StartProcess(ctx, 1, wire.StartProcess{}); done <- struct{}{} }()
		go func() {
			c.Files.Read(ctx, 2, wire.FileRead{Path: "x"}, nil,
				io.Discard)
			done <- struct{}{}
		}()
		w.Write(b)
		w.Close()
		<-c.Done()
		<-done
		<-done
		if ctx.Err() != nil {
			t.Error("somebody waited too long")
		}
	})
}
