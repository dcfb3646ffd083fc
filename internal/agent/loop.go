package agent

import (
	"encoding/binary"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/stream"
)

// How long a channel's output is waited for after its process has ended, while
// other processes hold the pipes open: until nothing came for quietTime, and
// at most drainTime. What they print later is lost; what was in the pipes at
// the end of the process is not.
const (
	quietTime = 100 * time.Millisecond
	drainTime = 2 * time.Second
)

// minRead is the room for a read of a driver's frames, in bytes. Those of a
// small cell fit in.
const minRead = 4096

// loop is the state of a channel's loop, which alone touches it.
//
// The order of what comes through the events descriptor and of what comes
// through the pipes is kept as the driver protocol defines it. The reasoning:
// the loop is the only reader. If poll says that a pipe holds something, that
// pipe is not empty until the loop reads it, so no driver can write a frame
// with FlagClear until then. Whatever frames are there after the poll and
// before the read belong before the pipe's bytes if they are clear. Therefore
// each round polls, then takes the frames, then reads each pipe once. Before a
// frame that is not clear, a reply too, the pipes are emptied of what they
// hold at that moment, FIONREAD bytes and no more.
type loop struct {
	pipes  [2]int // standard output and error; -1 when ended
	events int    // the driver's frames; -1 when ended, or a process

	ev   []byte // what was read of events; [off:] is to be done
	off  int
	head stream.Frame // the frame at off, if size is above 0; no body
	size int          // of that frame with its header, 0 for unknown
	full bool         // that frame is complete
	due  [2]int       // bytes that go before that frame
	seen bool         // due has been set for that frame

	out      []byte // frames to be written
	stall    bool   // the window is used up
	finished bool   // the process has ended
	last     [2]int // bytes that were in the pipes at the end
	deadline time.Time
	quiet    time.Time
	tail     []byte // the end of standard error, for the message of a failed start
	bad      bool   // the driver broke the protocol
	muteAt   time.Time
	oomKills uint64

	held    int       // in out: where the terminal's open frame begins, if joins
	joins   bool      // there is one
	heldAt  time.Time // when its first byte came
	flushed time.Time // the last flush
	small   int       // reads of little in a row
	readAt  time.Time // the last read
	key     int64     // the input after which eager was set
	eager   int       // how often output still goes at once after it
}

// run moves output until the process has ended and its output has been sent.
func (c *channel) run() {
	c.oomKills = oomKills()
	fds := make([]unix.PollFd, 0, 5)
	for {
		if c.stall && c.win.free(1) {
			c.stall = false
		}
		c.pump()
		timeout := c.hold(time.Now())
		if timeout < 0 {
			c.flush()
		}
		if !c.finished && c.hasEnded() {
			c.finish()
			continue
		}
		if c.finished {
			if c.finishDone() {
				break
			}
			timeout = c.finishWait()
		} else if c.isKernel() && c.events < 0 && !c.bad {
			if timeout = c.mute(); timeout < 0 {
				continue
			}
		}
		fds = append(fds[:0], unix.PollFd{Fd: int32(c.wakeFD), Events: unix.POLLIN})
		in, ev, p := -1, -1, [2]int{-1, -1}
		if fd := c.in.waiting(); fd >= 0 {
			in = len(fds)
			fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLOUT})
		}
		if nap := c.nap(time.Now()); nap && (timeout < 0 || timeout > napTime) {
			timeout = napTime
		} else if !nap && !c.stall {
			if c.events >= 0 {
				ev = len(fds)
				fds = append(fds, unix.PollFd{Fd: int32(c.events), Events: unix.POLLIN})
			}
			for i, fd := range c.pipes {
				if fd >= 0 {
					p[i] = len(fds)
					fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
				}
			}
		}
		if _, err := unix.Poll(fds, timeout); err != nil {
			continue // EINTR, also after a restore
		}
		if fds[0].Revents != 0 {
			var b [8]byte
			syscall.Read(c.wakeFD, b[:])
		}
		if in >= 0 && fds[in].Revents != 0 {
			c.in.flush()
			c.ackInput()
		}
		// A frame may be there although poll looked before it came: look again
		// whenever a pipe has something.
		ready := [2]bool{p[0] >= 0 && fds[p[0]].Revents != 0, p[1] >= 0 && fds[p[1]].Revents != 0}
		if ev >= 0 && (fds[ev].Revents != 0 || ready[0] || ready[1]) {
			c.takeEvents(fds[ev].Revents != 0)
			before := c.pipes
			drained := c.pump()
			for i := range ready {
				ready[i] = ready[i] && !drained[i] && before[i] == c.pipes[i]
			}
		}
		if !c.full {
			for i := range ready {
				if ready[i] && c.pipes[i] >= 0 {
					c.readPipe(i, wire.MaxChunk)
				}
			}
		}
	}
	c.leave()
}

