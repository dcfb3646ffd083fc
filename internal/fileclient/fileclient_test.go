package fileclient

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// node is a link to a node that counts the bytes of one file. It replies after the last part.
type node struct {
	frames chan frame.Frame
	done   chan struct{}
	bytes  int
	most   int // the largest part
	ended  bool
}

func newNode() *node { return &node{frames: make(chan frame.Frame, 1), done: make(chan struct{})} }

func (n *node) Next() (frame.Frame, error) {
	select {
	case f := <-n.frames:
		return f, nil
	case <-n.done:
		return frame.Frame{}, io.EOF
	}
}

func (n *node) Close() error {
	close(n.done)
	return nil
}

func (n *node) Send(frames ...frame.Frame) error {
	for _, f := range frames {
		if f.Type != frame.Data {
			continue
		}
		n.bytes += len(f.Body)
		n.most = max(n.most, len(f.Body))
		if n.ended = f.Flags&frame.FlagEnd != 0; n.ended {
			body, err := json.Marshal(protocol.Reply{ID: request, Result: []byte(`{"path":"/f"}`)})
			if err != nil {
				return err
			}
			n.frames <- frame.Frame{Type: frame.Control, Body: body}
		}
	}
	return nil
}

// TestWrite writes a file that is much larger than a part.
func TestWrite(t *testing.T) {
	n := newNode()
	var f protocol.File
	body := iotest.DataErrReader(io.LimitReader(zeros{}, 10<<20+1))
	err := Write(n, protocol.OpFileWrite, protocol.FileWrite{}, body, time.Minute, &f)
	if err != nil || f.Path != "/f" || n.bytes != 10<<20+1 || n.most > partSize {
		t.Errorf("%v, %+v, %d bytes, parts of %d", err, f, n.bytes, n.most)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestWriteCut ends the link without the end of the file if the body is cut short.
func TestWriteCut(t *testing.T) {
	n := newNode()
	body := io.MultiReader(strings.NewReader("part"), iotest.ErrReader(io.ErrUnexpectedEOF))
	err := Write(n, protocol.OpFileWrite, protocol.FileWrite{}, body, time.Minute, nil)
	if !fault.Is(err, fault.Malformed) || n.ended {
		t.Errorf("%v, ended %t", err, n.ended)
	}
}

// TestWriteRefused: the node refuses an upload whose body waits for data. Write returns that error,
// and does not wait for the body.
func TestWriteRefused(t *testing.T) {
	n := newNode()
	reply, err := json.Marshal(protocol.Reply{
		ID: request, Error: &fault.Public{Kind: fault.Conflict, Message: "too slow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.frames <- frame.Frame{Type: frame.Control, Body: reply}
	body, _ := io.Pipe()
	err = Write(n, protocol.OpFileWrite, protocol.FileWrite{}, body, time.Minute, nil)
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
}
