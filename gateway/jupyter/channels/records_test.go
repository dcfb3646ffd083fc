package channels

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

// scriptedLink answers attach, and then has frames of records.
type scriptedLink struct {
	frames []frame.Frame
	acks   []int64
}

func newScriptedLink(t *testing.T, batches ...[]frame.Record) *scriptedLink {
	t.Helper()
	result, _ := json.Marshal(protocol.Attached{
		Epoch: 1, Channel: protocol.Channel{Kind: "kernel", State: "idle"},
	})
	reply, _ := json.Marshal(protocol.Reply{ID: 1, Result: result})
	l := &scriptedLink{frames: []frame.Frame{{Type: frame.Control, Body: reply}}}
	offset := int64(0)
	for _, batch := range batches {
		body := binary.BigEndian.AppendUint64(nil, uint64(offset))
		for _, rec := range batch {
			body = frame.AppendRecord(body, rec)
			offset += rec.Size()
		}
		l.frames = append(l.frames, frame.Frame{Type: frame.Records, Channel: number, Body: body})
	}
	return l
}

func (l *scriptedLink) Next() (frame.Frame, error) {
	if len(l.frames) == 0 {
		return frame.Frame{}, io.EOF
	}
	f := l.frames[0]
	l.frames = l.frames[1:]
	return f, nil
}

func (l *scriptedLink) Send(all ...frame.Frame) error {
	for _, f := range all {
		if f.Type == frame.Ack {
			l.acks = append(l.acks, int64(binary.BigEndian.Uint64(f.Body)))
		}
	}
	return nil
}

func (l *scriptedLink) Close() error { return nil }

// recordedSocket keeps the messages of streams that were written.
type recordedSocket struct {
	t     *testing.T
	texts []string // the name of the stream, a colon, and the text
	wait  chan struct{}
}

func (s *recordedSocket) Read() ([]byte, bool, error) {
	<-s.wait
	return nil, false, io.EOF
}

func (s *recordedSocket) Write(data []byte, _ bool) error {
	var m struct {
		Header  wire.Header     `json:"header"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		s.t.Fatalf("%s: %v", data, err)
	}
	if m.Header.Type != "stream" {
		return nil
	}
	var content struct{ Name, Text string }
	if err := json.Unmarshal(m.Content, &content); err != nil {
		s.t.Fatal(err)
	}
	s.texts = append(s.texts, content.Name+":"+content.Text)
	return nil
}

func (s *recordedSocket) Confirm(func()) {}

// TestText checks the messages of text: adjacent text of one stream is one message, a character is
// never cut, other bytes are replaced, and everything is acknowledged once it is written.
func TestText(t *testing.T) {
	out := func(cell uint32, text string) frame.Record {
		return frame.Record{Kind: frame.KindStdout, Cell: cell, Payload: []byte(text)}
	}
	errs := func(cell uint32, text string) frame.Record {
		return frame.Record{Kind: frame.KindStderr, Cell: cell, Payload: []byte(text)}
	}
	reply := frame.Record{
		Kind: frame.KindMessage, Cell: 1,
		Payload: []byte(`{"msg_type":"execute_reply","content":{"status":"ok"}}`),
	}
	long := strings.Repeat("é", maxText/2)
	type frames = [][]frame.Record
	for name, c := range map[string]struct {
		batches frames
		want    string // messages, with a bar between two
	}{
		"adjacent":    {frames{{out(1, "a\n"), out(1, "\"b")}}, "stdout:a\n\"b"},
		"two streams": {frames{{out(1, "a"), errs(1, "b"), out(1, "c")}}, "stdout:a|stderr:b|stdout:c"},
		"two cells":   {frames{{out(1, "a"), out(2, "b")}}, "stdout:a|stdout:b"},
		"two frames":  {frames{{out(1, "a")}, {out(1, "b")}}, "stdout:a|stdout:b"},
		"a cut character": {
			frames{{out(1, "a\xe2\x82"), errs(1, "x")}, {out(1, "\xacb")}},
			"stdout:a|stderr:x|stdout:€b",
		},
		"parts of one":      {frames{{out(1, "\xe2")}, {out(1, "\x82")}, {out(1, "\xac")}}, "stdout:€"},
		"an unfinished one": {frames{{out(1, "a\xe2\x82"), reply}}, "stdout:a|stdout:\uFFFD"},
		"no text":           {frames{{out(1, "\xff\xfe!")}}, "stdout:\uFFFD!"},
		"long": {
			frames{{out(1, "x"), out(1, long)}}, "stdout:x" + long[:maxText-2] + "|stdout:é",
		},
	} {
		t.Run(name, func(t *testing.T) {
			link := newScriptedLink(t, c.batches...)
			conn, err := Attach(context.Background(), link, Options{Buffers: new(Buffers)})
			if err != nil {
				t.Fatal(err)
			}
			s := &recordedSocket{t: t, wait: make(chan struct{})}
			defer close(s.wait)
			if _, err := conn.Serve(s); err == nil {
				t.Error("the connection ended without an error")
			}
			if got := strings.Join(s.texts, "|"); got != c.want {
				t.Errorf("%.200q, want %.200q", got, c.want)
			}
			if len(link.acks) != len(c.batches) {
				t.Errorf("%d acknowledgements, want %d", len(link.acks), len(c.batches))
			}
		})
	}
}

// BenchmarkText sends large output.
func BenchmarkText(b *testing.B) {
	c := &Conn{o: Options{Buffers: new(Buffers)}, socket: discard{}}
	c.log.cells = map[uint32]*cell{}
	text := []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 640))
	body := frame.AppendRecord(make([]byte, 8), frame.Record{
		Kind: frame.KindStdout, Cell: 1, Payload: text,
	})
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.records(body); err != nil {
			b.Fatal(err)
		}
	}
}

// discard is a socket that drops messages.
type discard struct{}

func (discard) Read() ([]byte, bool, error) { return nil, false, io.EOF }
func (discard) Write([]byte, bool) error    { return nil }
func (discard) Confirm(func())              {}
