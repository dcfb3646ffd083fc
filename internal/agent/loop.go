package agent

import (
	"encoding/binary"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/process"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/frame"
)

// After a process has ended, other processes may hold its pipes open. The loop
// then reads until nothing came for quietTime, and at most for drainTime. Later
// output is lost. Output that was in the pipes at the end of the process is
// not.
const (
	quietTime = 100 * time.Millisecond
	drainTime = 2 * time.Second
)

// minRead is the room for a read of a driver's frames, in bytes. The frames of
// a small cell fit in.
const minRead = 4096

// loop moves a channel's output to the host. One goroutine runs it, and no
// other goroutine uses it.
//
// The loop keeps the order of driver frames and pipe output that the driver
// protocol defines. It is the only reader of both. If poll reports that a pipe
// has data, the pipe is not empty until the loop reads it, and no driver can
// write a frame with FlagClear until then. Frames with FlagClear that the loop
// reads after the poll therefore come before the pipe's data. So each round
// polls, takes the frames, and then reads each pipe once. Before any other
// frame, including a reply, the loop reads as many bytes from the pipes as
// FIONREAD reports at that moment.
type loop struct {
	c   *channel
	fds []unix.PollFd // kept by poll between calls

	pipes  [2]int // standard output and error; -1 when ended
	events int    // the driver's frames; -1 when ended, or a process

	ev   []byte // data read from events; [off:] is not handled yet
	off  int
	head frame.Frame // the frame at off, if size is above 0; no body
	size int         // the size of that frame with its header; 0 means unknown
	full bool        // that frame is complete
	due  [2]int      // bytes of the pipes that must be sent before that frame
	seen bool        // due has been set for that frame

	out            []byte // frames to be written
	windowFull     bool   // the window is used up
	finished       bool   // the process has ended
	last           [2]int // bytes that were in the pipes at the end
	deadline       time.Time
	quiet          time.Time
	tail           []byte // the end of standard error, for the message of a failed start
	broken         bool   // the driver broke the protocol
	eventsClosedAt time.Time
	offline        uint32    // the latest cell whose output has an error of the network
	recent         [2][]byte // the end of the pipes' text
	oomKills       uint64

	frameAt    int       // where the terminal's open frame begins in out, if frameOpen
	frameOpen  bool      // the last frame in out may get more bytes
	frameSince time.Time // when its first byte came
	flushed    time.Time // the last flush
	smallReads int       // consecutive small reads
	readAt     time.Time // the last read
	echoInput  int64     // the input for which echoFrames was set
	echoFrames int       // how many more frames go at once after it
}

// run moves output until the process has ended and its output has been sent.
func (l *loop) run() {
	c := l.c
	l.oomKills = process.OOMKills()
	for {
		if l.windowFull && c.win.fits(1) {
			l.windowFull = false
		}
		l.pump()
		if c.left.due.Swap(false) {
			l.look()
		}
		timeout := l.outputDelay(time.Now())
		if timeout < 0 {
			l.flush()
		}
		if !l.finished && c.hasEnded() {
			l.finish()
			continue
		}
		if l.finished {
			if l.finishDone() {
				break
			}
			timeout = l.finishWait()
		} else if c.isKernel() && l.events < 0 && !l.broken {
			if timeout = l.eventsClosed(); timeout < 0 {
				continue
			}
		}
		l.poll(timeout)
	}
	l.close()
}

