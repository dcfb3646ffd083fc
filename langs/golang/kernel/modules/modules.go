// Package modules finds packages for a session. Packages of the standard library are in the
// process. Packages of modules are compiled when a cell first imports them and become part of that
// cell's object.
package modules

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/langs/golang/kernel/tools"
)

// goBin is the toolchain of the image.
const goBin = "/usr/local/go/bin/go"

// imageModules has the modules of the image, as a module proxy.
const imageModules = "/usr/local/share/go/mod/cache/download"

// listTimeout bounds finding, and downloading, the packages that a package needs.
const listTimeout = 5 * time.Minute

// Cache has the packages that were found. It is not safe for concurrent use.
type Cache struct {
	dir   tools.Dir
	chain *tools.Chain
	work  string
	std   map[string]string
	gc    types.Importer
	found map[string]*module
	ctx   context.Context // the context of the present cell
	// archives has the files of compiled packages by path, also for readers.
	archives sync.Map
}

// module is a package outside of the standard library.
type module struct {
	tools.Package
	deps []*module
}

// New returns a cache that compiles with chain.
func New(dir tools.Dir, chain *tools.Chain, work string) *Cache {
	c := &Cache{
		dir: dir, chain: chain, work: work, std: map[string]string{},
		found: map[string]*module{}, ctx: context.Background(),
	}
	c.gc = importer.ForCompiler(token.NewFileSet(), "gc", c.open)
	return c
}

// preferred is the package for a name that several packages have.
var preferred = map[string]string{
	"template": "text/template", "rand": "math/rand", "pprof": "runtime/pprof",
	"scanner": "text/scanner", "types": "go/types",
}

// Std maps the names of the standard library's packages to their paths.
func (c *Cache) Std() map[string]string {
	if len(c.std) > 0 {
		return c.std
	}
	root := c.dir.Std("")
	root = filepath.Dir(root)
	filepath.WalkDir(root, func(file string, d os.DirEntry, err error) error {
		p, ok := strings.CutSuffix(strings.TrimPrefix(file, root+"/"), ".a")
		if err != nil || !ok || strings.Contains("/"+p+"/", "/internal/") ||
			strings.HasPrefix(p, "vendor/") || strings.HasPrefix(p, "cmd/") {
			return nil
		}
		name := path.Base(p)
		if name == "v2" || preferred[name] != "" && preferred[name] != p {
			return nil
		}
		if old, ok := c.std[name]; !ok || len(p) < len(old) {
			c.std[name] = p
		}
		return nil
	})
	c.std["unsafe"] = "unsafe"
	return c.std
}

// Begin starts a cell: searches for it stop when ctx ends.
func (c *Cache) Begin(ctx context.Context) { c.ctx = ctx }

// Import implements types.Importer.
func (c *Cache) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if !c.isStd(path) && c.found[path] == nil {
		if strings.HasPrefix(path, "cells/") || path == "cells" {
			return nil, fmt.Errorf("package %s is the kernel's own", path)
		}
		if err := c.find(path); err != nil {
			return nil, err
		}
	}
	return c.gc.Import(path)
}

func (c *Cache) isStd(path string) bool {
	_, err := os.Stat(c.dir.Std(path))
	return err == nil
}

// open is the importer's lookup function.
func (c *Cache) open(path string) (io.ReadCloser, error) {
	if m := c.found[path]; m != nil {
		return os.Open(m.Archive)
	}
	return os.Open(c.dir.Std(path))
}

// Needed returns the packages that a cell with these imports adds: those that no earlier cell has
// added, dependencies first.
func (c *Cache) Needed(imports []string, loaded func(path string) bool) []tools.Package {
	var list []tools.Package
	seen := map[*module]bool{}
	var visit func(m *module)
	visit = func(m *module) {
		if m == nil || seen[m] || loaded(m.Path) {
			return
		}
		seen[m] = true
		for _, d := range m.deps {
			visit(d)
		}
		list = append(list, m.Package)
	}
	for _, p := range imports {
		visit(c.found[p])
	}
	return list
}

// listed is a package as `go list` describes it.
type listed struct {
	ImportPath, Dir, Name                 string
	Standard                              bool
	GoFiles, CgoFiles, SFiles, EmbedFiles []string
	EmbedPatterns                         []string
	Imports                               []string
	ImportMap                             map[string]string
	Module                                *struct{ GoVersion string }
	Error                                 *struct{ Err string }
}

// find compiles a package and all packages that it needs.
func (c *Cache) find(path string) error {
	list, err := c.list(path)
	if err == nil && c.raise(list) {
		list, err = c.list(path)
	}
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.Error != nil {
			return errors.New(strings.Replace(p.Error.Err, " (/usr/local/go/src/"+p.ImportPath+")",
				"", 1))
		}
		if p.Standard || p.ImportPath == "unsafe" || c.found[p.ImportPath] != nil {
			continue
		}
		if err := c.compile(p); err != nil {
			return fmt.Errorf("%s: %w", p.ImportPath, err)
		}
	}
	if c.found[path] == nil {
		return fmt.Errorf("package %s was not found", path)
	}
	return nil
}

// module returns the folder whose go.mod is in force: that of the working directory, or one of the
// session, which adds requested modules.
func (c *Cache) module() (dir string, flags []string, err error) {
	if wd, err := os.Getwd(); err == nil {
		for d := wd; ; d = filepath.Dir(d) {
			if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
				return wd, nil, nil
			}
			if d == filepath.Dir(d) {
				break
			}
		}
	}
	dir = filepath.Join(c.work, "module")
	file := filepath.Join(dir, "go.mod")
	if _, err := os.Stat(file); err == nil {
		return dir, []string{"-mod=mod"}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	return dir, []string{"-mod=mod"}, os.WriteFile(file, []byte("module session\n\ngo 1.26\n"),
		0o644)
}

