// Package terminals connects one WebSocket of a Jupyter client to one terminal, in the protocol of
// terminado: JSON lists with the text that is typed and shown.
//
// Two goroutines serve a connection, as in package channels. Output is acknowledged to the node once
// it is written. Input waits until the program's side has taken the input before it. So neither side
// is dropped or held in memory without a bound.
package terminals

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"sync"

	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// number is the number of the terminal's channel on the link.
	number = 1
	// replaySize is how much of the log a client gets that connects, in bytes.
	replaySize = 256 << 10
	// window is how much the node sends ahead: the replayed part has room in it.
	window = 512 << 10
	// maxText is the largest text in one message, in bytes.
	maxText = 1 << 20
	// maxUnconfirmed bounds the input that the program's side has not taken, in bytes.
	maxUnconfirmed = 256 << 10
	// maxSize is the largest number of columns or rows.
	maxSize = 1000
	// reset is the escape sequence that resets a client's terminal. A client that connects again
	// would show the replayed part twice without it.
	reset = "\x1bc"
)

// Socket is the client's end of a connection.
type Socket interface {
	// Read returns the next message, and whether it is binary.
	Read() (data []byte, isBinary bool, err error)
	// Write sends a message. Several goroutines may call it.
	Write(data []byte, isBinary bool) error
	// Confirm calls got once the client has received everything that was written before. It does
	// not wait.
	Confirm(got func())
}

// Conn is a connection. Attach returns it before the client's handshake is answered.
type Conn struct {
	link   nodecall.Link
	socket Socket
	view   protocol.Channel
	early  []frame.Frame // received while the reply to attach was awaited
	end    int64         // the end of the replayed part
	begun  bool          // the client's terminal was reset
	text   kernelclient.TextDecoder

	mu          sync.Mutex // guards all below; leaf
	id          uint64     // the number of the last request
	resizing    uint64     // the number of the last change of size that is not done; 0 means none
	sent        uint64     // the number of the last part of the input
	unconfirmed []int      // the sizes of the parts that were not taken
	taken       chan struct{}
	ended       bool
}

// Attach attaches to a terminal. The connection owns the link from then on, also when Attach fails.
// The end of ctx closes the link while Attach waits. Errors: NotFound.
func Attach(ctx context.Context, link nodecall.Link, session, channel string) (*Conn, error) {
	c := &Conn{link: link, id: 1, taken: make(chan struct{})}
	defer context.AfterFunc(ctx, func() { _ = link.Close() })()
	var attached protocol.Attached
	err := nodecall.Call(link, 1, protocol.OpAttach, number, protocol.Attach{
		Session: session, Channel: channel, Offset: -replaySize, Window: window,
		Writer: "jupyter-" + rand.Text(),
	}, &attached, func(f frame.Frame) error {
		f.Body = append([]byte(nil), f.Body...)
		c.early = append(c.early, f)
		return nil
	})
	if err == nil && (attached.Channel.Kind != "terminal" || attached.Channel.State == "exited") {
		err = fault.New(fault.NotFound, "jupyter.terminal", "there is no such terminal")
	}
	if err != nil {
		_ = link.Close()
		if ctx.Err() != nil {
			err = fault.New(fault.KindOf(ctx.Err()), "jupyter.terminal",
				"the node did not answer in time")
		}
		return nil, err
	}
	c.view, c.end = attached.Channel, attached.Channel.End
	c.begun = attached.Offset >= c.end
	return c, nil
}

// Terminal returns the terminal as it was when the connection attached to it.
func (c *Conn) Terminal() protocol.Channel { return c.view }

// Serve serves the connection until it ends. It returns the reason of the end, which has the kind
// KernelDied if the program has exited.
func (c *Conn) Serve(s Socket) error {
	c.socket = s
	failed := make(chan error, 1)
	go func() {
		failed <- c.read()
		_ = c.link.Close()
	}()
	err := c.pump()
	c.mu.Lock()
	c.ended = true
	c.wake()
	c.mu.Unlock()
	_ = c.link.Close()
	if fault.Is(err, fault.Canceled) || fault.Is(err, fault.Unavailable) {
		select {
		case first := <-failed: // the client has ended the connection
			err = first
		default:
		}
	}
	return err
}

// write sends a list.
func (c *Conn) write(list ...any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(list) // texts, numbers and empty objects
	return c.socket.Write(bytes.TrimRight(b.Bytes(), "\n"), false)
}

// show sends output. Bytes that end inside a character wait for the rest of it.
func (c *Conn) show(data []byte) error {
	for len(data) > 0 {
		part := data[:min(len(data), maxText)]
		data = data[len(part):]
		if text := c.text.Decode(part); text != "" {
			if err := c.write("stdout", text); err != nil {
				return err
			}
		}
	}
	return nil
}

// pump writes what the node sends to the client.
func (c *Conn) pump() error {
	if err := c.write("setup", struct{}{}); err != nil {
		return err
	}
	for {
		var f frame.Frame
		if len(c.early) > 0 {
			f = c.early[0]
			c.early = c.early[1:]
		} else {
			c.early = nil
			var err error
			if f, err = nodecall.Next(c.link); err != nil {
				return err
			}
		}
		if err := c.received(f); err != nil {
			return err
		}
	}
}

