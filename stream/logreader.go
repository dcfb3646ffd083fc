package stream

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Chunk is a run of whole encoded records for a reader.
type Chunk struct {
	// Offset is the offset of the first record. A gap record is always in a chunk of its own and
	// occupies no offset: its chunk has the offset at which the records after it begin.
	Offset int64
	// Records is valid until the reader's next call to Next. Callers must not write to it.
	Records []byte
}

// End returns the offset after the chunk. The next chunk begins there. A viewer acknowledges this
// offset once it has rendered the chunk, and resumes from it.
func (c Chunk) End() int64 {
	if len(c.Records) >= frame.RecordHeaderSize && frame.Kind(c.Records[4]) == frame.KindGap {
		return c.Offset
	}
	return c.Offset + int64(len(c.Records))
}

// LogReader reads a log from an offset, with its own credit. One goroutine may call Next. The other
// methods are safe for concurrent use.
//
// A reader whose position is no longer in the log gets a KindGap record with the exact number of
// missing bytes, and continues after them. A gap costs no credit but waits for credit, so a viewer
// that stalled for a while gets one gap and not many.
type LogReader struct {
	log    *Log
	window int64
	wake   chan struct{} // capacity 1

	// buf holds records read from disk, from the offset bufAt on. Only Next uses
	// both.
	buf   []byte
	bufAt int64

	// log.mu guards the fields below.
	start    int64
	pos      int64 // offset of the next record to send
	acked    int64
	skipped  []frame.Gap // gaps between acked and pos
	newEpoch bool        // the reader comes from another epoch and has not received its gap
	skip     int64       // where the reader continues, if beyond pos
	behind   int64       // largest distance from the end, in bytes; 0 means no limit
	before   int64       // distance from the end at which it then continues
	hurry    bool        // it may do so once without credit
	waiting  bool
	closed   bool
	err      error
}

// Reader returns a reader that begins at offset, where a record must begin or the log end. For any
// other offset Start and Next return InvalidArgument with the field offset. For an offset that the
// log no longer has, the reader begins with a gap.
//
// epoch is the epoch of offset; 0 means the log's epoch. A reader from another epoch has read
// nothing of this log. It begins at offset 0 with a gap from 0 to the oldest record. The gap has 0
// bytes if the log has dropped nothing.
//
// A negative offset -n means at most the last n bytes, from the beginning of a record and without a
// gap, whatever the epoch. If the last record alone is larger, it means that record. -1 means the
// end. window is how many bytes the reader may get ahead of Ack; 0 or less means DefaultWindow.
func (l *Log) Reader(epoch uint64, offset, window int64) *LogReader {
	const op = "stream.reader"
	if window <= 0 {
		window = DefaultWindow
	}
	r := &LogReader{log: l, window: window, wake: make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seal()
	if offset >= 0 && epoch != 0 && epoch != l.epoch {
		r.newEpoch = true
	} else {
		r.start, r.err = l.resolve(op, offset)
	}
	if r.err == nil && l.closed {
		r.err = fault.New(fault.NotFound, op, "the log has been closed")
	}
	r.pos, r.acked = r.start, r.start
	if r.err == nil {
		l.readers[r] = struct{}{}
	} else {
		r.closed = true
	}
	return r
}

// resolve returns the offset where a reader begins. It needs the lock and
// releases it while it reads from disk.
func (l *Log) resolve(op string, offset int64) (int64, error) {
	if offset > l.end {
		return 0, fault.Invalid(op, "offset", "the log ends at %d, %d is beyond", l.end, offset)
	}
	want, relative := offset, offset < 0
	if relative {
		want = l.end + offset
	}
	var disk []byte
	for {
		if relative {
			want = max(want, l.oldest())
		}
		i := l.find(want)
		if i == len(l.blocks) || want <= l.blocks[i].start {
			if relative && i < len(l.blocks) {
				want = l.blocks[i].start
			}
			return want, nil
		}
		b := l.blocks[i]
		buf := b.buf
		if buf == nil {
			seg, at := b.seg, b.onDisk()
			l.mu.Unlock()
			var err error
			disk, err = load(disk, at)
			if err != nil {
				l.lost(b, seg)
			}
			l.mu.Lock()
			if l.closed {
				return want, nil
			}
			if err != nil {
				continue
			}
			buf = disk
		}
		at := b.start + boundary(buf, want-b.start)
		if relative && at == l.end && offset <= -frame.RecordHeaderSize {
			at = b.start + lastRecord(buf)
		}
		if at != want && !relative {
			return 0, fault.Invalid(op, "offset", "no record begins at %d", want)
		}
		return at, nil
	}
}

// Start returns the offset at which the reader begins, or the error. A gap may
// come before the first record.
func (r *LogReader) Start() (int64, error) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.start, r.err
}

// Acked returns the offset that the viewer has acknowledged.
func (r *LogReader) Acked() int64 {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.acked
}

// Ended reports whether the reader has got the final record.
func (r *LogReader) Ended() bool {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.log.ended && r.pos == r.log.end
}

// Next waits for data and for credit and returns whole records: up to 64 KiB, or one bigger record.
// A chunk is at most as big as the remaining credit. If the first record is bigger than that, it
// passes alone, as long as any credit remains.
//
// After the final record Next returns io.EOF. It returns NotFound once the log is closed, and
// Canceled or DeadlineExceeded once the reader is closed or ctx has ended. It waits for at most one
// read of a block or record from disk.
func (r *LogReader) Next(ctx context.Context) (Chunk, error) {
	const op = "stream.next"
	for {
		if err := ctx.Err(); err != nil {
			return Chunk{}, fault.Wrap(fault.KindOf(err), op, err)
		}
		chunk, ok, err := r.next(op)
		if ok || err != nil {
			return chunk, err
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
		}
	}
}

