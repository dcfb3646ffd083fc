package stream

import (
	"errors"
	"hash/crc32"
	"io"
	"os"
	"syscall"
	"time"
)

// segmentFile is what the spiller needs of a file.
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
	return l.dir != "" && !l.stalled && !now.Before(l.retryAt)
}

// startSpill starts the spiller when there is work for it and it does not run.
// Needs the lock.
func (l *Log) startSpill(now time.Time) {
	if l.spilling || l.closed || !l.diskUsable(now) || l.toSpill() == nil {
		return
	}
	l.spilling = true
	l.spiller.Go(l.spill)
}

// toSpill is the oldest block that has yet to be written and is complete, as
// long as half the memory is taken by such blocks or somebody waits. Needs the
// lock.
func (l *Log) toSpill() *block {
	if l.dirty <= l.memory/2 && l.room == nil {
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
		l.spilled(b) // bigger than the disk's bound: memory only
	}
	return nil
}

// spilled notes that a block need not be written any more. Needs the lock.
func (l *Log) spilled(b *block) {
	l.spillAt = b.end()
	l.dirty -= int64(cap(b.buf))
}

// spill writes blocks until there is no need to.
func (l *Log) spill() {
	for {
		l.mu.Lock()
		b := l.toSpill()
		if b == nil || l.closed || l.now().Before(l.retryAt) {
			l.spilling = false
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

// store writes the block to disk and returns where it is. When the disk is
// full before its bound is reached the oldest files make room.
func (l *Log) store(start int64, buf []byte) (*segment, int64, error) {
	n := int64(len(buf))
	for {
		seg, err := l.segmentFor(start, n)
		if err == nil {
			if _, err = l.file.WriteAt(buf, seg.size); err == nil {
				l.mu.Lock()
				pos := seg.size
				seg.size += n
				l.onDisk += n
				l.mu.Unlock()
				return seg, pos, nil
			}
			// What was written of the block is cut off, and would be written
			// over if that failed.
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

// segmentFor makes room for n bytes within the disk's bound and returns the
// segment, open in l.file, that they are to be appended to.
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

// oldestSegment needs the lock.
func (l *Log) oldestSegment() *segment {
	if len(l.segments) == 0 {
		return nil
	}
	return l.segments[0]
}

// closeFile closes the file that is being written. Its content is cache, not
// a promise, so an error at this point only means that reading it back fails.
func (l *Log) closeFile() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// forget drops a segment, and what is in it and not in memory. Readers that
// have its file open finish their read; later ones find that it is gone and
// get a gap.
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
			l.drop(i)
		}
	}
	for i, t := range l.segments {
		if t == s {
			l.segments = append(l.segments[:i:i], l.segments[i+1:]...)
			break
		}
	}
	l.onDisk -= s.size
	l.mu.Unlock()
	_ = os.Remove(s.path) // a file that stays is found by its name later
}

// extent is where a block is on disk.
type extent struct {
	path      string
	pos, size int64
	sum       uint32
}

// onDisk needs the lock.
func (b *block) onDisk() extent {
	return extent{path: b.seg.path, pos: b.pos, size: b.size, sum: b.sum}
}

// load reads a block into buf, which is grown when it must be.
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
		return buf[:0], errors.New("the file does not hold what was written to it")
	}
	return buf, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// lost is told that a block could not be read from s. When it is still said to
// be there, the disk is at fault and the block is given up.
func (l *Log) lost(b *block, s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.seg != s || b.buf != nil || l.closed {
		return
	}
	l.stats.ReadErrors++
	if i := l.find(b.start); i < len(l.blocks) && l.blocks[i] == b {
		l.drop(i)
	}
}
