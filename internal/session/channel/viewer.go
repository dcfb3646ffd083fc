package channel

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// LinkID identifies the connection of a viewer. All viewers of one connection count as one person.
type LinkID uint64

// Client is the far end of a viewer: the connection that shows the channel to a user. Its methods
// do not wait. Link and Notify are called with the mutex of Viewers held.
type Client interface {
	// Link identifies the connection.
	Link() LinkID
	// Notify sends an event about the session.
	Notify(event string, params any)
	// NotifyLost reports that the sandbox has ended. The event follows the last records of the
	// log if they are sent soon.
	NotifyLost(lost protocol.Lost)
	// Disconnect closes the connection. The client connects again and finds the node that has the
	// session now.
	Disconnect()
	// Go runs f in a goroutine. The connection waits for it when it ends.
	Go(f func())
}

// Viewer is a client's view of a channel: its position in the log, its stream of input, and its
// part in a terminal.
//
// The order of calls is Set.Attach, Join, Start, and then Pump, Write and the others in any
// goroutine, until Close.
type Viewer struct {
	client  Client
	channel *Channel
	reader  *stream.LogReader
	ctx     context.Context
	cancel  context.CancelFunc
	once    sync.Once
	read    sync.Once // calls finishReader of the channel

	readOnly      bool
	name          string   // the writer's name
	requestedSize pty.Size // the size in the request to attach
	writer        *writer
	// fresh means that the viewer has seen no output of a terminal yet: it begins with a restore
	// record.
	fresh       bool
	firstOffset int64 // the offset at which it begins
	replayEnd   int64 // the end of the log when it attached: output before it is old
	// the size of the viewer's terminal, if it has one; guarded by the channel's terminal
	size pty.Size
}

// fitLimit limits the change of a terminal's size after a viewer has left.
const fitLimit = 10 * time.Second

// Attach creates a viewer of a channel at the position in p. The caller closes the viewer. The end
// of ctx ends the viewer.
//
// Errors: NotFound for a channel that does not exist or has been closed, Conflict for a channel
// that is starting, InvalidArgument for an invalid size or position.
func (x *Set) Attach(ctx context.Context, client Client, p protocol.Attach) (*Viewer, error) {
	const op = "link.attach"
	ch, err := x.Find(p.Channel)
	if err != nil {
		return nil, err
	}
	if !ch.isOpen() {
		return nil, fault.New(fault.Conflict, op,
			"the channel is starting; attach when its open has been answered")
	}
	size := pty.Size{Cols: p.Cols, Rows: p.Rows}
	if ch.terminal != nil && size != (pty.Size{}) {
		if err := size.Check(op); err != nil {
			return nil, err
		}
	}
	if !ch.addReader() {
		return nil, fault.New(fault.NotFound, op, "the channel has been closed")
	}
	window := p.Window
	if window == 0 {
		window = protocol.DefaultWindow
	}
	reader := ch.log.Reader(p.Epoch, p.Offset, window)
	start, err := reader.Start()
	if t := ch.terminal; t != nil && err == nil && p.Offset < 0 {
		// At most the last n bytes, from an offset at which the screen's state is known.
		if known := t.floor(ch.log, start); known > start {
			reader.Close()
			reader = ch.log.Reader(0, known, window)
			start, err = reader.Start()
		}
	}
	if err != nil {
		reader.Close()
		ch.finishReader()
		ch.removeReader()
		return nil, err
	}
	v := &Viewer{
		client: client, channel: ch, reader: reader,
		readOnly: p.ReadOnly, name: p.Writer, requestedSize: size, firstOffset: start,
	}
	v.ctx, v.cancel = context.WithCancel(ctx)
	b := ch.log.Bounds()
	v.replayEnd, v.fresh = b.End, ch.terminal != nil && (p.Epoch != b.Epoch || p.Offset < 0)
	return v, nil
}

