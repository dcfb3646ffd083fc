package agent

import (
	"encoding/binary"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/pty"
)

// A terminal's output is gathered. Output after a pause goes at once, and so
// does output after a key, so that an echo does not wait. In a flood small
// writes wait for more.
const (
	pauseTime  = 16 * time.Millisecond
	gatherTime = 5 * time.Millisecond
	// Output within keyTime of input may be its echo. keyFrames frames of it are sent at once,
	// because a program may print before it echoes, and may echo in parts. With a higher number, a
	// flood would be sent in small pieces while somebody types.
	keyTime   = 50 * time.Millisecond
	keyFrames = 4
	page      = 4 << 10 // bytes that the kernel returns from one read
	// redrawTime is how long a terminal has another size, so that its program
	// redraws the screen.
	redrawTime = 50 * time.Millisecond
	// restoreTime is how long after a change of size the size is checked.
	restoreTime = 200 * time.Millisecond
)

// terminal has the agent's descriptors of a channel's terminal.
type terminal struct {
	mu     sync.Mutex // guards all below
	size   pty.Size
	master int // -1 when closed
	// kept open, so that reading does not end while the first process lives; -1 when closed
	program int
}

func newTerminal(s pty.Size) *terminal { return &terminal{size: s, master: -1, program: -1} }

// terminalEnds are descriptors for the channel. The channel must close in and
// out.
type terminalEnds struct{ in, out, program int }

func (t *terminal) open(uid, gid int) (terminalEnds, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	none := terminalEnds{-1, -1, -1}
	master, program, err := pty.Open(t.size, uid, gid)
	if err != nil {
		return none, err
	}
	in, err := unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		var out int
		if out, err = unix.FcntlInt(uintptr(master), unix.F_DUPFD_CLOEXEC, 3); err == nil {
			t.master, t.program = master, program
			return terminalEnds{in, out, program}, nil
		}
		syscall.Close(in)
	}
	syscall.Close(master)
	syscall.Close(program)
	return none, err
}

// hangUp closes the program's end. The output in the terminal can still be
// read. Then reading ends, unless other processes have the terminal open.
func (t *terminal) hangUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.program >= 0 {
		syscall.Close(t.program)
		t.program = -1
	}
}

// close closes the terminal. The kernel sends SIGHUP to the processes that have
// it as their controlling terminal.
func (t *terminal) close() {
	t.hangUp()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master >= 0 {
		syscall.Close(t.master)
		t.master = -1
	}
}

// set changes the size of the terminal.
func (t *terminal) set(s pty.Size) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 {
		return fault.New(fault.NotFound, "agent.resize", "the terminal has ended")
	}
	if err := pty.Resize(t.master, s); err != nil {
		return fault.Wrap(fault.Internal, "agent.resize", err)
	}
	if before := t.size; before != s {
		time.AfterFunc(restoreTime, func() { t.restore(before, s) })
	}
	t.size = s
	return nil
}

// restore sets a size again if the terminal has the one before it. Readline reads the size at each
// prompt and writes it back, and so reverts a change between the two.
func (t *terminal) restore(before, s pty.Size) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 || t.size != s {
		return
	}
	if now, err := pty.SizeOf(t.master); err == nil && now == before {
		_ = pty.Resize(t.master, s) // it has worked before
	}
}

// skippable returns the position of the last signal key in b, and drops typed
// input before it that the program has not read. It returns -1 when there is no
// such key, or the program wants its type-ahead kept.
func (t *terminal) skippable(b []byte) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 || t.program < 0 {
		return -1
	}
	i := pty.LastSignalKey(t.master, b)
	if i >= 0 {
		pty.FlushInput(t.program)
	}
	return i
}

func (t *terminal) key(sig syscall.Signal) (byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master < 0 {
		return 0, false
	}
	return pty.SignalKey(t.master, sig)
}

// resize changes the size of the channel's terminal.
func (c *channel) resize(s pty.Size) error {
	const op = "agent.resize"
	if !c.isTerminal() {
		return fault.New(fault.Conflict, op, "channel %d is not a terminal", c.id)
	}
	if err := s.Check(op); err != nil {
		return err
	}
	select {
	case <-c.started:
		return c.terminal.set(s)
	default:
		return fault.New(fault.Conflict, op, "channel %d is starting", c.id)
	}
}