// mute returns how long a driver without its events descriptor may still take
// to end, in milliseconds. After a second it is killed.
func (c *channel) mute() int {
	if c.muteAt.IsZero() {
		c.muteAt = time.Now()
	}
	left := time.Second - time.Since(c.muteAt)
	if left <= 0 {
		c.garbage("closed its events descriptor")
		return -1
	}
	return int(left/time.Millisecond) + 1
}

func (c *channel) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end != nil
}

// takeEvents reads all that the events descriptor holds now.
func (c *channel) takeEvents(polled bool) {
	if c.off > 0 && c.off == len(c.ev) {
		c.ev, c.off = c.ev[:0], 0
		if cap(c.ev) > 1<<20 {
			c.ev = nil
		}
	}
	if c.off > cap(c.ev)/2 {
		c.ev, c.off = c.ev[:copy(c.ev, c.ev[c.off:])], 0
	}
	if c.ev == nil {
		c.ev = make([]byte, 0, minRead)
	}
	// A read that leaves room has taken everything, and saves asking how much
	// there is: that is a system call of each cell.
	if free := cap(c.ev) - len(c.ev); polled && free >= minRead {
		if m := c.readEvents(free); m < free {
			return
		}
		polled = false
	}
	n := queued(c.events)
	if n == 0 && polled {
		n = 1 // the end, or nothing
	}
	for n > 0 {
		if free := cap(c.ev) - len(c.ev); free < n {
			// Grow to what the frame will need, so that a large one is not
			// copied over and over.
			c.ev = append(make([]byte, 0, max(2*cap(c.ev), len(c.ev)+n, c.off+c.size, minRead)), c.ev...)
		}
		m := c.readEvents(n)
		if m == 0 {
			return
		}
		n -= m
	}
}

// readEvents reads once, at most n bytes, and returns how many there were; 0
// also when the descriptor has ended.
func (c *channel) readEvents(n int) int {
	for {
		m, err := syscall.Read(c.events, c.ev[len(c.ev):len(c.ev)+n])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			return 0
		case err != nil || m == 0:
			c.closeEvents()
			return 0
		}
		c.ev = c.ev[:len(c.ev)+m]
		c.quiet = time.Time{}
		return m
	}
}

func (c *channel) closeEvents() {
	if c.events >= 0 {
		syscall.Close(c.events)
		c.events = -1
	}
}

// pump passes on what has been read of the events, until it is done or the
// window is used up. It returns which pipes it has read from.
func (c *channel) pump() (drained [2]bool) {
	for !c.bad {
		if c.size == 0 && !c.parse() {
			return drained
		}
		if c.full = len(c.ev)-c.off >= c.size; !c.full {
			return drained
		}
		if !c.seen {
			c.seen = true
			if c.head.Flags&stream.FlagClear == 0 {
				for i, fd := range c.pipes {
					c.due[i] = queued(fd)
				}
			}
		}
		for i := range c.due {
			for c.due[i] > 0 {
				drained[i] = true
				n := c.readPipe(i, min(c.due[i], wire.MaxChunk))
				if n < 0 {
					return drained // stalled
				}
				if n == 0 {
					c.due[i] = 0
				} else {
					c.due[i] -= n
				}
			}
		}
		body := c.size - stream.HeaderSize
		if c.head.Type == stream.Control {
			if !c.reply(c.ev[c.off+stream.HeaderSize : c.off+c.size]) {
				c.garbage("wrote a control message that is none")
				return drained
			}
		} else {
			if !c.win.room(body) {
				c.stalled()
				return drained
			}
			c.win.sentBytes(body)
			frame := c.ev[c.off : c.off+c.size]
			frame[5] = 0 // FlagClear is between driver and agent
			binary.BigEndian.PutUint32(frame[8:], c.id)
			if c.size >= maxWrite {
				c.flush()
				c.s.host.write(frame)
			} else {
				c.out = append(c.out, frame...)
				c.flushFull()
			}
		}
		c.off += c.size
		c.size, c.full, c.seen, c.due = 0, false, false, [2]int{}
	}
	return drained
}

