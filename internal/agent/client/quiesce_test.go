package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// taken is a sink that stores what it receives.
type taken struct {
	mu  sync.Mutex
	out []byte
}

func (s *taken) Output(_ uint32, f frame.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = append(s.out, f.Body...)
}

func (s *taken) Exit(uint32, wire.Exit) {}

// far is the sandbox's end of a wire, controlled by the test.
type far struct {
	t        *testing.T
	in       *frame.Reader
	out      *os.File
	near     [2]*os.File // the host's ends, for reading and writing
	requests chan wire.Request
	inputs   chan string
}

func newFar(t *testing.T) *far {
	t.Helper()
	theirs, mine, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	hear, say, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	f := &far{
		t: t, in: frame.NewReader(hear, 0), out: mine, near: [2]*os.File{theirs, say},
		requests: make(chan wire.Request, 16), inputs: make(chan string, 16),
	}
	t.Cleanup(func() {
		for _, c := range []*os.File{theirs, mine, hear, say} {
			_ = c.Close()
		}
	})
	go func() {
		for {
			m, err := f.in.Next()
			if err != nil {
				return
			}
			switch m.Type {
			case frame.Control:
				var r wire.Request
				if json.Unmarshal(m.Body, &r) == nil {
					f.requests <- r
				}
			case frame.Input:
				f.inputs <- string(m.Body[8:])
			}
		}
	}()
	return f
}

// want waits for a request of the given op.
func (f *far) want(op string) wire.Request {
	f.t.Helper()
	select {
	case r := <-f.requests:
		if r.Op != op {
			f.t.Fatalf("asked for %s, want %s", r.Op, op)
		}
		return r
	case <-time.After(2 * time.Minute):
		f.t.Fatalf("nobody asks for %s", op)
	}
	panic("unreachable")
}

func (f *far) answer(r wire.Request, result any) {
	f.t.Helper()
	body, _ := json.Marshal(result)
	f.write(appendResponse(f.t, wire.Response{ID: r.ID, Result: body}))
}

func (f *far) write(b []byte) {
	f.t.Helper()
	if _, err := f.out.Write(b); err != nil {
		f.t.Fatal(err)
	}
}

func appendResponse(t *testing.T, r wire.Response) []byte {
	t.Helper()
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return frame.Append(nil, frame.Frame{Type: frame.Control, Body: body})
}

func stdout(n uint32, text string) []byte {
	return frame.Append(nil, frame.Frame{
		Type: frame.Stdout, Channel: n,
		Body: []byte(text),
	})
}

