package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/journal"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	uploadEvery = 15 * time.Second
	uploadLimit = time.Minute
	// lastLimit bounds the upload of a node that ends.
	lastLimit  = 10 * time.Second
	sweepEvery = time.Hour
	sweepLimit = 10 * time.Minute
	// ownerFile is a file beside a journal, with the folder to which its node uploads it.
	ownerFile = "folder"
)

// Options are the options of an Archive. All are required.
type Options struct {
	Blobs Blobs
	// Folder is this node's folder: see FolderOf.
	Folder string
	// Keep is how long records of nodes that have gone stay.
	Keep time.Duration
	Log  *slog.Logger
}

// Archive uploads the journals of a node, and reads those of others.
type Archive struct {
	o Options

	mu       sync.Mutex // guards all below; held over an upload
	journals []*journal.Journal
	// have has the objects of this node's folder by their names in it; nil before they were listed.
	have map[string]bool
	// tails has the sizes of the tails that were uploaded, by their names.
	tails map[string]int
	// done has the files that are full and uploaded, by their paths.
	done   map[string]string
	buffer []byte
	failed bool // the last upload has failed
}

// New returns an Archive that uploads nothing yet.
func New(o Options) *Archive {
	return &Archive{o: o, tails: map[string]int{}, done: map[string]string{}}
}

// Folder returns the name of this node's folder in the blob store.
func (a *Archive) Folder() string { return a.o.Folder }

// AddJournal makes the archive upload a journal. Call it before Run.
func (a *Archive) AddJournal(j *journal.Journal) { a.journals = append(a.journals, j) }

// Prepare prepares the folder of a journal that this node is about to open. If the folder has files
// that another node has uploaded, because it was restored from a backup, it moves them into a folder
// below: the blob store has their lines, and these would otherwise count twice.
func (a *Archive) Prepare(dir, name string) error {
	const op = "records.prepare"
	path := filepath.Join(dir, ownerFile)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.Host, op, err)
	}
	owner := strings.TrimSpace(string(text))
	if owner == a.o.Folder {
		return nil
	}
	if owner != "" {
		files, err := journal.Files(dir, name)
		if err != nil {
			return err
		}
		aside := filepath.Join(dir, "of-"+filepath.Base(owner))
		err = os.MkdirAll(aside, 0o700)
		for _, f := range files {
			err = errors.Join(err, os.Rename(f, filepath.Join(aside, filepath.Base(f))))
		}
		if err != nil {
			return fault.Wrap(fault.Host, op, err)
		}
		a.o.Log.Warn("a journal of another node was moved aside; the blob store has its lines",
			"journal", name, "files", len(files), "folder", aside)
	}
	return fault.Wrap(fault.Host, op, errors.Join(os.MkdirAll(dir, 0o700),
		atomicfile.Write(path, []byte(a.o.Folder+"\n"))))
}

