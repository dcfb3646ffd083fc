package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/protocol/frame"
)

// quota is a disk of a few bytes. Like a real disk it writes the part that fits before it reports
// that it is full.
type quota struct {
	t    testing.TB
	dir  string
	mu   sync.Mutex
	size int64 // the size of all files in dir
	err  error // the error of a write that does not fit
}

type quotaFile struct {
	*os.File
	q *quota
}

func (q *quota) create(path string) (segmentFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &quotaFile{File: f, q: q}, nil
}

func (f *quotaFile) WriteAt(b []byte, at int64) (int, error) {
	f.q.mu.Lock()
	defer f.q.mu.Unlock()
	n := min(int64(len(b)), f.q.size-used(f.q.t, f.q.dir))
	if _, err := f.File.WriteAt(b[:n], at); err != nil {
		return 0, err
	}
	if n < int64(len(b)) {
		return int(n), &os.PathError{Op: "write", Path: f.Name(), Err: f.q.err}
	}
	return int(n), nil
}

// tinyDisk returns a folder on a disk of size bytes. It is a real disk if the test may mount one.
func tinyDisk(t *testing.T, size int64) (dir string, l func(LogOptions) *Log) {
	dir = t.TempDir()
	if os.Geteuid() == 0 {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0,
			fmt.Sprintf("size=%d", size)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
	}
	q := &quota{t: t, dir: dir, size: size, err: syscall.ENOSPC}
	return dir, func(o LogOptions) *Log {
		o.Dir = dir
		log := newLog(t, o)
		if os.Geteuid() != 0 {
			log.create = q.create
		}
		return log
	}
}

// fill appends n bytes of distinguishable output and returns the appended bytes.
func fill(t testing.TB, l *Log, tr *truth, n int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(uint64(len(tr.bytes)), 9))
	payload := make([]byte, 5000)
	for ; n > 0; n -= len(payload) {
		for i := range payload {
			payload[i] = byte(rnd.Uint32())
		}
		tr.append(t, l, frame.KindMessage, 1, payload)
	}
}

// used returns how many bytes the files in dir have.
func used(t testing.TB, dir string) (n int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err == nil { // otherwise it has just been removed
			n += info.Size()
		}
	}
	return n
}

// readAll checks the whole content of the log and returns how many bytes are missing.
func readAll(t testing.TB, l *Log, tr *truth) (gaps int64) {
	t.Helper()
	v := &viewer{r: l.Reader(0, 0, 0), window: DefaultWindow}
	defer v.r.Close()
	for v.step(t, tr) {
		v.ack(t, v.pos)
	}
	if v.bytes+v.gap != int64(len(tr.bytes)) {
		t.Fatalf("%d bytes came, %d are missing, of %d", v.bytes, v.gap, len(tr.bytes))
	}
	consistent(t, l)
	return v.gap
}

func TestFullDiskRemovesTheOldest(t *testing.T) {
	dir, open := tinyDisk(t, 1<<20)
	l := open(LogOptions{Memory: 256 << 10, Disk: 4 << 20, Now: newClock().Now})
	var tr truth
	fill(t, l, &tr, 600<<10)
	if gone := readAll(t, l, &tr); gone != 0 {
		t.Fatalf("%d bytes are gone before the disk is full", gone)
	}
	fill(t, l, &tr, 8<<20)
	l.spiller.Wait()
	gone, s := readAll(t, l, &tr), l.Stats()
	if s.SpillErrors == 0 || s.DiskBytes > 1<<20 || s.ReadErrors != 0 {
		t.Errorf("%+v", s)
	}
	if held := int64(len(tr.bytes)) - gone; held < 512<<10 {
		t.Errorf("only %d bytes are held on a disk of 1 MiB and 256 KiB of memory", held)
	}
	if b := l.Bounds(); b.Oldest != gone {
		t.Errorf("the oldest is %d, %d bytes are gone: there are holes", b.Oldest, gone)
	}
	if n := used(t, dir); n != s.DiskBytes {
		t.Errorf("%d bytes are on disk, counted %d", n, s.DiskBytes)
	}
}