// TestQuiesce: between Quiesce and Unquiesce nothing is sent and nothing is lost. If the wire ends
// in between, a cut frame, a request under way and waiting frames continue over the next wire, in
// this process or in another.
func TestQuiesce(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, other := range []bool{false, true} {
		sink := &taken{}
		f := newFar(t)
		c := New(f.near[0], f.near[1], sink)
		c.Attach(3, 0)
		replies := make(chan message.Reply, 1)
		failed := make(chan error, 1)
		go func() {
			r, err := c.Kernels.Request(ctx, 3, kernel.Request{Op: "execute", ID: 9})
			if err != nil {
				failed <- err
				return
			}
			replies <- r
		}()
		asked := f.want(wire.OpKernelRequest)
		park := func() {
			t.Helper()
			parked := make(chan error, 1)
			go func() { parked <- c.Quiesce(ctx) }()
			f.answer(f.want(wire.OpPing), struct{}{})
			if err := <-parked; err != nil {
				t.Fatal(err)
			}
		}
		park()
		if err := c.Input(3, []byte("held"), false); err != nil {
			t.Fatal(err)
		}
		if err := c.Quiesce(ctx); !fault.Is(err, fault.Conflict) {
			t.Errorf("parked twice: %v", err)
		}
		// The failed Quiesce has released nothing.
		c.out.mu.Lock()
		if len(c.out.later) == 0 || !c.out.held {
			t.Error("it is sent while the wire is parked")
		}
		c.out.mu.Unlock()
		c.Unquiesce()
		if in := <-f.inputs; in != "held" {
			t.Errorf("sent after: %q", in)
		}
		park()
		if err := c.Input(3, []byte("later"), false); err != nil {
			t.Fatal(err)
		}
		gone, leave := context.WithCancel(ctx)
		leave()
		if err := c.Drain(gone); err == nil {
			t.Error("a wire that has not ended is drained")
		}
		cut := stdout(3, "two, which is cut")
		f.write(append(stdout(3, "one "), cut[:len(cut)-7]...))
		_ = f.out.Close()
		if err := c.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		if other {
			s, err := c.Save(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-failed; !fault.Is(err, fault.SandboxLost) {
				t.Errorf("the request in the old process: %v", err)
			}
			for range 2 { // saved twice without a resume in between
				data, err := json.Marshal(s)
				if err != nil {
					t.Fatal(err)
				}
				var read Saved
				if err := json.Unmarshal(data, &read); err != nil {
					t.Fatal(err)
				}
				c = Restore(read, sink)
				if s, err = c.Save(ctx); err != nil {
					t.Fatal(err)
				}
			}
			c = Restore(s, sink)
			wait := c.Kernels.Rejoin(3)
			if c.Kernels.Rejoin(4) != nil || wait == nil {
				t.Fatal("the wrong channel has a request under way")
			}
			go func() {
				r, err := wait(ctx)
				if err != nil {
					failed <- err
				}
				replies <- r
			}()
		}
		f2 := newFar(t)
		c.Reconnect(f2.near[0], f2.near[1])
		if in := <-f2.inputs; in != "later" {
			t.Errorf("sent over the new wire: %q", in)
		}
		f2.write(append(cut[len(cut)-7:], stdout(3, " three")...))
		f2.answer(asked, message.Reply{Status: "ok", Count: 5})
		select {
		case r := <-replies:
			if r.Count != 5 {
				t.Errorf("the reply: %+v", r)
			}
		case err := <-failed:
			t.Fatal(err)
		}
		sink.mu.Lock()
		if !bytes.Equal(sink.out, []byte("one two, which is cut three")) {
			t.Errorf("taken: %q", sink.out)
		}
		sink.mu.Unlock()
		if n := c.Delivered(3); n != uint64(len(sink.out)) {
			t.Errorf("%d bytes count as taken", n)
		}
		_ = f2.out.Close()
		<-c.Done()
		if err := c.Err(); !errors.Is(err, io.EOF) {
			t.Errorf("the end: %v", err)
		}
	}
}

// TestParkEnds: a parked client without a wire ends when End is called.
func TestParkEnds(t *testing.T) {
	c := Restore(Saved{}, nil)
	select {
	case <-c.Done():
		t.Error("it has ended by itself")
	default:
	}
	c.End()
	<-c.Done()
}

// TestCapture: a client is copied while its sandbox is paused. Both clients continue from within a
// cut frame. Only the first client sends the frames that were queued meanwhile.
func TestCapture(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	sink := &taken{}
	f := newFar(t)
	c := New(f.near[0], f.near[1], sink)
	c.Attach(3, 0)
	c.Attach(4, 0)
	replies := make(chan message.Reply, 4)
	execute := func(ch uint32) {
		go func() {
			if r, err := c.Kernels.Request(ctx, ch, kernel.Request{Op: "execute"}); err == nil {
				replies <- r
			}
		}()
	}
	execute(3)
	asked := f.want(wire.OpKernelRequest)
	for round := range 3 {
		parked := make(chan error, 1)
		go func() { parked <- c.Quiesce(ctx) }()
		f.answer(f.want(wire.OpPing), struct{}{})
		if err := <-parked; err != nil {
			t.Fatal(err)
		}
		execute(4) // queued until the release
		testenv.Eventually(t, "the request waits", func() bool { return c.Kernels.Outstanding(4) })
		whole := string(bytes.Repeat([]byte("x"), 300<<10)) // more than the buffer of a reader
		cut := stdout(3, "cut in two")
		f.write(append(stdout(3, whole), cut[:len(cut)-4]...))
		s, err := c.Capture(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Rest) != len(cut)-4 || s.Flows[3].Asked == 0 || s.Flows[4].Asked != 0 ||
			len(s.Later) != 0 {
			t.Fatalf("round %d: %+v", round, s)
		}
		// The copy.
		other := &taken{}
		d := Restore(s, other)
		wait := d.Kernels.Rejoin(3)
		if wait == nil || d.Kernels.Rejoin(4) != nil {
			t.Fatal("the copy waits for the wrong replies")
		}
		f2 := newFar(t)
		d.Reconnect(f2.near[0], f2.near[1])
		f2.write(append(cut[len(cut)-4:], stdout(3, " there")...))
		f2.answer(asked, message.Reply{Status: "ok", Count: 7})
		if r, err := wait(ctx); err != nil || r.Count != 7 {
			t.Errorf("the copy's reply: %+v, %v", r, err)
		}
		other.mu.Lock()
		if string(other.out) != "cut in two there" {
			t.Errorf("the copy has taken %q", other.out)
		}
		other.mu.Unlock()
		if d.Delivered(3) != uint64(len(sink.out))+uint64(len(other.out)) {
			t.Errorf("the copy counts %d bytes, after %d", d.Delivered(3), len(sink.out))
		}
		_ = f2.out.Close()
		<-d.Done()
		// The original.
		c.Unquiesce()
		last := f.want(wire.OpKernelRequest)
		f.write(append(cut[len(cut)-4:], stdout(3, " here")...))
		f.answer(last, message.Reply{Status: "ok"})
		<-replies
		sink.mu.Lock()
		if string(sink.out) != whole+"cut in two here" {
			t.Errorf("round %d: taken are %d bytes, which end in %q", round, len(sink.out),
				sink.out[max(0, len(sink.out)-30):])
		}
		sink.out = nil
		sink.mu.Unlock()
		// Count again for the next round.
		c.mu.Lock()
		c.flows[3].got, c.flows[3].told = 0, 0
		c.mu.Unlock()
	}
	f.answer(asked, message.Reply{Status: "ok", Count: 5})
	if r := <-replies; r.Count != 5 {
		t.Errorf("the first request: %+v", r)
	}
	// A Capture fails when its sandbox ends meanwhile.
	parked := make(chan error, 1)
	go func() { parked <- c.Quiesce(ctx) }()
	f.answer(f.want(wire.OpPing), struct{}{})
	if err := <-parked; err != nil {
		t.Fatal(err)
	}
	_ = f.out.Close()
	if _, err := c.Capture(ctx); !fault.Is(err, fault.SandboxLost) {
		t.Errorf("a sandbox that ended: %v", err)
	}
	c.Unquiesce()
	<-c.Done()
}
