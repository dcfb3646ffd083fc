package wire

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	// flushBytes and flushTime bound the waiting output: it is written when there are more bytes,
	// or when it is older.
	flushBytes = 64 << 10
	flushTime  = 20 * time.Millisecond
	// maxText is the largest frame of text, in bytes.
	maxText = 1 << 20
	// patience is how long to wait until the agent has read child processes' output. After that a
	// frame is written all the same.
	patience = 5 * time.Millisecond
)

// Output is the one ordered queue for all output of the kernel. A write blocks while the agent does
// not read: nothing is lost, and flushBytes and the pipe bound the waiting output.
type Output struct {
	mu    sync.Mutex // guards all fields below
	file  *os.File
	plain []int
	buf   []byte
	open  int // position of the last frame's header, if text may join it; otherwise -1
	kind  byte
	cell  uint32
	timer *time.Timer
	armed bool
}

// NewOutput returns an output to file. plain are the descriptors that C code
// and child processes print to.
func NewOutput(file *os.File, plain ...int) *Output {
	o := &Output{file: file, plain: plain, open: -1}
	o.timer = time.AfterFunc(time.Hour, o.Flush)
	o.timer.Stop()
	return o
}

// Stdout appends text of a cell's standard output.
func (o *Output) Stdout(cell uint32, text []byte) { o.text(stdout, cell, text) }

// Stderr appends text of a cell's error output.
func (o *Output) Stderr(cell uint32, text []byte) { o.text(stderr, cell, text) }

func (o *Output) text(kind byte, cell uint32, text []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(text) > 0 {
		if o.open < 0 || o.kind != kind || o.cell != cell || len(o.buf)-o.open >= maxText {
			o.open, o.kind, o.cell = len(o.buf), kind, cell
			o.frame(kind, cell, nil)
		}
		n := min(len(text), maxText)
		o.buf = append(o.buf, text[:n]...)
		text = text[n:]
		binary.BigEndian.PutUint32(o.buf[o.open:], uint32(len(o.buf)-o.open-headerSize))
		if len(o.buf) >= flushBytes {
			o.flush()
		}
	}
	if len(o.buf) > 0 && !o.armed {
		o.armed = true
		o.timer.Reset(flushTime)
	}
}

// frame appends a whole frame.
func (o *Output) frame(kind byte, cell uint32, body []byte) {
	o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(len(body)))
	o.buf = append(o.buf, kind, 0, 0, 0, 0, 0, 0, 0)
	o.buf = binary.BigEndian.AppendUint32(o.buf, cell)
	o.buf = append(o.buf, body...)
}

// Message sends a message of a cell.
func (o *Output) Message(cell uint32, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = -1
	o.frame(message, cell, body)
	o.flush()
}

// Reply sends a reply, after all earlier output.
func (o *Output) Reply(r Reply) {
	body, err := json.Marshal(r)
	if err != nil || len(body) > MaxBody {
		body, _ = json.Marshal(Reply{
			Op: r.Op, ID: r.ID, Status: "error", EName: "KernelError",
			EValue: "the reply could not be encoded",
		})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = -1
	o.frame(control, 0, body)
	o.flush()
}

// Flush writes the waiting output.
func (o *Output) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
}

// Settle writes the waiting output and gives the agent a moment to read it, before other code
// prints without the kernel.
func (o *Output) Settle() {
	o.Flush()
	for end := time.Now().Add(patience); unread(int(o.file.Fd())) && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
}

// flush is called with mu held.
func (o *Output) flush() {
	o.armed, o.open = false, -1
	if len(o.buf) == 0 {
		return
	}
	if o.clear() {
		for at := 0; at < len(o.buf); at += headerSize + int(binary.BigEndian.Uint32(o.buf[at:])) {
			o.buf[at+5] = flagClear
		}
	}
	if _, err := o.file.Write(o.buf); err != nil {
		syscall.Exit(1) // the agent has disconnected
	}
	o.buf = o.buf[:0]
	if cap(o.buf) > 1<<20 {
		o.buf = nil
	}
}

// clear waits for a moment until the plain descriptors are empty, and reports whether they are.
func (o *Output) clear() bool {
	empty := func() bool {
		for _, fd := range o.plain {
			if unread(fd) {
				return false
			}
		}
		return true
	}
	if empty() {
		return true
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
		if empty() {
			return true
		}
	}
	return false
}

// unread reports whether a pipe has unread bytes.
func unread(fd int) bool {
	const fionread = 0x541B
	var n int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), fionread,
		uintptr(unsafe.Pointer(&n)))
	return errno == 0 && n > 0
}
