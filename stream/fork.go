package stream

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Fork is the content of a log at one moment. Creating it copies nothing; Write copies.
type Fork struct {
	saved Saved
	dir   string
	parts []part
}

// part is a block of a Fork: bytes in memory, or a place in a file.
type part struct {
	start int64
	buf   []byte
	at    extent
}

// Fork returns the log's current content. The log continues. If the log drops a block before Write,
// the copy lacks that block, and the copy's readers get a gap.
func (l *Log) Fork() *Fork {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seal()
	f := &Fork{saved: Saved{Epoch: l.epoch, End: l.end, Ended: l.ended}, dir: l.dir}
	for _, b := range l.blocks {
		if b.seg != nil {
			f.parts = append(f.parts, part{start: b.start, at: b.onDisk()})
		} else {
			// Written bytes of a block never change.
			f.parts = append(f.parts, part{start: b.start, buf: b.buf[:b.size:b.size]})
		}
	}
	return f
}

// Write writes the copy into dir, which it creates, for OpenLog. It links the log's files instead
// of copying them, because they only grow.
func (f *Fork) Write(dir string) (Saved, error) {
	s, err := f.write(dir)
	if err != nil {
		return Saved{}, errors.Join(fault.Wrap(fault.Host, "stream.fork", err), os.RemoveAll(dir))
	}
	return s, nil
}

func (f *Fork) write(dir string) (Saved, error) {
	if err := makeDir(dir); err != nil {
		return Saved{}, err
	}
	s := f.saved
	s.Blocks = nil
	var out *os.File
	defer func() {
		if out != nil {
			_ = out.Close() // after an error, or closed already
		}
	}()
	var pos, next int64
	for _, p := range f.parts {
		if p.buf == nil {
			name := filepath.Base(p.at.path)
			if err := link(p.at.path, filepath.Join(dir, name)); errors.Is(err, os.ErrNotExist) {
				continue // dropped meanwhile
			} else if err != nil {
				return s, err
			}
			s.Blocks = append(s.Blocks, SavedBlock{
				Start: p.start, Size: p.at.size, File: name,
				Pos: p.at.pos, Sum: p.at.sum,
			})
			continue
		}
		if out == nil || p.start != next {
			if out != nil {
				if err := out.Close(); err != nil {
					return s, err
				}
			}
			var err error
			if out, err = os.OpenFile(filepath.Join(dir, fmt.Sprintf("%012x-%020d.mem", s.Epoch,
				p.start)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
				return s, err
			}
			pos = 0
		}
		if _, err := out.Write(p.buf); err != nil {
			return s, err
		}
		size := int64(len(p.buf))
		s.Blocks = append(s.Blocks, SavedBlock{
			Start: p.start, Size: size,
			File: filepath.Base(out.Name()), Pos: pos, Sum: checksum(p.buf),
		})
		pos, next = pos+size, p.start+size
	}
	if out == nil {
		return s, nil
	}
	return s, out.Close()
}

// Clone makes an independent log of a saved one: the same records at the same
// offsets, with a new epoch. It links the files from one folder to the other.
func (s Saved) Clone(from, to string) (Saved, error) {
	if err := makeDir(to); err != nil {
		return Saved{}, fault.Wrap(fault.Host, "stream.fork", err)
	}
	for _, b := range s.Blocks {
		name := filepath.Base(b.File)
		if err := link(filepath.Join(from, name), filepath.Join(to, name)); err != nil &&
			!errors.Is(err, os.ErrNotExist) {
			return Saved{}, errors.Join(fault.Wrap(fault.Host, "stream.fork", err),
				os.RemoveAll(to))
		}
	}
	s.Epoch = newEpoch()
	return s, nil
}

// link gives a file another name. Both names may be the same. Between file
// systems it copies the file.
func link(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	if errors.Is(err, os.ErrNotExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
