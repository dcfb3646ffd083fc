// Package edition keeps the runtimes and images of a node. An edition is a runtime and an image
// together. A snapshot can be restored only with the edition that wrote it. So after an upgrade the
// earlier editions stay on the node for a window.
package edition

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Options are the options of a Store.
type Options struct {
	// Dir is the folder of the store. It is made with mode 0711, because sandboxes run as nobody and
	// execute a runtime in it.
	Dir string
	// Window is how long an edition is kept after a later one has replaced it; 0 keeps none.
	Window time.Duration
	// Keep is the largest number of earlier editions.
	Keep int
	// Carry is how much longer an edition is kept at most while sessions of it are carried over to
	// the current one. Beyond Keep this holds for one edition.
	Carry time.Duration
	// Try checks that this program can use a runtime of another version of gVisor. It is called once
	// for each before the first use. Without it, such a runtime is not used.
	Try func(ctx context.Context, f Files) error
	Log *slog.Logger
}

// Files are the files of an edition.
type Files struct {
	ID
	// Runsc and Image are paths.
	Runsc, Image string
}

// record describes an edition. The names of its fields in JSON never change.
type record struct {
	ID
	// Began is when it became the one for new sessions, and Replaced when another one did; zero for
	// the current one.
	Began    time.Time `json:"began"`
	Replaced time.Time `json:"replaced,omitzero"`
	// Ending is when its window was found to be over, or when there were too many; zero before.
	Ending time.Time `json:"ending,omitzero"`
	// Gone means that its files are removed.
	Gone bool `json:"gone,omitempty"`

	// arrived is when this process fetched it; zero for another one.
	arrived time.Time
	// unnamed counts the surveys in a row in which nothing needed it.
	unnamed int
	// checked is set once its files are checked, with the result.
	checked  bool
	checkErr error
}

const (
	// stateName is the file with the records.
	stateName = "editions.json"
	// retryAfter is after how many seconds a client may ask again for an edition that is missing.
	retryAfter = 60
	// maxRecords bounds the records, those of removed editions included.
	maxRecords = 64
	// unnamedSurveys is after how many surveys in which nothing needs an edition its files are
	// removed. A restore that began before the first of them has ended then.
	unnamedSurveys = 2
	// arrivalStay is how long an edition that was fetched stays at least: the session for which it was
	// fetched is taken over when its client asks again.
	arrivalStay = 10 * time.Minute
)

// Store is the folder with the editions of a node.
type Store struct {
	o       Options
	current Files

	// checking is held while files are checked. It is taken before mu.
	checking sync.Mutex

	mu  sync.Mutex // guards all below; a leaf
	all []*record  // the newest first; the first one is current
	// source has editions that this node lacks; nil for none. arrivals are those that are fetched, or
	// were not fetched some seconds ago.
	source   Source
	arrivals map[ID]*arrival
}

// Open makes the runtime and the image in two files the current edition, and puts them into the
// store: as hard links, or as copies if these take at most a quarter of the free space. Otherwise, and
// without a window, Current has the given files. A file beside the image that has its name and .json
// is a part of the image. Editions beyond the limits are removed.
func Open(runsc, image string, o Options) (*Store, error) {
	const op = "edition.open"
	s := &Store{o: o}
	if err := s.open(runsc, image); err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	return s, nil
}

func (s *Store) open(runsc, image string) (err error) {
	if err := makeFolder(s.o.Dir); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(s.o.Dir, arrivalsName)); err != nil {
		return err
	}
	if s.current.ID, err = identify(runsc, image); err != nil {
		return err
	}
	s.current.Runsc, s.current.Image = runsc, image
	if s.o.Window > 0 {
		s.useKept()
	}
	if err := s.readRecords(); err != nil {
		return err
	}
	s.makeCurrent(time.Now())
	s.all[0].checked = true
	s.trim(time.Now())
	return errors.Join(s.writeRecords(), s.removeUnknown())
}

func identify(runsc, image string) (id ID, err error) {
	if id.Runtime, err = RuntimeID(runsc); err == nil {
		id.Image, err = ImageID(image)
	}
	return id, err
}

// readRecords reads the records. A damaged file counts as empty.
func (s *Store) readRecords() error {
	text, err := os.ReadFile(filepath.Join(s.o.Dir, stateName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &s.all); err != nil {
		s.o.Log.Warn("the record of runtimes and images cannot be read", "error", err)
		s.all = nil
	}
	return nil
}

// writeRecords writes the records. Preconditions: mu is held, or nobody else uses the store.
func (s *Store) writeRecords() error {
	text, err := json.MarshalIndent(s.all, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.o.Dir, stateName), append(text, '\n'))
}

