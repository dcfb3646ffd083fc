package channels

import "sync"

// keptBuffer is the largest buffer that is kept for another message, in bytes.
const keptBuffer = 2 << 20

// Buffers are memory for messages. A connection has some only while it sends. The zero value is ready
// for use, by many goroutines.
type Buffers struct{ pool sync.Pool }

type buffer struct{ bytes []byte }

// get returns an empty buffer.
func (p *Buffers) get() *buffer {
	if b, ok := p.pool.Get().(*buffer); ok {
		return b
	}
	return new(buffer)
}

// put takes a buffer back.
func (p *Buffers) put(b *buffer) {
	if cap(b.bytes) <= keptBuffer {
		b.bytes = b.bytes[:0]
		p.pool.Put(b)
	}
}
