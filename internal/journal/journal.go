// Package journal writes append-only files of JSON lines for operators and programs, such as the
// audit log and the usage records. Each line is complete or missing. The file is rotated by size
// and the number of files is bounded, so that a journal never fills a disk. When a journal is full,
// it drops lines and counts them.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of a journal.
const (
	// MaxLine is the maximum length of a line in bytes. A longer line is dropped.
	MaxLine = 2 << 20
	// MaxWaiting is the maximum number of bytes that wait for the disk. Further lines are dropped.
	MaxWaiting = 8 << 20
	// maxBatch is the approximate number of bytes that are written with one call.
	maxBatch = 64 << 10
	// retryAfter is the time after a failed write during which lines without a waiting caller are
	// dropped without a new attempt.
	retryAfter = time.Second
)

// Options configure a journal. Dir and Name have no defaults.
type Options struct {
	// Dir is the folder, created with mode 0700 if it is missing.
	Dir string
	// Name is the file's name without its suffix: Name.jsonl is written, and renamed to
	// Name-<time>.jsonl when it is full.
	Name string
	// MaxFile is the maximum size of a file in bytes. Default 64 MiB.
	MaxFile int64
	// Keep is the number of full files that are kept beside the current one. The oldest is removed
	// first. Default 8.
	Keep int
	// Log gets a message when the disk begins to refuse lines, and when it accepts them again.
	Log *slog.Logger
}

// Stats are counters since the journal was opened.
type Stats struct {
	// Lines counts written lines. Dropped counts lines that were not written, because the disk
	// refused them or too many bytes waited.
	Lines, Dropped int64
	// Rotations counts files that became full, Removed the files that were removed.
	Rotations, Removed int64
	// Uploads counts the uploads of the journal to the blob store, UploadsFailed those that failed.
	Uploads, UploadsFailed int64
}

// Journal is an open journal. Its methods are safe for concurrent use.
type Journal struct {
	o    Options
	wake chan struct{} // holds one token when lines wait
	done chan struct{} // closed when the writer has ended

	mu      sync.Mutex // guards all below; not held over writes
	waiting []line
	bytes   int
	closed  bool
	reopen  bool
	stats   Stats

	// Only the writer uses these:
	file   *os.File
	size   int64
	failed time.Time // the time when the disk refused the last line; zero if it did not
}

type line struct {
	data []byte
	// `told`, if not nil, receives the outcome. It has capacity for it.
	told chan error
}

// Open opens the journal, or creates it. A line that a crash cut short stays, and the next line
// begins after it.
func Open(o Options) (*Journal, error) {
	if o.MaxFile <= 0 {
		o.MaxFile = 64 << 20
	}
	if o.Keep <= 0 {
		o.Keep = 8
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Host, "journal.open", err)
	}
	j := &Journal{o: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if err := j.open(); err != nil && !fault.Is(err, fault.DiskFull) {
		return nil, err
	}
	go j.run()
	return j, nil
}

// Path returns the path of the current file.
func (j *Journal) Path() string { return filepath.Join(j.o.Dir, j.o.Name+".jsonl") }

// Append writes v as a line in the background. It does not block.
func (j *Journal) Append(v any) { _ = j.add(v, nil) }

// Write writes v as a line and returns when the line is in the file, or with the reason why it is
// not. It does not wait for a sync to the disk.
func (j *Journal) Write(ctx context.Context, v any) error {
	told := make(chan error, 1)
	if err := j.add(v, told); err != nil {
		return err
	}
	select {
	case err := <-told:
		return err
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "journal.write", ctx.Err())
	}
}

func (j *Journal) add(v any, told chan error) error {
	const op = "journal.write"
	data, err := json.Marshal(v)
	if err != nil {
		j.mu.Lock()
		j.stats.Dropped++
		j.mu.Unlock()
		return fault.Wrap(fault.Internal, op, err)
	}
	j.mu.Lock()
	switch {
	case j.closed:
		err = fault.New(fault.Restarting, op, "the journal is closed")
	case len(data) >= MaxLine:
		err = fault.New(fault.TooLarge, op, "a line has at most %d bytes", MaxLine)
	case j.bytes+len(data) > MaxWaiting:
		err = &fault.Error{
			Kind: fault.Unavailable, Op: op, RetryAfter: 1,
			Message: "the disk does not keep up with " + j.o.Name,
		}
	default:
		j.waiting = append(j.waiting, line{append(data, '\n'), told})
		j.bytes += len(data)
	}
	if err != nil {
		j.stats.Dropped++
	} else {
		select { // under the lock, because Close closes the channel
		case j.wake <- struct{}{}:
		default:
		}
	}
	j.mu.Unlock()
	return err
}

// Reopen closes the file before the next line is written, and then opens the file with the
// journal's name. A tool may have moved the old file away.
func (j *Journal) Reopen() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reopen = true
}

// CountUpload counts an upload of the journal that has ended.
func (j *Journal) CountUpload(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stats.Uploads++
	if err != nil {
		j.stats.UploadsFailed++
	}
}

// Stats returns the counters.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}

