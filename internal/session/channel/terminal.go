package channel

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/pty"
	"github.com/sandgate/sandgate/stream"
)

// Limits of the node's state of a terminal.
const (
	// markEvery is how many bytes of output are between two marks.
	markEvery = 64 << 10
	// scanWindow is the credit of the reader that reads from a mark to an offset: more than any
	// two records.
	scanWindow = 4 * frame.MaxBody
	// scanTries is how often a scan starts because the log has dropped the records that it needs.
	scanTries = 4
)

// terminal is the node's state of a terminal besides its log: the state of the screen after the
// program's output, now and at marks in the log, its size, and its drivers. A driver is a viewer
// that may type.
//
// The terminal has the size of the driver that was active last: it typed, changed its size or
// attached. So a tab that was left open on a telephone does not make the screens of others small.
type terminal struct {
	shell  bool         // runs the default shell
	output atomic.Int64 // the time of the last output, in nanoseconds
	drawn  coalescer

	mu      sync.Mutex // guards all below, and the order of records
	scan    *pty.Scanner
	marks   []mark // by offset
	since   int    // bytes since the last mark
	size    pty.Size
	drivers []*Viewer // the active one is last
	driven  bool      // it has had a driver
	// resizing is held while the agent changes the size. It is not guarded by mu.
	resizing ctxlock.Lock
}

// mark is the screen's state at an offset of the log, where a record begins.
type mark struct {
	offset int64
	state  pty.State
}

func newTerminal(size pty.Size, shell bool) *terminal {
	t := &terminal{shell: shell, scan: pty.NewScanner(size), size: size, resizing: ctxlock.New()}
	t.output.Store(time.Now().UnixNano())
	return t
}

// append adds output to the log and scans it.
func (t *terminal) append(log *stream.Log, body []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.since >= markEvery || len(t.marks) == 0 {
		t.mark(log)
	}
	if _, err := log.Append(frame.KindStdout, 0, body); err != nil {
		return err
	}
	t.scan.Write(body)
	t.since += len(body)
	t.output.Store(time.Now().UnixNano())
	return nil
}

// resized records a new size.
func (t *terminal) resized(log *stream.Log, size pty.Size, event []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.size = size
	if _, err := log.Append(frame.KindEvent, 0, event); err == nil { // it can only have ended
		t.scan.Resize(size)
	}
}

// mark adds a mark at the end of the log, and removes the marks before its beginning.
// Preconditions: mu is held.
func (t *terminal) mark(log *stream.Log) mark {
	b := log.Bounds()
	t.marks = slices.DeleteFunc(t.marks, func(m mark) bool { return m.offset < b.Oldest })
	m := mark{b.End, t.scan.State()}
	if n := len(t.marks); n == 0 || t.marks[n-1].offset < m.offset {
		t.marks = append(t.marks, m)
	}
	t.since = 0
	return m
}

// base returns the mark from which a scan reaches offset. If the log has dropped the records after
// that mark, base returns a later mark.
func (t *terminal) base(log *stream.Log, offset int64) mark {
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

// floor returns the first offset at or after the given one at which the state can be known.
func (t *terminal) floor(log *stream.Log, offset int64) int64 {
	return max(offset, t.base(log, offset).offset)
}

// at returns the state at an offset that floor has returned. It reads at most the output between
// two marks. Errors: NotFound when the log has dropped that output.
func (t *terminal) at(ctx context.Context, log *stream.Log, offset int64) (pty.State, error) {
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
	return pty.State{}, fault.New(fault.NotFound, op, "the log no longer has what leads to %d",
		offset)
}

// scanTo reads the log from a mark to an offset. It returns false when the log has dropped records
// in between.
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
			var rec frame.Record
			if rec, rest, err = frame.ParseRecord(rest); err != nil {
				return pty.State{}, false, err
			}
			pos += rec.Size()
			switch rec.Kind {
			case frame.KindStdout:
				scan.Write(rec.Payload)
			case frame.KindEvent:
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
	return len(c.Records) >= frame.RecordHeaderSize && frame.Kind(c.Records[4]) == frame.KindGap
}

// resizeEvent is the name of the event in the log that records a new size.
const resizeEvent = "resize"

// resized is the record of a new size.
type resized struct {
	Event string `json:"event"`
	pty.Size
}

// sizeAndTitle returns the terminal's size and title.
func (t *terminal) sizeAndTitle() (size pty.Size, title string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.size, t.scan.State().Title()
}

// paste reports whether the program wants pasted text in brackets.
func (t *terminal) paste() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scan.Paste()
}