// Join gives the viewer its stream of input and its part in the terminal, and returns the answer to
// the client. From then on input of an earlier viewer with the same writer is refused. Errors:
// Exhausted when the channel has as many writers as it can have.
func (v *Viewer) Join() (protocol.Attached, error) {
	ch := v.channel
	var taken uint64
	if !v.readOnly {
		var err error
		if v.writer, taken, err = ch.claimWriter(v.name, v); err != nil {
			return protocol.Attached{}, err
		}
		if ch.terminal != nil {
			v.size = v.requestedSize
			if first := ch.terminal.addDriver(v, !v.fresh ||
				v.requestedSize == (pty.Size{})); first {
				v.replayEnd = 0 // earlier questions have no answer yet
			}
		}
	}
	c := ch.View()
	return protocol.Attached{Epoch: c.Epoch, Offset: v.firstOffset, Channel: c, Input: taken}, nil
}

// Start adds the viewer to the viewers of the session, which are notified of changes. It notifies
// the viewer at once if the session is lost or hibernated. Preconditions: Join has returned without
// an error, and the client has its answer.
func (v *Viewer) Start() {
	x := v.channel.set
	if v.channel.terminal != nil {
		v.client.Go(v.showScreen)
	}
	if !x.viewers.add(v) {
		v.client.NotifyLost(x.cfg.Session.Lost())
	} else if state := x.cfg.Session.State(); state == "hibernated" {
		v.client.Notify(protocol.EventState, protocol.StateChange{Session: x.cfg.ID, State: state})
	}
}

// showScreen gives the terminal the new viewer's size. If the size was the same before, it makes a
// full-screen program draw its whole screen for the viewer.
func (v *Viewer) showScreen() {
	size, _ := v.channel.terminal.sizeAndTitle()
	if !v.readOnly {
		if err := v.channel.fit(v.ctx); err != nil {
			return // the sandbox has ended, or the viewer has left
		}
	}
	if now, _ := v.channel.terminal.sizeAndTitle(); now == size && v.fresh && v.firstOffset > 0 {
		v.channel.redraw()
	}
}

// Pump passes the log's records to send, in order, until the log or the viewer ends. It waits while
// the viewer has no credit. Send returns how many bytes it sent, and does not keep the records.
func (v *Viewer) Pump(send func(offset int64, records []byte) int) {
	if v.fresh {
		v.restore(v.firstOffset, send)
	}
	stats := v.channel.set.cfg.Stats
	for {
		chunk, err := v.reader.Next(v.ctx)
		if err != nil {
			return // the end of the log has been sent, or the link or the log is closed
		}
		if v.reader.Ended() {
			// The client may ask for a new channel as soon as it has this chunk.
			v.read.Do(v.channel.finishReader)
		}
		n := send(chunk.Offset, chunk.Records)
		stats.SentBytes.Add(int64(n))
		stats.SentFrames.Add(1)
		gap := isGap(chunk)
		if gap {
			stats.Gaps.Add(1)
		}
		if t := v.channel.terminal; t != nil && gap {
			// The screen's state at the beginning of the log may not be known. Continue at the
			// next offset at which it is, at most 64 KiB of output later.
			if known := t.floor(v.channel.log, chunk.Offset); known > chunk.Offset {
				v.reader.Skip(known)
			} else {
				v.restore(chunk.Offset, send)
			}
		}
	}
}

// restore sends a record that brings a terminal into the state at offset. If that state is not
// known any more, it sends nothing: a gap follows, and with it another restore.
func (v *Viewer) restore(offset int64, send func(int64, []byte) int) {
	s, err := v.channel.terminal.at(v.ctx, v.channel.log, offset)
	if err != nil {
		return
	}
	payload, err := json.Marshal(frame.Restore{
		Cols: s.Size.Cols, Rows: s.Size.Rows,
		Data: s.Restore(),
	})
	if err != nil {
		return
	}
	record := frame.Record{
		Kind: frame.KindRestore, Time: time.Now().UnixMicro(),
		Payload: payload,
	}
	send(offset, frame.AppendRecord(nil, record))
	v.channel.set.cfg.Stats.ScreensRestored.Add(1)
}