// Close writes the waiting lines and closes the file, at the latest when ctx ends.
func (j *Journal) Close(ctx context.Context) error {
	j.mu.Lock()
	if !j.closed {
		j.closed = true
		close(j.wake)
	}
	j.mu.Unlock()
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), "journal.close", ctx.Err())
	}
}

// run is the one goroutine that writes.
func (j *Journal) run() {
	defer close(j.done)
	for range j.wake {
		j.flush()
	}
	j.flush() // lines that came before the end
	if j.file != nil {
		_ = j.file.Sync()
		_ = j.file.Close()
	}
}

// flush writes the waiting lines, with as many lines per call as fit into the file.
func (j *Journal) flush() {
	for {
		j.mu.Lock()
		all := j.waiting
		j.waiting, j.bytes = nil, 0
		j.mu.Unlock()
		if len(all) == 0 {
			return
		}
		for len(all) > 0 {
			n, size := 0, int64(0)
			for n < len(all) && (n == 0 || size < maxBatch && j.size+size+
				int64(len(all[n].data)) <= j.o.MaxFile) {
				size += int64(len(all[n].data))
				n++
			}
			err := j.write(all[:n], size)
			j.mu.Lock()
			if err == nil {
				j.stats.Lines += int64(n)
			} else {
				j.stats.Dropped += int64(n)
			}
			j.mu.Unlock()
			for _, l := range all[:n] {
				if l.told != nil {
					l.told <- err
				}
			}
			all = all[n:]
		}
	}
}

// write writes all lines or none of them.
func (j *Journal) write(lines []line, size int64) (err error) {
	j.mu.Lock()
	again := j.reopen
	j.reopen = false
	j.mu.Unlock()
	urgent := again
	for _, l := range lines {
		urgent = urgent || l.told != nil
	}
	if !j.failed.IsZero() && !urgent && time.Since(j.failed) < retryAfter {
		return fault.New(fault.DiskFull, "journal.write", "the disk refused the previous line")
	}
	defer func() { j.note(err) }()
	if again && j.file != nil {
		_ = j.file.Close()
		j.file = nil
	}
	if j.file == nil {
		if err := j.open(); err != nil {
			return err
		}
	}
	if j.size > 0 && j.size+size > j.o.MaxFile {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	data := make([]byte, 0, size)
	for _, l := range lines {
		data = append(data, l.data...)
	}
	n, err := j.file.Write(data)
	if err == nil {
		j.size += int64(n)
		return nil
	}
	// A partial line would corrupt the next one.
	if terr := j.file.Truncate(j.size); terr != nil {
		_ = j.file.Close()
		j.file = nil // open determines the size again
	}
	return fault.Wrap(fault.DiskFull, "journal.write", err)
}

// note logs the first failure in a row and the end of the row.
func (j *Journal) note(err error) {
	switch {
	case err != nil && j.failed.IsZero():
		j.o.Log.Error("a journal cannot be written; its lines are lost until it can", "journal",
			j.Path(), "error", err)
	case err == nil && !j.failed.IsZero():
		j.o.Log.Warn("a journal can be written again", "journal", j.Path(), "dropped",
			j.Stats().Dropped)
	}
	if err == nil {
		j.failed = time.Time{}
	} else {
		j.failed = time.Now()
	}
}

func (j *Journal) open() error {
	const op = "journal.open"
	f, err := os.OpenFile(j.Path(), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size > 0 {
		var last [1]byte
		if _, err = f.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			_, err = f.Write([]byte{'\n'})
			size++
		}
	}
	if err != nil {
		_ = f.Close()
		return fault.Wrap(fault.DiskFull, op, err)
	}
	j.file, j.size = f, size
	return nil
}

// stamp is the time in the name of a full file, so that names sort by time.
const stamp = "20060102T150405.000000000Z"

// rotate renames the full file and creates another.
func (j *Journal) rotate() error {
	const op = "journal.rotate"
	aside := filepath.Join(j.o.Dir, j.o.Name+"-"+time.Now().UTC().Format(stamp)+".jsonl")
	if err := os.Rename(j.Path(), aside); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	_ = j.file.Close()
	j.file = nil
	full, err := Files(j.o.Dir, j.o.Name)
	if err != nil {
		return err
	}
	removed := int64(0)
	for _, f := range full[:max(0, len(full)-j.o.Keep)] {
		if os.Remove(f) == nil {
			removed++
		}
	}
	j.mu.Lock()
	j.stats.Rotations++
	j.stats.Removed += removed
	j.mu.Unlock()
	return j.open()
}

// Files lists a journal's files, oldest first.
func Files(dir, name string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.Host, "journal.files", err)
	}
	var full []string
	current := false
	for _, e := range entries {
		switch n := e.Name(); {
		case n == name+".jsonl":
			current = true
		case strings.HasPrefix(n, name+"-") && strings.HasSuffix(n, ".jsonl"):
			full = append(full, filepath.Join(dir, n))
		}
	}
	sort.Strings(full)
	if current {
		full = append(full, filepath.Join(dir, name+".jsonl"))
	}
	return full, nil
}
