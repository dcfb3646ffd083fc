// Package channels connects one WebSocket of a Jupyter client to one kernel: it turns the client's
// messages into operations of the node, and the records of the kernel's log into messages.
//
// Two goroutines serve a connection. One reads from the client and sends requests to the node, the
// other reads from the node and writes to the client. Records are acknowledged to the node once they
// are written, so that a client that reads slowly slows the kernel and loses nothing.
//
// A client that connects gets the recent log again: see replay.go. A connection has one state that
// the log may not have, the cells that have not ended: see doubt.go.
package channels

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/sandgate/sandgate/gateway/jupyter/wire"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// number is the number of the kernel's channel on the link; wholeNumber is that of an
	// attachment to the whole log.
	number, wholeNumber = 1, 2
	// maxPending is the largest number of requests of a connection without a reply.
	maxPending = 256
	// maxAsked is the largest number of cells of a connection that have not ended.
	maxAsked = protocol.MaxQueue + 1
	// maxCells is how many cells a connection remembers, so that late output has its parent.
	maxCells = 256
	// maxText is the largest text of one stream message, in bytes.
	maxText = 1 << 20
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

// Options describe a connection.
type Options struct {
	// Session and Channel name the kernel.
	Session, Channel string
	// Client is the id that the client has chosen for its session; empty without one.
	Client string
	// ID is the kernel's id for clients. It is the session in the headers of our messages.
	ID string
	// V1 selects the binary framing.
	V1 bool
	// Buffers are shared by connections.
	Buffers *Buffers
	// Resume is the result of Serve of the client's last connection; the zero value means that
	// nothing is known.
	Resume Position
}

// Position is a position in the log of a kernel, up to which a client has received everything. An
// Epoch of 0 means that none is known.
type Position struct {
	Epoch  uint64
	Offset int64
	cell   *cell // the cell that runs there
	left   *left // the cells of the client that have not ended; nil for none
}

// known reports whether p is a position.
func (p Position) known() bool { return p.Epoch != 0 }

// Conn is a connection. Attach returns it before the client's handshake is answered.
type Conn struct {
	o      Options
	link   nodecall.Link
	socket Socket
	view   protocol.Channel
	number uint32        // the channel's number on the link
	early  []frame.Frame // received while the reply to attach was awaited

	requests sync.Mutex // guards the fields below; leaf
	id       uint64
	pending  map[uint64]pending
	asked    map[string]request // cells that have not ended, by their keys
	info     json.RawMessage
	comms    map[string]string // the targets of open comms by their ids

	// out is held while messages are written that belong together. requests is locked under it.
	out     sync.Mutex
	serial  uint64
	busy    *cell // the running cell
	written Position
	known   Position // received by the client; guarded by requests

	log log // used by the goroutine that reads from the node
}

// Attach attaches to the kernel. The connection owns the link from then on, also when Attach fails.
// The end of ctx closes the link while Attach waits.
func Attach(ctx context.Context, link nodecall.Link, o Options) (*Conn, error) {
	c := &Conn{
		o: o, link: link, pending: map[uint64]pending{},
		asked: map[string]request{}, comms: map[string]string{}, number: number,
	}
	doubts{c}.inherit(o.Resume.left)
	defer context.AfterFunc(ctx, func() { _ = link.Close() })()
	attach := protocol.Attach{Session: o.Session, Channel: o.Channel, Offset: -replaySize}
	if o.Resume.known() {
		attach.Epoch, attach.Offset = o.Resume.Epoch, o.Resume.Offset
	}
	attached, err := sendAttach(c, attach)
	doubt := err == nil && len(doubts{c}.keys(attached.Epoch)) > 0
	if doubt && attached.Offset > attached.Channel.Oldest {
		c.number = wholeNumber
		err = nodecall.Send(link, 0, protocol.OpDetach, number, struct{}{})
		if err == nil {
			attach.Epoch, attach.Offset = 0, attached.Channel.Oldest
			attached, err = sendAttach(c, attach)
		}
	}
	if err == nil && attached.Channel.Kind != "kernel" {
		err = fault.New(fault.NotFound, "jupyter.attach", "there is no such kernel")
	}
	if err != nil {
		_ = link.Close()
		if ctx.Err() != nil {
			err = fault.New(fault.KindOf(ctx.Err()), "jupyter.attach",
				"the node did not answer in time")
		}
		return nil, err
	}
	c.view, c.info = attached.Channel, attached.Channel.Info
	c.written = Position{Epoch: attached.Epoch, Offset: attached.Offset}
	exact := o.Resume.Epoch == attached.Epoch && o.Resume.Offset == attached.Offset
	c.log.prepare(exact, attached)
	c.log.doubt.open = doubt
	if x := o.Resume.cell; exact && x != nil {
		c.log.add(x)
		c.busy = x
	}
	return c, nil
}

