package session

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// Limits of the node's state of a terminal.
const (
	// markEvery is how many bytes of output lie between two marks.
	markEvery = 64 << 10
	// scanWindow is the credit of the reader that goes from a mark to an
	// offset: more than any two records.
	scanWindow = 4 * stream.MaxBody
	// scanTries is how often a scan starts again because the log has dropped the
	// records that were to be read.
	scanTries = 4
)

// Terminal is the node's state of a terminal, beside its log: the state that the
// program's output has brought it into, now and at marks on the way, its size,
// and its drivers, the viewers that may type.
//
// The size is the one of the driver that was active last: it typed, changed its
// size or attached. A tab that was left open on a telephone makes nobody's screen
// small.
type Terminal struct {
	shell  bool // nobody asked for another program
	output atomic.Int64
	drawn  coalescer

	mu      sync.Mutex // guards all below, and the order of records
	scan    *pty.Scanner
	marks   []mark // by offset
	since   int    // bytes since the last mark
	size    pty.Size
	drivers []*Viewer // the one in front is last
	driven  bool      // there has been one
	// resizing is held while the agent changes the size.
	resizing ctxlock.Lock
}

// mark is the state at an offset of the log, where a record begins.
type mark struct {
	offset int64
	state  pty.State
}

func newTerminal(size pty.Size, shell bool) *Terminal {
	t := &Terminal{shell: shell, scan: pty.NewScanner(size), size: size, resizing: ctxlock.New()}
	t.output.Store(time.Now().UnixNano())
	return t
}

// append adds output to the log and scans it.
func (t *Terminal) append(log *stream.Log, body []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since >= markEvery || len(t.marks) == 0 {
		t.mark(log)
	}
	if _, err := log.Append(stream.KindStdout, 0, body); err != nil {
		return err
	}
	t.scan.Write(body)
	t.since += len(body)
	t.output.Store(time.Now().UnixNano())
	return nil
}

// resized notes that the terminal has another size.
func (t *Terminal) resized(log *stream.Log, size pty.Size, event []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size = size
	if _, err := log.Append(stream.KindEvent, 0, event); err == nil { // it can only have ended
		t.scan.Resize(size)
	}
}

// mark notes the state at the end of the log, and removes marks from before its
// beginning. Preconditions: mu is held.
func (t *Terminal) mark(log *stream.Log) mark {
	b := log.Bounds()
	t.marks = slices.DeleteFunc(t.marks, func(m mark) bool { return m.offset < b.Oldest })
	m := mark{b.End, t.scan.State()}
	if n := len(t.marks); n == 0 || t.marks[n-1].offset < m.offset {
		t.marks = append(t.marks, m)
	}
	t.since = 0
	return m
}

// base returns the mark from which a scan reaches the state at offset. If the log
// has dropped the records from there on, it is a later mark.
func (t *Terminal) base(log *stream.Log, offset int64) mark {
	t.mu.Lock()
	defer t.mu.Unlock()
	oldest := log.Bounds().Oldest
	var best *mark
	for i := range t.marks {
		m := &t.marks[i]
		if m.offset < oldest {
			continue
		}
		if m.offset > offset && best != nil {
			break
		}
		if best = m; m.offset > offset {
			break
		}
	}
	if best != nil {
		return *best
	}
	return t.mark(log)
}

// floor is the first offset from the given one on at which the state can be
// known.
func (t *Terminal) floor(log *stream.Log, offset int64) int64 {
	return max(offset, t.base(log, offset).offset)
}

// at is the state at an offset that floor has returned. It reads at most the
// output between two marks.
func (t *Terminal) at(ctx context.Context, log *stream.Log, offset int64) (pty.State, error) {
	const op = "session.restore"
	for range scanTries {
		m := t.base(log, offset)
		if m.offset > offset {
			break
		}
		s, ok, err := scanTo(ctx, log, m, offset)
		if ok || err != nil {
			return s, err
		}
	}
	return pty.State{}, fault.New(fault.NotFound, op, "the log no longer has what leads to %d", offset)
}

// scanTo reads the log from a mark to an offset. It is false when the log has
// dropped something on the way.
func scanTo(ctx context.Context, log *stream.Log, m mark, offset int64) (pty.State, bool, error) {
	if m.offset == offset {
		return m.state, true, nil
	}
	scan := pty.ResumeScanner(m.state)
	r := log.Reader(0, m.offset, scanWindow)
	defer r.Close()
	for pos := m.offset; pos < offset; {
		chunk, err := r.Next(ctx)
		if err != nil {
			return pty.State{}, false, err
		}
		if isGap(chunk) {
			return pty.State{}, false, nil
		}
		for rest := chunk.Records; len(rest) > 0 && pos < offset; {
			var rec stream.Record
			if rec, rest, err = stream.ParseRecord(rest); err != nil {
				return pty.State{}, false, err
			}
			pos += rec.Size()
			switch rec.Kind {
			case stream.KindStdout:
				scan.Write(rec.Payload)
			case stream.KindEvent:
				var e resized
				if json.Unmarshal(rec.Payload, &e) == nil && e.Event == resizeEvent {
					scan.Resize(e.Size)
				}
			}
		}
		if err := r.Ack(chunk.End()); err != nil {
			return pty.State{}, false, err
		}
	}
	return scan.State(), true, nil
}

func isGap(c stream.Chunk) bool {
	return len(c.Records) >= stream.RecordHeaderSize && stream.Kind(c.Records[4]) == stream.KindGap
}