// parse reads the header at off, if it is there.
func (c *channel) parse() bool {
	b := c.ev[c.off:]
	if len(b) < stream.HeaderSize {
		return false
	}
	size := binary.BigEndian.Uint32(b)
	f, err := stream.ParseMessage(b[4:stream.HeaderSize])
	switch {
	case size > stream.MaxBody:
		c.garbage("wrote a frame of more than 8 MiB")
		return false
	case err != nil || f.Channel != 0:
		c.garbage("wrote bytes that are no frame")
		return false
	}
	switch f.Type {
	case stream.Control, stream.Stdout, stream.Stderr, stream.Message:
	default:
		c.garbage("wrote a frame of a type that drivers do not write")
		return false
	}
	c.head, c.size = f, int(size)+stream.HeaderSize
	return true
}

// readPipe reads once, at most n bytes, and makes a frame of it. It returns 0
// when there is nothing or the pipe has ended, and -1 when the window is used
// up.
func (c *channel) readPipe(i, n int) int {
	fd := c.pipes[i]
	if fd < 0 {
		return 0
	}
	if !c.win.room(n) {
		if n = int(wire.Window - (c.win.sent.Load() - c.win.acked.Load())); n <= 0 || n > wire.MaxChunk || !c.win.room(n) {
			c.stalled()
			return -1
		}
	}
	at := len(c.out)
	if c.isTerminal() {
		return c.readTerminal(fd, n)
	}
	if need := at + stream.HeaderSize + n; cap(c.out) < need {
		c.out = append(make([]byte, 0, max(need, 2*cap(c.out))), c.out...)
	}
	body := c.out[at+stream.HeaderSize : at+stream.HeaderSize+n]
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
		c.pipes[i], c.last[i] = -1, 0
		return 0
	}
	kind := stream.Stdout
	if i == 1 {
		kind = stream.Stderr
		if c.isKernel() && len(c.tail) < 1<<16 && !c.isReady() {
			c.tail = append(c.tail, body[:m]...)
		}
	}
	c.win.sentBytes(m)
	c.took(m, time.Now())
	c.last[i] -= m
	c.quiet = time.Time{}
	// The header goes before the body, which lies where it belongs already.
	stream.AppendFrame(c.out[:at], stream.Frame{Type: kind, Channel: c.id, Cell: c.cell()})
	c.out = c.out[:at+stream.HeaderSize+m]
	binary.BigEndian.PutUint32(c.out[at:], uint32(m))
	c.flushFull()
	return m
}

// stalled notes that the window is used up.
func (c *channel) stalled() {
	if !c.stall {
		c.s.stalls.Add(1)
	}
	c.stall = true
}

// flush writes what has been gathered.
func (c *channel) flush() {
	if len(c.out) > 0 {
		c.s.host.write(c.out)
		c.out = c.out[:0]
		c.joins = false
		if c.isTerminal() {
			c.flushed = time.Now()
		}
		if cap(c.out) > 1<<20 {
			c.out = nil
		}
	}
}

// flushFull writes what has been gathered once it is a good deal: others wait
// for as long as that takes.
func (c *channel) flushFull() {
	if len(c.out) >= maxWrite {
		c.flush()
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

// finish begins the end: the process is gone, and what it left is to be sent.
func (c *channel) finish() {
	c.finished = true
	c.deadline = time.Now().Add(drainTime)
	c.in.close()
	if c.isTerminal() {
		c.terminal.hangUp()
	}
	if c.isKernel() {
		// What a dead kernel has left running is of no use to anybody, and
		// would stand in the way of the next one.
		c.s.killTree(c, 0)
	}
	for i, fd := range c.pipes {
		c.last[i] = queued(fd)
	}
}

// finishDone reports whether all has been sent that will be.
func (c *channel) finishDone() bool {
	if c.events < 0 && c.pipes[0] < 0 && c.pipes[1] < 0 && !c.full {
		return true
	}
	if c.stall || c.full || c.last[0] > 0 || c.last[1] > 0 {
		return false
	}
	now := time.Now()
	if c.quiet.IsZero() {
		c.quiet = now.Add(quietTime)
	}
	return !now.Before(c.quiet) || !now.Before(c.deadline)
}

// finishWait is how long the loop may sleep, in milliseconds.
func (c *channel) finishWait() int {
	if c.stall || c.full {
		return -1
	}
	until := c.deadline
	if !c.quiet.IsZero() && c.quiet.Before(until) {
		until = c.quiet
	}
	return max(1, int(time.Until(until)/time.Millisecond)+1)
}

// leave closes what is open and tells the host.
func (c *channel) leave() {
	c.closeEvents()
	for i, fd := range c.pipes {
		if fd >= 0 {
			syscall.Close(fd)
			c.pipes[i] = -1
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
	x := c.exit(e)
	started := c.failAll(x)
	if started {
		c.s.host.write(appendExit(nil, c.id, x))
	}
	c.ev, c.out = nil, nil
	close(c.done)
}
