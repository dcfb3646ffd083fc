package session

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// LinkID identifies the connection that a viewer came over. Viewers of one
// connection count as one person.
type LinkID uint64

// Client is the far end of a viewer: the connection that shows it to a user.
// Its methods do not wait, and are called with locks of the session held.
type Client interface {
	// Link identifies the connection.
	Link() LinkID
	// Notify sends an event about the session.
	Notify(event string, params any)
	// NotifyLost reports that the sandbox is gone. The event follows the last
	// records of the log if those are sent soon.
	NotifyLost(lost protocol.Lost)
	// Disconnect closes the connection, so that the client finds the session
	// where it is now.
	Disconnect()
	// Go runs f in a goroutine that the connection waits for when it ends.
	Go(f func())
}

// Viewer is a client's view of a channel: its position in the log, its stream
// of input, and its part in a terminal.
//
// The order of calls is Session.Attach, Join, Start, and then Pump, Write and
// the others in any goroutine, until Close.
type Viewer struct {
	client  Client
	session *Session
	channel *Channel
	reader  *stream.LogReader
	ctx     context.Context
	cancel  context.CancelFunc
	once    sync.Once

	readOnly      bool
	name          string   // of its writer
	requestedSize pty.Size // that it came with
	writer        *writer
	joinedAt      time.Time // when it became one of the session's; guarded by the session
	// fresh reports that the viewer has seen nothing of a terminal yet: it
	// begins with a restore.
	fresh       bool
	firstOffset int64    // the offset at which it begins
	replayEnd   int64    // the end of the log when it came: everything before is old
	size        pty.Size // of the viewer's terminal, if it has one; guarded by the channel's terminal
}

// fitLimit bounds the change of size that a driver's leaving brings about.
const fitLimit = 10 * time.Second

// Attach begins a viewer of a channel, at the position that p names. The caller
// closes it. ctx ends the viewer.
//
// Errors: NotFound for a channel that does not exist or has been closed,
// Conflict for one that is starting, InvalidArgument for a size or a position
// that cannot be.
func (s *Session) Attach(ctx context.Context, client Client, p protocol.Attach) (*Viewer, error) {
	const op = "link.attach"
	ch, err := s.Channel(p.Channel)
	if err != nil {
		return nil, err
	}
	select {
	case <-ch.opened:
	default:
		return nil, fault.New(fault.Conflict, op, "the channel is starting; attach when its open has been answered")
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
		// The last n bytes at most, from where the screen's state is known.
		if known := t.floor(ch.log, start); known > start {
			reader.Close()
			reader = ch.log.Reader(0, known, window)
			start, err = reader.Start()
		}
	}
	if err != nil {
		reader.Close()
		ch.removeReader()
		return nil, err
	}
	v := &Viewer{
		client: client, session: s, channel: ch, reader: reader,
		readOnly: p.ReadOnly, name: p.Writer, requestedSize: size, firstOffset: start,
	}
	v.ctx, v.cancel = context.WithCancel(ctx)
	b := ch.log.Bounds()
	v.replayEnd, v.fresh = b.End, ch.terminal != nil && (p.Epoch != b.Epoch || p.Offset < 0)
	return v, nil
}

// Join gives the viewer its stream of input and its part in the terminal, and
// returns the answer to the client. From here on a viewer with the same
// writer gets nothing through. Errors: Exhausted when the channel has all the
// writers it can have.
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
			if first := ch.terminal.addDriver(v, !v.fresh || v.requestedSize == (pty.Size{})); first {
				v.replayEnd = 0 // questions from before have no answer yet
			}
		}
	}
	c := ch.View()
	return protocol.Attached{Epoch: c.Epoch, Offset: v.firstOffset, Channel: c, Input: taken}, nil
}

// Start makes the viewer one of the session's: it is notified of changes, or at
// once when the session is lost or hibernated. Preconditions: Join has returned
// without an error, and the client has its answer.
func (v *Viewer) Start() {
	if v.channel.terminal != nil {
		v.client.Go(v.showScreen)
	}
	if !v.session.addViewer(v) {
		v.client.NotifyLost(v.session.lostEvent())
	} else if v.session.is(hibernated) {
		v.client.Notify(protocol.EventState, protocol.StateChange{Session: v.session.spec.ID, State: hibernated.String()})
	}
}

// showScreen gives the terminal the new driver's size, and shows the viewer the
// whole screen of a program that draws one.
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