// makeCurrent makes the current edition the first record.
func (s *Store) makeCurrent(now time.Time) {
	is := func(r *record) bool { return r.ID == s.current.ID }
	if len(s.all) > 0 && is(s.all[0]) && !s.all[0].Gone && s.all[0].Replaced.IsZero() {
		return
	}
	s.all = slices.DeleteFunc(s.all, is)
	for _, r := range s.all {
		if r.Replaced.IsZero() {
			r.Replaced = now
		}
	}
	s.all = slices.Insert(s.all, 0, &record{ID: s.current.ID, Began: now})
	s.all = s.all[:min(len(s.all), maxRecords)]
}

// trim marks editions as ending that are beyond the window or the number, and as gone at the end of
// Carry.
func (s *Store) trim(now time.Time) {
	kept := 0
	for _, r := range s.all[1:] {
		if r.Gone {
			continue
		}
		if kept++; kept <= s.o.Keep && now.Before(r.Replaced.Add(s.o.Window)) {
			r.Ending = time.Time{}
			continue
		}
		if r.Ending.IsZero() {
			r.Ending = now
		}
		if kept > s.o.Keep+1 || s.o.Window == 0 || !now.Before(r.Ending.Add(s.o.Carry)) {
			s.drop(r, "its time is over, or there are too many")
		}
	}
}

// drop marks an edition as gone.
func (s *Store) drop(r *record, why string) {
	r.Gone = true
	s.o.Log.Info("an earlier runtime and image are removed", "runtime", short(r.Runtime), "image",
		short(r.Image), "why", why)
}

// Current returns the edition for new sessions.
func (s *Store) Current() Files { return s.current }

// Find returns the files of an edition. It fetches an edition that the store lacks. With own, the
// image is not one of the store, but that of a template: then the files have only the runtime.
// Errors: Unavailable if the store lacks an edition whose window has not ended, or if this program
// cannot use its runtime; Conflict after the window.
func (s *Store) Find(ctx context.Context, id ID, own bool) (Files, error) {
	const op = "edition.find"
	if err := s.bring(ctx, id, own); err != nil {
		return Files{}, err
	}
	s.checking.Lock()
	defer s.checking.Unlock()
	s.mu.Lock()
	r := s.lookup(id, own)
	s.mu.Unlock()
	if r == nil {
		return Files{}, s.missing(op, id)
	}
	f := s.files(r.ID)
	if r.ID == s.current.ID {
		f = s.current
	}
	if !r.checked {
		r.checkErr = s.check(ctx, f)
		r.checked = ctx.Err() == nil
	}
	if r.checkErr != nil {
		return Files{}, unusable(op, describe(id)+", which this node cannot use", r.checkErr)
	}
	return f, nil
}

// lookup returns the record of an edition that is kept, or nil. Preconditions: mu is held.
func (s *Store) lookup(id ID, own bool) *record {
	for _, r := range s.all {
		if !r.Gone && r.Runtime == id.Runtime && (own || r.Image == id.Image) {
			return r
		}
	}
	return nil
}

// missing returns the error for an edition that is not kept.
func (s *Store) missing(op string, id ID) error {
	s.mu.Lock()
	end := s.all[0].Began.Add(s.o.Window) // this node may never have had it
	for _, r := range s.all {
		if r.ID == id && r.Gone {
			end = r.Replaced.Add(s.o.Window)
		}
	}
	s.mu.Unlock()
	what := describe(id)
	if !time.Now().Before(end) {
		return fault.New(fault.Conflict, op, "the snapshot is from %s, which this node does not have",
			what)
	}
	return unusable(op, what+", which this node does not have; until "+
		end.UTC().Format(time.RFC3339)+" it can be resumed where they are", nil)
}

func describe(id ID) string {
	return "runtime " + short(id.Runtime) + " with image " + short(id.Image)
}

// unusable returns the error for an edition that this node cannot use now.
func unusable(op, what string, err error) *fault.Error {
	return &fault.Error{
		Kind: fault.Unavailable, Op: op, Field: "edition", RetryAfter: retryAfter, Err: err,
		Message: "this needs " + what,
	}
}

var errChanged = errors.New("its files were changed on the disk")

