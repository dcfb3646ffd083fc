package replica

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/session/templates"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	templateRoot = "templates"
	// definition, ready, failed and the names that begin with built are the last parts of the names
	// of a template's objects, beside about.
	definition, ready, failed, built = "definition", "ready", "failed", "built-"
	// maxResult is the size of the report of a build in bytes.
	maxResult = 1 << 20
	// maxBuilds is how many warm snapshots a definition has: with and without volumes, for two
	// runtimes.
	maxBuilds = 4
	// maxTemplates is how many templates of a tenant are listed.
	maxTemplates = 10_000
)

// Templates implements warm.Shared and templates.Shared. A definition has a key, and below it a
// folder with its objects: an archive of its folder, and its description, without which it is not
// there. The description is written last. The template with a name is the definition with the
// greatest key. No object is changed, except the reports of builds.
type Templates struct {
	blobs Blobs

	mu    sync.Mutex // guards known; a leaf
	known map[string]*warm.TemplateDef
}

// NewTemplates returns the templates in a blob store.
func NewTemplates(b Blobs) *Templates {
	return &Templates{blobs: b, known: map[string]*warm.TemplateDef{}}
}

// OfWarm returns the templates in a blob store; nil without one.
func OfWarm(b Blobs) warm.Shared {
	if b == nil {
		return nil
	}
	return NewTemplates(b)
}

// OpenTemplates returns a node's templates, those of a blob store included if there is one.
func OpenTemplates(b Blobs, cfg templates.Config) *templates.Templates {
	if b != nil {
		stored := NewTemplates(b)
		cfg.Shared, cfg.Builds = stored, stored
	}
	return templates.New(cfg)
}

func templateFolder(tenant string) string {
	_, hash, _ := strings.Cut(folder(tenant), "/")
	return templateRoot + "/" + hash
}

func definitionFolder(d *warm.TemplateDef, key string) string {
	return templateFolder(d.Tenant) + "/" + d.Name + "/" + key
}

// objects are the objects of one definition, by the last parts of their names.
type objects struct {
	folder, name, key string
	parts             map[string]time.Time
}

// walk returns the definitions below a folder that have a description, those of the same name with
// the smaller key first.
func (s *Templates) walk(ctx context.Context, below string) ([]*objects, error) {
	all := map[string]*objects{}
	err := s.blobs.Walk(ctx, below, func(name string, changed time.Time) error {
		parts := strings.Split(name, "/")
		if len(parts) != 5 {
			return nil
		}
		at := strings.Join(parts[:4], "/")
		o := all[at]
		if o == nil {
			if len(all) == maxSwept {
				return fault.New(fault.Unavailable, "template.list",
					"the blob store has more than %d templates", maxSwept)
			}
			o = &objects{folder: at, name: parts[2], key: parts[3], parts: map[string]time.Time{}}
			all[at] = o
		}
		o.parts[parts[4]] = changed
		return nil
	})
	if err != nil {
		return nil, err
	}
	sorted := make([]*objects, 0, len(all))
	for _, o := range all {
		sorted = append(sorted, o)
	}
	slices.SortFunc(sorted, func(a, b *objects) int { return cmp.Compare(a.folder, b.folder) })
	return sorted, nil
}

func (o *objects) has(part string) bool { _, ok := o.parts[part]; return ok }

// current returns the current definition of each name.
func current(all []*objects) []*objects {
	var now []*objects
	for _, o := range all {
		if !o.has(about) {
			continue
		}
		if n := len(now); n > 0 && now[n-1].name == o.name {
			now[n-1] = o
			continue
		}
		now = append(now, o)
	}
	return now
}

// Admit implements warm.Shared.
func (s *Templates) Admit(ctx context.Context, tenant, name string, limit int) error {
	all, err := s.walk(ctx, templateFolder(tenant))
	if err != nil {
		return err
	}
	n := 0
	for _, o := range current(all) {
		if o.name != name {
			n++
		}
	}
	if n >= limit {
		return warm.TooMany("template.build")
	}
	return nil
}

// Put implements warm.Shared. It removes the definitions that this one replaces.
func (s *Templates) Put(ctx context.Context, d *warm.TemplateDef) (key string, err error) {
	before, err := s.walk(ctx, templateFolder(d.Tenant)+"/"+d.Name)
	if err != nil {
		return "", err
	}
	key = nextKey(before, time.Now())
	at := definitionFolder(d, key)
	err = s.blobs.Put(ctx, at+"/"+definition, func(w io.Writer) error {
		return snapshot.Pack(w, map[string]string{"session": d.Dir()})
	})
	if err == nil {
		err = s.blobs.Put(ctx, at+"/"+about, func(w io.Writer) error {
			return json.NewEncoder(w).Encode(d)
		})
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
		defer cancel()
		err = errors.Join(err, s.blobs.Remove(ctx, at+"/"+about),
			s.blobs.Remove(ctx, at+"/"+definition)) // the sweep does it if this fails
		return "", err
	}
	for _, o := range before {
		if err := s.removeAll(ctx, o); err != nil {
			break // the sweep does it
		}
	}
	return key, nil
}

// nextKey returns a key that is greater than those of the definitions before.
func nextKey(before []*objects, now time.Time) string {
	at := now.UnixNano()
	for _, o := range before {
		number, _, _ := strings.Cut(o.key, "-")
		if n, err := strconv.ParseInt(number, 16, 64); err == nil && n >= at {
			at = n + 1
		}
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return fmt.Sprintf("%016x-%s", at, hex.EncodeToString(random[:]))
}

// removeAll removes the objects of a definition, the description first.
func (s *Templates) removeAll(ctx context.Context, o *objects) error {
	if err := s.blobs.Remove(ctx, o.folder+"/"+about); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.known, o.folder)
	s.mu.Unlock()
	for part := range o.parts {
		if err := s.blobs.Remove(ctx, o.folder+"/"+part); err != nil {
			return err
		}
	}
	return nil
}