// Pump passes the log's records to send, in order, until the log or the viewer
// ends. It waits while the viewer has no credit. send returns how many bytes it
// sent, and does not keep the records.
func (v *Viewer) Pump(send func(offset int64, records []byte) int) {
	if v.fresh {
		v.restore(v.firstOffset, send)
	}
	for {
		chunk, err := v.reader.Next(v.ctx)
		if err != nil {
			// The end of the log has been sent, or the link or the log is
			// gone: nothing to add.
			return
		}
		n := send(chunk.Offset, chunk.Records)
		x := v.session.m.stats
		x.SentBytes.Add(int64(n))
		x.SentFrames.Add(1)
		gap := isGap(chunk)
		if gap {
			x.Gaps.Add(1)
		}
		if t := v.channel.terminal; t != nil && gap {
			// The state of the screen where the log begins now is not known:
			// continue where it is, at most 64 KiB of output further.
			if known := t.floor(v.channel.log, chunk.Offset); known > chunk.Offset {
				v.reader.Skip(known)
			} else {
				v.restore(chunk.Offset, send)
			}
		}
	}
}

// restore sends a record that brings a terminal into the state at offset. If that
// state is not known any more, a gap follows, and with it another restore.
func (v *Viewer) restore(offset int64, send func(int64, []byte) int) {
	s, err := v.channel.terminal.at(v.ctx, v.channel.log, offset)
	if err != nil {
		return
	}
	payload, err := json.Marshal(stream.Restore{Cols: s.Size.Cols, Rows: s.Size.Rows, Data: s.Restore()})
	if err != nil {
		return
	}
	send(offset, stream.AppendRecord(nil, stream.Record{Kind: stream.KindRestore, Time: time.Now().UnixMicro(), Payload: payload}))
	v.session.m.stats.ScreensRestored.Add(1)
}

// Ack returns credit: the client has received everything before offset. An
// offset that was not sent is an error, unless the viewer has ended.
func (v *Viewer) Ack(offset int64) error {
	if err := v.reader.Ack(offset); err != nil && v.ctx.Err() == nil {
		return err
	}
	return nil
}

// Follow makes the viewer keep up with the log's end, or read all of it again.
func (v *Viewer) Follow(p protocol.Follow) error {
	const op = "link.follow"
	switch {
	case p.Behind < 0:
		return fault.Invalid(op, "behind", "a viewer is 0 or more bytes behind")
	case p.Before < 0 || p.Before > p.Behind:
		return fault.Invalid(op, "before", "a viewer goes on 0 to behind bytes before the end")
	case p.Window < 0 || p.Window > protocol.MaxWindow:
		return fault.Invalid(op, "window", "a window has between 0 and %d bytes", protocol.MaxWindow)
	}
	v.reader.Follow(p.Behind, p.Before, p.Window)
	return nil
}

// Write passes input to the program, and waits while the program is slow to
// read. It resumes a session that is paused or hibernated, and waits while the
// node does not know whether the session is its own. Input that was taken
// before is not passed again. One goroutine at a time calls it.
//
// An error means that the input was not taken; input that follows would have a
// hole. done is false, without an error, when the process has ended.
func (v *Viewer) Write(in Input) (done bool, err error) {
	release, err := v.session.acquireOwned(v.ctx)
	if err != nil {
		return false, err
	}
	defer release()
	// The agent client does not report Acks, so try again at growing intervals.
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
		case <-v.session.life.Done():
		}
		break
	}
	if err != nil {
		if v.channel.ended() {
			err = nil
		}
		return false, err
	}
	v.session.m.stats.InputBytes.Add(int64(len(in.Data)))
	v.session.meter.In.Add(int64(len(in.Data)))
	return true, nil
}

// Fit gives the terminal this viewer's size, if another one had its own before.
// It does nothing for other channels. Preconditions: Write has just returned.
func (v *Viewer) Fit() {
	if v.channel.terminal != nil {
		_ = v.channel.fit(v.ctx) // it can only have ended
	}
}

// Resize changes the size of the viewer's terminal, and puts the viewer in
// front. Errors: InvalidArgument for a channel that is not a terminal.
func (v *Viewer) Resize(ctx context.Context, size pty.Size) error {
	v.channel.terminal.bringForward(v, size)
	return v.channel.fit(ctx)
}

// Session returns the viewer's session.
func (v *Viewer) Session() *Session { return v.session }

// Channel returns the viewer's channel.
func (v *Viewer) Channel() *Channel { return v.channel }

// ReadOnly reports whether the viewer may not act on the channel.
func (v *Viewer) ReadOnly() bool { return v.readOnly }

// Done is closed when the viewer has ended.
func (v *Viewer) Done() <-chan struct{} { return v.ctx.Done() }

// Close ends the viewer; the channel continues. Later calls do nothing.
func (v *Viewer) Close() {
	v.once.Do(func() {
		v.cancel()
		v.session.removeViewer(v)
		if t := v.channel.terminal; t != nil {
			t.removeDriver(v)
			// The next driver's size, when there is one.
			if _, other := t.wantedSize(); other {
				v.client.Go(func() {
					ctx, cancel := context.WithTimeout(v.session.life, fitLimit)
					defer cancel()
					_ = v.channel.fit(ctx) // it can only have ended
				})
			}
		}
		v.reader.Close()
		v.channel.removeReader()
	})
}