func (c *Conn) received(f frame.Frame) error {
	switch {
	case f.Type == frame.Control:
		var reply protocol.Reply
		if json.Unmarshal(f.Body, &reply) != nil || reply.Event != protocol.EventLost {
			c.resized(reply.ID)
			return nil
		}
		_ = c.write("disconnect", 1) // the connection ends now
		return fault.New(fault.SandboxLost, "jupyter.terminal", "the sandbox has ended")
	case f.Channel != number || len(f.Body) < frame.OffsetSize:
	case f.Type == frame.Ack:
		c.confirmed(binary.BigEndian.Uint64(f.Body))
	case f.Type == frame.Records:
		return c.records(f.Body)
	}
	return nil
}

// records writes records to the client and acknowledges them. A terminal answers queries in the
// output. The node drops the answers to old queries, which it knows by the acknowledgement of the
// replayed part. So this one comes once the client has received the part.
func (c *Conn) records(body []byte) error {
	offset, rest, err := frame.ParseRecords(body)
	if err != nil {
		return err
	}
	for len(rest) > 0 {
		rec, tail, err := frame.ParseRecord(rest)
		if err != nil {
			return err
		}
		rest = tail
		if rec.Kind != frame.KindGap && rec.Kind != frame.KindRestore {
			offset += rec.Size()
		}
		if err := c.showRecord(rec); err != nil {
			return err
		}
	}
	ack := func() {
		body := binary.BigEndian.AppendUint64(nil, uint64(offset))
		// Next reports the end of the link.
		_ = c.link.Send(frame.Frame{Type: frame.Ack, Channel: number, Body: body})
	}
	if offset <= c.end {
		c.socket.Confirm(ack)
		return nil
	}
	ack()
	return nil
}

func (c *Conn) showRecord(rec frame.Record) error {
	switch rec.Kind {
	case frame.KindRestore:
		var r frame.Restore
		_ = json.Unmarshal(rec.Payload, &r) // the node writes it
		c.text, c.begun = kernelclient.TextDecoder{}, true
		return c.show(append([]byte(reset), r.Data...))
	case frame.KindStdout:
		if !c.begun {
			c.begun = true
			return c.show(append([]byte(reset), rec.Payload...))
		}
		return c.show(rec.Payload)
	case frame.KindExit:
		if text := c.text.End(); text != "" {
			_ = c.write("stdout", text) // the connection ends now
		}
		_ = c.write("disconnect", 1) // as above
		return fault.New(fault.KernelDied, "jupyter.terminal", "the program has exited")
	}
	return nil
}

// confirmed notes that the program's side has taken the input up to a part.
func (c *Conn) confirmed(part uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := int(c.sent - min(c.sent, part))
	c.unconfirmed = c.unconfirmed[max(0, len(c.unconfirmed)-left):]
	c.wake()
}

// resized notes that a change of the size is done, or was refused.
func (c *Conn) resized(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != 0 && id == c.resizing {
		c.resizing = 0
		c.wake()
	}
}

// wake lets a part of the input that waits look again. c.mu is locked.
func (c *Conn) wake() {
	close(c.taken)
	c.taken = make(chan struct{})
}

// read handles the client's messages until the connection ends.
func (c *Conn) read() error {
	for {
		data, _, err := c.socket.Read()
		if err != nil {
			return err
		}
		var list []json.RawMessage
		var kind string
		if json.Unmarshal(data, &list) != nil || len(list) == 0 ||
			json.Unmarshal(list[0], &kind) != nil {
			return fault.New(fault.Malformed, "jupyter.terminal", "a message is a list with a name")
		}
		switch {
		case kind == "stdin" && len(list) > 1:
			var text string
			if json.Unmarshal(list[1], &text) != nil {
				return fault.New(fault.Malformed, "jupyter.terminal", "the input is not a text")
			}
			err = c.typed([]byte(text))
		case kind == "set_size" && len(list) > 2:
			err = c.resize(list[1], list[2])
		}
		if err != nil {
			return err
		}
	}
}

// typed sends input to the program, once there is room. Earlier changes of the size are done then:
// the node does not keep the order of input and requests.
func (c *Conn) typed(data []byte) error {
	for len(data) > 0 {
		part := data[:min(len(data), maxUnconfirmed/4)]
		data = data[len(part):]
		c.mu.Lock()
		for !c.ended && (c.resizing != 0 || sum(c.unconfirmed)+len(part) > maxUnconfirmed) {
			taken := c.taken
			c.mu.Unlock()
			<-taken // also at the end of the connection
			c.mu.Lock()
		}
		c.sent++
		c.unconfirmed = append(c.unconfirmed, len(part))
		body := append(binary.BigEndian.AppendUint64(nil, c.sent), part...)
		c.mu.Unlock()
		err := c.link.Send(frame.Frame{Type: frame.Input, Channel: number, Body: body})
		if err != nil {
			return err
		}
	}
	return nil
}

func sum(sizes []int) int {
	n := 0
	for _, size := range sizes {
		n += size
	}
	return n
}

// resize sets the size of the client's terminal. A hidden page has none.
func (c *Conn) resize(rows, cols json.RawMessage) error {
	var r, k float64
	if json.Unmarshal(rows, &r) != nil || json.Unmarshal(cols, &k) != nil || r < 1 || k < 1 {
		return nil
	}
	c.mu.Lock()
	c.id++
	id := c.id
	c.resizing = id
	c.mu.Unlock()
	return nodecall.Send(c.link, id, protocol.OpResize, number,
		protocol.Resize{Cols: int(min(k, maxSize)), Rows: int(min(r, maxSize))})
}
