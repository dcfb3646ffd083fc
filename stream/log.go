package stream

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
)

// Limits of a log.
const (
	// DefaultMemory is how many bytes a log keeps in memory.
	DefaultMemory = 1 << 20
	// DefaultDisk is how many bytes a log with a folder keeps on disk.
	DefaultDisk = 64 << 20
	// DefaultWindow is how many bytes a reader is sent ahead of its Ack.
	DefaultWindow = 256 << 10
	// MaxPayload is the largest payload of a record, in bytes, so that every
	// record fits the body of a Records frame behind its offset.
	MaxPayload = MaxBody - offsetSize - RecordHeaderSize
	// MaxJoin is the payload up to which output of one cell is joined into
	// one record, in bytes.
	MaxJoin = 32 << 10
	// JoinWithin is the time after a record's first byte within which more
	// may be joined to it, so that times stay true to 10 ms.
	JoinWithin = 10 * time.Millisecond
	// MaxChunk is how much a reader is given at once, in bytes, unless one
	// record is bigger.
	MaxChunk = 64 << 10

	// maxBlock is the size of a block: the unit in which the log allocates,
	// spills and forgets.
	maxBlock = 64 << 10
	minBlock = 256
	// firstBlock is what a log that holds little costs, in bytes.
	firstBlock = 2 << 10
	// maxSegment is the size at which a file is closed and the next begun.
	maxSegment = 8 << 20
	// stallAfter is how long an Append waits for a disk that makes no
	// progress. From then on nobody waits, until it does.
	stallAfter = time.Second
	// retryAfter is how long the log lives in memory alone after the disk
	// refused a write.
	retryAfter = 5 * time.Second
)

// LogOptions are a log's bounds. The zero value is a log of 1 MiB in memory.
type LogOptions struct {
	// Dir is the folder for what no longer fits the memory. It is made when
	// it is not there. Logs may share it. Empty means memory only.
	Dir string
	// Memory is how many bytes are kept in memory, to within two blocks of 64
	// KiB; 0 means DefaultMemory. A single record that is bigger is kept.
	Memory int64
	// Disk is how many bytes are kept on disk; 0 means DefaultDisk.
	Disk int64
	// Now tells the time of records; nil means time.Now. It is called with the
	// log's lock held.
	Now func() time.Time
}

// Log is a channel's output: append-only, addressed by offset, bounded in
// bytes, and read by any number of readers, none of which can hold up the
// producer or another reader.
//
// What has been appended is first in memory, in blocks of 64 KiB. Once half
// the memory is taken, a goroutine that lives only while there is something to
// do writes the oldest blocks to files. They stay in memory too until it is
// needed. When the disk is full to its bound the oldest file goes.
//
// An offset that was handed out never changes its meaning. An append may be
// joined to the record before it, which therefore grows, but only while nobody
// can know where that record ends: from the moment that it has been given to
// a reader, or that Bounds or Reader looked at the end, it is sealed. What
// Append returns is where a record begins, which joining leaves alone.
type Log struct {
	epoch      uint64
	dir        string
	made       bool // the folder is ours to remove
	memory     int64
	disk       int64
	blockSize  int64
	segmentMax int64
	now        func() time.Time
	stallAfter time.Duration
	create     func(path string) (segmentFile, error)

	// spiller is the goroutine that writes files, if there is one. It alone
	// uses file, and Close after it.
	spiller sync.WaitGroup
	file    segmentFile

	mu      sync.Mutex // guards all below; no file is touched while it is held
	end     int64
	ended   bool
	closed  bool
	blocks  []*block // by offset; holes only where a disk failed
	active  *block   // the last block, while it takes more; else nil
	open    openRecord
	mem     int64 // capacity of all blocks in memory
	dirty   int64 // the part of mem that has yet to be written
	spillAt int64 // blocks from this offset on have yet to be written
	memAt   int64 // blocks before this offset are not in memory

	segments []*segment // by offset; the last may be open in file
	onDisk   int64
	spilling bool
	stalled  bool
	retryAt  time.Time
	room     chan struct{} // closed at the spiller's next progress; nil when nobody waits

	readers map[*LogReader]struct{}
	waiters []*LogReader // readers that wait for an append
	stats   LogStats
}

