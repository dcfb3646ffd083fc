package processclient

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// scripted is a link whose other end answers requests. It confirms input only if confirms is set.
type scripted struct {
	confirms bool
	attached string // the parameters of the attach
	last     protocol.Request

	frames chan frame.Frame
	closed chan struct{}
	input  []byte
	parts  uint64
	ended  bool
	acked  uint64
	opened protocol.ChannelOpen
}

func (l *scripted) Next() (frame.Frame, error) {
	select {
	case f := <-l.frames:
		return f, nil
	case <-l.closed:
		return frame.Frame{}, io.EOF
	}
}

func (l *scripted) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		switch f.Type {
		case frame.Input:
			l.parts = binary.BigEndian.Uint64(f.Body)
			l.input = append(l.input, f.Body[8:]...)
			l.ended = f.Flags&frame.FlagEnd != 0
			if l.confirms {
				l.frames <- frame.Frame{Type: frame.Ack, Channel: channel, Body: f.Body[:8]}
			}
		case frame.Ack:
			l.acked = binary.BigEndian.Uint64(f.Body)
		default:
			var req protocol.Request
			if err := json.Unmarshal(f.Body, &req); err != nil {
				return err
			}
			if req.Op == protocol.OpChannelOpen {
				if err := json.Unmarshal(req.Params, &l.opened); err != nil {
					return err
				}
			}
			result := json.RawMessage(`{"id":"p2"}`)
			if l.last = req; req.Op == protocol.OpAttach {
				l.attached = string(req.Params)
				result = json.RawMessage(`{"epoch":7,"offset":40,"channel":{"pid":12}}`)
			}
			l.control(protocol.Reply{ID: req.ID, Result: result})
		}
	}
	return nil
}

func (l *scripted) Close() error { close(l.closed); return nil }

func (l *scripted) control(r protocol.Reply) {
	body, _ := json.Marshal(r)
	l.frames <- frame.Frame{Type: frame.Control, Body: body}
}

func (l *scripted) records(offset uint64, recs ...frame.Record) {
	body := binary.BigEndian.AppendUint64(nil, offset)
	for _, r := range recs {
		body = frame.AppendRecord(body, r)
	}
	l.frames <- frame.Frame{Type: frame.Records, Channel: channel, Body: body}
}

func start(t *testing.T, input []byte) (*Client, *scripted) {
	t.Helper()
	l := &scripted{frames: make(chan frame.Frame, 16), closed: make(chan struct{})}
	open := protocol.ChannelOpen{Session: "s", Argv: []string{"cat"}}
	c, err := Start(context.Background(), l, open, input)
	if err != nil || c.Channel() != "p2" || l.opened.Kind != "process" ||
		l.opened.Stdin != (input != nil) {
		t.Fatal(c, err, l.opened)
	}
	t.Cleanup(c.Close)
	return c, l
}

// TestInputWaits feeds a process that reads slowly: only a part of the input is on its way.
func TestInputWaits(t *testing.T) {
	input := strings.Repeat("x", 3*maxUnconfirmed+5)
	c, l := start(t, []byte(input))
	for want := maxUnconfirmed; ; want = min(want+maxUnconfirmed, len(input)) {
		if len(l.input) != want || l.ended != (want == len(input)) {
			t.Fatalf("%d bytes are on their way, ended %t, want %d", len(l.input), l.ended, want)
		}
		if l.ended {
			break
		}
		l.frames <- frame.Frame{
			Type: frame.Ack, Channel: channel,
			Body: binary.BigEndian.AppendUint64(nil, l.parts),
		}
		l.records(0, frame.Record{Kind: frame.KindGap, Payload: []byte(`{"bytes":1}`)})
		if out, err := c.Next(); err != nil || len(out) != 1 || out[0].Gap != 1 {
			t.Fatal(out, err)
		}
	}
}

// TestEmptyInput sends the end of an empty input.
func TestEmptyInput(t *testing.T) {
	if _, l := start(t, []byte{}); !l.ended || len(l.input) > 0 {
		t.Error("the input did not end")
	}
}

// TestOutput follows a process that refuses its input to its end.
func TestOutput(t *testing.T) {
	c, l := start(t, []byte(strings.Repeat("x", 2*maxUnconfirmed)))
	out := frame.Record{Kind: frame.KindStdout, Payload: []byte("a")}
	l.control(protocol.Reply{Event: "error", Ch: channel, Params: json.RawMessage(`{}`)})
	l.records(100, out, frame.Record{Kind: frame.KindStderr, Payload: []byte("b")},
		frame.Record{Kind: frame.KindExit, Payload: []byte(`{"code":143,"signal":"SIGTERM"}`)})
	got, err := c.Next()
	if err != nil || len(got) != 3 || string(got[0].Stdout) != "a" || string(got[1].Stderr) != "b" ||
		got[2].Exit == nil || got[2].Exit.Signal != "SIGTERM" {
		t.Fatalf("%+v %v", got, err)
	}
	if err := c.Ack(); err != nil || l.acked <= 100 || c.feeding {
		t.Error(err, l.acked, c.feeding)
	}
	l.control(protocol.Reply{Event: protocol.EventLost, Ch: channel, Params: json.RawMessage(`{}`)})
	if _, err := c.Next(); !fault.Is(err, fault.SandboxLost) {
		t.Errorf("after the sandbox's end: %v", err)
	}
}