// poll waits for an event and handles it. timeout is in milliseconds; a
// negative one means no limit.
func (l *loop) poll(timeout int) {
	c := l.c
	fds := append(l.fds[:0], unix.PollFd{Fd: int32(c.wakeFD), Events: unix.POLLIN})
	in, ev, p := -1, -1, [2]int{-1, -1}
	if fd := c.in.waiting(); fd >= 0 {
		in = len(fds)
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
	}
	if nap := l.coalescing(time.Now()); nap && (timeout < 0 || timeout > coalesceTime) {
		timeout = coalesceTime
	} else if !nap && !l.windowFull {
		if l.events >= 0 {
			ev = len(fds)
			fds = append(fds, unix.PollFd{Fd: int32(l.events), Events: unix.POLLIN})
		}
		for i, fd := range l.pipes {
			if fd >= 0 {
				p[i] = len(fds)
				fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
	}
	l.fds = fds
	if _, err := unix.Poll(fds, timeout); err != nil {
		return // EINTR, also after a restore
	}
	if fds[0].Revents != 0 {
		var b [8]byte
		syscall.Read(c.wakeFD, b[:])
	}
	if in >= 0 && fds[in].Revents != 0 {
		c.in.flush()
		c.ackInput()
	}
	// A frame may have arrived after the poll. Check again whenever a pipe has data.
	ready := [2]bool{p[0] >= 0 && fds[p[0]].Revents != 0, p[1] >= 0 && fds[p[1]].Revents != 0}
	if ev >= 0 && (fds[ev].Revents != 0 || ready[0] || ready[1]) {
		l.takeEvents(fds[ev].Revents != 0)
		before := l.pipes
		drained := l.pump()
		for i := range ready {
			ready[i] = ready[i] && !drained[i] && before[i] == l.pipes[i]
		}
	}
	if !l.full {
		for i := range ready {
			if ready[i] && l.pipes[i] >= 0 {
				l.readPipe(i, wire.MaxChunk)
			}
		}
	}
}

// eventsClosed returns how long a driver that has closed its events descriptor
// may still run, in milliseconds. After a second it kills the driver and
// returns -1.
func (l *loop) eventsClosed() int {
	if l.eventsClosedAt.IsZero() {
		l.eventsClosedAt = time.Now()
	}
	left := time.Second - time.Since(l.eventsClosedAt)
	if left <= 0 {
		l.protocolError("closed its events descriptor")
		return -1
	}
	return int(left/time.Millisecond) + 1
}

func (c *channel) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end != nil
}

// takeEvents reads all data that the events descriptor has now.
func (l *loop) takeEvents(polled bool) {
	if l.off > 0 && l.off == len(l.ev) {
		l.ev, l.off = l.ev[:0], 0
		if cap(l.ev) > 1<<20 {
			l.ev = nil
		}
	}
	if l.off > cap(l.ev)/2 {
		l.ev, l.off = l.ev[:copy(l.ev, l.ev[l.off:])], 0
	}
	if l.ev == nil {
		l.ev = make([]byte, 0, minRead)
	}
	// A read that leaves room has taken everything. That saves one system call per
	// cell, the one for the number of bytes.
	if free := cap(l.ev) - len(l.ev); polled && free >= minRead {
		if m := l.readEvents(free); m < free {
			return
		}
		polled = false
	}
	n := queued(l.events)
	if n == 0 && polled {
		n = 1 // the end, or nothing
	}
	for n > 0 {
		if free := cap(l.ev) - len(l.ev); free < n {
			// Grow to the size of the frame, so that a large one is copied only once.
			l.ev = append(make([]byte, 0, max(2*cap(l.ev), len(l.ev)+n, l.off+l.size, minRead)),
				l.ev...)
		}
		m := l.readEvents(n)
		if m == 0 {
			return
		}
		n -= m
	}
}

// readEvents reads once, at most n bytes, and returns the number of bytes; 0
// also when the descriptor has ended.
func (l *loop) readEvents(n int) int {
	for {
		m, err := syscall.Read(l.events, l.ev[len(l.ev):len(l.ev)+n])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return 0
		case err != nil || m == 0:
			l.closeEvents()
			return 0
		}
		l.ev = l.ev[:len(l.ev)+m]
		l.quiet = time.Time{}
		return m
	}
}

func (l *loop) closeEvents() {
	if l.events >= 0 {
		syscall.Close(l.events)
		l.events = -1
	}
}

