package stream

import (
	"errors"
	"hash/crc32"
	"io"
	"os"
	"syscall"
	"time"
)

// segmentFile has the methods of a file that the spiller uses.
type segmentFile interface {
	io.WriterAt
	Truncate(size int64) error
	Close() error
}

func createSegment(path string) (segmentFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// diskUsable reports whether blocks may be written now. Needs the lock.
func (l *Log) diskUsable(now time.Time) bool {
	return l.dir != "" && !l.stalled && !now.Before(l.retryAt) && !full(l)
}

// full reports whether the account of the log forbids writing. Needs the lock.
func full(l *Log) bool { return l.account != nil && l.account.Full() }

// addOnDisk changes the number of bytes on disk. Needs the lock.
func (l *Log) addOnDisk(bytes int64) {
	l.onDisk += bytes
	if l.account != nil {
		l.account.CountDisk(bytes)
	}
}

// startSpill starts the spiller if it has work and does not run. Needs the
// lock.
func (l *Log) startSpill(now time.Time) {
	if l.spilling || l.closed || !l.diskUsable(now) || l.toSpill() == nil {
		return
	}
	l.spilling = true
	l.spiller.Go(l.spill)
}

// toSpill returns the oldest complete block that is not written, if such blocks
// fill half of the memory or an Append waits. Needs the lock.
func (l *Log) toSpill() *block {
	if l.dirty <= l.memory/2 && l.room == nil && !l.resting {
		return nil
	}
	for i := l.find(l.spillAt); i < len(l.blocks); i++ {
		b := l.blocks[i]
		if b == l.active {
			return nil
		}
		if b.size <= l.disk {
			return b
		}
		l.spilled(b) // it exceeds the limit of the disk, so it stays in memory
	}
	return nil
}

// restAbove is the memory that a log without output keeps, in bytes.
const restAbove = 16 << 10

// Rest writes the output that is in memory to disk and frees its memory, if it is more than a little.
// It does not wait for the disk. The caller expects no output for a while.
func (l *Log) Rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.closed || l.mem <= restAbove || !l.diskUsable(now) {
		return
	}
	l.seal()
	l.active = nil
	l.resting = true
	l.startSpill(now)
	if !l.spilling {
		freeRested(l)
	}
}

// freeRested frees the memory of all blocks on disk, if Rest was called. Needs the lock.
func freeRested(l *Log) {
	if !l.resting {
		return
	}
	l.resting = false
	for _, b := range l.blocks {
		if b.buf == nil {
			continue
		}
		if b.seg == nil || b.writing || b == l.active {
			break // memory holds the newest blocks, without a hole
		}
		l.release(b)
		l.memAt = b.end()
	}
}

// spilled records that a block need not be written. Needs the lock.
func (l *Log) spilled(b *block) {
	l.spillAt = b.end()
	l.dirty -= int64(cap(b.buf))
}

// spill writes blocks as long as toSpill returns one.
func (l *Log) spill() {
	for {
		l.mu.Lock()
		b := l.toSpill()
		if b == nil || l.closed || l.now().Before(l.retryAt) || full(l) {
			l.spilling = false
			freeRested(l)
			l.signalRoom()
			l.mu.Unlock()
			return
		}
		b.writing = true
		l.mu.Unlock()

		sum := checksum(b.buf)
		seg, pos, err := l.store(b.start, b.buf)

		l.mu.Lock()
		b.writing, l.stalled = false, false
		if err != nil {
			l.retryAt = l.now().Add(retryAfter)
		} else {
			b.seg, b.pos, b.sum = seg, pos, sum
			l.spilled(b)
			l.stats.SpilledBytes += b.size
		}
		l.signalRoom()
		l.mu.Unlock()
	}
}

