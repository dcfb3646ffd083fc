package wire

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// AttachOptions define where a viewer begins. The zero value means the oldest record that the
// server has.
type AttachOptions struct {
	// Epoch and Offset are the values that an earlier viewer's Offset returned. Epoch 0 means
	// Offset in the current epoch, whichever that is. The offset -1 means the end; -n means at most
	// the last n bytes.
	Epoch  uint64
	Offset int64
	// Window is how many bytes the server may send ahead of Next; 0 means
	// 256 KiB, at most 4 MiB.
	Window int64
	// ReadOnly makes a viewer that cannot change anything.
	ReadOnly bool
	// Cols and Rows are the size of the viewer's terminal; 0 means no terminal.
	Cols, Rows int
}

// Viewer reads a channel's log. After each reconnection it attaches again at the byte after the
// last one that arrived. Only one goroutine may call Next. The other methods are safe for
// concurrent use.
type Viewer struct {
	conn     *Conn
	ch       uint32
	session  string
	channel  string
	window   int64
	wake     chan struct{} // capacity 1: a field below has changed
	input    *input        // nil for a read-only viewer
	readOnly bool

	mu       sync.Mutex // guards all fields below
	link     *link      // the part of a link for the attachment; nil while not attached
	asking   *link      // the same while an attach request is in progress
	parked   bool       // an attach waits for Next to empty the queue
	retry    *time.Timer
	pause    time.Duration
	first    func(error) // called with the result of the first attach
	epoch    uint64
	attached bool  // epoch and received are the server's
	received int64 // offset after the last record that arrived
	base     int64 // where the present attachment began
	jump     int64 // where the server says that it begins
	taken    place // after the last record that the caller of Next has finished
	pending  place // the same for the record that the caller has now
	acked    int64
	queue    []entry
	queued   int64
	info     protocol.Channel
	changed  chan struct{} // closed and replaced when link, exited or err change
	cols     int
	rows     int
	follow   *protocol.Follow // nil means that the viewer gets everything
	old      int64            // the end of the log at the time of the present attachment
	exited   bool
	err      error
}

// place is a position in a log.
type place struct {
	epoch  uint64
	offset int64
}

// entry is a record that waits for Next, and the offset after it.
type entry struct {
	record frame.Record
	epoch  uint64
	after  int64
}

// Attach creates a viewer of a channel.
func (c *Conn) Attach(ctx context.Context, session, channel string,
	o AttachOptions,
) (*Viewer, error) {
	return c.attach(ctx, session, channel, o, nil)
}

