package edition

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// arrivalsName is the folder of editions that are being fetched. Each start removes it.
	arrivalsName = "arrivals"
	// fetchWait is how long a request waits for an edition that is being fetched. It can ask again
	// after arrivesAfter seconds.
	fetchWait    = 2 * time.Second
	arrivesAfter = 5
	// fetchLimit bounds a fetch. After one that failed, the next one begins after fetchRetry.
	fetchLimit = 30 * time.Minute
	fetchRetry = 10 * time.Second
)

// Source has editions that this node lacks.
type Source interface {
	// Fetch writes the runtime and the image of an edition to those of the files whose paths are not
	// empty. It returns when the edition was replaced by another one. Errors: NotFound.
	Fetch(ctx context.Context, id ID, to Files) (replaced time.Time, err error)
}

// arrival is a fetch of an edition.
type arrival struct {
	done  chan struct{} // closed at the end; guards all below
	ended time.Time
	err   error
}

// UseSource makes the store fetch editions that it lacks.
func (s *Store) UseSource(from Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source, s.arrivals = from, map[ID]*arrival{}
}

// bring fetches an edition that the store lacks, and waits for it for a short time. Errors: Unavailable
// while it is being fetched, or if it could not be fetched. An edition that the source lacks, too, is
// no error.
func (s *Store) bring(ctx context.Context, id ID, own bool) error {
	const op = "edition.find"
	s.mu.Lock()
	if s.source == nil || own || s.o.Window == 0 || s.lookup(id, false) != nil {
		s.mu.Unlock()
		return nil
	}
	if kept := s.marks()[0] - 1; kept >= s.o.Keep {
		s.mu.Unlock()
		return unusable(op, describe(id)+", which this node does not have, and it keeps "+
			fmt.Sprint(kept)+" earlier ones already", nil)
	}
	a := s.arrivals[id]
	if a == nil || a.isOver() {
		a = &arrival{done: make(chan struct{})}
		s.arrivals[id] = a
		go s.runFetch(id, a)
	}
	s.mu.Unlock()
	wait := time.NewTimer(fetchWait)
	defer wait.Stop()
	select {
	case <-a.done:
		if a.err == nil || fault.Is(a.err, fault.NotFound) {
			return nil
		}
		return unusable(op, describe(id)+", which this node does not have and could not fetch",
			a.err)
	case <-wait.C:
		err := unusable(op, describe(id)+", which this node is fetching", nil)
		err.RetryAfter = arrivesAfter
		return err
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

// isOver reports whether a fetch has ended some seconds ago, so that another one may begin.
func (a *arrival) isOver() bool {
	select {
	case <-a.done:
		return time.Since(a.ended) > fetchRetry
	default:
		return false
	}
}

// runFetch fetches an edition.
func (s *Store) runFetch(id ID, a *arrival) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	began := time.Now()
	a.err = s.fetch(ctx, id)
	a.ended = time.Now()
	switch {
	case a.err == nil:
		s.o.Log.Info("an earlier runtime and image were fetched", "runtime", short(id.Runtime),
			"image", short(id.Image), "took", time.Since(began))
	case !fault.Is(a.err, fault.NotFound):
		s.o.Log.Warn("an earlier runtime and image were not fetched", "runtime",
			short(id.Runtime), "image", short(id.Image), "error", a.err)
	}
	close(a.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, before := range s.arrivals {
		if before.isOver() {
			delete(s.arrivals, other)
		}
	}
}

// fetch brings the files of an edition that the store lacks to their places, and records it.
func (s *Store) fetch(ctx context.Context, id ID) (err error) {
	parent := filepath.Join(s.o.Dir, arrivalsName)
	if err := makeFolder(parent); err != nil {
		return err
	}
	part, err := os.MkdirTemp(parent, partPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(part)) }()
	at, lacks := s.files(id), Files{ID: id}
	var moves [][2]string
	for _, one := range []struct {
		dir, name string
		has       bool
		to        *string
	}{
		{filepath.Dir(at.Runsc), runscName, s.hasRuntime(id), &lacks.Runsc},
		{filepath.Dir(at.Image), imageName, s.hasImage(id), &lacks.Image},
	} {
		if one.has {
			continue
		}
		from := filepath.Join(part, one.name+".d")
		if err := os.Mkdir(from, 0o711); err != nil {
			return err
		}
		if err := os.Chmod(from, 0o711); err != nil {
			return err
		}
		*one.to = filepath.Join(from, one.name)
		moves = append(moves, [2]string{from, one.dir})
	}
	replaced, err := s.source.Fetch(ctx, id, lacks)
	if err != nil {
		return err
	}
	if lacks.Runsc == "" {
		lacks.Runsc = at.Runsc
	}
	if lacks.Image == "" {
		lacks.Image = at.Image
	}
	if is, err := identify(lacks.Runsc, lacks.Image); err != nil || is != id {
		return errors.Join(err, errors.New("the files are not those of the edition"))
	}
	return s.addFetched(id, replaced, moves)
}

func (s *Store) hasRuntime(id ID) bool {
	is, err := RuntimeID(s.files(id).Runsc)
	return err == nil && is == id.Runtime
}

func (s *Store) hasImage(id ID) bool {
	is, err := ImageID(s.files(id).Image)
	return err == nil && is == id.Image
}

// addFetched moves fetched folders to their places, and records the edition.
func (s *Store) addFetched(id ID, replaced time.Time, moves [][2]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range moves {
		err := errors.Join(makeFolder(filepath.Dir(m[1])), os.RemoveAll(m[1]))
		if err == nil {
			err = os.Rename(m[0], m[1])
		}
		if err != nil {
			return err
		}
	}
	for _, name := range []string{s.files(id).Runsc, s.files(id).Image} {
		if _, err := os.Stat(name); err != nil { // another edition had it, which was removed
			return err
		}
	}
	s.all = slices.DeleteFunc(s.all, func(r *record) bool { return r.ID == id })
	at := 1
	for at < len(s.all) && s.all[at].Replaced.After(replaced) {
		at++
	}
	now := time.Now()
	s.all = slices.Insert(s.all, at, &record{ID: id, Began: now, Replaced: replaced, arrived: now})
	s.all = s.all[:min(len(s.all), maxRecords)]
	s.trim(now)
	return s.writeRecords()
}