// sendAttach attaches, and keeps the frames that arrive before the reply.
func sendAttach(c *Conn, a protocol.Attach) (attached protocol.Attached, err error) {
	c.id++
	err = nodecall.Call(c.link, c.id, protocol.OpAttach, c.number, a, &attached,
		func(f frame.Frame) error {
			f.Body = append([]byte(nil), f.Body...)
			c.early = append(c.early, f)
			return nil
		})
	return attached, err
}

// Abandon ends a connection that is not served.
func Abandon(c *Conn) { _ = c.link.Close() }

// Serve serves the connection until it ends. It returns what the client's next connection needs,
// and the reason of the end.
func (c *Conn) Serve(s Socket) (Position, error) {
	c.socket = s
	failed := make(chan error, 1)
	go func() {
		failed <- c.read()
		_ = c.link.Close()
	}()
	err := c.pump()
	_ = c.link.Close()
	if fault.Is(err, fault.Canceled) || fault.Is(err, fault.Unavailable) {
		select {
		case first := <-failed: // the client has ended the connection
			err = first
		default:
			doubts{c}.endComms()
		}
	}
	c.out.Lock()
	defer c.out.Unlock()
	c.requests.Lock()
	defer c.requests.Unlock()
	at := Position{left: leave(c.asked)}
	if c.known.Offset == c.written.Offset {
		at.Epoch, at.Offset, at.cell = c.written.Epoch, c.written.Offset, c.busy
	}
	return at, err
}

// pump writes what the node sends to the client.
func (c *Conn) pump() error {
	// A goroutine that waits there needs a smaller stack.
	idle, _ := c.link.(interface{ Wait() })
	if err := c.replayed(); err != nil {
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
			if idle != nil {
				idle.Wait()
			}
			if f, err = nodecall.Next(c.link); err != nil {
				return err
			}
		}
		if err := c.frame(f); err != nil {
			return err
		}
	}
}

func (c *Conn) frame(f frame.Frame) error {
	switch {
	case f.Type == frame.Control:
		return c.control(f)
	case f.Type == frame.Records && f.Channel == c.number && len(f.Body) >= 8:
		offset, err := c.records(f.Body)
		if err != nil {
			return err
		}
		c.confirm(offset)
		body := binary.BigEndian.AppendUint64(nil, uint64(offset))
		err = c.link.Send(frame.Frame{Type: frame.Ack, Channel: c.number, Body: body})
		if err == nil {
			err = c.replayed()
		}
		if err == nil {
			err = doubts{c}.endLost()
		}
		return err
	}
	return nil
}

// confirm notes that the client has received everything up to an offset, once it has.
func (c *Conn) confirm(offset int64) {
	c.out.Lock()
	c.written.Offset = offset
	at := c.written
	c.out.Unlock()
	c.socket.Confirm(func() {
		c.requests.Lock()
		defer c.requests.Unlock()
		if at.Offset > c.known.Offset {
			c.known = at
		}
	})
}