// attach is Attach for a viewer that can also write.
func (c *Conn) attach(ctx context.Context, session, channel string, o AttachOptions,
	in *input,
) (*Viewer, error) {
	const op = "client.attach"
	if o.Window < 0 || o.Window > protocol.MaxWindow {
		return nil, fault.Invalid(op, "window", "must be at most %d", int64(protocol.MaxWindow))
	}
	if o.Window == 0 {
		o.Window = protocol.DefaultWindow
	}
	first := make(chan error, 1)
	v := &Viewer{
		conn: c, session: session, channel: channel, window: o.Window, wake: make(chan struct{}, 1),
		changed: make(chan struct{}),
		epoch:   o.Epoch, received: o.Offset, attached: o.Epoch != 0 && o.Offset >= 0,
		pending: place{o.Epoch, o.Offset}, first: func(err error) { first <- err },
		input: in, readOnly: o.ReadOnly, cols: o.Cols, rows: o.Rows,
	}
	c.mu.Lock()
	switch {
	case c.err != nil:
		c.mu.Unlock()
		return nil, c.err
	case len(c.viewers) >= protocol.MaxAttached:
		c.mu.Unlock()
		return nil, fault.New(fault.Exhausted, op,
			"%d channels are already attached on this connection", protocol.MaxAttached)
	}
	c.nextCh++
	v.ch = c.nextCh
	c.viewers[v.ch] = v
	c.mu.Unlock()
	v.attach()
	select {
	case err := <-first:
		if err != nil {
			v.remove()
			return nil, err
		}
		return v, nil
	case <-ctx.Done():
		_ = v.Close()
		return nil, fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

// attach requests the following output, on the present link.
func (v *Viewer) attach() {
	v.conn.mu.Lock()
	l := v.conn.link
	v.conn.mu.Unlock()
	v.mu.Lock()
	if l == nil || v.err != nil || v.exited || v.asking != nil || v.link != nil {
		v.mu.Unlock()
		return
	}
	// The output that a slow caller has not read must not grow with each reconnection.
	if v.queued > v.window {
		v.parked = true
		v.mu.Unlock()
		return
	}
	part := l.part()
	v.asking, v.parked = part, false
	p := protocol.Attach{
		Session: v.session, Channel: v.channel, Epoch: v.epoch, Offset: v.received,
		Window:   v.window,
		ReadOnly: v.readOnly, Cols: v.cols, Rows: v.rows,
	}
	if v.input != nil {
		p.Writer = v.input.writer
	}
	v.mu.Unlock()
	_, err := v.conn.startOn(v.conn.ctx, part, protocol.OpAttach, v.ch, p, false,
		func(r json.RawMessage, err error) { v.answered(part, r, err) })
	if err != nil {
		v.answered(part, nil, err)
	}
}

// answered processes the reply to attach on the reading goroutine, so that the viewer is ready for
// the records after the reply.
func (v *Viewer) answered(l *link, result json.RawMessage, err error) {
	var a protocol.Attached
	err = answer{result, err}.into(protocol.OpAttach, &a)
	v.mu.Lock()
	v.asking = nil
	lost := l.ended.Err() != nil
	if err != nil {
		l.end()
	}
	if v.err != nil {
		v.mu.Unlock()
		return
	}
	if err != nil {
		if lost {
			// The next link attaches. If it has found this attach in progress, or the node's link was
			// lost and not this one, the viewer has to attach itself.
			v.mu.Unlock()
			v.again(v.conn.client.jitter())
			return
		}
		if fault.KindOf(err).Row().Close < 3500 && v.first == nil {
			v.pause = min(max(2*v.pause, v.conn.client.opts.MinBackoff),
				v.conn.client.opts.MaxBackoff)
			pause := v.pause
			v.mu.Unlock()
			v.again(pause)
			return
		}
		v.mu.Unlock()
		v.fail(err)
		return
	}
	v.pause = 0
	v.link = l
	v.info, v.old = a.Channel, a.Channel.End
	if v.attached && a.Epoch != v.epoch {
		// The server lost the history, so offsets have a new meaning.
		body, _ := json.Marshal(map[string]any{"event": EventEpoch, "from": v.epoch, "to": a.Epoch})
		v.push(entry{frame.Record{
			Kind: frame.KindEvent, Time: time.Now().UnixMicro(),
			Payload: body,
		}, a.Epoch, a.Offset})
		v.attached = false
	}
	if !v.attached {
		if len(v.queue) == 0 {
			v.pending = place{a.Epoch, a.Offset}
		}
		v.received = a.Offset
		v.attached = true
	}
	// If the server begins earlier than requested, the known part is skipped.
	v.epoch, v.jump, v.base, v.acked = a.Epoch, a.Offset, v.received, v.received
	if a.Channel.State == "exited" && a.Channel.Epoch == a.Epoch && a.Channel.Exit != nil &&
		a.Channel.End > 0 && v.received >= a.Channel.End {
		v.exited = true // an earlier attachment has read the exit record
		if v.input != nil {
			v.input.fail(fault.New(fault.Conflict, "client.stdin", "the program has ended"))
		}
	}
	first, follow := v.first, v.follow
	v.first = nil
	v.change()
	v.mu.Unlock()
	if v.input != nil {
		v.input.resume(l, a.Input)
	}
	if follow != nil { // the server forgets it with the link
		_, _ = v.conn.startOn(v.conn.ctx, l, protocol.OpFollow, v.ch, follow, false,
			func(json.RawMessage, error) {})
	}
	if first != nil {
		first(nil)
	}
	signal(v.wake)
}

// EventEpoch is the name of the event record that a viewer creates itself when the server's history
// of the channel has begun again: {event, from, to} with the epochs. Earlier offsets have no
// meaning afterwards.
const EventEpoch = "epoch"

// again attaches after a pause, on its own goroutine.
func (v *Viewer) again(pause time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil {
		v.retry = time.AfterFunc(pause, v.attach)
	}
}

// inputTaken records that the server has passed input to the program.
func (v *Viewer) inputTaken(sequence uint64) {
	if v.input != nil {
		v.input.took(sequence)
	}
}

// inputRefused records why the server accepts no further input on l.
func (v *Viewer) inputRefused(l *link, err error) {
	v.mu.Lock()
	is := v.link != nil && v.link.whole == l
	v.mu.Unlock()
	if is && v.input != nil {
		v.input.fail(err)
	}
}

// lower is called when the link in use is lost, or the attachment on it. It reports whether an attach
// request was in progress.
func (v *Viewer) lower() (asking bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.endParts()
	v.change()
	return v.asking != nil
}

// endParts ends the attachment on this side. mu is held.
func (v *Viewer) endParts() {
	for _, l := range []*link{v.link, v.asking} {
		if l != nil {
			l.end()
		}
	}
	v.link = nil
}

// push queues a record. mu is held.
func (v *Viewer) push(e entry) {
	v.queue = append(v.queue, e)
	v.queued += e.record.Size()
}

// change wakes the goroutines that wait for another state. mu is held.
func (v *Viewer) change() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// receive processes the body of a Records frame that arrived on l. An error ends the link.
// Attaching again at the byte after the last good one repairs the stream.
func (v *Viewer) receive(l *link, body []byte) error {
	const op = "client.records"
	if len(body) < 8 {
		return fault.New(fault.Malformed, op, "a frame of records has an offset of 8 bytes, got %d",
			len(body))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.link == nil || v.link.whole != l || v.err != nil || v.exited {
		return nil
	}
	at := int64(binary.BigEndian.Uint64(body))
	body = body[8:]
	for len(body) > 0 {
		r, rest, err := frame.ParseRecord(body)
		if err != nil {
			return err
		}
		body = rest
		if r.Kind == frame.KindGap {
			var g frame.Gap
			if err := json.Unmarshal(r.Payload, &g); err != nil {
				return &fault.Error{
					Kind: fault.Malformed, Op: op,
					Message: "a gap record cannot be read", Err: err,
				}
			}
			at = g.To
			if g.To > v.received {
				v.received = g.To
				v.push(entry{r, v.epoch, g.To})
			}
			continue
		}
		if r.Kind == frame.KindRestore {
			v.push(entry{r, v.epoch, v.received})
			continue
		}
		after := at + r.Size()
		switch {
		case after <= v.received: // already known
		case at > v.received && at == v.jump:
			// The server began later than requested without a gap record.
			gap, _ := json.Marshal(frame.Gap{From: v.received, To: at, Bytes: at - v.received})
			v.push(entry{
				frame.Record{Kind: frame.KindGap, Time: r.Time, Payload: gap},
				v.epoch,
				at,
			})
			v.received = after
			v.push(entry{r, v.epoch, after})
		case at != v.received:
			return fault.New(fault.Malformed, op, "records begin at %d instead of %d", at,
				v.received)
		default:
			v.received = after
			v.push(entry{r, v.epoch, after})
		}
		if r.Kind == frame.KindExit && after == v.received {
			v.exited = true
			v.change()
			if v.input != nil {
				v.input.fail(fault.New(fault.Conflict, "client.stdin", "the program has ended"))
			}
		}
		at = after
	}
	if v.queued > 2*v.window+2*frame.MaxBody {
		return fault.New(fault.Malformed, op, "the server sends more than the window of %d bytes",
			v.window)
	}
	signal(v.wake)
	return nil
}

// Next returns the next whole record. Its payload stays valid. A gap record (frame.KindGap) means
// that the output between two offsets is no longer in the log. After the exit record Next returns
// io.EOF. After the loss of the sandbox, of the channel or of the connection it returns that error,
// once all arrived records were read.
//
// The next call of Next acknowledges the previous record, and the server then sends more. A caller
// that does not call Next slows nobody else.
func (v *Viewer) Next(ctx context.Context) (frame.Record, error) {
	for {
		v.mu.Lock()
		v.taken = v.pending
		if len(v.queue) > 0 {
			e := v.queue[0]
			v.queue[0] = entry{}
			v.queue = v.queue[1:]
			v.queued -= e.record.Size()
			v.pending = place{e.epoch, e.after}
			l, offset := v.ack(false)
			attach := v.parked && v.queued <= v.window/2
			v.mu.Unlock()
			v.sendAck(l, offset)
			if attach {
				v.attach()
			}
			return e.record, nil
		}
		v.queue = nil
		err, exited := v.err, v.exited
		l, offset := v.ack(true)
		attach := v.parked
		v.mu.Unlock()
		v.sendAck(l, offset)
		switch {
		case exited:
			return frame.Record{}, io.EOF
		case err != nil:
			return frame.Record{}, err
		case attach:
			v.attach()
		}
		select {
		case <-v.wake:
		case <-ctx.Done():
			return frame.Record{}, fault.Wrap(fault.KindOf(ctx.Err()), "client.next", ctx.Err())
		}
	}
}

// ack decides whether to acknowledge the caller's position: when everything is read, or after a
// quarter of the window. mu is held.
func (v *Viewer) ack(all bool) (*link, int64) {
	at := v.taken.offset
	if v.link == nil || v.taken.epoch != v.epoch || at <= v.acked || at <= v.base {
		return nil, 0
	}
	if !all && at-v.acked < v.window/4 {
		return nil, 0
	}
	v.acked = at
	return v.link, at
}

func (v *Viewer) sendAck(l *link, offset int64) {
	if l == nil {
		return
	}
	var body [8]byte
	binary.BigEndian.PutUint64(body[:], uint64(offset))
	l.send(v.conn.ctx, websocket.MessageBinary,
		frame.AppendMessage(nil, frame.Frame{Type: frame.Ack, Channel: v.ch, Body: body[:]}))
}

// Follow sets how the viewer keeps up with a program that prints faster than the caller reads. The
// client sends it again after a lost connection.
func (v *Viewer) Follow(ctx context.Context, p protocol.Follow) error {
	v.mu.Lock()
	v.follow = &p
	v.mu.Unlock()
	return v.call(ctx, protocol.OpFollow, p, nil, true)
}

// Offset returns the position where a new viewer has to begin to continue after the last record
// that Next returned.
func (v *Viewer) Offset() (epoch uint64, offset int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pending.epoch, v.pending.offset
}

// Old reports whether the last record of Next was written before the viewer attached, or attached
// again after a lost connection.
func (v *Viewer) Old() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pending.epoch == v.epoch && v.pending.offset <= v.old
}

// Behind reports whether more such old records follow.
func (v *Viewer) Behind() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.pending.epoch == v.epoch && v.pending.offset < v.old
}

// Channel returns the channel as it was at the last attach.
func (v *Viewer) Channel() protocol.Channel {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.info
}

// Close detaches the viewer. A waiting Next returns an error.
func (v *Viewer) Close() error {
	v.mu.Lock()
	l := v.link
	v.mu.Unlock()
	v.fail(fault.New(fault.Canceled, "client.viewer", "the viewer was closed"))
	if l != nil {
		body, err := json.Marshal(protocol.Request{Op: protocol.OpDetach, Ch: v.ch})
		if err == nil {
			l.whole.send(v.conn.ctx, websocket.MessageText, body)
		}
	}
	return nil
}

// fail ends the viewer: Next returns err once the queue is empty.
func (v *Viewer) fail(err error) {
	v.mu.Lock()
	if v.err == nil {
		v.err = err
	}
	v.endParts()
	v.change()
	if v.retry != nil {
		v.retry.Stop()
	}
	first := v.first
	v.first = nil
	v.mu.Unlock()
	if v.input != nil {
		v.input.fail(err)
	}
	v.remove()
	if first != nil {
		first(err)
	}
	signal(v.wake)
}

func (v *Viewer) remove() {
	v.conn.mu.Lock()
	delete(v.conn.viewers, v.ch)
	v.conn.mu.Unlock()
}
