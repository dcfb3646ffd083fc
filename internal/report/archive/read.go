package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	maxObjects = 500_000
	// reads is how many objects are read at a time.
	reads = 8
	// skew is the greatest difference between the clocks of a node and the store.
	skew = time.Hour
	// outage is how long a node may have worked without the store before its end. Its records may be
	// missing for so long after its last upload.
	outage = 24 * time.Hour
)

// Query says what Read reads.
type Query struct {
	// Journal is the name of the journals.
	Journal string
	// Except are the folders of the nodes that have answered themselves.
	Except []string
	// FromMS and ToMS bound the time of the lines. 0 means no bound. Read may return other lines, too.
	FromMS, ToMS int64
}

// object is a part in the store.
type object struct {
	part
	name    string
	changed time.Time
}

// folder describes the objects of a node in the store.
type folder struct {
	node          string
	alive, ended  bool
	parts         []object
	damaged       bool
	damagedBefore time.Time
	last          time.Time // the last upload of a part
}

// Read calls each for the lines in the blob store, in no order, and returns which may be missing.
// Errors: those of each, Unavailable.
func (a *Archive) Read(ctx context.Context, q Query, each func(line []byte) error) (
	[]protocol.MissingRecords, error,
) {
	all, err := a.folders(ctx, q)
	if err != nil {
		return nil, err
	}
	r := &reader{blobs: a.o.Blobs, each: each}
	var missing []protocol.MissingRecords
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		for _, o := range f.choose() {
			if q.FromMS == 0 || o.changed.Add(skew).UnixMilli() >= q.FromMS {
				r.start(ctx, f, o)
			}
		}
	}
	if err := r.wait(); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		if f.damaged && f.damagedBefore.Add(skew).UnixMilli() >= q.FromMS {
			missing = append(missing, protocol.MissingRecords{
				Node: f.node, ToMS: f.damagedBefore.UnixMilli(),
			})
		}
		if f.ended {
			continue
		}
		since, err := a.aliveUntil(ctx, name, f)
		if err != nil {
			return nil, err
		}
		if (q.ToMS == 0 || q.ToMS > since.UnixMilli()) &&
			q.FromMS < since.Add(outage).UnixMilli() {
			missing = append(missing, protocol.MissingRecords{
				Node: f.node, FromMS: since.UnixMilli(),
			})
		}
	}
	return missing, nil
}

// folders lists the objects of the nodes that have not answered.
func (a *Archive) folders(ctx context.Context, q Query) (map[string]*folder, error) {
	all, n := map[string]*folder{}, 0
	err := a.o.Blobs.Walk(ctx, root, func(name string, changed time.Time) error {
		in, rest, ok := strings.Cut(strings.TrimPrefix(name, root+"/"), "/")
		if !ok || slices.Contains(q.Except, in) {
			return nil
		}
		if n++; n > maxObjects {
			return fault.New(fault.Unavailable, "records.read",
				"the blob store has the records of too many nodes that have gone")
		}
		f := all[in]
		if f == nil {
			f = &folder{node: nodeOf(in)}
			all[in] = f
		}
		switch rest {
		case alive:
			f.alive = true
		case ended:
			f.ended = true
		}
		p, ok := parsePart(rest)
		if ok && changed.After(f.last) {
			f.last = changed
		}
		if ok && p.journal == q.Journal {
			f.parts = append(f.parts, object{p, name, changed})
		}
		return nil
	})
	return all, err
}

// choose returns the parts that together have each line once. A part that is not there damages the
// folder.
func (f *folder) choose() (chosen []object) {
	slices.SortFunc(f.parts, func(x, y object) int {
		ends := func(o object) int64 { // a tail comes after a part that replaces it
			if o.to == 0 {
				return 1<<63 - 1
			}
			return o.to
		}
		return cmp.Or(cmp.Compare(x.file, y.file), cmp.Compare(x.from, y.from),
			cmp.Compare(ends(x), ends(y)))
	})
	file, next := "", int64(0)
	for _, o := range f.parts {
		if o.file != file {
			file, next = o.file, 0
		}
		switch {
		case o.from < next:
			continue // a part that was replaced
		case o.from > next:
			f.damage(o.changed)
		}
		chosen = append(chosen, o)
		next = max(o.to, o.from+1)
	}
	return chosen
}

// damage records that lines of the folder before a time are missing.
func (f *folder) damage(before time.Time) {
	f.damaged = true
	if before.After(f.damagedBefore) {
		f.damagedBefore = before
	}
}

// aliveUntil returns the time until which the store has all records of a node.
func (a *Archive) aliveUntil(ctx context.Context, name string, f *folder) (time.Time, error) {
	if !f.alive {
		return f.last, nil
	}
	text, err := get(ctx, a.o.Blobs, root+"/"+name+"/"+alive)
	if err != nil && !isDamaged(err) {
		return time.Time{}, err
	}
	at, perr := time.Parse(time.RFC3339Nano, string(text))
	if perr != nil {
		at = f.last
	}
	return at, nil
}

// isDamaged reports whether an object is not there or has other content than it was put with.
func isDamaged(err error) bool {
	return fault.Is(err, fault.NotFound) || fault.Is(err, fault.Malformed)
}

func get(ctx context.Context, b Blobs, name string) ([]byte, error) {
	r, err := b.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, 2*partSize))
	return text, errors.Join(err, r.Close())
}

// reader reads several objects at a time.
type reader struct {
	blobs Blobs
	each  func(line []byte) error
	turns chan struct{}
	work  sync.WaitGroup

	mu  sync.Mutex // guards all below, and the folders; held over each
	err error
}

func (r *reader) start(ctx context.Context, f *folder, o object) {
	if r.turns == nil {
		r.turns = make(chan struct{}, reads)
	}
	r.turns <- struct{}{}
	r.work.Go(func() {
		defer func() { <-r.turns }()
		r.mu.Lock()
		stopped := r.err != nil
		r.mu.Unlock()
		if stopped {
			return
		}
		text, err := get(ctx, r.blobs, o.name)
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case r.err != nil:
		case isDamaged(err):
			f.damage(o.changed)
		case err != nil:
			r.err = err
		default:
			for line := range bytes.Lines(text) {
				if r.err = r.each(bytes.TrimSuffix(line, []byte{'\n'})); r.err != nil {
					return
				}
			}
		}
	})
}

func (r *reader) wait() error {
	r.work.Wait()
	return r.err
}