// resizeEvent is the event record of a change of size.
const resizeEvent = "resize"

type resized struct {
	Event string `json:"event"`
	pty.Size
}

// sizeAndTitle returns the terminal's size and title.
func (t *Terminal) sizeAndTitle() (size pty.Size, title string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size, t.scan.State().Title()
}

// paste reports whether the program wants pasted text in brackets.
func (t *Terminal) paste() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scan.Paste()
}

// alternate reports whether the program draws a screen of its own.
func (t *Terminal) alternate() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scan.State().Alternate()
}

// addDriver makes a viewer a driver: in front, unless it continues after a lost
// connection while others are there. It reports whether it is the first driver
// that the terminal has had.
func (t *Terminal) addDriver(a *Viewer, again bool) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, t.driven = !t.driven, true
	if again {
		t.drivers = slices.Insert(t.drivers, 0, a)
	} else {
		t.drivers = append(t.drivers, a)
	}
	return first
}

func (t *Terminal) removeDriver(a *Viewer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drivers = slices.DeleteFunc(t.drivers, func(d *Viewer) bool { return d == a })
}

// bringForward puts a driver in front, with another size unless size is zero.
func (t *Terminal) bringForward(a *Viewer, size pty.Size) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if size != (pty.Size{}) {
		a.size = size
	}
	if n := len(t.drivers); n > 0 && t.drivers[n-1] == a {
		return
	}
	t.drivers = append(slices.DeleteFunc(t.drivers, func(d *Viewer) bool { return d == a }), a)
}

// wantedSize returns the size of the foremost driver that has one, and whether
// the terminal has another.
func (t *Terminal) wantedSize() (pty.Size, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.foremost(); d != nil {
		return d.size, d.size != t.size
	}
	return t.size, false
}

// answers reports whether the program gets the answers of this driver's terminal
// to its questions. With several drivers, only one answers.
func (t *Terminal) answers(a *Viewer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.foremost(); d != nil {
		return d == a
	}
	return len(t.drivers) > 0 && t.drivers[len(t.drivers)-1] == a
}

func (t *Terminal) foremost() *Viewer {
	for _, d := range slices.Backward(t.drivers) {
		if d.size != (pty.Size{}) {
			return d
		}
	}
	return nil
}

// fit gives the terminal the wanted size, if it has another. It does not resume a
// session for that: the next input does it.
func (c *Channel) fit(ctx context.Context) error {
	t := c.terminal
	if _, other := t.wantedSize(); !other || c.ended() {
		return nil
	}
	if c.session.asleep() {
		return nil
	}
	end, err := c.session.Acquire(ctx)
	if err != nil {
		return err
	}
	defer end()
	return c.fitAwake(ctx)
}

// fitAwake is fit for a session that is acquired.
func (c *Channel) fitAwake(ctx context.Context) error {
	t := c.terminal
	if err := t.resizing.Lock(ctx); err != nil {
		return fault.Wrap(fault.KindOf(err), "session.resize", err)
	}
	defer t.resizing.Unlock()
	size, other := t.wantedSize()
	if !other || c.ended() {
		return nil
	}
	if err := c.session.agent.Resize(ctx, c.wire, wire.Resize{Size: size}); err != nil {
		if c.ended() {
			return nil
		}
		return err
	}
	body, err := json.Marshal(resized{resizeEvent, size})
	if err != nil {
		return fault.Wrap(fault.Internal, "session.resize", err)
	}
	t.resized(c.log, size, body)
	return nil
}

// redraw makes a full-screen program draw its screen again, for a viewer that has
// not seen all of it. For all viewers that attach meanwhile it is done once more.
func (c *Channel) redraw() {
	t := c.terminal
	if !t.alternate() || c.ended() || c.session.asleep() || !t.drawn.start() {
		return
	}
	for again := true; again; again = t.drawn.finish() {
		ctx, cancel := context.WithTimeout(c.session.life, fitLimit)
		c.redrawOnce(ctx)
		cancel()
	}
}

func (c *Channel) redrawOnce(ctx context.Context) {
	t := c.terminal
	end, err := c.session.Acquire(ctx)
	if err != nil {
		return
	}
	defer end()
	if t.resizing.Lock(ctx) != nil {
		return
	}
	defer t.resizing.Unlock()
	size, _ := t.sizeAndTitle()
	_ = c.session.agent.Resize(ctx, c.wire, wire.Resize{Size: size, Redraw: true}) // it can only have ended
}

// coalescer makes one run of several requests at the same time. The run starts
// after the last of the requests.
type coalescer struct {
	mu             sync.Mutex // guards all below
	running, again bool
}

// start reports whether the caller runs it.
func (j *coalescer) start() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.again = j.running
	first := !j.running
	j.running = true
	return first
}

// finish reports whether it is to be run once more.
func (j *coalescer) finish() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running, j.again = j.again, false
	return j.running
}

// busyLimit bounds the agent's check for programs that run in a terminal.
const busyLimit = 2 * time.Second

// terminalBusy reports whether a terminal keeps its sandbox awake: it has printed
// something since the given time, or its shell has started something that runs.
func (c *Channel) terminalBusy(ctx context.Context, since time.Time) bool {
	t := c.terminal
	if !t.shell || t.output.Load() > since.UnixNano() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, busyLimit)
	defer cancel()
	n, err := c.session.agent.Running(ctx, c.wire)
	return n > 0 || err != nil && !fault.Is(err, fault.NotFound)
}