// redraw makes the program redraw its screen, by another size for a moment. A
// program may ignore a SIGWINCH without a change of size.
func (c *channel) redraw(s pty.Size) error {
	other := s
	if other.Rows++; other.Rows > pty.MaxRows {
		other.Rows -= 2
	}
	if err := c.resize(other); err != nil {
		return err
	}
	t := time.NewTimer(redrawTime)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.done:
	}
	return c.resize(s)
}

// signalTerminal sends a signal to the programs in a terminal. SIGINT and
// SIGQUIT go through the terminal as keys, unless the program reads raw keys.
// SIGHUP and SIGKILL reach all processes of the terminal. Other signals, and
// SIGINT and SIGQUIT to a program that reads raw keys, reach the descendants of
// the first process, which is usually a shell. If there are none, they reach
// the first process.
func (c *channel) signalTerminal(name string) error {
	const op = "agent.signal"
	sig, ok := signalByName(name)
	if !ok {
		return fault.Invalid(op, "signal", "there is no signal %q to send", name)
	}
	<-c.started
	if key, ok := c.terminal.key(sig); ok {
		c.in.key(key)
		return nil
	}
	all := sig == syscall.SIGHUP || sig == syscall.SIGKILL
	if all {
		c.setReason(wire.ReasonKilled)
	}
	c.mu.Lock()
	first := c.pid
	c.mu.Unlock()
	sent := 0
	for _, p := range process.Members(c.group) {
		if all || p.PID != first {
			if syscall.Kill(p.PID, sig) == nil {
				sent++
			}
		}
	}
	if sent == 0 {
		return c.kill(op, sig)
	}
	return nil
}

// readTerminal reads a terminal's output, at most n bytes. It appends the data
// to the last frame if that has not been sent. It returns as readPipe does. The
// kernel returns at most a page from one read.
func (l *loop) readTerminal(fd, n int) int {
	const header = frame.HeaderSize
	if room := wire.MaxChunk - (len(l.out) - l.frameAt - header); l.frameOpen && room < page {
		l.frameOpen = false
	} else if l.frameOpen {
		n = min(n, room)
	}
	at := l.frameAt
	if !l.frameOpen {
		at = len(l.out)
	}
	need := len(l.out) + header + n
	if cap(l.out) < need {
		l.out = append(make([]byte, 0, max(need, 2*cap(l.out))), l.out...)
	}
	end := len(l.out)
	if !l.frameOpen {
		end += header
	}
	body := l.out[end : end+n]
	total, over := 0, false
	for total < n {
		m, err := syscall.Read(fd, body[total:])
		if err == syscall.EINTR {
			continue
		}
		if err == syscall.EAGAIN {
			break
		}
		if err != nil || m <= 0 {
			over = true
			break
		}
		total += m
	}
	if total > 0 {
		if !l.frameOpen {
			frame.Append(l.out[:at], frame.Frame{Type: frame.Stdout, Channel: l.c.id})
			l.frameAt, l.frameOpen, l.frameSince = at, true, time.Now()
		}
		l.out = l.out[:end+total]
		binary.BigEndian.PutUint32(l.out[l.frameAt:], uint32(len(l.out)-l.frameAt-header))
		l.c.win.sentBytes(total)
		l.noteRead(total, time.Now())
		l.quiet = time.Time{}
	}
	l.last[0] = 0
	if over {
		syscall.Close(fd)
		l.pipes[0] = -1
	}
	l.flushFull()
	return total
}

// outputDelay returns how long output may wait for more, in milliseconds, or -1
// when it must be sent now.
func (l *loop) outputDelay(now time.Time) int {
	if !l.c.isTerminal() || len(l.out) == 0 || l.finished || l.windowFull ||
		len(l.out) >= wire.MaxChunk {
		return -1
	}
	left := gatherTime - now.Sub(l.frameSince)
	if left <= 0 || now.Sub(l.flushed) > pauseTime || l.mayBeEcho(now) {
		return -1
	}
	return int(left/time.Millisecond) + 1
}

// mayBeEcho reports whether new output may be the echo of input.
func (l *loop) mayBeEcho(now time.Time) bool {
	if at := l.c.typed.Load(); at != l.echoInput {
		l.echoInput, l.echoFrames = at, keyFrames
	}
	if l.echoFrames == 0 || now.UnixNano()-l.echoInput > int64(keyTime) {
		return false
	}
	l.echoFrames--
	return true
}