// Bounds is what a log holds.
type Bounds struct {
	// Epoch is a random number below 2^48, never 0. Offsets of different
	// epochs have nothing to do with each other.
	Epoch uint64
	// Oldest is the offset of the oldest record that is still there, End the
	// one that the next record will have.
	Oldest, End int64
	// Ended is true once the final record is in.
	Ended bool
}

// LogStats counts what a log did since it was made.
type LogStats struct {
	Records      int64 // records begun
	Joined       int64 // appends that went into a record before them
	DroppedBytes int64 // bytes that are gone
	SpilledBytes int64 // bytes written to disk
	SpillErrors  int64 // writes that the disk refused
	ReadErrors   int64 // blocks lost because the disk could not read them back
	Stalls       int64 // times that an append gave up waiting for the disk
	Gaps         int64 // gap records given to readers
	MemoryBytes  int64 // in use now
	DiskBytes    int64 // in use now
	Readers      int   // now
}

// NewLog returns an empty log with an epoch of its own.
func NewLog(o LogOptions) (*Log, error) {
	const op = "stream.log"
	if o.Memory < 0 {
		return nil, fault.Invalid(op, "Memory", "a log cannot keep %d bytes in memory", o.Memory)
	}
	if o.Disk < 0 {
		return nil, fault.Invalid(op, "Disk", "a log cannot keep %d bytes on disk", o.Disk)
	}
	l := &Log{
		epoch: newEpoch(), dir: o.Dir, memory: o.Memory, disk: o.Disk, now: o.Now,
		stallAfter: stallAfter, create: createSegment, readers: map[*LogReader]struct{}{},
	}
	if l.memory == 0 {
		l.memory = DefaultMemory
	}
	if l.disk == 0 {
		l.disk = DefaultDisk
	}
	if l.now == nil {
		l.now = time.Now
	}
	l.blockSize = min(max(l.memory/8, minBlock), maxBlock)
	l.segmentMax = min(max(l.disk/8, l.blockSize), maxSegment)
	if l.dir != "" {
		_, err := os.Stat(l.dir)
		l.made = errors.Is(err, fs.ErrNotExist)
		if err := os.MkdirAll(l.dir, 0o700); err != nil {
			return nil, fault.Wrap(fault.Host, op, err)
		}
	}
	return l, nil
}

// newEpoch fits a JSON number.
func newEpoch() uint64 {
	for {
		var b [8]byte
		rand.Read(b[2:]) // never fails
		if e := binary.BigEndian.Uint64(b[:]); e != 0 {
			return e
		}
	}
}

// Bounds tells what the log holds. It seals the last record.
func (l *Log) Bounds() Bounds {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seal()
	return Bounds{Epoch: l.epoch, Oldest: l.oldest(), End: l.end, Ended: l.ended}
}

// Stats returns the log's counters.
func (l *Log) Stats() LogStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.MemoryBytes, s.DiskBytes, s.Readers = l.mem, l.onDisk, len(l.readers)
	return s
}

// Close ends all readers with NotFound and removes the log's files, and its
// folder when NewLog made it and nothing else is in it. It takes as long as
// the disk does.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	for r := range l.readers {
		r.signal()
	}
	l.signalRoom()
	l.mu.Unlock()
	l.spiller.Wait()

	var errs []error
	if l.file != nil {
		errs = append(errs, l.file.Close())
		l.file = nil
	}
	l.mu.Lock()
	segments := l.segments
	l.segments, l.blocks, l.active, l.waiters = nil, nil, nil, nil
	l.seal()
	l.mem, l.dirty, l.onDisk = 0, 0, 0
	l.mu.Unlock()
	for _, s := range segments {
		if err := os.Remove(s.path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if l.made {
		os.Remove(l.dir) // fails, as it should, when another log is in it
	}
	return fault.Wrap(fault.Internal, "stream.close", errors.Join(errs...))
}

// segmentPath names a file by the epoch and the offset that it begins at. Its
// content is encoded records without anything between them, so that a
// directory listing and the files are all that is needed to read a log back.
func (l *Log) segmentPath(start int64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%012x-%020d.seg", l.epoch, start))
}