// store writes the block to disk and returns its place. If the disk is full
// before its limit is reached, store removes the oldest files.
func (l *Log) store(start int64, buf []byte) (*segment, int64, error) {
	n := int64(len(buf))
	for {
		seg, err := l.segmentFor(start, n)
		if err == nil {
			if _, err = l.file.WriteAt(buf, seg.size); err == nil {
				l.mu.Lock()
				pos := seg.size
				seg.size += n
				l.addOnDisk(n)
				l.mu.Unlock()
				return seg, pos, nil
			}
			// Cut off the written part of the block. If that fails, the next write
			// overwrites it.
			_ = l.file.Truncate(seg.size)
		}
		l.mu.Lock()
		l.stats.SpillErrors++
		oldest := l.oldestSegment()
		l.mu.Unlock()
		full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
		if !full || oldest == nil || oldest.size == 0 {
			if seg != nil && seg.size == 0 {
				l.forget(seg)
			}
			return nil, 0, err
		}
		l.forget(oldest)
	}
}

// segmentFor makes room for n bytes within the limit of the disk and returns
// their segment, which is open in l.file.
func (l *Log) segmentFor(start, n int64) (*segment, error) {
	for {
		l.mu.Lock()
		oldest, over := l.oldestSegment(), l.onDisk+n > l.disk
		l.mu.Unlock()
		if !over || oldest == nil {
			break
		}
		l.forget(oldest)
	}
	l.mu.Lock()
	var last *segment
	if l.file != nil {
		last = l.segments[len(l.segments)-1]
	}
	l.mu.Unlock()
	if last != nil && last.end() == start && (last.size == 0 || last.size+n <= l.segmentMax) {
		return last, nil
	}
	l.closeFile()
	s := &segment{path: l.segmentPath(start), start: start}
	f, err := l.create(s.path)
	if err != nil {
		return nil, err
	}
	l.file = f
	l.mu.Lock()
	l.segments = append(l.segments, s)
	l.mu.Unlock()
	return s, nil
}

// oldestSegment returns the oldest segment. Needs the lock.
func (l *Log) oldestSegment() *segment {
	if len(l.segments) == 0 {
		return nil
	}
	return l.segments[0]
}

// closeFile closes the file that is being written. Its content is a cache, so an error only means
// that reading it back fails.
func (l *Log) closeFile() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// forget drops a segment and those of its blocks that are not in memory. Readers that have its file
// open finish their read. Later readers get a gap.
func (l *Log) forget(s *segment) {
	l.mu.Lock()
	if s == l.segments[len(l.segments)-1] {
		l.mu.Unlock()
		l.closeFile()
		l.mu.Lock()
	}
	for i := l.find(s.start); i < len(l.blocks) && l.blocks[i].start < s.end(); {
		switch b := l.blocks[i]; {
		case b.seg != s:
			i++
		case b.buf != nil:
			b.seg = nil
			i++
		default:
			l.removeSegment(i)
		}
	}
	for i, t := range l.segments {
		if t == s {
			l.segments = append(l.segments[:i:i], l.segments[i+1:]...)
			break
		}
	}
	l.addOnDisk(-s.size)
	l.mu.Unlock()
	_ = os.Remove(s.path) // the next start finds a file that remains
}

// extent is the place of a block on disk.
type extent struct {
	path      string
	pos, size int64
	sum       uint32
}

// onDisk returns the place of the block on disk. Needs the lock.
func (b *block) onDisk() extent {
	return extent{path: b.seg.path, pos: b.pos, size: b.size, sum: b.sum}
}

// load reads a block into buf, and grows buf if necessary.
func load(buf []byte, p extent) ([]byte, error) {
	if int64(cap(buf)) < p.size || cap(buf) > 1<<20 && p.size <= maxBlock {
		buf = make([]byte, p.size)
	}
	buf = buf[:p.size]
	f, err := os.Open(p.path)
	if err != nil {
		return buf[:0], err
	}
	defer f.Close()
	if _, err := f.ReadAt(buf, p.pos); err != nil {
		return buf[:0], err
	}
	if checksum(buf) != p.sum {
		return buf[:0], errors.New("the content of the file has changed")
	}
	return buf, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// lost handles a block that could not be read from s. If the block should still
// be there, the disk has failed, and the log drops the block.
func (l *Log) lost(b *block, s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.seg != s || b.buf != nil || l.closed {
		return
	}
	l.stats.ReadErrors++
	if i := l.find(b.start); i < len(l.blocks) && l.blocks[i] == b {
		l.removeSegment(i)
	}
}
