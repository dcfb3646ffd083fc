package client

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// swapReader is the incoming half of a wire. Its pipe can be replaced while it
// is quiesced.
type swapReader struct {
	mu       sync.Mutex // guards all below
	r        io.Reader
	pipe     *os.File // the pipe that r reads, or nil
	quiesced bool
	closed   bool
	asked    bool          // Read is to return errDrained once the pipe is empty
	askedEnd bool          // Read is to return errDrained at the end of the pipe
	ended    chan struct{} // closed when r has ended while quiesced
	changed  chan struct{} // closed and renewed when one of the above changes
}

func newSwapReader(r io.Reader) *swapReader {
	pipe, _ := r.(*os.File)
	return &swapReader{r: r, pipe: pipe, ended: make(chan struct{}), changed: make(chan struct{})}
}

// errDrained is returned by Read when the pipe is empty, after capture.
var errDrained = errors.New("the wire is still")

// capture makes Read return errDrained as soon as the pipe is empty.
func (in *swapReader) capture() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.asked = true
	if in.pipe == nil {
		return fault.New(fault.Unsupported, "agent.still", "the wire is not a pipe")
	}
	return in.pipe.SetReadDeadline(time.Now()) // wakes the reader
}

// captureEnded makes Read return errDrained at the end of the pipe. Preconditions: the pipe has
// ended, and in is quiesced.
func (in *swapReader) captureEnded() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.askedEnd = true
	in.notify()
}

// readNow reads without waiting, if capture was called; asked is false if not.
func (in *swapReader) readNow(p []byte) (n int, err error, asked bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.asked || in.pipe == nil {
		return 0, nil, false
	}
	if err := in.pipe.SetReadDeadline(time.Time{}); err != nil {
		return 0, err, true
	}
	raw, err := in.pipe.SyscallConn()
	if err != nil {
		return 0, err, true
	}
	var sysErr error
	err = raw.Read(func(fd uintptr) bool {
		n, sysErr = ignoringEINTR(func() (int, error) { return syscall.Read(int(fd), p) })
		return true
	})
	switch {
	case err != nil:
		return 0, err, true
	case sysErr == syscall.EAGAIN:
		in.asked = false
		return 0, errDrained, true
	case n > 0:
		return n, nil, true
	}
	in.asked = false // the pipe has ended; Read returns its error
	return 0, nil, false
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != syscall.EINTR {
			return n, err
		}
	}
}

// Read implements io.Reader. It is called by one goroutine.
func (in *swapReader) Read(p []byte) (int, error) {
	for {
		if n, err, asked := in.readNow(p); asked {
			return n, err
		}
		in.mu.Lock()
		r := in.r
		in.mu.Unlock()
		n, err := r.Read(p)
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue // capture was called
		}
		if n > 0 || err == nil {
			return n, nil // the next Read returns the error again
		}
		in.mu.Lock()
		if in.r != r {
			in.mu.Unlock()
			continue
		}
		if in.closed || !in.quiesced {
			in.mu.Unlock()
			return 0, err
		}
		if in.askedEnd {
			in.askedEnd = false
			in.mu.Unlock()
			return 0, errDrained
		}
		select {
		case <-in.ended:
		default:
			close(in.ended)
		}
		moved := in.changed
		in.mu.Unlock()
		<-moved
	}
}

// quiesce makes Read wait at the end of the pipe instead of returning io.EOF.
func (in *swapReader) quiesce() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.quiesced, in.ended = true, make(chan struct{})
}

// drained returns a channel that is closed once the pipe has ended.
func (in *swapReader) drained() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.ended
}

// unquiesce continues with r, or with the current reader if r is nil.
func (in *swapReader) unquiesce(r io.Reader, pipe *os.File) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.quiesced = false
	if r != nil {
		in.r, in.pipe = r, pipe
	}
	in.notify()
}

// close makes Read return its error, also while quiesced.
func (in *swapReader) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.notify()
}

// notify wakes a Read that waits. Preconditions: mu is held.
func (in *swapReader) notify() {
	close(in.changed)
	in.changed = make(chan struct{})
}

// continued returns r preceded by rest, the beginning of a frame.
func continued(rest []byte, r io.Reader) io.Reader {
	if len(rest) == 0 {
		return r
	}
	return io.MultiReader(bytes.NewReader(rest), r)
}
