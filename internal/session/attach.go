package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// attachment is a link's view of a channel, under a number of the client's.
// One goroutine pumps the log to the link. Requests and input have a lane each,
// so that a signal does not wait behind input that nobody reads.
type Viewer struct {
	conn    *linkHandler
	ch      uint32
	session *Session
	channel *Channel
	reader  *stream.LogReader
	ctx     context.Context
	cancel  context.CancelFunc
	once    sync.Once
	pumped  chan struct{} // closed when the pump has ended

	readOnly bool
	came     time.Time // when it became one of the session's; guarded by the session
	// fresh says that the viewer has seen nothing of a terminal yet: it begins
	// with a restore.
	fresh            bool
	begin            int64    // the offset at which it begins
	replay           int64    // the end of the log when it came: before it all is old
	size             pty.Size // of the viewer's terminal, if it has one; guarded by the channel's terminal
	writer           *writer
	requests, inputs serialQueue
	news             serialQueue // events of the session's state, in their order

	mu sync.Mutex // guards all below
	// stuck is set when an input was refused: what followed it would be
	// input with a hole.
	stuck bool
}

// onlyReads reports whether the link's principal may read and not write. One
// that may do neither is a run's, whom the gateway lets attach to it alone.
func (c *linkHandler) onlyReads() bool {
	return slices.Contains(c.principal.Scopes, tenant.ScopeRead) && !slices.Contains(c.principal.Scopes, tenant.ScopeWrite)
}

// attach makes the link a viewer of a channel.
func (c *linkHandler) attach(r protocol.Request, p protocol.Attach) (protocol.Attached, *Viewer, error) {
	const op = "link.attach"
	var none protocol.Attached
	if c.onlyReads() && p.Writer == "" {
		p.ReadOnly = true
	}
	switch {
	case c.onlyReads() && p.Writer != "":
		// It would take over another's stream of input.
		return none, nil, &fault.Error{Kind: fault.PermissionDenied, Op: op, Field: "writer", Message: "these credentials write nothing"}
	case r.Ch == 0:
		return none, nil, fault.Invalid(op, "ch", "choose a number above 0")
	case p.Window < 0 || p.Window > protocol.MaxWindow:
		return none, nil, fault.Invalid(op, "window", "a window has between 0 and %d bytes", protocol.MaxWindow)
	case len(p.Writer) > protocol.MaxWriter:
		return none, nil, fault.Invalid(op, "writer", "a writer's name has at most %d bytes", protocol.MaxWriter)
	case p.ReadOnly && p.Writer != "":
		return none, nil, fault.Invalid(op, "writer", "a viewer that is read-only writes nothing")
	}
	s, err := c.m.Find(c.principal, p.Session)
	if err != nil {
		return none, nil, err
	}
	ch, err := s.Channel(p.Channel)
	if err != nil {
		return none, nil, err
	}
	select {
	case <-ch.opened:
	default:
		return none, nil, fault.New(fault.Conflict, op, "the channel is starting; attach when its open has been answered")
	}
	size := pty.Size{Cols: p.Cols, Rows: p.Rows}
	if ch.terminal != nil && size != (pty.Size{}) {
		if err := size.Check(op); err != nil {
			return none, nil, err
		}
	}
	if !ch.hold() {
		return none, nil, fault.New(fault.NotFound, op, "the channel has been closed")
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
		ch.release()
		return none, nil, err
	}
	a := &Viewer{
		conn: c, ch: r.Ch, session: s, channel: ch, reader: reader, pumped: make(chan struct{}), readOnly: p.ReadOnly, begin: start,
		requests: serialQueue{work: &c.work}, inputs: serialQueue{work: &c.work}, news: serialQueue{work: &c.work},
	}
	a.ctx, a.cancel = context.WithCancel(c.ctx)
	b := ch.log.Bounds()
	a.replay, a.fresh = b.End, ch.terminal != nil && (p.Epoch != b.Epoch || p.Offset < 0)
	c.mu.Lock()
	switch {
	case c.attached == nil:
		err = fault.New(fault.Canceled, op, "the link has ended")
	case c.attached[r.Ch] != nil || c.watches[r.Ch] != nil:
		err = fault.Invalid(op, "ch", "%d is attached already", r.Ch)
	case len(c.attached) >= protocol.MaxAttached:
		err = fault.New(fault.Exhausted, op, "a connection attaches at most %d channels", protocol.MaxAttached)
	default:
		c.attached[r.Ch] = a
	}
	c.mu.Unlock()
	if err != nil {
		a.close()
		return none, nil, err
	}
	var taken uint64
	if !p.ReadOnly {
		if a.writer, taken, err = ch.claimWriter(p.Writer, a); err != nil {
			_ = c.detach(r.Ch)
			return none, nil, err
		}
		if ch.terminal != nil {
			a.size = size
			if first := ch.terminal.join(a, !a.fresh || size == (pty.Size{})); first {
				a.replay = 0 // nobody has answered what was asked before it came
			}
		}
	}
	v := ch.View()
	return protocol.Attached{Epoch: v.Epoch, Offset: start, Channel: v, Input: taken}, a, nil
}

