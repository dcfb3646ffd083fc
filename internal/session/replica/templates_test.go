package replica

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/internal/session/templates"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A node uses the templates of all nodes through these interfaces.
var (
	_ warm.Shared      = (*Templates)(nil)
	_ templates.Shared = (*Templates)(nil)
	_ templates.Builds = (*Templates)(nil)
)

// definitionOf returns a definition with a folder.
func definitionOf(t *testing.T, tenant, name, files string) *warm.TemplateDef {
	t.Helper()
	dir := t.TempDir()
	d := &warm.TemplateDef{
		Tenant: tenant, Name: name, Bytes: int64(len(files)), Created: time.Now(),
	}
	check(t, warm.WriteDefinition(dir, d, []byte(files)))
	return d
}

// put stores a definition as its node does.
func put(t *testing.T, s *Templates, d *warm.TemplateDef) {
	t.Helper()
	key, err := s.Put(t.Context(), d)
	check(t, err)
	check(t, d.SetMark(warm.Mark{Key: key}))
}

// buildOf returns a warm snapshot.
func buildOf(t *testing.T, name, memory string) warm.Build {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	check(t, os.MkdirAll(dir, 0o700))
	check(t, os.WriteFile(filepath.Join(dir, "memory"), []byte(memory), 0o600))
	check(t, os.WriteFile(dir+".json", []byte(`{"taken":7}`), 0o600))
	return warm.Build{Name: name, Dir: dir, Meta: dir + ".json"}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	check(t, err)
	return string(text)
}

func names(all []*templates.Stored) string {
	var list []string
	for _, x := range all {
		list = append(list, x.Def.Name)
	}
	return strings.Join(list, " ")
}

// TestTemplateReplicas stores, lists, replaces and removes templates in each kind of store.
func TestTemplateReplicas(t *testing.T) {
	for kind, blobs := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			writer, reader := NewTemplates(blobs), NewTemplates(blobs)
			files := strings.Repeat("files", 10_000)
			one := definitionOf(t, "a", "one", files)
			put(t, writer, one)
			put(t, writer, definitionOf(t, "a", "two", ""))
			put(t, writer, definitionOf(t, "b", "one", ""))
			for range 2 { // the second time without reading them
				all, err := reader.List(ctx, "a")
				if err != nil || names(all) != "one two" || all[0].Def.Bytes != 50_000 ||
					all[0].Ready || all[0].Error != "" {
					t.Fatalf("listed %s %+v, %v", names(all), all, err)
				}
			}
			x, err := reader.Find(ctx, "a", "one")
			if err != nil || x.Key != one.Mark().Key {
				t.Fatalf("found %+v, %v", x, err)
			}
			for _, name := range []string{"on", "none", "one/" + x.Key} {
				if _, err := reader.Find(ctx, "a", name); !fault.Is(err, fault.NotFound) {
					t.Errorf("%q: %v", name, err)
				}
			}
			to := filepath.Join(t.TempDir(), "copy")
			check(t, os.Mkdir(to, 0o700))
			check(t, reader.Fetch(ctx, x, to))
			if read(t, to, "files.tar") != files {
				t.Error("the fetched definition has other files")
			}

			check(t, writer.Admit(ctx, "a", "one", 2))
			if err := writer.Admit(ctx, "a", "three", 2); !fault.Is(err, fault.Exhausted) {
				t.Errorf("a third template: %v", err)
			}

			renewed := definitionOf(t, "a", "one", "renewed")
			put(t, writer, renewed)
			if x, err = reader.Find(ctx, "a", "one"); err != nil || x.Def.Bytes != 7 {
				t.Errorf("the replaced one: %+v, %v", x, err)
			}
			check(t, writer.Remove(ctx, "a", "one"))
			check(t, writer.Remove(ctx, "a", "two"))
			if all, err := reader.List(ctx, "a"); err != nil || len(all) != 0 {
				t.Errorf("after the removal: %+v, %v", all, err)
			}
			if err := reader.Fetch(ctx, x, to); !fault.Is(err, fault.NotFound) {
				t.Errorf("a fetch after the removal: %v", err)
			}
			if left := blobtest.Names(t, blobs, templateFolder("a")); len(left) != 0 {
				t.Errorf("the store still has %v", left)
			}
		})
	}
}