// pump handles the frames that were read from events, until none is left or the
// window is full. It returns the pipes that it has read from.
func (l *loop) pump() (drained [2]bool) {
	for !l.broken {
		if l.size == 0 && !l.parse() {
			return drained
		}
		if l.full = len(l.ev)-l.off >= l.size; !l.full {
			return drained
		}
		if !l.seen {
			l.seen = true
			if l.head.Flags&frame.FlagClear == 0 {
				for i, fd := range l.pipes {
					l.due[i] = queued(fd)
				}
			}
		}
		for i := range l.due {
			for l.due[i] > 0 {
				drained[i] = true
				n := l.readPipe(i, min(l.due[i], wire.MaxChunk))
				if n < 0 {
					return drained // stalled
				}
				if n == 0 {
					l.due[i] = 0
				} else {
					l.due[i] -= n
				}
			}
		}
		body := l.size - frame.HeaderSize
		if l.head.Type == frame.Control {
			if !l.reply(l.ev[l.off+frame.HeaderSize : l.off+l.size]) {
				l.protocolError("wrote an invalid control message")
				return drained
			}
		} else {
			if !l.c.win.room(body) {
				l.noteStall()
				return drained
			}
			l.c.win.sentBytes(body)
			l.noteNetworkError(l.head.Cell, l.ev[l.off+frame.HeaderSize:l.off+l.size])
			frame := l.ev[l.off : l.off+l.size]
			frame[5] = 0 // FlagClear is between driver and agent
			binary.BigEndian.PutUint32(frame[8:], l.c.id)
			if l.size >= maxWrite {
				l.flush()
				l.c.s.host.write(frame)
			} else {
				l.out = append(l.out, frame...)
				l.flushFull()
			}
		}
		l.off += l.size
		l.size, l.full, l.seen, l.due = 0, false, false, [2]int{}
	}
	return drained
}

// parse reads the header at off, if it is complete.
func (l *loop) parse() bool {
	b := l.ev[l.off:]
	if len(b) < frame.HeaderSize {
		return false
	}
	size := binary.BigEndian.Uint32(b)
	f, err := frame.ParseMessage(b[4:frame.HeaderSize])
	switch {
	case size > frame.MaxBody:
		l.protocolError("wrote a frame of more than 8 MiB")
		return false
	case err != nil || f.Channel != 0:
		l.protocolError("wrote bytes that are not a frame")
		return false
	}
	switch f.Type {
	case frame.Control, frame.Stdout, frame.Stderr, frame.Message:
	default:
		l.protocolError("wrote a frame of a type that drivers do not write")
		return false
	}
	l.head, l.size = f, int(size)+frame.HeaderSize
	return true
}

// readPipe reads once, at most n bytes, and makes a frame of the data. It
// returns 0 when there is no data or the pipe has ended, and -1 when the window
// is full.
func (l *loop) readPipe(i, n int) int {
	c := l.c
	fd := l.pipes[i]
	if fd < 0 {
		return 0
	}
	if !c.win.room(n) {
		if n = int(wire.Window - (c.win.sent.Load() - c.win.acked.Load())); n <= 0 ||
			n > wire.MaxChunk || !c.win.room(n) {
			l.noteStall()
			return -1
		}
	}
	at := len(l.out)
	if c.isTerminal() {
		return l.readTerminal(fd, n)
	}
	if need := at + frame.HeaderSize + n; cap(l.out) < need {
		l.out = append(make([]byte, 0, max(need, 2*cap(l.out))), l.out...)
	}
	body := l.out[at+frame.HeaderSize : at+frame.HeaderSize+n]
	var m int
	var err error
	for {
		if m, err = syscall.Read(fd, body); err != syscall.EINTR {
			break
		}
	}
	if err == syscall.EAGAIN {
		return 0
	}
	if err != nil || m <= 0 {
		syscall.Close(fd)
		l.pipes[i], l.last[i] = -1, 0
		return 0
	}
	kind := frame.Stdout
	if i == 1 {
		kind = frame.Stderr
		if c.isKernel() && len(l.tail) < 1<<16 && !c.isReady() {
			l.tail = append(l.tail, body[:m]...)
		}
	}
	c.win.sentBytes(m)
	l.noteRead(m, time.Now())
	l.last[i] -= m
	l.quiet = time.Time{}
	cell := c.outputCell()
	l.notePipeError(i, cell, body[:m])
	// The header goes before the body, which is already in place.
	frame.Append(l.out[:at], frame.Frame{Type: kind, Channel: c.id, Cell: cell})
	l.out = l.out[:at+frame.HeaderSize+m]
	binary.BigEndian.PutUint32(l.out[at:], uint32(m))
	l.flushFull()
	return m
}