// Ack returns credit: the client has received everything before offset. Errors: an offset that was
// not sent, unless the viewer has ended.
func (v *Viewer) Ack(offset int64) error {
	if err := v.reader.Ack(offset); err != nil && v.ctx.Err() == nil {
		return err
	}
	return nil
}

// Follow makes the viewer keep up with the end of the log, or read all of it again.
func (v *Viewer) Follow(p protocol.Follow) error {
	const op = "link.follow"
	switch {
	case p.Behind < 0:
		return fault.Invalid(op, "behind", "a viewer is 0 or more bytes behind")
	case p.Before < 0 || p.Before > p.Behind:
		return fault.Invalid(op, "before", "a viewer goes on 0 to behind bytes before the end")
	case p.Window < 0 || p.Window > protocol.MaxWindow:
		return fault.Invalid(op, "window", "a window has between 0 and %d bytes",
			protocol.MaxWindow)
	}
	v.reader.Follow(p.Behind, p.Before, p.Window)
	return nil
}

// Write passes input to the program, and waits while the program is slow to read. It resumes a
// session that is paused or hibernated, and waits while the node does not know whether it owns the
// session. Input that was accepted before is not passed again. Only one goroutine at a time calls
// it.
//
// After an error the input was not accepted; later input would leave a hole. When the process has
// ended, Write returns false and no error.
func (v *Viewer) Write(in Input) (done bool, err error) {
	x := v.channel.set
	release, err := x.cfg.Session.AcquireOwned(v.ctx)
	if err != nil {
		return false, err
	}
	defer release()
	// The agent client does not report when there is room, so try again at growing intervals.
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err = v.writer.put(v.ctx, v, in)
		if !fault.Is(err, fault.Exhausted) && !fault.Is(err, fault.Slow) {
			break
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
			continue
		case <-v.ctx.Done():
		case <-x.cfg.Life.Done():
		}
		break
	}
	if err != nil {
		if v.channel.ended() {
			err = nil
		}
		return false, err
	}
	x.countInput(len(in.Data))
	return true, nil
}

// Fit gives the terminal this viewer's size, if it had the size of another viewer. It does nothing
// for other channels. Preconditions: Write has just returned.
func (v *Viewer) Fit() {
	if v.channel.terminal != nil {
		_ = v.channel.fit(v.ctx) // fails only when the terminal has ended
	}
}

// Resize changes the size of the viewer's terminal, and makes the viewer the active one.
// Preconditions: the channel is a terminal.
func (v *Viewer) Resize(ctx context.Context, size pty.Size) error {
	v.channel.terminal.bringForward(v, size)
	return v.channel.fit(ctx)
}

// Channel returns the viewer's channel.
func (v *Viewer) Channel() *Channel { return v.channel }

// ReadOnly reports whether the viewer may not act on the channel.
func (v *Viewer) ReadOnly() bool { return v.readOnly }

// Done is closed when the viewer has ended.
func (v *Viewer) Done() <-chan struct{} { return v.ctx.Done() }

// Close ends the viewer. The channel continues. Later calls do nothing.
func (v *Viewer) Close() {
	v.once.Do(func() {
		x := v.channel.set
		v.cancel()
		x.viewers.remove(v)
		if t := v.channel.terminal; t != nil {
			t.removeDriver(v)
			// The terminal gets the size of the next viewer, if there is one.
			if _, other := t.wantedSize(); other {
				v.client.Go(func() {
					ctx, cancel := context.WithTimeout(x.cfg.Life, fitLimit)
					defer cancel()
					_ = v.channel.fit(ctx) // fails only when the terminal has ended
				})
			}
		}
		v.reader.Close()
		v.read.Do(v.channel.finishReader)
		v.channel.removeReader()
	})
}