// raise gets the image's versions of modules whose packages were not found, and reports whether it
// did. Another module of the session may have asked for an older version, which the image lacks. A
// go.mod of the user stays as it is.
func (c *Cache) raise(list []listed) bool {
	dir, flags, err := c.module()
	if err != nil || len(flags) == 0 {
		return false
	}
	raised := false
	for _, p := range list {
		if p.Error == nil || !inImage(p.ImportPath) {
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, listTimeout)
		raised = c.command(ctx, dir, "get", "--", p.ImportPath+"@latest").Run() == nil || raised
		cancel()
	}
	return raised
}

var capital = regexp.MustCompile(`[A-Z]`)

// inImage reports whether the image has a module that may contain the package. A capital letter has
// a ! in the names of files.
func inImage(path string) bool {
	path = strings.ToLower(capital.ReplaceAllString(path, "!$0"))
	for ; path != "." && path != "/"; path = filepath.Dir(path) {
		if _, err := os.Stat(filepath.Join(imageModules, path, "@v", "list")); err == nil {
			return true
		}
	}
	return false
}

// command is a command of Go in a folder with a go.mod.
func (c *Cache) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, goBin, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS=linux", "GOARCH=amd64",
		"GOTOOLCHAIN=local")
	cmd.WaitDelay = time.Second
	return cmd
}

var goListHead = regexp.MustCompile(`(?m)^go: `)

func (c *Cache) list(path string) ([]listed, error) {
	dir, flags, err := c.module()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, listTimeout)
	defer cancel()
	args := append([]string{
		"list", "-e", "-deps",
		"-json=ImportPath,Dir,Name,Standard,GoFiles,CgoFiles,SFiles,EmbedFiles,EmbedPatterns,Imports,ImportMap,Module,Error",
	}, flags...)
	cmd := c.command(ctx, dir, append(args, "--", path)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errors.New(strings.TrimSpace(goListHead.ReplaceAllString(errs.String(), "")))
	}
	var list []listed
	for d := json.NewDecoder(&out); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
}

// compile makes a package's archive.
func (c *Cache) compile(p listed) error {
	if len(p.CgoFiles) > 0 {
		return errors.New("it needs a C compiler (cgo), which is not there")
	}
	m := &module{}
	m.Path = p.ImportPath
	var imports []tools.Package
	var all func(list []*module)
	seen := map[*module]bool{}
	all = func(list []*module) {
		for _, d := range list {
			if !seen[d] {
				seen[d] = true
				imports = append(imports, d.Package)
				all(d.deps)
			}
		}
	}
	for _, i := range p.Imports {
		if to := p.ImportMap[i]; to != "" {
			i = to
		}
		if d := c.found[i]; d != nil {
			m.deps = append(m.deps, d)
		}
	}
	all(m.deps)
	name := sha256.Sum256([]byte(p.ImportPath))
	m.Archive = filepath.Join(c.work, "m-"+hex.EncodeToString(name[:8])+".a")
	flags := []string{}
	if p.Module != nil && p.Module.GoVersion != "" {
		// A patch release is not a language version: go1.26.0 means go1.26.
		parts := strings.SplitN(p.Module.GoVersion, ".", 3)
		flags = append(flags, "-lang=go"+strings.Join(parts[:min(len(parts), 2)], "."))
	}
	if len(p.EmbedPatterns) > 0 {
		file, err := c.embed(p)
		if err != nil {
			return err
		}
		flags = append(flags, "-embedcfg", file)
	}
	files := make([]string, len(p.GoFiles))
	for i, f := range p.GoFiles {
		files[i] = filepath.Join(p.Dir, f)
	}
	var asm *assembly
	if len(p.SFiles) > 0 {
		var err error
		if asm, err = c.assemble(p); err != nil {
			return err
		}
		defer asm.remove()
		flags = append(flags, "-symabis", asm.symabis, "-asmhdr", asm.header)
	} else {
		flags = append(flags, "-complete")
	}
	if err := c.chain.Compile(c.ctx, m.Path, m.Archive, imports, flags, files); err != nil {
		return err
	}
	if asm != nil {
		if err := asm.add(c.ctx, m.Archive); err != nil {
			return err
		}
	}
	c.found[m.Path] = m
	c.archives.Store(m.Path, m.Archive)
	return nil
}

// embed writes the configuration of //go:embed.
func (c *Cache) embed(p listed) (string, error) {
	patterns, files := map[string][]string{}, map[string]string{}
	for _, f := range p.EmbedFiles {
		files[f] = filepath.Join(p.Dir, f)
	}
	for _, pattern := range p.EmbedPatterns {
		glob := strings.TrimPrefix(pattern, "all:")
		for _, f := range p.EmbedFiles {
			if ok, _ := path.Match(glob, f); ok || f == glob || strings.HasPrefix(f, glob+"/") {
				patterns[pattern] = append(patterns[pattern], f)
				continue
			}
			for d := path.Dir(f); d != "."; d = path.Dir(d) {
				if ok, _ := path.Match(glob, d); ok {
					patterns[pattern] = append(patterns[pattern], f)
					break
				}
			}
		}
	}
	b, err := json.Marshal(map[string]any{"Patterns": patterns, "Files": files})
	if err != nil {
		return "", err
	}
	file := filepath.Join(c.work, "embedcfg")
	return file, os.WriteFile(file, b, 0o600)
}