// start begins to pump; the reply to the attach has been sent.
func (a *Viewer) start() {
	a.conn.work.Go(a.pump)
	if a.channel.terminal != nil {
		a.conn.work.Go(a.settle)
	}
	if !a.session.addWatcher(a) {
		a.tellLost(a.session.lostEvent())
	} else if a.session.is(hibernated) {
		a.tellState(protocol.StateChange{Session: a.session.id, State: hibernated})
	}
}

// settle gives the terminal the new driver's size, and shows the viewer the
// whole screen of a program that draws one.
func (a *Viewer) settle() {
	size, _ := a.channel.terminal.now()
	if !a.readOnly {
		if err := a.channel.fit(a.ctx); err != nil {
			return // the sandbox has ended, or the viewer has left
		}
	}
	if now, _ := a.channel.terminal.now(); now == size && a.fresh && a.begin > 0 {
		a.channel.redraw()
	}
}

// pump sends the log to the link until it ends, here or there.
func (a *Viewer) pump() {
	defer close(a.pumped)
	if a.fresh {
		a.restore(a.begin)
	}
	for {
		chunk, err := a.reader.Next(a.ctx)
		if err != nil {
			// The end of the log has been sent, or the link or the log is
			// gone: nothing to add.
			return
		}
		body := stream.GetBuffer()
		*body = stream.AppendRecords(*body, chunk.Offset, chunk.Records)
		a.conn.send(stream.Frame{Type: stream.Records, Channel: a.ch, Body: *body})
		a.conn.m.metrics.sent.Add(float64(len(*body)))
		a.conn.m.metrics.frames.Inc()
		if isGap(chunk) {
			a.conn.m.metrics.gaps.Inc()
		}
		stream.PutBuffer(body)
		if t := a.channel.terminal; t != nil && isGap(chunk) {
			// Nobody knows what the screen was like where the log begins now:
			// go on where somebody does, at most 64 KiB of output further.
			if known := t.floor(a.channel.log, chunk.Offset); known > chunk.Offset {
				a.reader.Skip(known)
			} else {
				a.restore(chunk.Offset)
			}
		}
	}
}

// restore sends what brings a terminal into the state at offset. Where nobody
// knows it any more, a gap follows, and with it another restore.
func (a *Viewer) restore(offset int64) {
	s, err := a.channel.terminal.at(a.ctx, a.channel.log, offset)
	if err != nil {
		return
	}
	payload, err := json.Marshal(stream.Restore{Cols: s.Size.Cols, Rows: s.Size.Rows, Data: s.Restore()})
	if err != nil {
		return
	}
	record := stream.Record{Kind: stream.KindRestore, Time: time.Now().UnixMicro(), Payload: payload}
	a.conn.send(stream.Frame{Type: stream.Records, Channel: a.ch, Body: stream.AppendRecords(nil, offset, stream.AppendRecord(nil, record))})
	a.conn.m.count.screensRestored.Add(1)
}

// ack returns credit.
func (a *Viewer) ack(offset int64) {
	if err := a.reader.Ack(offset); err != nil && a.ctx.Err() == nil {
		a.conn.event(protocol.EventError, a.ch, fault.PublicOf(err))
	}
}

// follow makes the viewer keep up with the log's end, or read all of it again.
func (a *Viewer) follow(p protocol.Follow) error {
	const op = "link.follow"
	switch {
	case p.Behind < 0:
		return fault.Invalid(op, "behind", "a viewer is 0 or more bytes behind")
	case p.Before < 0 || p.Before > p.Behind:
		return fault.Invalid(op, "before", "a viewer goes on 0 to behind bytes before the end")
	case p.Window < 0 || p.Window > protocol.MaxWindow:
		return fault.Invalid(op, "window", "a window has between 0 and %d bytes", protocol.MaxWindow)
	}
	a.reader.Follow(p.Behind, p.Before, p.Window)
	return nil
}

// fitLimit bounds the change of size that a driver's leaving brings about.
const fitLimit = 10 * time.Second

// lostWait is how long the news of a loss waits for the last records to be
// sent first, which a viewer without credit holds up.
const lostWait = 2 * time.Second

// tellLost tells the client that the sandbox is gone, behind the end of the
// log. It does not wait.
func (a *Viewer) tellLost(l protocol.Lost) {
	// With the link's lock, so that none begins once the link waits for all.
	a.conn.mu.Lock()
	defer a.conn.mu.Unlock()
	if a.conn.attached == nil {
		return
	}
	a.conn.work.Go(func() {
		timer := time.NewTimer(lostWait)
		defer timer.Stop()
		select {
		case <-a.pumped:
		case <-timer.C:
		case <-a.ctx.Done():
			return // nobody is there any more
		}
		a.conn.event(protocol.EventLost, a.ch, l)
	})
}

// tellState tells the client of the session's new state. It does not wait.
func (a *Viewer) tellState(change protocol.StateChange) { a.tell(protocol.EventState, change) }

