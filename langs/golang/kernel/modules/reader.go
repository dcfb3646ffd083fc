package modules

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"regexp"
)

// Reader imports packages for questions about code: those of the standard library, and those that
// cells have imported. It compiles nothing and fetches nothing. Any other package is empty. Its
// packages differ from those of the cells. It is not safe for concurrent use. It is independent of
// other users of the Cache.
type Reader struct {
	cache   *Cache
	gc      types.Importer
	missing map[string]*types.Package // the empty ones
}

// Reader returns a reader. files gets the positions in packages.
func (c *Cache) Reader(files *token.FileSet) *Reader {
	r := &Reader{cache: c, missing: map[string]*types.Package{}}
	r.gc = importer.ForCompiler(files, "gc", r.open)
	return r
}

// archive returns the file of a package, or "".
func (r *Reader) archive(path string) string {
	if file, ok := r.cache.archives.Load(path); ok {
		return file.(string)
	}
	if file := r.cache.dir.Std(path); r.cache.isStd(path) {
		return file
	}
	return ""
}

func (r *Reader) open(path string) (io.ReadCloser, error) { return os.Open(r.archive(path)) }

// Import implements types.Importer.
func (r *Reader) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if r.archive(path) != "" {
		delete(r.missing, path)
		return r.gc.Import(path)
	}
	if r.missing[path] == nil {
		p := types.NewPackage(path, guess(path))
		p.MarkComplete()
		r.missing[path] = p
	}
	return r.missing[path], nil
}

// Missing reports whether the package with this name is empty, because it is not compiled.
func (r *Reader) Missing(name string) bool {
	for _, p := range r.missing {
		if p.Name() == name {
			return true
		}
	}
	return false
}

var major = regexp.MustCompile(`^v[0-9]+$`)

// guess returns the probable name of a package.
func guess(p string) string {
	if base := path.Base(p); !major.MatchString(base) {
		return base
	}
	return path.Base(path.Dir(p))
}
