package replica

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/session/snapshot"
	"github.com/sandgate/sandgate/internal/session/templates"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A warm snapshot is an archive of a folder, with the description of its kernel beside it.
const buildDir, buildMeta = "session/snapshot", "session/kernel.json"

// FetchBuild implements warm.Shared.
func (s *Templates) FetchBuild(ctx context.Context, d *warm.TemplateDef, b warm.Build) error {
	const op = "template.fetch"
	at := definitionFolder(d, d.Mark().Key)
	unpacked, clean, err := s.unpack(ctx, at+"/"+built+b.Name, b.Dir)
	if err != nil {
		return err
	}
	defer clean()
	if err := os.RemoveAll(b.Dir); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	if err := os.Rename(filepath.Join(unpacked, buildDir), b.Dir); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	return fault.Wrap(fault.Host, op, os.Rename(filepath.Join(unpacked, buildMeta), b.Meta))
}

// PutBuild implements templates.Builds.
func (s *Templates) PutBuild(ctx context.Context, d *warm.TemplateDef, b warm.Build) error {
	at := definitionFolder(d, d.Mark().Key)
	o, err := s.objectsOf(ctx, at)
	if err != nil || o.has(built+b.Name) {
		return err
	}
	if err := s.makeRoom(ctx, o); err != nil {
		return err
	}
	if err := s.blobs.Put(ctx, at+"/"+built+b.Name, func(w io.Writer) error {
		return snapshot.Pack(w, map[string]string{buildDir: b.Dir, buildMeta: b.Meta})
	}); err != nil {
		return err
	}
	return s.removeOrphan(ctx, at, built+b.Name)
}

// objectsOf returns the objects of a definition. Errors: NotFound if it was deleted or replaced.
func (s *Templates) objectsOf(ctx context.Context, at string) (*objects, error) {
	all, err := s.walk(ctx, at)
	if err != nil {
		return nil, err
	}
	if all = current(all); len(all) == 0 {
		return nil, noTemplate()
	}
	return all[0], nil
}

// makeRoom removes the oldest snapshots of a definition that has maxBuilds of them.
func (s *Templates) makeRoom(ctx context.Context, o *objects) error {
	for {
		n, oldest := 0, ""
		for part, at := range o.parts {
			if !strings.HasPrefix(part, built) {
				continue
			}
			if n++; oldest == "" || at.Before(o.parts[oldest]) {
				oldest = part
			}
		}
		if n < maxBuilds {
			return nil
		}
		if err := s.blobs.Remove(ctx, o.folder+"/"+oldest); err != nil {
			return err
		}
		delete(o.parts, oldest)
	}
}

// removeOrphan removes an object whose definition was deleted while it was written.
func (s *Templates) removeOrphan(ctx context.Context, at, part string) error {
	_, err := s.objectsOf(ctx, at)
	if fault.Is(err, fault.NotFound) {
		if rerr := s.blobs.Remove(ctx, at+"/"+part); rerr != nil {
			return rerr
		}
	}
	return err
}

// PutResult implements templates.Builds.
func (s *Templates) PutResult(ctx context.Context, d *warm.TemplateDef, r templates.Result) error {
	at := definitionFolder(d, d.Mark().Key)
	part, other := ready, failed
	if r.Error != "" {
		part, other = failed, ready
	}
	o, err := s.objectsOf(ctx, at)
	if err != nil || o.has(ready) && r.Log == "" || o.has(ready) && part == failed {
		return err // it was built elsewhere, or by an earlier process, which knew the output
	}
	if err := s.blobs.Put(ctx, at+"/"+part, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(r)
	}); err != nil {
		return err
	}
	if o.has(other) {
		if err := s.blobs.Remove(ctx, at+"/"+other); err != nil {
			return err
		}
	}
	return s.removeOrphan(ctx, at, part)
}

// Result implements templates.Builds.
func (s *Templates) Result(ctx context.Context, x *templates.Stored, failure bool) (
	r templates.Result, err error,
) {
	part := ready
	if failure {
		part = failed
	}
	err = s.readJSON(ctx, definitionFolder(x.Def, x.Key)+"/"+part, maxResult, &r)
	return r, err
}

// Sweep removes what interrupted uploads and removals have left before a time, and definitions that
// were replaced. It returns the number of definitions that it has removed.
func (s *Templates) Sweep(ctx context.Context, before time.Time) (removed int, err error) {
	all, err := s.walk(ctx, templateRoot)
	if err != nil {
		return 0, err
	}
	for i, o := range all {
		old := true
		for _, changed := range o.parts {
			old = old && changed.Before(before)
		}
		replaced := i+1 < len(all) && all[i+1].has(about) &&
			filepath.Dir(all[i+1].folder) == filepath.Dir(o.folder)
		if !old || o.has(about) && !replaced {
			continue
		}
		if err := s.removeAll(ctx, o); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}