// tell tells the client something of the session. It does not wait.
func (a *Viewer) tell(event string, params any) {
	a.conn.mu.Lock()
	defer a.conn.mu.Unlock()
	if a.conn.attached != nil {
		a.news.add(task{run: func() { a.conn.event(event, a.ch, params) }})
	}
}

func (c *linkHandler) event(name string, ch uint32, params any) {
	body, err := json.Marshal(params)
	if err != nil {
		return
	}
	c.control(protocol.Reply{Event: name, Ch: ch, Params: body})
}

// close lets the channel go; the channel goes on.
func (a *Viewer) close() {
	a.once.Do(func() {
		a.cancel()
		a.session.removeWatcher(a)
		if t := a.channel.terminal; t != nil {
			t.leave(a)
			// The next driver's size, when there is one.
			if _, other := t.wanted(); other {
				a.conn.work.Go(func() {
					ctx, cancel := context.WithTimeout(a.session.life, fitLimit)
					defer cancel()
					_ = a.channel.fit(ctx) // it can only have ended
				})
			}
		}
		a.reader.Close()
		a.channel.release()
	})
}

// detach ends the view under ch.
func (c *linkHandler) detach(ch uint32) error {
	c.mu.Lock()
	a := c.attached[ch]
	delete(c.attached, ch)
	c.mu.Unlock()
	if a == nil && c.unwatch(ch) {
		return nil
	}
	if a == nil {
		return fault.Invalid("link.detach", "ch", "nothing is attached as %d", ch)
	}
	a.close()
	return nil
}

// input passes an Input frame to a process. What cannot be taken is refused
// with an error event, and so is all that follows on this attachment: input
// has no holes.
func (c *linkHandler) input(f stream.Frame) {
	const op = "link.input"
	a := c.find(f.Channel)
	switch {
	case a == nil:
		c.event(protocol.EventError, f.Channel, fault.PublicOf(fault.Invalid(op, "ch", "nothing is attached as %d", f.Channel)))
		return
	case len(f.Body) < 8 || len(f.Body) > 8+protocol.MaxInput:
		c.event(protocol.EventError, f.Channel, fault.PublicOf(fault.New(fault.TooLarge, op, "an Input frame has a sequence number of 8 bytes and at most %d bytes behind it", protocol.MaxInput)))
		return
	case a.channel.queue != nil:
		c.event(protocol.EventError, f.Channel, fault.PublicOf(fault.New(fault.Unsupported, op, "a kernel takes input by the operation input")))
		return
	case a.readOnly:
		a.refuse(fault.New(fault.PermissionDenied, op, "this viewer is read-only"))
		return
	case a.channel.terminal != nil && f.Flags&stream.FlagEnd != 0:
		a.refuse(fault.New(fault.Unsupported, op, "what is typed into a terminal has no end: type Ctrl-D"))
		return
	case a.channel.terminal == nil && f.Flags&stream.FlagPaste != 0:
		a.refuse(fault.New(fault.Unsupported, op, "a paste is for a terminal"))
		return
	}
	p := part{
		sequence: binary.BigEndian.Uint64(f.Body), data: append([]byte(nil), f.Body[8:]...),
		end: f.Flags&stream.FlagEnd != 0, paste: f.Flags&stream.FlagPaste != 0,
	}
	ok := a.inputs.add(task{size: len(p.data), run: func() { a.write(p) }})
	if !ok {
		a.refuse(&fault.Error{Kind: fault.Exhausted, Op: op, Message: "the program does not read its input, and too much waits"})
	}
}

func (a *Viewer) refuse(err error) {
	a.mu.Lock()
	first := !a.stuck
	a.stuck = true
	a.mu.Unlock()
	a.conn.m.count.inputRefused.Add(1)
	if first {
		a.conn.event(protocol.EventError, a.ch, fault.PublicOf(err))
	}
}

// write brings input to the program, waiting for one that is slow to read. A
// frame with a sequence number is acknowledged with it.
func (a *Viewer) write(p part) {
	a.mu.Lock()
	stuck := a.stuck
	a.mu.Unlock()
	if stuck {
		a.conn.m.count.inputRefused.Add(1)
		return
	}
	done, err := a.session.acquireOwned(a.ctx)
	if err != nil {
		a.refuse(err)
		return
	}
	defer done()
	// The agent tells of room by Acks that its client does not pass on, so
	// look again, at growing intervals.
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err = a.writer.put(a.ctx, a, p)
		if !fault.Is(err, fault.Exhausted) && !fault.Is(err, fault.Slow) {
			break
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
			continue
		case <-a.ctx.Done():
		case <-a.session.life.Done():
		}
		break
	}
	if err != nil {
		if !a.channel.ended() {
			a.refuse(err)
		}
		return
	}
	a.conn.m.count.inputBytes.Add(int64(len(p.data)))
	a.took(len(p.data))
	if p.sequence != 0 {
		a.conn.send(stream.Frame{Type: stream.Ack, Channel: a.ch, Body: binary.BigEndian.AppendUint64(nil, p.sequence)})
	}
	if a.channel.terminal != nil {
		_ = a.channel.fitAwake(a.ctx) // it can only have ended
	}
}
