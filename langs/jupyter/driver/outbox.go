package main

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol/frame"
)

// Sizes of the output that waits for the agent, in bytes. Above full the kernel's processes are
// stopped until it is below low, because a kernel drops output that is not read in time.
const (
	full = 32 << 20
	low  = 8 << 20
)

// outbox has the frames for the agent. Adding a frame never waits.
type outbox struct {
	file *os.File
	out  *frame.Writer
	// drained is called by the writer when the size has fallen below low after it was above full.
	drained func()

	mu     sync.Mutex
	more   sync.Cond
	frames []frame.Frame
	bytes  int
	above  bool
	ending bool
	ended  chan struct{}
}

func newOutbox(file *os.File, drained func()) *outbox {
	o := &outbox{
		file: file, out: frame.NewWriter(file), drained: drained, ended: make(chan struct{}),
	}
	o.more.L = &o.mu
	go o.write()
	return o
}

// add queues a frame. It reports whether the kernel has to be stopped.
func (o *outbox) add(f frame.Frame) (above bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.frames = append(o.frames, f)
	o.bytes += len(f.Body)
	if o.bytes > full {
		o.above = true
	}
	o.more.Signal()
	return o.above
}

// close waits until all frames are written.
func (o *outbox) close() {
	o.mu.Lock()
	o.ending = true
	o.more.Signal()
	o.mu.Unlock()
	<-o.ended
}

func (o *outbox) write() {
	for {
		o.mu.Lock()
		for len(o.frames) == 0 {
			if o.ending {
				o.mu.Unlock()
				close(o.ended)
				return
			}
			o.more.Wait()
		}
		f := o.frames[0]
		o.frames[0] = frame.Frame{}
		o.frames = o.frames[1:]
		o.mu.Unlock()
		if pipesEmpty() {
			f.Flags |= frame.FlagClear
		}
		if o.out.Write(f) != nil {
			os.Exit(1) // the agent has disconnected
		}
		o.mu.Lock()
		o.bytes -= len(f.Body)
		drained := o.above && o.bytes < low
		if drained {
			o.above = false
		}
		o.mu.Unlock()
		if drained {
			o.drained()
		}
	}
}

// pipesEmpty reports whether the agent has read everything that the kernel's processes wrote to
// descriptors 1 and 2.
func pipesEmpty() bool {
	for fd := 1; fd <= 2; fd++ {
		if n, err := unix.IoctlGetInt(fd, unix.TIOCINQ); err == nil && n > 0 {
			return false
		}
	}
	return true
}