// noteStall records that the window is full.
func (l *loop) noteStall() {
	if !l.windowFull {
		l.c.s.stalls.Add(1)
	}
	l.windowFull = true
}

// flush writes the gathered frames.
func (l *loop) flush() {
	if len(l.out) > 0 {
		l.c.s.host.write(l.out)
		l.out = l.out[:0]
		l.frameOpen = false
		if l.c.isTerminal() {
			l.flushed = time.Now()
		}
		if cap(l.out) > 1<<20 {
			l.out = nil
		}
	}
}

// flushFull writes the gathered frames once they exceed maxWrite. Other
// channels wait for as long as one write takes.
func (l *loop) flushFull() {
	if len(l.out) >= maxWrite {
		l.flush()
	}
}

// queued returns how many bytes a pipe holds.
func queued(fd int) int {
	if fd < 0 {
		return 0
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return wire.MaxChunk
	}
	return n
}

// finish starts the end: the process has ended, and its remaining output is
// sent.
func (l *loop) finish() {
	c := l.c
	l.finished = true
	l.deadline = time.Now().Add(drainTime)
	c.in.close()
	if c.isTerminal() {
		c.terminal.hangUp()
	}
	if c.isKernel() {
		// Processes that a dead kernel has left running are useless and would disturb
		// the next kernel.
		_ = c.killTree(0)
	}
	for i, fd := range l.pipes {
		l.last[i] = queued(fd)
	}
}

// finishDone reports whether all remaining output has been sent.
func (l *loop) finishDone() bool {
	if l.events < 0 && l.pipes[0] < 0 && l.pipes[1] < 0 && !l.full {
		return true
	}
	if l.windowFull || l.full || l.last[0] > 0 || l.last[1] > 0 {
		return false
	}
	now := time.Now()
	if l.quiet.IsZero() {
		l.quiet = now.Add(quietTime)
	}
	return !now.Before(l.quiet) || !now.Before(l.deadline)
}

// finishWait returns how long the loop may wait, in milliseconds.
func (l *loop) finishWait() int {
	if l.windowFull || l.full {
		return -1
	}
	until := l.deadline
	if !l.quiet.IsZero() && l.quiet.Before(until) {
		until = l.quiet
	}
	return max(1, int(time.Until(until)/time.Millisecond)+1)
}

// close closes all descriptors and sends the exit event.
func (l *loop) close() {
	c := l.c
	l.closeEvents()
	for i, fd := range l.pipes {
		if fd >= 0 {
			syscall.Close(fd)
			l.pipes[i] = -1
		}
	}
	if c.isTerminal() {
		c.terminal.close()
	}
	c.mu.Lock()
	e := *c.end
	syscall.Close(c.wakeFD)
	c.wakeFD = -1
	c.mu.Unlock()
	x := c.exitEvent(e)
	started := c.failPending(x)
	if started {
		c.s.host.write(appendExit(nil, c.id, x))
	}
	l.ev, l.out = nil, nil
	close(c.done)
}