func TestDiskFullOfOthersLeavesTheMemory(t *testing.T) {
	clock := newClock()
	dir := t.TempDir()
	l := newLog(t, LogOptions{Dir: dir, Memory: 256 << 10, Disk: 4 << 20, Now: clock.Now})
	l.create = func(string) (segmentFile, error) { return os.OpenFile("/dev/full", os.O_WRONLY, 0) }
	var tr truth
	fill(t, l, &tr, 2<<20)
	l.spiller.Wait()
	gone, s := readAll(t, l, &tr), l.Stats()
	if s.SpillErrors != 1 || s.DiskBytes != 0 || s.SpilledBytes != 0 {
		t.Errorf("a disk that is full must be left alone for a while: %+v", s)
	}
	if held := int64(len(tr.bytes)) - gone; held < 256<<10-64<<10 {
		t.Errorf("%d bytes are held in 256 KiB", held)
	}
	l.create = createSegment
	fill(t, l, &tr, 1<<20)
	l.spiller.Wait()
	if s := l.Stats(); s.SpilledBytes != 0 {
		t.Errorf("the disk was used within 5 s: %+v", s)
	}
	clock.Add(retryAfter)
	fill(t, l, &tr, 1<<20)
	l.spiller.Wait()
	if s := l.Stats(); s.SpilledBytes < 512<<10 || s.SpillErrors != 1 {
		t.Errorf("the disk was not used again: %+v", s)
	}
	if now := readAll(t, l, &tr); now > 3<<20+gone {
		t.Errorf("%d bytes are gone", now)
	}
}

// TestDiskFailureLeavesAHole: an error other than a full disk keeps the blocks on disk, and a
// reader gets a gap for the missing part in between.
func TestDiskFailureLeavesAHole(t *testing.T) {
	clock := newClock()
	dir := t.TempDir()
	l := newLog(t, LogOptions{Dir: dir, Memory: 64 << 10, Disk: 4 << 20, Now: clock.Now})
	q := &quota{t: t, dir: dir, size: 900 << 10, err: syscall.EIO}
	l.create = q.create
	var tr truth
	fill(t, l, &tr, 2<<20)
	l.spiller.Wait()
	if n := used(t, dir); n != l.Stats().DiskBytes {
		t.Errorf("%d bytes are on disk after a failed write, counted %d", n, l.Stats().DiskBytes)
	}
	q.mu.Lock()
	q.size = 1 << 30
	q.mu.Unlock()
	clock.Add(retryAfter)
	fill(t, l, &tr, 1<<20)
	l.spiller.Wait()
	gone, b, s := readAll(t, l, &tr), l.Bounds(), l.Stats()
	if b.Oldest != 0 || s.SpillErrors != 1 || gone == 0 || gone != s.DroppedBytes {
		t.Errorf("%d bytes are gone, %+v, %+v", gone, b, s)
	}
	// A reader may begin in the hole, where record boundaries are no longer known.
	records, gaps := drain(t, l.Reader(0, 1<<20+300<<10, 0))
	if len(gaps) != 1 || len(records) == 0 {
		t.Errorf("from within the hole: %d gaps, %d records", len(gaps), len(records))
	}
}

func TestUnreadableFilesBecomeGaps(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"removed":  os.Remove,
		"cut":      func(p string) error { return os.Truncate(p, 100) },
		"not ours": func(p string) error { return os.WriteFile(p, make([]byte, 1<<20-1), 0o600) },
	} {
		dir := t.TempDir()
		l := newLog(t, LogOptions{Dir: dir, Memory: 64 << 10, Disk: 4 << 20})
		var tr truth
		fill(t, l, &tr, 3<<20)
		l.spiller.Wait()
		files, _ := filepath.Glob(filepath.Join(dir, "*.seg"))
		if len(files) < 4 {
			t.Fatalf("%d files", len(files))
		}
		if err := damage(files[1]); err != nil {
			t.Fatal(err)
		}
		if gone, s := readAll(t, l, &tr), l.Stats(); s.ReadErrors == 0 || gone == 0 ||
			gone != s.DroppedBytes {
			t.Errorf("%s: %d bytes are gone, %+v", name, gone, s)
		}
		if start, err := l.Reader(0, -2<<20, 0).Start(); err != nil || start < l.Bounds().Oldest {
			t.Errorf("%s: the last 2 MiB begin at %d, %v", name, start, err)
		}
	}
}

// hung is a file whose writes wait until they are released.
type hung struct {
	segmentFile
	entered chan struct{}
	release chan struct{}
}

func (h *hung) WriteAt(b []byte, at int64) (int, error) {
	select {
	case h.entered <- struct{}{}:
	default:
	}
	<-h.release
	return h.segmentFile.WriteAt(b, at)
}

func TestHungDiskBlocksTheProducerOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLog(LogOptions{Dir: t.TempDir(), Memory: 64 << 10, Disk: 4 << 20})
		if err != nil {
			t.Fatal(err)
		}
		h := &hung{entered: make(chan struct{}, 1), release: make(chan struct{})}
		l.create = func(path string) (segmentFile, error) {
			f, err := createSegment(path)
			return &hung{f, h.entered, h.release}, err
		}
		var tr truth
		began := time.Now()
		fill(t, l, &tr, 1<<20)
		<-h.entered
		if waited := time.Since(began); waited != stallAfter {
			t.Errorf("the producer waited %v, want %v once", waited, stallAfter)
		}
		gone, s := readAll(t, l, &tr), l.Stats()
		if s.Stalls != 1 || gone != s.DroppedBytes || gone < 900<<10 {
			t.Errorf("%d bytes are gone, %+v", gone, s)
		}
		if oldest := l.Bounds().Oldest; oldest != 0 {
			t.Errorf("the block that is being written has gone: the oldest is %d", oldest)
		}
		close(h.release)
		l.spiller.Wait()
		before := l.Stats().DroppedBytes
		fill(t, l, &tr, 1<<20)
		l.spiller.Wait()
		if after := readAll(t, l, &tr); after != before {
			t.Errorf("the disk works again and %d more bytes are gone", after-before)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestDiskIsBounded(t *testing.T) {
	dir := t.TempDir()
	const disk = 1 << 20
	l := newLog(t, LogOptions{Dir: dir, Memory: 64 << 10, Disk: disk})
	var tr truth
	for range 20 {
		fill(t, l, &tr, 300<<10)
		l.spiller.Wait()
		n := used(t, dir)
		if n > disk || n != l.Stats().DiskBytes {
			t.Fatalf("%d bytes are on disk, counted %d, the bound is %d", n, l.Stats().DiskBytes,
				disk)
		}
	}
	if gone := readAll(t, l, &tr); int64(len(tr.bytes))-gone < disk*3/4 {
		t.Errorf("%d of %d bytes are gone", gone, len(tr.bytes))
	}
}

// TestStalledReaderBlocksNobody floods a log with 64 readers. One of them never reads a byte, and
// one never acknowledges.
func TestStalledReaderBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails when a goroutine remains
		l, err := NewLog(LogOptions{Dir: t.TempDir(), Memory: 256 << 10, Disk: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		const total = 8 << 20
		stalled, mute := l.Reader(0, 0, 0), l.Reader(0, 0, 0)
		var wg sync.WaitGroup
		wg.Go(func() {
			var got int
			for {
				c, err := mute.Next(context.Background())
				if err != nil {
					if got < DefaultWindow || got >= DefaultWindow+MaxJoin+frame.RecordHeaderSize {
						t.Errorf("without an Ack %d bytes came", got)
					}
					return
				}
				if _, is := asGap(t, c); !is {
					got += len(c.Records)
				}
			}
		})
		ends := make(chan int64, 62)
		var ended sync.WaitGroup
		for range cap(ends) {
			r := l.Reader(0, 0, 0)
			ended.Go(func() {
				defer r.Close()
				var n int64
				for {
					c, err := r.Next(context.Background())
					if err == io.EOF {
						ends <- n
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if g, is := asGap(t, c); is {
						n += g.Bytes
					} else {
						n += int64(len(c.Records))
					}
					if err := r.Ack(c.End()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		payload := make([]byte, 4000)
		for range total / len(payload) {
			if _, err := l.Append(frame.KindStdout, 1, payload); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.End(frame.KindExit, nil); err != nil {
			t.Fatal(err)
		}
		ended.Wait()
		close(ends)
		end := l.Bounds().End
		for n := range ends {
			if n != end {
				t.Errorf("a reader accounts for %d bytes of %d", n, end)
			}
		}
		if _, gaps := drain(t, stalled); len(gaps) == 0 {
			t.Error("the reader that slept through it all was told of no gap")
		}
		stalled.Close()
		mute.Close()
		wg.Wait()
		if n := l.Stats().Readers; n != 0 {
			t.Errorf("%d readers are left", n)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestConcurrentUse is for the race detector: producers, readers that come and go,
// acknowledgements, counters, and a Close in the middle.
func TestConcurrentUse(t *testing.T) {
	for round := range 5 {
		l, err := NewLog(LogOptions{Dir: t.TempDir(), Memory: 32 << 10, Disk: 256 << 10})
		if err != nil {
			t.Fatal(err)
		}
		var wg, producers sync.WaitGroup
		for p := range 4 {
			producers.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(round), uint64(p)))
				for range 2000 {
					if _, err := l.Append(frame.Kind(1+rnd.IntN(3)), uint32(p),
						make([]byte, rnd.IntN(2000))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for i := range 8 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(round), uint64(100+i)))
				at := int64(0)
				for {
					r := l.Reader(l.epoch, at, 1+rnd.Int64N(100_000))
					if _, err := r.Start(); err != nil && !l.isClosed() {
						t.Errorf("resume at %d: %v", at, err)
					}
					for range rnd.IntN(50) {
						c, err := r.Next(t.Context())
						if err != nil {
							r.Close()
							if err != io.EOF && !l.isClosed() {
								t.Error(err)
							}
							return
						}
						if !whole(c.Records) {
							t.Error("a chunk is not made of whole records")
						}
						at = c.End()
						if err := r.Ack(at); err != nil {
							t.Error(err)
						}
					}
					r.Close()
				}
			})
		}
		stop := make(chan struct{})
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if b := l.Bounds(); b.Oldest > b.End {
						t.Errorf("%+v", b)
					}
					l.Stats()
				}
			}
		})
		producers.Wait()
		if round%2 == 0 {
			if err := l.End(frame.KindExit, nil); err != nil {
				t.Error(err)
			}
			consistent(t, l)
		}
		if round == 4 { // let all readers read to the end
			close(stop)
			wg.Wait()
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if round != 4 {
			close(stop)
			wg.Wait()
		}
	}
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

func TestErrorsOfTheFileSystemAreNotSwallowed(t *testing.T) {
	l, err := NewLog(LogOptions{Dir: t.TempDir(), Memory: 4096, Disk: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	l.create = func(path string) (segmentFile, error) {
		f, err := createSegment(path)
		return &unclosable{f, broken}, err
	}
	var tr truth
	fill(t, l, &tr, 64<<10)
	l.spiller.Wait()
	if err := l.Close(); !errors.Is(err, broken) {
		t.Errorf("close: %v", err)
	}
}

type unclosable struct {
	segmentFile
	err error
}

func (u *unclosable) Close() error { return errors.Join(u.segmentFile.Close(), u.err) }

// fixedAccount is an Account that lets a number of bytes onto the disk.
type fixedAccount struct{ bytes, most atomic.Int64 }

func (a *fixedAccount) CountDisk(bytes int64) { a.bytes.Add(bytes) }
func (a *fixedAccount) Full() bool            { return a.bytes.Load() >= a.most.Load() }

// TestAccount: an account has the bytes on disk of its logs. While it is full, a log writes nothing,
// does not wait, and keeps its newest output in memory.
func TestAccount(t *testing.T) {
	var a fixedAccount
	a.most.Store(1 << 20)
	l, err := NewLog(LogOptions{Dir: t.TempDir(), Memory: 256 << 10, Disk: 64 << 20, Account: &a})
	if err != nil {
		t.Fatal(err)
	}
	var tr truth
	fill(t, l, &tr, 8<<20)
	l.spiller.Wait()
	s := l.Stats()
	if a.bytes.Load() != s.DiskBytes || s.DiskBytes < 1<<20 || s.DiskBytes > 2<<20 ||
		s.Stalls != 0 {
		t.Errorf("%d bytes are counted, %d are on disk, %d stalls", a.bytes.Load(), s.DiskBytes,
			s.Stalls)
	}
	if gone := readAll(t, l, &tr); gone == 0 {
		t.Error("nothing is gone")
	}
	a.most.Store(1 << 30)
	fill(t, l, &tr, 2<<20)
	l.spiller.Wait()
	if more := l.Stats().DiskBytes; more <= s.DiskBytes {
		t.Errorf("with room again %d bytes are on disk, as %d before", more, s.DiskBytes)
	}
	saved, err := l.Save()
	if err != nil || a.bytes.Load() != 0 {
		t.Errorf("a saved log counts %d bytes, %v", a.bytes.Load(), err)
	}
	if l, err = OpenLog(LogOptions{Dir: l.dir, Account: &a}, saved); err != nil ||
		a.bytes.Load() != l.Stats().DiskBytes || a.bytes.Load() == 0 {
		t.Errorf("an open log counts %d bytes, %v", a.bytes.Load(), err)
	}
	if err := l.Close(); err != nil || a.bytes.Load() != 0 {
		t.Errorf("a closed log counts %d bytes, %v", a.bytes.Load(), err)
	}
}

// TestRest: after Rest a log has its output on disk and holds little memory. All of the output can be
// read, and more can be appended.
func TestRest(t *testing.T) {
	l, err := NewLog(LogOptions{Dir: t.TempDir(), Memory: 1 << 20, Disk: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var tr truth
	for round := range 3 {
		fill(t, l, &tr, 900<<10)
		if l.Stats().MemoryBytes < 512<<10 {
			t.Fatalf("%d bytes in memory before", l.Stats().MemoryBytes)
		}
		l.Rest()
		l.spiller.Wait()
		if n := l.Stats().MemoryBytes; n > restAbove {
			t.Errorf("round %d: a log at rest has %d bytes in memory", round, n)
		}
	}
	if gone := readAll(t, l, &tr); gone != 0 {
		t.Errorf("%d bytes are gone", gone)
	}
}
