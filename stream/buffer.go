package stream

import (
	"bufio"
	"sync"
)

// maxKept is the size up to which a buffer is kept for the next use.
const maxKept = 256 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// GetBuffer takes a buffer, empty whatever the one who gave it back has left.
// Wires hold one only while something moves: most are idle.
func GetBuffer() *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// PutBuffer gives a buffer back unless it has grown large.
func PutBuffer(b *[]byte) {
	if cap(*b) <= maxKept {
		*b = (*b)[:0]
		buffers.Put(b)
	}
}

// readBuffer is what a Reader holds while it has something to read.
type readBuffer struct {
	r    *bufio.Reader
	body []byte
}

var readBuffers = sync.Pool{New: func() any { return &readBuffer{r: bufio.NewReaderSize(nil, 64<<10)} }}
