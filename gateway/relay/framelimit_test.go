package relay

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// frameOf returns a masked frame of a client.
func frameOf(first byte, payload int) []byte {
	b := []byte{first}
	switch {
	case payload < 126:
		b = append(b, 0x80|byte(payload))
	case payload < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(payload))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(payload))
	}
	return append(b, make([]byte, 4+payload)...)
}

// TestFrameLimit passes frames of all sizes in parts of several lengths. The first frame that is too
// large is rejected with its header, and only that one.
func TestFrameLimit(t *testing.T) {
	good := bytes.Join([][]byte{
		frameOf(0x81, 0), frameOf(0x81, 125), frameOf(0x82, 126), frameOf(0x89, 5),
		frameOf(0x82, 65535), frameOf(0x02, maxBinary), frameOf(0x80, 65536),
		{0x8a, 0}, // without a mask: the library rejects it
		frameOf(0x81, protocol.MaxControl),
	}, nil)
	for _, step := range []int{1, 7, 4096, len(good)} {
		var l frameLimit
		for rest := good; len(rest) > 0; {
			n := min(step, len(rest))
			if err := l.check(rest[:n]); err != nil {
				t.Fatalf("in steps of %d: %v", step, err)
			}
			rest = rest[n:]
		}
		large := frameOf(0x82, maxBinary+1)[:maxFrameHead]
		if err := l.check(large[:maxFrameHead-1]); err != nil {
			t.Errorf("a part of a header: %v", err)
		}
		if err := l.check(large[maxFrameHead-1:]); !fault.Is(err, fault.TooLarge) || !l.failed {
			t.Errorf("in steps of %d, a large frame: %v", step, err)
		}
	}
}