func link() *scripted {
	return &scripted{
		frames: make(chan frame.Frame, 64), closed: make(chan struct{}), confirms: true,
	}
}

// TestOpen opens a terminal and describes it.
func TestOpen(t *testing.T) {
	l := link()
	open := protocol.ChannelOpen{Session: "s", Kind: "terminal", Stdin: true, Tag: "t"}
	c, err := Open(context.Background(), l, open, protocol.Attach{Window: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if l.opened.Kind != "terminal" || !l.opened.Stdin || l.opened.Tag != "t" {
		t.Errorf("%+v", l.opened)
	}
	if l.attached != `{"session":"s","channel":"p2","window":5}` {
		t.Error(l.attached)
	}
	if v := c.View(); v.ID != "p2" || v.PID != 12 || c.Channel() != "p2" {
		t.Errorf("%+v", v)
	}
}

// TestAttach attaches at a position, and knows the one at which to continue.
func TestAttach(t *testing.T) {
	l := link()
	c, err := Attach(context.Background(), l, protocol.Attach{
		Session: "s", Channel: "p9", Epoch: 7, Offset: 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.View().ID != "p9" || l.last.Op != protocol.OpAttach || l.last.Ch != channel {
		t.Errorf("%+v %+v", c.View(), l.last)
	}
	at := func(want int64) {
		t.Helper()
		if epoch, offset := c.Position(); epoch != 7 || offset != want {
			t.Errorf("the position is %d, %d, want %d", epoch, offset, want)
		}
	}
	at(40)
	l.records(40, frame.Record{Kind: frame.KindRestore, Payload: []byte(`{"data":"eHg="}`)},
		frame.Record{Kind: frame.KindStdout, Payload: []byte("abc")})
	out, err := c.Next()
	if err != nil || len(out) != 2 || string(out[0].Restore) != "xx" || string(out[1].Stdout) != "abc" {
		t.Errorf("%+v %v", out, err)
	}
	at(40) // not acknowledged
	if err := c.Ack(); err != nil {
		t.Error(err)
	}
	at(63)
	if err := c.Control(protocol.OpSignal, protocol.Signal{Signal: "SIGKILL"}); err != nil ||
		l.last.Op != protocol.OpSignal || l.last.Ch != channel {
		t.Errorf("%v %+v", err, l.last)
	}
}

// TestAttachEnds gives up when the context ends.
func TestAttachEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Attach(ctx, mute{link()}, protocol.Attach{}); !fault.Is(err, fault.Canceled) {
		t.Error(err)
	}
}

// mute is a link that never answers.
type mute struct{ *scripted }

func (mute) Send(...frame.Frame) error { return nil }

// TestWrite writes input that is confirmed, refused, and too late.
func TestWrite(t *testing.T) {
	begin := func() (*Client, *scripted) {
		l := link()
		c, err := Attach(context.Background(), l, protocol.Attach{Session: "s", Channel: "p9"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c, l
	}
	c, l := begin()
	text := strings.Repeat("x", protocol.MaxInput+3)
	l.records(40, frame.Record{Kind: frame.KindStdout, Payload: []byte("abc")})
	if err := c.Write([]byte(text), false); err != nil || string(l.input) != text || l.parts != 2 ||
		l.ended || l.acked != 63 {
		t.Error(err, len(l.input), l.parts, l.ended, l.acked)
	}
	if err := c.Write(nil, false); err != nil || l.parts != 2 {
		t.Error(err, l.parts)
	}
	if err := c.Write(nil, true); err != nil || !l.ended || l.parts != 3 {
		t.Error(err, l.parts, l.ended)
	}
	for want, event := range map[fault.Kind]protocol.Reply{
		fault.Exhausted: {
			Event: "error", Ch: channel, Params: json.RawMessage(`{"kind":"exhausted","message":"full"}`),
		},
		fault.Internal:    {Event: "error", Ch: channel, Params: json.RawMessage(`1`)},
		fault.SandboxLost: {Event: protocol.EventLost, Ch: channel, Params: json.RawMessage(`{}`)},
	} {
		c, l := begin()
		l.confirms = false
		l.control(event)
		if err := c.Write([]byte("x"), false); !fault.Is(err, want) {
			t.Errorf("%s: %v", event.Event, err)
		}
	}
	c, l = begin()
	l.confirms = false
	l.records(40, frame.Record{Kind: frame.KindExit, Payload: []byte(`{"code":0}`)})
	if err := c.Write([]byte("x"), false); !fault.Is(err, fault.Conflict) ||
		fault.PublicOf(err).Cause != fault.CauseEnded {
		t.Error(err)
	}
}
