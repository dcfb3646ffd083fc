package session

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/stream"
)

// Limits of what waits for one attached channel: requests and input that have
// been read from the link and not been carried out.
const (
	maxTasks     = 256
	maxTaskBytes = 4 << 20
)

// task is a request or an input that waits for its turn.
type task struct {
	size int
	run  func()
}

// attachment is a link's view of a channel, under a number of the client's.
// One goroutine pumps the log to the link; another, which lives only while
// there is something to do, carries tasks out in order.
type attachment struct {
	conn    *conn
	ch      uint32
	session *session
	channel *channel
	reader  *stream.LogReader
	ctx     context.Context
	cancel  context.CancelFunc
	once    sync.Once
	pumped  chan struct{} // closed when the pump has ended

	mu      sync.Mutex // guards all below
	tasks   []task
	bytes   int
	working bool
	// stuck is set when an input was refused: what followed it would be
	// input with a hole.
	stuck bool
}

// attach makes the link a viewer of a channel.
func (c *conn) attach(r protocol.Request, p protocol.Attach) (protocol.Attached, *attachment, error) {
	const op = "link.attach"
	var none protocol.Attached
	switch {
	case r.Ch == 0:
		return none, nil, fault.Invalid(op, "ch", "choose a number above 0")
	case p.Window < 0 || p.Window > protocol.MaxWindow:
		return none, nil, fault.Invalid(op, "window", "a window has between 0 and %d bytes", protocol.MaxWindow)
	}
	s, err := c.m.find(c.principal, p.Session)
	if err != nil {
		return none, nil, err
	}
	ch, err := s.channel(p.Channel)
	if err != nil {
		return none, nil, err
	}
	select {
	case <-ch.opened:
	default:
		return none, nil, fault.New(fault.Conflict, op, "the channel is starting; attach when its open has been answered")
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
	if err != nil {
		reader.Close()
		ch.release()
		return none, nil, err
	}
	a := &attachment{conn: c, ch: r.Ch, session: s, channel: ch, reader: reader, pumped: make(chan struct{})}
	a.ctx, a.cancel = context.WithCancel(c.ctx)
	c.mu.Lock()
	switch {
	case c.attached == nil:
		err = fault.New(fault.Canceled, op, "the link has ended")
	case c.attached[r.Ch] != nil:
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
	v := ch.view()
	return protocol.Attached{Epoch: v.Epoch, Offset: start, Channel: v}, a, nil
}

// start begins to pump; the reply to the attach has been sent.
func (a *attachment) start() {
	a.conn.work.Go(a.pump)
	if !a.session.addWatcher(a) {
		a.tellLost(a.session.lostEvent())
	}
}

// pump sends the log to the link until it ends, here or there.
func (a *attachment) pump() {
	defer close(a.pumped)
	var body []byte
	for {
		chunk, err := a.reader.Next(a.ctx)
		if err != nil {
			// The end of the log has been sent, or the link or the log is
			// gone: nothing to add.
			return
		}
		body = stream.AppendRecords(body[:0], chunk.Offset, chunk.Records)
		a.conn.send(stream.Frame{Type: stream.Records, Channel: a.ch, Body: body})
		if cap(body) > 1<<20 {
			body = nil
		}
	}
}

// ack returns credit.
func (a *attachment) ack(offset int64) {
	if err := a.reader.Ack(offset); err != nil && a.ctx.Err() == nil {
		a.conn.event(protocol.EventError, a.ch, fault.PublicOf(err))
	}
}

// lostWait is how long the news of a loss waits for the last records to be
// sent first, which a viewer without credit holds up.
const lostWait = 2 * time.Second

// tellLost tells the client that the sandbox is gone, behind the end of the
// log. It does not wait.
func (a *attachment) tellLost(l protocol.Lost) {
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

func (c *conn) event(name string, ch uint32, params any) {
	body, err := json.Marshal(params)
	if err != nil {
		return
	}
	c.control(protocol.Reply{Event: name, Ch: ch, Params: body})
}

// enqueue has a task carried out after those before it. It is false when too
// much waits.
func (a *attachment) enqueue(t task) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.tasks) >= maxTasks || a.bytes+t.size > maxTaskBytes && len(a.tasks) > 0 {
		return false
	}
	a.tasks = append(a.tasks, t)
	a.bytes += t.size
	if !a.working {
		a.working = true
		a.conn.work.Go(a.run)
	}
	return true
}

// run carries tasks out until there is none.
func (a *attachment) run() {
	for {
		a.mu.Lock()
		if len(a.tasks) == 0 {
			a.working, a.tasks = false, nil
			a.mu.Unlock()
			return
		}
		t := a.tasks[0]
		a.tasks[0] = task{}
		a.tasks = a.tasks[1:]
		a.mu.Unlock()
		t.run()
		a.mu.Lock()
		a.bytes -= t.size
		a.mu.Unlock()
	}
}

// close lets the channel go; the channel goes on.
func (a *attachment) close() {
	a.once.Do(func() {
		a.cancel()
		a.session.removeWatcher(a)
		a.reader.Close()
		a.channel.release()
	})
}

// detach ends the view under ch.
func (c *conn) detach(ch uint32) error {
	c.mu.Lock()
	a := c.attached[ch]
	delete(c.attached, ch)
	c.mu.Unlock()
	if a == nil {
		return fault.Invalid("link.detach", "ch", "nothing is attached as %d", ch)
	}
	a.close()
	return nil
}

// input passes an Input frame to a process. What cannot be taken is refused
// with an error event, and so is all that follows on this attachment: input
// has no holes.
func (c *conn) input(f stream.Frame) {
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
	}
	sequence := binary.BigEndian.Uint64(f.Body)
	data, end := append([]byte(nil), f.Body[8:]...), f.Flags&stream.FlagEnd != 0
	ok := a.enqueue(task{size: len(data), run: func() { a.write(sequence, data, end) }})
	if !ok {
		a.refuse(&fault.Error{Kind: fault.Exhausted, Op: op, Message: "the program does not read its input, and too much waits"})
	}
}

func (a *attachment) refuse(err error) {
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
func (a *attachment) write(sequence uint64, data []byte, end bool) {
	a.mu.Lock()
	stuck := a.stuck
	a.mu.Unlock()
	if stuck {
		a.conn.m.count.inputRefused.Add(1)
		return
	}
	done, err := a.session.begin(a.ctx)
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
		err = a.session.agent.Input(a.channel.wire, data, end)
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
	a.conn.m.count.inputBytes.Add(int64(len(data)))
	if sequence != 0 {
		a.conn.send(stream.Frame{Type: stream.Ack, Channel: a.ch, Body: binary.BigEndian.AppendUint64(nil, sequence)})
	}
}
