package image

import (
	"archive/tar"
	"context"
	"io"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// budget bounds everything that one image expands to.
type budget struct {
	bytes   int64 // bytes that the layers may still expand to
	most    int64
	entries int // entries that may still be made
}

func newBudget(bytes int64) *budget {
	return &budget{bytes: bytes, most: bytes, entries: MaxEntries}
}

// allowance returns the bytes that the layers of an image may expand to, if its blobs have packed
// bytes.
func allowance(packed int64) int64 {
	if packed >= (MaxBytes-FreeBytes)/MaxRatio {
		return MaxBytes
	}
	return FreeBytes + packed*MaxRatio
}

func (b *budget) tooLarge() error {
	return fault.New(fault.TooLarge, "image.unpack",
		"the layers of this image may expand to %d bytes: %d bytes and %d times their size, at most %d",
		b.most, int64(FreeBytes), MaxRatio, int64(MaxBytes))
}

// entry counts one file, folder or link.
func (b *budget) entry() error {
	if b.entries--; b.entries < 0 {
		return fault.New(fault.TooLarge, "image.unpack", "an image has at most %d files", MaxEntries)
	}
	return nil
}

// stream returns the data of a layer after decompression. Each byte counts, also the bytes of files
// that are left out. Reading fails when ctx ends.
func (b *budget) stream(ctx context.Context, r io.Reader) io.Reader {
	return &budgetReader{ctx: ctx, from: r, b: b}
}

type budgetReader struct {
	ctx  context.Context
	from io.Reader
	b    *budget
}

func (r *budgetReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fault.Wrap(fault.KindOf(err), "image.unpack", err)
	}
	if len(p) > 0 && r.b.bytes <= 0 {
		// The stream may end exactly here.
		var one [1]byte
		if n, err := r.from.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, r.b.tooLarge()
	}
	n, err := r.from.Read(p[:min(int64(len(p)), max(r.b.bytes, 0))])
	r.b.bytes -= int64(n)
	return n, err
}

// sparse reports whether an entry of a tar declares bytes that the tar does not have. A few bytes
// could declare any size.
func sparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}