// next returns a chunk, an error, or neither when it has to wait.
func (r *LogReader) next(op string) (Chunk, bool, error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case r.err != nil:
			return Chunk{}, false, r.err
		case r.closed:
			return Chunk{}, false, fault.New(fault.Canceled, op, "the reader has been closed")
		case l.closed:
			return Chunk{}, false, fault.New(fault.NotFound, op, "the log has been closed")
		case r.newEpoch:
			r.newEpoch = false
			return r.gap(l.oldest()), true, nil
		case r.pos < r.skip:
			return r.gap(r.skip), true, nil
		case r.pos == l.end && l.ended:
			return Chunk{}, false, io.EOF
		case r.pos == l.end:
			if !r.waiting {
				r.waiting = true
				l.waiters = append(l.waiters, r)
			}
			return Chunk{}, false, nil
		}
		credit := r.credit()
		if (credit > 0 || r.hurry) && r.behind > 0 && l.end-r.pos > r.behind {
			l.seal()
			to, err := l.resolve(op, -r.before)
			if err == nil && to > r.pos {
				r.skip, r.hurry = max(r.skip, to), false
				continue
			}
		}
		r.hurry = false
		if credit <= 0 {
			return Chunk{}, false, nil
		}
		if r.pos >= r.bufAt && r.pos < r.bufAt+int64(len(r.buf)) {
			return r.chunkOf(r.buf[r.pos-r.bufAt:], credit), true, nil
		}
		i := l.find(r.pos)
		if i == len(l.blocks) {
			return r.gap(l.end), true, nil
		}
		b := l.blocks[i]
		if b.start > r.pos {
			return r.gap(b.start), true, nil
		}
		if b.buf != nil {
			if b == l.active {
				l.seal()
			}
			r.buf = nil
			return r.chunkOf(b.buf[r.pos-b.start:], credit), true, nil
		}
		seg, at := b.seg, b.onDisk()
		l.mu.Unlock()
		var err error
		r.buf, err = load(r.buf, at)
		r.bufAt = b.start
		if err != nil {
			l.lost(b, seg)
		}
		l.mu.Lock()
	}
}

// chunkOf returns the chunk of the first records of data that credit allows.
// Needs the lock.
func (r *LogReader) chunkOf(data []byte, credit int64) Chunk {
	n := fit(data, min(credit, MaxChunk))
	c := Chunk{Offset: r.pos, Records: data[:n:n]}
	r.pos += n
	return c
}

// gap moves the reader to the offset to. Needs the lock.
func (r *LogReader) gap(to int64) Chunk {
	g := frame.Gap{From: r.pos, To: to, Bytes: to - r.pos}
	if n := len(r.skipped); n > 0 && r.skipped[n-1].To == g.From {
		r.skipped[n-1].To = to
	} else if g.Bytes > 0 {
		r.skipped = append(r.skipped, g)
	}
	r.pos = to
	r.log.stats.Gaps++
	payload, _ := json.Marshal(g) // three integers
	return Chunk{Offset: to, Records: frame.AppendRecord(nil, frame.Record{
		Kind: frame.KindGap, Time: r.log.now().UnixMicro(), Payload: payload,
	})}
}

// Skip makes the reader continue at offset, where a record must begin or the log end. The reader
// gets the records before it as a gap. An offset before the reader's position has no effect.
func (r *LogReader) Skip(offset int64) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.skip = max(r.skip, min(offset, r.log.end))
	r.signal()
}

// Follow makes the reader keep up. Whenever its position is more than behind bytes before the log's
// end, it continues at most before bytes from the end, and gets the records in between as a gap.
// The first time it does so without credit, later once there is credit. A behind of 0 disables
// this. A window of 0 does not change the window.
func (r *LogReader) Follow(behind, before, window int64) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.behind, r.before, r.hurry = behind, max(before, 1), behind > 0
	if window > 0 {
		r.window = window
	}
	r.signal()
}

// credit returns how many more bytes may be sent. Bytes in a gap do not count.
// Needs the lock.
func (r *LogReader) credit() int64 {
	sent := r.pos - r.acked
	for _, g := range r.skipped {
		sent -= g.To - max(g.From, r.acked)
	}
	return r.window - sent
}

// Ack records that the viewer has rendered everything before offset, which returns credit. An
// offset before that of an earlier Ack has no effect. An offset beyond the sent records is
// InvalidArgument with the field offset.
func (r *LogReader) Ack(offset int64) error {
	const op = "stream.ack"
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if offset < 0 || offset > r.pos {
		return fault.Invalid(op, "offset", "only %d bytes were sent, %d cannot be acknowledged",
			r.pos, offset)
	}
	if offset <= r.acked {
		return nil
	}
	r.acked = offset
	r.skipped = slices.DeleteFunc(r.skipped, func(g frame.Gap) bool { return g.To <= offset })
	r.signal()
	return nil
}

// Close ends the reader, also while Next waits.
func (r *LogReader) Close() {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	delete(l.readers, r)
	if r.waiting {
		r.waiting = false
		l.waiters = slices.DeleteFunc(l.waiters, func(p *LogReader) bool { return p == r })
	}
	r.signal()
}

func (r *LogReader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