// TestBuildReplicas stores and fetches builds. A definition keeps its newest builds, and a deleted
// one none.
func TestBuildReplicas(t *testing.T) {
	for kind, blobs := range stores(t) {
		t.Run(kind, func(t *testing.T) {
			ctx := t.Context()
			s := NewTemplates(blobs)
			d := definitionOf(t, "a", "one", "")
			put(t, s, d)
			check(t, s.PutResult(ctx, d, templates.Result{Error: "run failed", Log: "no"}))
			x, err := s.Find(ctx, "a", "one")
			if err != nil || x.Ready || x.Error != "run failed" {
				t.Errorf("a failed build: %+v, %v", x, err)
			}
			check(t, s.PutResult(ctx, d, templates.Result{Log: "yes"}))
			check(t, s.PutResult(ctx, d, templates.Result{Error: "elsewhere"}))
			check(t, s.PutResult(ctx, d, templates.Result{}))
			if x, err = s.Find(ctx, "a", "one"); err != nil || !x.Ready || x.Error != "" {
				t.Errorf("a build: %+v, %v", x, err)
			}
			if r, err := s.Result(ctx, x, false); err != nil || r.Log != "yes" {
				t.Errorf("its output: %+v, %v", r, err)
			}

			first := buildOf(t, "t-one-0", "memory")
			check(t, s.PutBuild(ctx, d, first))
			to := warm.Build{Name: first.Name, Dir: filepath.Join(t.TempDir(), "copy")}
			to.Meta = to.Dir + ".json"
			check(t, s.FetchBuild(ctx, d, to))
			if read(t, to.Dir, "memory") != "memory" || read(t, to.Meta) != `{"taken":7}` {
				t.Error("another build was fetched")
			}
			for _, name := range []string{"t-one-1", "t-one-2", "t-one-3", "t-one-4", "t-one-4"} {
				check(t, s.PutBuild(ctx, d, buildOf(t, name, "")))
			}
			n := 0
			for _, name := range blobtest.Names(t, blobs, templateRoot) {
				if strings.Contains(name, "/"+built) {
					n++
				}
			}
			if n != maxBuilds {
				t.Errorf("the definition has %d builds, want %d", n, maxBuilds)
			}

			check(t, s.Remove(ctx, "a", "one"))
			for what, err := range map[string]error{
				"a build":  s.PutBuild(ctx, d, first),
				"a result": s.PutResult(ctx, d, templates.Result{}),
				"a fetch":  s.FetchBuild(ctx, d, to),
			} {
				if !fault.Is(err, fault.NotFound) {
					t.Errorf("%s after the removal: %v", what, err)
				}
			}
			if left := blobtest.Names(t, blobs, templateRoot); len(left) != 0 {
				t.Errorf("the store still has %v", left)
			}
		})
	}
}

// removing is a blob store in which a template is deleted while a build is written.
type removing struct {
	blob.Store
	during func()
}

func (r removing) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if strings.Contains(name, "/"+built) {
		r.during()
	}
	return r.Store.Put(ctx, name, write)
}

// TestDeleteDuringBuild: nothing remains of a template that is deleted while its build is uploaded.
func TestDeleteDuringBuild(t *testing.T) {
	dir, err := blob.OpenDir(t.TempDir(), "n1")
	check(t, err)
	d := definitionOf(t, "a", "one", "")
	put(t, NewTemplates(dir), d)
	s := NewTemplates(removing{dir, func() {
		check(t, NewTemplates(dir).Remove(t.Context(), "a", "one"))
	}})
	if err := s.PutBuild(t.Context(), d, buildOf(t, "t-one-0", "")); !fault.Is(err, fault.NotFound) {
		t.Errorf("the upload: %v", err)
	}
	if left := blobtest.Names(t, dir, templateRoot); len(left) != 0 {
		t.Errorf("the store still has %v", left)
	}
}

// TestFailedTemplateReplicas: an upload that fails leaves no object, and a damaged definition is not
// used.
func TestFailedTemplateReplicas(t *testing.T) {
	ctx, at := t.Context(), t.TempDir()
	dir, err := blob.OpenDir(at, "n1")
	check(t, err)
	full := fault.New(fault.Exhausted, "test", "the store is full")
	d := definitionOf(t, "a", "one", "files")
	if _, err := NewTemplates(refusing{dir, full}).Put(ctx, d); !errors.Is(err, full) {
		t.Errorf("a description that is refused: %v", err)
	}
	if left := blobtest.Names(t, dir, templateRoot); len(left) != 0 {
		t.Errorf("the upload that failed left %v", left)
	}
	s := NewTemplates(dir)
	put(t, s, d)
	file := filepath.Join(at, definitionFolder(d, d.Mark().Key), definition)
	text := []byte(read(t, file))
	text[len(text)-1] ^= 1
	check(t, os.WriteFile(file, text, 0o600))
	x, err := s.Find(ctx, "a", "one")
	check(t, err)
	to := filepath.Join(t.TempDir(), "copy")
	if err := s.Fetch(ctx, x, to); !fault.Is(err, fault.Host) ||
		!strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged definition: %v", err)
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Error("a damaged definition was unpacked to its place")
	}
}

// TestSweepTemplates removes what interrupted uploads and replacements left a day ago.
func TestSweepTemplates(t *testing.T) {
	dir, err := blob.OpenDir(t.TempDir(), "n1")
	check(t, err)
	ctx, s := t.Context(), NewTemplates(dir)
	old := definitionOf(t, "a", "one", "")
	put(t, s, old)
	// The removal of the earlier definition fails.
	unable := NewTemplates(unremovable{dir})
	put(t, unable, definitionOf(t, "a", "one", ""))
	check(t, dir.Put(ctx, definitionFolder(old, "1-half")+"/"+definition,
		func(w io.Writer) error { return nil }))
	if n, err := s.Sweep(ctx, time.Now().Add(-time.Hour)); err != nil || n != 0 {
		t.Errorf("the first sweep removed %d definitions, %v", n, err)
	}
	if n, err := s.Sweep(ctx, time.Now().Add(time.Hour)); err != nil || n != 2 {
		t.Errorf("the second sweep removed %d definitions, %v", n, err)
	}
	if all, err := s.List(ctx, "a"); err != nil || len(all) != 1 || all[0].Key == old.Mark().Key {
		t.Errorf("after the sweeps: %+v, %v", all, err)
	}
	if left := blobtest.Names(t, dir, templateRoot); len(left) != 2 {
		t.Errorf("the store has %v", left)
	}
}

// unremovable is a blob store that removes nothing.
type unremovable struct{ blob.Store }

func (unremovable) Remove(context.Context, string) error {
	return fault.New(fault.Unavailable, "test", "it is not removed")
}