// control handles a reply or an event of the node.
func (c *Conn) control(f frame.Frame) error {
	var reply protocol.Reply
	if json.Unmarshal(f.Body, &reply) != nil {
		return nil
	}
	if reply.Event == "" {
		c.requests.Lock()
		waits := c.pending[reply.ID]
		delete(c.pending, reply.ID)
		c.requests.Unlock()
		if done := waits.done; done != nil {
			done(reply)
		}
		return nil
	}
	if reply.Ch != c.number || reply.Event != protocol.EventLost {
		return nil
	}
	var lost protocol.Lost
	_ = json.Unmarshal(reply.Params, &lost) // the reason may be missing
	why := lost.Message
	if why == "" {
		why = "the sandbox ended: " + lost.Reason
	}
	c.die(why)
	return fault.New(fault.SandboxLost, "jupyter.kernel", "%s", why)
}

// call sends a request to the node and passes its reply to done, in the goroutine that reads from
// the node. Errors: Exhausted, TooLarge and those of the link.
func (c *Conn) call(op string, params any, done func(protocol.Reply)) error {
	c.requests.Lock()
	if len(c.pending) >= maxPending {
		c.requests.Unlock()
		return fault.New(fault.Exhausted, "jupyter.request",
			"%d requests of this connection already wait", maxPending)
	}
	c.id++
	id := c.id
	c.pending[id] = pending{op, done}
	c.requests.Unlock()
	err := nodecall.Send(c.link, id, op, c.number, params)
	if err != nil {
		c.requests.Lock()
		delete(c.pending, id)
		c.requests.Unlock()
	}
	return err
}

// pending is a request to the node without a reply.
type pending struct {
	op   string
	done func(protocol.Reply)
}

// cell is a cell of the kernel.
type cell struct {
	number    uint32
	key       string
	parent    json.RawMessage // the header of the request
	own       bool            // the request came from a client with this session id
	tails     [2][]byte       // by stream, the beginning of a character
	traceback []string
	failed    json.RawMessage // an error that came before the request was known
	// input is an input_request in the replayed part of the log that has no answer there.
	input *wire.Message
}

// compose returns a message of the kernel.
func (c *Conn) compose(channel, kind string, parent json.RawMessage, content any) *wire.Message {
	raw, ok := content.(json.RawMessage)
	if !ok {
		raw = encode(content)
	}
	return &wire.Message{
		Channel: channel, Parent: parent, Content: raw, Header: wire.Header{Type: kind},
	}
}

// send writes messages as one unit.
func (c *Conn) send(all ...*wire.Message) error {
	c.out.Lock()
	defer c.out.Unlock()
	return c.sendLocked(all...)
}

func (c *Conn) sendLocked(all ...*wire.Message) error {
	for _, m := range all {
		c.serial++
		m.Header.Session, m.Header.Username = c.o.ID, "sandgate"
		m.Header.Version, m.Header.Date = wire.Version, wire.Date(stamp(time.Now()))
		if m.Header.ID == "" {
			m.Header.ID = c.o.ID + "_" + strconv.FormatUint(c.serial, 36) + "_" + rand.Text()[:8]
		}
		buf := c.o.Buffers.get()
		var isBinary bool
		buf.bytes, isBinary = wire.Append(buf.bytes, m, c.o.V1)
		err := c.socket.Write(buf.bytes, isBinary)
		c.o.Buffers.put(buf)
		if err != nil {
			return err
		}
	}
	return nil
}

// stamp returns a time in the form that Jupyter's clients parse.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// status is the content of a status message.
func status(state string) json.RawMessage {
	return json.RawMessage(`{"execution_state":"` + state + `"}`)
}

func (c *Conn) statusOf(state string, parent json.RawMessage) *wire.Message {
	return c.compose(wire.IOPub, "status", parent, status(state))
}

// die reports the end of the kernel to the client.
func (c *Conn) die(why string) {
	c.out.Lock()
	defer c.out.Unlock()
	var parent json.RawMessage
	if c.busy != nil {
		parent = c.busy.parent
	}
	note := c.compose(wire.IOPub, "stream", parent,
		json.RawMessage(appendStream(nil, "stderr", []byte(why+"\n"))))
	_ = c.sendLocked(note, c.statusOf("dead", nil)) // the connection ends now
	c.requests.Lock()
	clear(c.asked)
	c.requests.Unlock()
}
