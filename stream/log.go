// Package stream has the log that keeps the records of a channel's output.
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

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// Limits of a log.
const (
	// DefaultMemory is how many bytes a log keeps in memory.
	DefaultMemory = 1 << 20
	// DefaultDisk is how many bytes a log with a folder keeps on disk.
	DefaultDisk = 64 << 20
	// DefaultWindow is how many bytes a reader may get ahead of its Ack.
	DefaultWindow = 256 << 10
	// MaxPayload is the largest payload of a record, in bytes. Every record with
	// its offset fits the body of a Records frame.
	MaxPayload = frame.MaxBody - frame.OffsetSize - frame.RecordHeaderSize
	// MaxJoin is the largest payload of joined output of one cell, in bytes.
	MaxJoin = 32 << 10
	// JoinWithin is how long after a record's first byte output may be joined to
	// it, so that times are exact to 10 ms.
	JoinWithin = 10 * time.Millisecond
	// MaxChunk is how many bytes a reader gets at once, unless one record is bigger.
	MaxChunk = 64 << 10

	// maxBlock is the size of a block: the unit in which the log allocates, writes
	// to disk and drops.
	maxBlock = 64 << 10
	minBlock = 256
	// firstBlock is the size of the first block, in bytes.
	firstBlock = 2 << 10
	// maxSegment is the size at which the log closes a file and begins the next.
	maxSegment = 8 << 20
	// stallAfter is how long an Append waits for a disk without progress. Afterwards no Append
	// waits until the disk makes progress.
	stallAfter = time.Second
	// retryAfter is how long the log uses only memory after a failed write.
	retryAfter = 5 * time.Second
)

// LogOptions are the limits of a log. The zero value means a log of 1 MiB in memory.
type LogOptions struct {
	// Dir is the folder for blocks that do not fit the memory. The log creates it. Several logs may
	// share it. Empty means only memory.
	Dir string
	// Memory is how many bytes the log keeps in memory, within two blocks of 64
	// KiB; 0 means DefaultMemory. It always keeps a single bigger record.
	Memory int64
	// Disk is how many bytes are kept on disk; 0 means DefaultDisk.
	Disk int64
	// Account counts the bytes on disk; nil counts nothing.
	Account Account
	// Now returns the time of a record; nil means time.Now. It is called with the
	// log's lock held.
	Now func() time.Time
}

// Account counts what several logs keep on disk. A log calls it with its lock held, so it does not
// block.
type Account interface {
	// CountDisk adds a change to the number of bytes on disk.
	CountDisk(bytes int64)
	// Full reports whether nothing may be written. A log then keeps its output in memory only, and
	// drops the oldest.
	Full() bool
}

// Log is a channel's output: append-only, addressed by offset, and bounded in bytes. It has any
// number of readers, and none of them can block the producer or another reader.
//
// Appended records are first in memory, in blocks of 64 KiB. Once half of the memory is in use, a
// goroutine writes the oldest blocks to files. It ends when it has no work. Written blocks stay in
// memory until their memory is needed. When the files reach the limit of the disk, the log drops
// the oldest file.
//
// An offset that was returned never changes its meaning. An append may be joined to the previous
// record, which then grows, but only while nobody can know the end of that record. The record is
// sealed when a reader gets it, or when Bounds or Reader reads the end. Append returns the
// beginning of a record, which joining does not change.
type Log struct {
	epoch      uint64
	dir        string
	made       bool // Close removes the folder
	memory     int64
	disk       int64
	blockSize  int64
	segmentMax int64
	account    Account // nil for none
	now        func() time.Time
	stallAfter time.Duration
	create     func(path string) (segmentFile, error)

	// spiller counts the goroutine that writes files. Only that goroutine uses file, and after it
	// Close.
	spiller sync.WaitGroup
	file    segmentFile

	mu      sync.Mutex // guards all fields below; no file operation happens while it is held
	end     int64
	ended   bool
	closed  bool
	blocks  []*block // sorted by offset; holes only after a disk failure
	active  *block   // the last block, while it accepts more; otherwise nil
	open    openRecord
	mem     int64 // capacity of all blocks in memory
	dirty   int64 // the unwritten part of mem
	spillAt int64 // blocks from this offset on are not written yet
	memAt   int64 // blocks before this offset are not in memory

	segments []*segment // sorted by offset; the last one may be open in file
	onDisk   int64
	spilling bool
	resting  bool // the spiller writes all blocks and frees their memory
	stalled  bool
	retryAt  time.Time
	room     chan struct{} // closed at the spiller's next progress; nil when nobody waits

	readers map[*LogReader]struct{}
	waiters []*LogReader // readers that wait for an append
	stats   LogStats
}

// Bounds are the epoch and the offsets of a log.
type Bounds struct {
	// Epoch is a random number below 2^48, never 0. Offsets of different epochs are
	// unrelated.
	Epoch uint64
	// Oldest is the offset of the oldest record in the log. End is the offset of
	// the next record.
	Oldest, End int64
	// Ended is true once the log has its final record.
	Ended bool
}

// LogStats counts events since the log was created.
type LogStats struct {
	Records      int64 // records that were begun
	Joined       int64 // appends that were joined to an earlier record
	DroppedBytes int64 // bytes that are lost
	SpilledBytes int64 // bytes written to disk
	SpillErrors  int64 // writes that the disk rejected
	ReadErrors   int64 // blocks lost because the disk could not read them back
	Stalls       int64 // times that an append gave up waiting for the disk
	Gaps         int64 // gap records given to readers
	MemoryBytes  int64 // in use now
	DiskBytes    int64 // in use now
	Readers      int   // at present
}

// NewLog returns an empty log with a new epoch.
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
		account: o.Account, stallAfter: stallAfter, create: createSegment,
		readers: map[*LogReader]struct{}{},
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
		if err := makeDir(l.dir); err != nil {
			return nil, fault.Wrap(fault.Host, op, err)
		}
	}
	return l, nil
}

// makeDir makes a folder and its parents. It tries again when a parent, which is empty for a moment,
// is removed with the last log in it.
func makeDir(dir string) (err error) {
	for range 100 {
		if err = os.MkdirAll(dir, 0o700); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// newEpoch returns a random epoch that a JSON number can represent.
func newEpoch() uint64 {
	for {
		var b [8]byte
		rand.Read(b[2:]) // never fails
		if e := binary.BigEndian.Uint64(b[:]); e != 0 {
			return e
		}
	}
}

// Bounds returns the bounds of the log. It seals the last record.
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

// Close ends all readers with NotFound and removes the log's files. It removes
// the folder if NewLog made it and it is empty. It waits for the disk.
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
	l.mem, l.dirty = 0, 0
	l.addOnDisk(-l.onDisk)
	l.mu.Unlock()
	for _, s := range segments {
		if err := os.Remove(s.path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if l.made {
		os.Remove(l.dir) // it fails if another log uses the folder
	}
	return fault.Wrap(fault.Internal, "stream.close", errors.Join(errs...))
}

// segmentPath returns the name of a file, which has the epoch and the offset at
// which the file begins. The file contains encoded records and nothing else, so
// a directory listing and the files are enough to read a log back.
func (l *Log) segmentPath(start int64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%012x-%020d.seg", l.epoch, start))
}
