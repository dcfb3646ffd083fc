package stream

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Saved is a log that another process can open, together with the files in its
// folder.
type Saved struct {
	Epoch  uint64       `json:"epoch"`
	End    int64        `json:"end"`
	Ended  bool         `json:"ended,omitempty"`
	Blocks []SavedBlock `json:"blocks,omitempty"`
}

// SavedBlock is the place of a part of the log.
type SavedBlock struct {
	Start int64  `json:"start"`
	Size  int64  `json:"size"`
	File  string `json:"file"` // in the log's folder
	Pos   int64  `json:"pos"`
	Sum   uint32 `json:"sum"`
}

// Save closes the log and leaves its content in its folder, for OpenLog. After
// an error the log is closed as by Close.
func (l *Log) Save() (Saved, error) {
	const op = "stream.save"
	l.mu.Lock()
	if l.closed || l.dir == "" {
		l.mu.Unlock()
		return Saved{}, fault.New(fault.Conflict, op, "the log is closed, or has no folder")
	}
	l.closed = true
	l.seal()
	l.active = nil
	for r := range l.readers {
		r.signal()
	}
	l.signalRoom()
	l.mu.Unlock()
	l.spiller.Wait() // after this nothing else changes blocks or segments

	err := l.storeAll()
	l.closeFile()
	s := Saved{Epoch: l.epoch, End: l.end, Ended: l.ended}
	synced := map[*segment]bool{}
	for _, b := range l.blocks {
		if b.seg == nil {
			continue // it did not fit the limit of the disk, and becomes a gap
		}
		if !synced[b.seg] && err == nil {
			err = syncFile(b.seg.path)
			synced[b.seg] = true
		}
		s.Blocks = append(s.Blocks, SavedBlock{
			Start: b.start, Size: b.size,
			File: filepath.Base(b.seg.path), Pos: b.pos, Sum: b.sum,
		})
	}
	if err != nil {
		l.mu.Lock()
		l.closed = false
		l.mu.Unlock()
		return Saved{}, errors.Join(fault.Wrap(fault.Host, op, err), l.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addOnDisk(-l.onDisk) // the files count when the log is opened again
	return s, nil
}

// storeAll writes the blocks that are only in memory.
func (l *Log) storeAll() error {
	for i := l.find(l.spillAt); i < len(l.blocks); {
		b := l.blocks[i]
		if b.seg == nil && b.size <= l.disk {
			sum := checksum(b.buf)
			seg, pos, err := l.store(b.start, b.buf)
			if err != nil {
				return err
			}
			b.seg, b.pos, b.sum = seg, pos, sum
		}
		l.spillAt = b.end()
		i = l.find(l.spillAt) // older blocks may have been dropped
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// OpenLog returns a saved log with its epoch and offsets. If a file is missing,
// readers get a gap for it. OpenLog ignores files in the folder that belong to
// other logs.
func OpenLog(o LogOptions, s Saved) (*Log, error) {
	l, err := NewLog(o)
	if err != nil {
		return nil, err
	}
	l.made = true
	l.epoch, l.end, l.ended, l.spillAt, l.memAt = s.Epoch, s.End, s.Ended, s.End, s.End
	for _, b := range s.Blocks {
		path := filepath.Join(l.dir, filepath.Base(b.File))
		fi, err := os.Stat(path)
		if err != nil || b.Size <= 0 || b.Pos < 0 || fi.Size() < b.Pos+b.Size || b.Start+
			b.Size > s.End {
			continue
		}
		if n := len(l.segments); n == 0 || l.segments[n-1].path != path {
			l.segments = append(l.segments, &segment{path: path, start: b.Start - b.Pos})
		}
		seg := l.segments[len(l.segments)-1]
		seg.size = max(seg.size, b.Pos+b.Size)
		l.blocks = append(l.blocks, &block{
			start: b.Start, size: b.Size, seg: seg, pos: b.Pos,
			sum: b.Sum,
		})
	}
	slices.SortFunc(l.blocks, func(a, b *block) int { return int(a.start - b.start) })
	for _, seg := range l.segments {
		l.addOnDisk(seg.size)
	}
	return l, nil
}