// fullScreen reports whether the program draws the whole screen.
func (t *terminal) fullScreen() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.scan.State().FullScreen()
}

// addDriver makes a viewer a driver. The viewer becomes the active one, unless it continues after a
// lost connection while there are others. addDriver reports whether this is the first driver that
// the terminal has had.
func (t *terminal) addDriver(v *Viewer, again bool) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, t.driven = !t.driven, true
	if again {
		t.drivers = slices.Insert(t.drivers, 0, v)
	} else {
		t.drivers = append(t.drivers, v)
	}
	return first
}

func (t *terminal) removeDriver(v *Viewer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drivers = slices.DeleteFunc(t.drivers, func(d *Viewer) bool { return d == v })
}

// bringForward makes a driver the active one, with a new size unless size is zero.
func (t *terminal) bringForward(v *Viewer, size pty.Size) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if size != (pty.Size{}) {
		v.size = size
	}
	if n := len(t.drivers); n > 0 && t.drivers[n-1] == v {
		return
	}
	t.drivers = append(slices.DeleteFunc(t.drivers, func(d *Viewer) bool { return d == v }), v)
}

// wantedSize returns the size of the last active driver that has a size, and whether the terminal's
// size differs from it.
func (t *terminal) wantedSize() (pty.Size, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.foremost(); d != nil {
		return d.size, d.size != t.size
	}
	return t.size, false
}

// answers reports whether the answers of this driver's terminal are passed to the program. With
// several drivers, only one answers.
func (t *terminal) answers(v *Viewer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.foremost(); d != nil {
		return d == v
	}
	return len(t.drivers) > 0 && t.drivers[len(t.drivers)-1] == v
}

// foremost returns the last active driver that has a size, or nil. Preconditions: mu is held.
func (t *terminal) foremost() *Viewer {
	for _, d := range slices.Backward(t.drivers) {
		if d.size != (pty.Size{}) {
			return d
		}
	}
	return nil
}

// fit gives the terminal the wanted size. It does not resume a session for that: the next input
// does.
func (c *Channel) fit(ctx context.Context) error {
	t := c.terminal
	if _, other := t.wantedSize(); !other || c.ended() {
		return nil
	}
	if c.set.asleep() {
		return nil
	}
	release, err := c.set.cfg.Session.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	return c.fitAwake(ctx)
}

// fitAwake is fit. Preconditions: the session is acquired.
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
	if err := c.set.cfg.Agent.Resize(ctx, c.wire.Load(), wire.Resize{Size: size}); err != nil {
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

// redraw makes a full-screen program draw its screen again, for a viewer that has not received all
// of it. Calls while a redraw is under way lead to one more redraw after it.
func (c *Channel) redraw() {
	t := c.terminal
	if !t.fullScreen() || c.ended() || c.set.asleep() || !t.drawn.start() {
		return
	}
	for again := true; again; again = t.drawn.finish() {
		ctx, cancel := context.WithTimeout(c.set.cfg.Life, fitLimit)
		c.redrawOnce(ctx)
		cancel()
	}
}

func (c *Channel) redrawOnce(ctx context.Context) {
	t := c.terminal
	release, err := c.set.cfg.Session.Acquire(ctx)
	if err != nil {
		return
	}
	defer release()
	if t.resizing.Lock(ctx) != nil {
		return
	}
	defer t.resizing.Unlock()
	size, _ := t.sizeAndTitle()
	// It fails only when the terminal has ended.
	_ = c.set.cfg.Agent.Resize(ctx, c.wire.Load(), wire.Resize{Size: size, Redraw: true})
}

// coalescer combines requests that come during a run into one more run, which starts after the last
// of them.
type coalescer struct {
	mu             sync.Mutex // guards all below
	running, again bool
}

// start adds a request. It reports whether the caller has to run.
func (j *coalescer) start() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.again = j.running
	first := !j.running
	j.running = true
	return first
}

// finish ends a run. It reports whether the caller has to run once more.
func (j *coalescer) finish() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running, j.again = j.again, false
	return j.running
}

// busyLimit limits the agent's check for programs that run in a terminal.
const busyLimit = 2 * time.Second

// terminalBusy reports whether a terminal keeps its sandbox awake: it has printed after since, its
// shell has started a program that runs, or it runs another program than a shell.
func (c *Channel) terminalBusy(ctx context.Context, since time.Time) bool {
	t := c.terminal
	if !t.shell || t.output.Load() > since.UnixNano() {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, busyLimit)
	defer cancel()
	n, err := c.set.cfg.Agent.Running(ctx, c.wire.Load())
	return n > 0 || err != nil && !fault.Is(err, fault.NotFound)
}
