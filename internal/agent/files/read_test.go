package files

import (
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/frame"
)

// TestShortenedFile reads files that became shorter after they were opened.
func TestShortenedFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                 string
		size, offset, length int64 // the opened part
		left                 string
		wantLength, wantSize int64
		fails                bool
	}{
		{name: "whole", size: 5, length: 5, left: "hello", wantLength: 5, wantSize: 5},
		{name: "empty now", size: 5, length: 5, wantLength: 0, wantSize: 0},
		{name: "shorter", size: 5, length: 5, left: "he", wantLength: 2, wantSize: 2},
		{
			name: "a part", size: 9, offset: 3, length: 4, left: "lo",
			wantLength: 2, wantSize: 5,
		},
		{
			name: "a part before the new end", size: 9, offset: 3, length: 4, left: "lo w",
			wantLength: 4, wantSize: 9,
		},
		{
			name: "too long for one chunk", size: 2 * wire.FileChunk, length: 2 * wire.FileChunk,
			left: "hello", wantLength: 2 * wire.FileChunk, wantSize: 2 * wire.FileChunk,
			fails: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			part := wire.FileOpened{
				FileStat: wire.FileStat{Size: c.size}, Offset: c.offset, Length: c.length,
			}
			buf := make([]byte, frame.HeaderSize+wire.FileChunk)
			f := strings.NewReader(c.left)
			part, n, err := firstChunk(f, part, buf)
			if err != nil || part.Length != c.wantLength || part.Size != c.wantSize {
				t.Fatalf("%d of %d bytes, %v", part.Length, part.Size, err)
			}
			var out collected
			err = sendFile(&out, f, part.Length, buf, n)
			if (err != nil) != c.fails || !c.fails && out.String() != c.left {
				t.Errorf("sent %q, %v", out.String(), err)
			}
		})
	}
}

// collected keeps the data that was sent.
type collected struct {
	Transfer
	strings.Builder
}

func (c *collected) Put(buf []byte, n int) error {
	_, err := c.Write(buf[frame.HeaderSize : frame.HeaderSize+n])
	return err
}