// Find implements templates.Shared.
func (s *Templates) Find(ctx context.Context, tenant, name string) (*templates.Stored, error) {
	if !warm.IsName(name) {
		return nil, noTemplate()
	}
	all, err := s.list(ctx, templateFolder(tenant)+"/"+name)
	if err == nil && len(all) == 0 {
		err = noTemplate()
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// List implements templates.Shared.
func (s *Templates) List(ctx context.Context, tenant string) ([]*templates.Stored, error) {
	return s.list(ctx, templateFolder(tenant))
}

func (s *Templates) list(ctx context.Context, below string) ([]*templates.Stored, error) {
	found, err := s.walk(ctx, below)
	if err != nil {
		return nil, err
	}
	now := current(found)
	if len(now) > maxTemplates {
		return nil, fault.New(fault.Unavailable, "template.list",
			"the tenant has more than %d templates, which is too many for a list", maxTemplates)
	}
	all := make([]*templates.Stored, len(now))
	errs := make([]error, len(now))
	var work sync.WaitGroup
	turns := make(chan struct{}, reads)
	for i, o := range now {
		turns <- struct{}{}
		work.Go(func() {
			defer func() { <-turns }()
			all[i], errs[i] = s.definitionOf(ctx, o)
		})
	}
	work.Wait()
	for i := range errs {
		if fault.Is(errs[i], fault.NotFound) { // it was deleted meanwhile
			all[i], errs[i] = nil, nil
		}
	}
	all = slices.DeleteFunc(all, func(x *templates.Stored) bool { return x == nil })
	return all, errors.Join(errs...)
}

// definitionOf reads the description of a definition, and the report of a build that failed.
func (s *Templates) definitionOf(ctx context.Context, o *objects) (*templates.Stored, error) {
	s.mu.Lock()
	d := s.known[o.folder]
	s.mu.Unlock()
	if d == nil {
		d = new(warm.TemplateDef)
		if err := s.readJSON(ctx, o.folder+"/"+about, maxResult, d); err != nil {
			return nil, err
		}
		s.mu.Lock()
		for other := range s.known { // in random order
			if len(s.known) < maxKnown {
				break
			}
			delete(s.known, other)
		}
		s.known[o.folder] = d
		s.mu.Unlock()
	}
	x := &templates.Stored{Key: o.key, Def: d, Ready: o.has(ready)}
	if !x.Ready && o.has(failed) {
		r, err := s.Result(ctx, x, true)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		x.Error = r.Error
	}
	return x, nil
}

func (s *Templates) readJSON(ctx context.Context, name string, limit int64, to any) error {
	r, err := s.blobs.Get(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return noTemplate()
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, limit))
	err = errors.Join(err, r.Close())
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return &fault.Error{
			Kind: fault.Unavailable, Op: "template.find", Err: err,
			Message: "what the blob store has of the template cannot be read by this node",
		}
	}
	return nil
}

func noTemplate() error {
	return &fault.Error{
		Kind: fault.NotFound, Op: "template.find", Field: "template",
		Message: "there is no such template",
	}
}

// Fetch implements templates.Shared.
func (s *Templates) Fetch(ctx context.Context, x *templates.Stored, dir string) error {
	unpacked, clean, err := s.unpack(ctx, definitionFolder(x.Def, x.Key)+"/"+definition, dir)
	if err != nil {
		return err
	}
	defer clean()
	if err := os.RemoveAll(dir); err != nil {
		return fault.Wrap(fault.Host, "template.fetch", err)
	}
	return fault.Wrap(fault.Host, "template.fetch",
		os.Rename(filepath.Join(unpacked, "session"), dir))
}

// unpack unpacks an archive to a new folder beside dir.
func (s *Templates) unpack(ctx context.Context, name, dir string) (
	unpacked string, clean func(), err error,
) {
	const op = "template.fetch"
	r, err := s.blobs.Get(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return "", nil, noTemplate()
	}
	if err != nil {
		return "", nil, err
	}
	unpacked = dir + ".unpacked" + snapshot.Partial
	clean = func() { _ = os.RemoveAll(unpacked) }
	if err = errors.Join(os.RemoveAll(unpacked), os.MkdirAll(unpacked, 0o700)); err != nil {
		return "", nil, errors.Join(fault.Wrap(fault.Host, op, err), r.Close())
	}
	if err = snapshot.Unpack(ctx, r, unpacked); err == nil {
		_, err = io.Copy(io.Discard, r) // the checksum is at the end
	}
	err = errors.Join(err, r.Close())
	if fault.Is(err, fault.Malformed) {
		err = &fault.Error{
			Kind: fault.Host, Op: op, Err: err,
			Message: "what the blob store has of the template is damaged",
		}
	}
	if err != nil {
		clean()
	}
	return unpacked, clean, err
}

// Remove implements templates.Shared.
func (s *Templates) Remove(ctx context.Context, tenant, name string) error {
	all, err := s.walk(ctx, templateFolder(tenant)+"/"+name)
	for _, o := range all { // the current one last: no earlier one is seen instead
		if err == nil {
			err = s.removeAll(ctx, o)
		}
	}
	return err
}
