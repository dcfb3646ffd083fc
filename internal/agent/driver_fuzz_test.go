package agent

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
)

// FuzzDriverFrames fails when bytes on the driver's descriptor, which code in a kernel's process can
// write, make the agent panic, or reach the host as a frame of another channel or of another type.
func FuzzDriverFrames(f *testing.F) {
	add := func(frames ...frame.Frame) {
		var b []byte
		for _, m := range frames {
			b = frame.Append(b, m)
		}
		f.Add(b)
	}
	add(frame.Frame{Type: frame.Control, Body: []byte(`{"op":"ready","status":"ok"}`)},
		frame.Frame{Type: frame.Stdout, Flags: frame.FlagClear, Cell: 1, Body: []byte("x")})
	add(frame.Frame{Type: frame.Control, Body: []byte(`{"op":"reply","id":18446744073709551615}`)})
	add(frame.Frame{Type: frame.Control, Body: []byte(`[]`)})
	add(frame.Frame{Type: frame.Message, Channel: 9, Body: []byte(`{}`)})
	add(frame.Frame{Type: frame.Records, Body: []byte(`{}`)})
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Add(bytes.Repeat([]byte{0}, frame.HeaderSize))
	f.Fuzz(func(t *testing.T, written []byte) {
		var toHost bytes.Buffer
		s := NewServer(Config{})
		s.host.w = &toHost
		c := &channel{
			s: s, id: 7, manifest: &kernel.Manifest{}, wakeFD: -1,
			started: make(chan struct{}), done: make(chan struct{}),
			startTimer: time.NewTimer(time.Hour),
			pending:    map[uint64]pending{},
		}
		l := &loop{c: c, pipes: [2]int{-1, -1}, events: -1, ev: written}
		l.pump()
		l.flush()
		for r := frame.NewReader(&toHost, 0); ; {
			sent, err := r.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatalf("the agent wrote no frame: %v", err)
			}
			switch sent.Type {
			case frame.Stdout, frame.Stderr, frame.Message:
				if sent.Channel != 7 || sent.Flags != 0 {
					t.Errorf("the driver sent a frame of channel %d with flags %d",
						sent.Channel, sent.Flags)
				}
			case frame.Control:
				var r wire.Response
				if err := json.Unmarshal(sent.Body, &r); err != nil || r.Event == "hello" {
					t.Errorf("the driver sent %q", sent.Body)
				}
			default:
				t.Errorf("the driver sent a frame of type %d", sent.Type)
			}
		}
	})
}