// check checks that the files of an edition are what their names say, and that this program can use
// the runtime.
func (s *Store) check(ctx context.Context, f Files) error {
	is, err := identify(f.Runsc, f.Image)
	if err != nil {
		return err
	}
	if is != f.ID {
		return errChanged
	}
	if !Reachable(f.Runsc) {
		return errors.New("not every user can enter the folders of " + f.Runsc + "; chmod o+x them")
	}
	own := OwnGVisor()
	if own == "" {
		return nil
	}
	version, err := GVisor(f.Runsc)
	if err != nil || version == own {
		return err
	}
	if s.o.Try == nil {
		return errors.New("it is of gVisor " + version)
	}
	return s.o.Try(ctx, f)
}

// Edition describes an edition of a store.
type Edition struct {
	ID
	// GVisor is the version of its runtime.
	GVisor string
	// Current is true for the edition of new sessions. The others are removed at End, or later if
	// sessions of them have to be carried over then.
	Current bool
	Began   time.Time
	// Replaced is when another edition became the current one.
	Replaced time.Time
	End      time.Time
	// Bytes is the size of its files. Editions share equal files.
	Bytes int64
}

// List returns the editions of the store, the newest first.
func (s *Store) List() []Edition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Edition
	for i, r := range s.all {
		if r.Gone {
			continue
		}
		f := s.files(r.ID)
		if i == 0 {
			f = s.current
		}
		e := Edition{ID: r.ID, Current: i == 0, Began: r.Began, Bytes: sizeOf(f)}
		e.GVisor, _ = GVisor(f.Runsc) // a file that is damaged has none
		if i > 0 {
			e.Replaced, e.End = r.Replaced, r.Replaced.Add(s.o.Window)
		}
		if !r.Ending.IsZero() {
			e.End = r.Ending.Add(s.o.Carry)
		}
		all = append(all, e)
	}
	return all
}

// Earlier returns the texts of the IDs of the earlier editions, and of those that are beyond their
// limits.
func (s *Store) Earlier() (all, ending []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all[1:] {
		if !r.Gone {
			all = append(all, r.String())
			if !r.Ending.IsZero() {
				ending = append(ending, r.String())
			}
		}
	}
	return all, ending
}

// Survey removes the editions that nothing has named in this and the last survey, those whose
// window is over, and, unless waiting, those that Ending has reported: no session of them is left
// that has to be carried over. The last ones stay for a while after they were fetched. named has
// the texts of IDs. A name with an image that the store does not know is of a template with its own
// image: it needs the runtime.
func (s *Store) Survey(named []string, waiting bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.marks()
	for _, r := range s.all[1:] {
		if r.Gone {
			continue
		}
		r.unnamed++
		for _, text := range named {
			id, _ := Parse(text)
			if id.Runtime == r.Runtime && (id.Image == r.Image || !s.knows(id.Image)) {
				r.unnamed = 0
			}
		}
		switch {
		case r.unnamed >= unnamedSurveys:
			s.drop(r, "nothing needs them")
		case !r.Ending.IsZero() && !waiting && time.Since(r.arrived) > arrivalStay:
			s.drop(r, "their time is over, and their durable sessions are carried over")
		}
	}
	s.trim(time.Now())
	if s.marks() == before {
		return nil
	}
	return fault.Wrap(fault.Host, "edition.survey", errors.Join(s.writeRecords(), s.removeUnknown()))
}

// Ending returns when the first of the editions was found to be beyond its limits that are still
// kept; zero for none.
func (s *Store) Ending() (since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if !r.Gone && !r.Ending.IsZero() && (since.IsZero() || r.Ending.Before(since)) {
			since = r.Ending
		}
	}
	return since
}

// Ends reports whether a snapshot of an edition can be restored only by an edition that is beyond
// its limits.
func (s *Store) Ends(text string) bool {
	id, _ := Parse(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	own, ends := !s.knows(id.Image), false
	for _, r := range s.all {
		if r.Gone || r.Runtime != id.Runtime || !own && r.Image != id.Image {
			continue
		}
		if r.Ending.IsZero() {
			return false
		}
		ends = true
	}
	return ends
}

// Knows reports whether an image is or was that of an edition, and not of a template.
func (s *Store) Knows(image string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.knows(image)
}

func (s *Store) knows(image string) bool {
	return slices.ContainsFunc(s.all, func(r *record) bool { return r.Image == image })
}

// marks returns how many editions are kept, and how many of them are ending.
func (s *Store) marks() (n [2]int) {
	for _, r := range s.all {
		if r.Gone {
			continue
		}
		n[0]++
		if !r.Ending.IsZero() {
			n[1]++
		}
	}
	return n
}