// Run uploads the journals until ctx ends, and removes old records from the store.
func (a *Archive) Run(ctx context.Context) {
	sweep := time.NewTimer(rand.N(sweepEvery)) // the nodes of a cluster do it at different times
	defer sweep.Stop()
	ticker := time.NewTicker(uploadEvery)
	defer ticker.Stop()
	a.Upload(ctx)
	for {
		select {
		case <-ticker.C:
			a.Upload(ctx)
		case <-sweep.C:
			sweep.Reset(sweepEvery)
			a.removeOld(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Upload uploads what was written since the last call.
func (a *Archive) Upload(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, uploadLimit)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.sync(ctx)
	switch {
	case err != nil && !a.failed:
		a.o.Log.Warn("the records of use and the audit log are not in the blob store; this is tried again",
			"error", err)
	case err == nil && a.failed:
		a.o.Log.Info("the records of use and the audit log are in the blob store again")
	}
	a.failed = err != nil
}

// Close uploads the last lines and marks the records of this node as complete. The journals must be
// closed, and Run must have returned.
func (a *Archive) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastLimit)
	defer cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.sync(ctx)
	if err == nil {
		err = a.put(ctx, ended, []byte(time.Now().UTC().Format(time.RFC3339Nano)))
	}
	if err != nil {
		a.o.Log.Warn("the last records of this node are on its disk only", "error", err)
	}
}

// sync uploads what the store lacks, and removes what the journals have removed. mu is held.
func (a *Archive) sync(ctx context.Context) (err error) {
	began := time.Now().UTC()
	if err := a.list(ctx); err != nil {
		for _, j := range a.journals {
			j.CountUpload(err)
		}
		return err
	}
	for _, j := range a.journals {
		one := a.syncJournal(ctx, j)
		j.CountUpload(one)
		err = errors.Join(err, one)
	}
	if err != nil {
		return err
	}
	return a.put(ctx, alive, []byte(began.Format(time.RFC3339Nano)))
}

// list lists the objects of this node once, and removes the mark of its earlier end.
func (a *Archive) list(ctx context.Context) error {
	if a.have != nil {
		return nil
	}
	folder := root + "/" + a.o.Folder
	if err := a.o.Blobs.Remove(ctx, folder+"/"+ended); err != nil {
		return err
	}
	have := map[string]bool{}
	err := a.o.Blobs.Walk(ctx, folder, func(name string, _ time.Time) error {
		have[strings.TrimPrefix(name, folder+"/")] = true
		return nil
	})
	if err == nil {
		a.have = have
	}
	return err
}

func (a *Archive) put(ctx context.Context, name string, content []byte) error {
	err := a.o.Blobs.Put(ctx, root+"/"+a.o.Folder+"/"+name, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
	if err == nil {
		a.have[name] = true
	}
	return err
}

func (a *Archive) remove(ctx context.Context, name string) error {
	if err := a.o.Blobs.Remove(ctx, root+"/"+a.o.Folder+"/"+name); err != nil {
		return err
	}
	delete(a.have, name)
	delete(a.tails, name)
	return nil
}

func (a *Archive) syncJournal(ctx context.Context, j *journal.Journal) error {
	dir, name := filepath.Dir(j.Path()), strings.TrimSuffix(filepath.Base(j.Path()), ".jsonl")
	files, err := journal.Files(dir, name)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, path := range files {
		file, err := a.syncFile(ctx, name, path, path != j.Path())
		if err != nil {
			return err
		}
		there[file] = true
	}
	if again, err := journal.Files(dir, name); err != nil || !slices.Equal(files, again) {
		return err // a file was renamed meanwhile, and there may lack it
	}
	for object := range a.have {
		if p, ok := parsePart(object); ok && p.journal == name && !there[p.file] {
			if err := a.remove(ctx, object); err != nil {
				return err
			}
		}
	}
	return nil
}

// syncFile uploads what the store lacks of a file, and returns the file's name there. No lines are
// added to a full file.
func (a *Archive) syncFile(ctx context.Context, name, path string, full bool) (string, error) {
	if full && a.done[path] != "" {
		return a.done[path], nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it was removed meanwhile
	}
	if err != nil {
		return "", fault.Wrap(fault.Host, "records.upload", err)
	}
	defer func() { _ = f.Close() }()
	first, err := bufio.NewReader(f).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return "", nil // it has no complete line
	}
	if err != nil {
		return "", fault.Wrap(fault.Host, "records.upload", err)
	}
	sum := sha256.Sum256(first)
	p := part{journal: name, file: hex.EncodeToString(sum[:8])}
	for object := range a.have {
		if q, ok := parsePart(object); ok && q.journal == name && q.file == p.file {
			p.from = max(p.from, q.to)
		}
	}
	for {
		lines, more, err := a.read(f, p.from)
		if err != nil {
			return p.file, err
		}
		if len(lines) == 0 {
			if full {
				a.done[path] = p.file
			}
			return p.file, nil
		}
		grows := part{journal: name, file: p.file, from: p.from}.name()
		if !more && !full {
			if a.tails[grows] == len(lines) {
				return p.file, nil
			}
			if err := a.put(ctx, grows, lines); err != nil {
				return p.file, err
			}
			a.tails[grows] = len(lines)
			return p.file, nil
		}
		p.to = p.from + int64(len(lines))
		if err := a.put(ctx, p.name(), lines); err != nil {
			return p.file, err
		}
		if a.have[grows] {
			if err := a.remove(ctx, grows); err != nil {
				return p.file, err
			}
		}
		p.from, p.to = p.to, 0
	}
}

// read reads complete lines of a file, at most partSize bytes. more means that the file has more. The
// result is valid until the next call.
func (a *Archive) read(f *os.File, from int64) (lines []byte, more bool, err error) {
	if a.buffer == nil {
		a.buffer = make([]byte, partSize)
	}
	n, err := f.ReadAt(a.buffer, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fault.Wrap(fault.Host, "records.upload", err)
	}
	return a.buffer[:bytes.LastIndexByte(a.buffer[:n], '\n')+1], n == len(a.buffer), nil
}

func (a *Archive) removeOld(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	err := Sweep(limited, a.o.Blobs, time.Now().Add(-a.o.Keep))
	if err != nil && ctx.Err() == nil {
		a.o.Log.Warn("old records in the blob store were not removed", "error", err)
	}
}

// Sweep removes the records of the nodes that have stored nothing since a time.
func Sweep(ctx context.Context, b Blobs, before time.Time) error {
	objects, last := map[string][]string{}, map[string]time.Time{}
	n := 0
	err := b.Walk(ctx, root, func(name string, changed time.Time) error {
		folder, _, _ := strings.Cut(strings.TrimPrefix(name, root+"/"), "/")
		if changed.After(last[folder]) {
			last[folder] = changed
		}
		if n++; n <= maxObjects {
			objects[folder] = append(objects[folder], name)
		}
		return nil
	})
	for folder, names := range objects {
		if !last[folder].Before(before) {
			continue
		}
		for _, name := range names {
			if err == nil {
				err = b.Remove(ctx, name)
			}
		}
	}
	return err
}
