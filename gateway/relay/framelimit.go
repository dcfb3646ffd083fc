package relay

import (
	"encoding/binary"
	"math"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The opcodes and sizes of RFC 6455 that frameLimit needs.
const (
	opcodeBinary = 2
	opcodeClose  = 8 // the first opcode of control frames
	maxFrameHead = 14
)

// frameLimit follows the headers of a client's WebSocket frames. It rejects a frame that announces
// too large a payload, before the payload is sent.
type frameLimit struct {
	head [maxFrameHead]byte
	n    int   // how many bytes head has
	left int64 // the bytes of the present payload that have not come
	// failed is set once a frame was rejected.
	failed bool
}

// check takes the next bytes of the connection.
func (l *frameLimit) check(b []byte) error {
	for len(b) > 0 {
		if skip := min(l.left, int64(len(b))); skip > 0 {
			l.left -= skip
			b = b[skip:]
			continue
		}
		l.head[l.n] = b[0]
		l.n++
		b = b[1:]
		if l.n < l.size() {
			continue
		}
		l.n, l.left = 0, l.payload()
		if limit := l.limit(); l.left > limit {
			l.failed = true
			return fault.New(fault.TooLarge, "relay.read", "a message is over %d bytes", limit)
		}
	}
	return nil
}

// size returns the length of the header, as far as it is known.
func (l *frameLimit) size() int {
	if l.n < 2 {
		return 2
	}
	size := 2
	switch l.head[1] & 0x7f {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	if l.head[1]&0x80 != 0 { // the mask
		size += 4
	}
	return size
}

func (l *frameLimit) payload() int64 {
	switch n := l.head[1] & 0x7f; n {
	case 126:
		return int64(binary.BigEndian.Uint16(l.head[2:]))
	case 127:
		if n := binary.BigEndian.Uint64(l.head[2:]); n <= math.MaxInt64 {
			return int64(n)
		}
		return 0 // the library closes the connection with a protocol error
	default:
		return int64(n)
	}
}

// limit returns the largest payload of the frame. The payload of control frames is checked by the
// library. A continuation has the larger limit: the message as a whole is checked when it is read.
func (l *frameLimit) limit() int64 {
	switch opcode := l.head[0] & 0xf; {
	case opcode == opcodeBinary:
		return maxBinary
	case opcode < opcodeClose:
		return protocol.MaxControl
	}
	return math.MaxInt64
}
