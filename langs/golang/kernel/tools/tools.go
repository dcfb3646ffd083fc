// Package tools runs the compiler and the linker for cells.
//
// Both are started before they are needed and wait for their arguments, so that a cell does not
// wait for their start. With the patched linker a cell's object contains only the cell. The stock
// linker is the fallback: it needs whole archives of the standard library and makes objects of
// megabytes.
package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/langs/golang/kernel/symbols"
)

// Dir is an installation: the folder that toolchain/build has made.
type Dir string

// Std returns the file of a package of the standard library.
func (d Dir) Std(path string) string { return filepath.Join(string(d), "lib/std", path+".a") }

// Chain is a compiler and a linker for the cells of one session.
type Chain struct {
	dir   Dir
	work  string
	patch bool // the linker is the patched one

	config strings.Builder // lines of the import configuration, for the compiler
	held   strings.Builder // the same for the linker: the standard library is in the process
	loaded map[string]bool // packages in objects that were loaded
	more   symbols.Table

	mu       sync.Mutex // guards the two fields below
	compiler *waiting
	linker   *waiting
}

// CompileError is the output of the compiler.
type CompileError struct{ Output string }

func (e *CompileError) Error() string { return e.Output }

// New returns the tools of an installation. work is a folder for the files of
// cells.
func New(dir Dir, work string) (*Chain, error) {
	c := &Chain{dir: dir, work: work, loaded: map[string]bool{}}
	which, err := os.ReadFile(filepath.Join(string(dir), "lib/linker"))
	if err != nil {
		return nil, err
	}
	c.patch = strings.TrimSpace(string(which)) == "patched"
	root := filepath.Join(string(dir), "lib/std")
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".a") {
			return err
		}
		path := strings.TrimSuffix(strings.TrimPrefix(file, root+"/"), ".a")
		fmt.Fprintf(&c.config, "packagefile %s=%s\n", path, file)
		if c.patch {
			fmt.Fprintf(&c.held, "packagefile %s=held\n", path)
		} else {
			fmt.Fprintf(&c.held, "packagefile %s=%s\n", path, file)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(c.moreFile(), nil, 0o600); err != nil {
		return nil, err
	}
	c.prepare()
	return c, nil
}

// Package is a package to build: a cell, or one that it needs.
type Package struct {
	Path    string
	Archive string // the compiler's result
}

// Object is a linked cell, which is loaded and then kept.
type Object struct {
	File    string
	Path    string
	archive string
	also    []Package
}

// Build compiles and links a cell. also are the packages that it adds: they become part of its
// object.
func (c *Chain) Build(ctx context.Context, path, file, source string,
	also []Package,
) (*Object, error) {
	base := filepath.Join(c.work, strings.ReplaceAll(path, "/", "-"))
	o := &Object{File: base + ".so", Path: path, archive: base + ".a", also: also}
	src := base + ".go"
	if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
		return nil, err
	}
	defer os.Remove(src)
	var extra strings.Builder
	for _, p := range also {
		fmt.Fprintf(&extra, "packagefile %s=%s\n", p.Path, p.Archive)
	}
	config := filepath.Join(c.work, "importcfg")
	if err := os.WriteFile(config, []byte(c.config.String()+extra.String()), 0o600); err != nil {
		return nil, err
	}
	out, err := c.run(ctx, &c.compiler, append(c.compileFlags(path, config), "-complete", "-o",
		o.archive, src))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &CompileError{c.clean(out, err)}
	}
	config += ".link"
	if err := os.WriteFile(config, []byte(c.held.String()+extra.String()+
		fmt.Sprintf("packagefile %s=%s\n", path, o.archive)), 0o600); err != nil {
		return nil, err
	}
	if out, err := c.run(ctx, &c.linker, c.linkFlags(path, config, o)); err != nil {
		os.Remove(o.archive)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("the linker failed: %s", c.clean(out, err))
	}
	return o, nil
}

// BuildProgram is Build for a program. Its process has the standard library, and nothing of the
// session: neither modules nor types of cells.
func (c *Chain) BuildProgram(ctx context.Context, path, file, source string,
	also []Package,
) (o *Object, err error) {
	if c.patch {
		if err := os.WriteFile(c.moreFile(), nil, 0o600); err != nil {
			return nil, err
		}
		defer func() {
			err = errors.Join(err, os.WriteFile(c.moreFile(), c.more.Bytes(), 0o600))
		}()
	}
	return c.Build(ctx, path, file, source, also)
}

// Compile makes the archive of a package that a cell needs. flags are additional flags, imports the
// packages that it may import.
func (c *Chain) Compile(ctx context.Context, path, archive string, imports []Package,
	flags, files []string,
) error {
	var lines strings.Builder
	lines.WriteString(c.config.String())
	for _, p := range imports {
		fmt.Fprintf(&lines, "packagefile %s=%s\n", p.Path, p.Archive)
	}
	config := filepath.Join(c.work, "importcfg.module")
	if err := os.WriteFile(config, []byte(lines.String()), 0o600); err != nil {
		return err
	}
	args := append(append(c.compileFlags(path, config), flags...), "-o", archive)
	out, err := c.run(ctx, &c.compiler, append(args, files...))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &CompileError{c.clean(out, err)}
	}
	return nil
}

// Keep records that an object has been loaded: later cells may import it.
func (c *Chain) Keep(o *Object) error {
	for _, p := range append(o.also, Package{o.Path, o.archive}) {
		c.loaded[p.Path] = true
		fmt.Fprintf(&c.config, "packagefile %s=%s\n", p.Path, p.Archive)
		fmt.Fprintf(&c.held, "packagefile %s=%s\n", p.Path, p.Archive)
	}
	if !c.patch {
		return nil
	}
	if err := c.more.AddObject(o.File); err != nil {
		return err
	}
	os.Remove(o.File) // it is mapped
	return os.WriteFile(c.moreFile(), c.more.Bytes(), 0o600)
}

// Holds reports whether a package came with an object that was loaded.
func (c *Chain) Holds(path string) bool { return c.loaded[path] }

// Drop removes the results of Build for a cell that was not loaded.
func (c *Chain) Drop(o *Object) {
	os.Remove(o.File)
	os.Remove(o.archive)
}

func (c *Chain) moreFile() string { return filepath.Join(c.work, "more.syms") }

func (c *Chain) compileFlags(path, config string) []string {
	flags := []string{
		"-p", path, "-lang=go1.26", "-dynlink", "-importcfg", config, "-pack", "-c=2",
		"-nolocalimports", "-trimpath", c.work,
	}
	if c.patch {
		flags = append(flags, "-installsuffix", "dynlink", "-linkshared")
	}
	return flags
}

func (c *Chain) linkFlags(path, config string, o *Object) []string {
	flags := []string{
		"-o", o.File, "-importcfg", config, "-pluginpath", path, "-buildmode=plugin",
		"-s", "-w",
	}
	if c.patch {
		flags = append(flags, "-installsuffix", "dynlink")
	}
	return append(flags, o.archive)
}

// clean removes paths of the working folder from a tool's output.
func (c *Chain) clean(out []byte, err error) string {
	text := strings.TrimSpace(strings.ReplaceAll(string(out), c.work+"/", ""))
	if text == "" {
		text = err.Error()
	}
	return text
}

// waiting is a started tool that waits for its arguments.
type waiting struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out bytes.Buffer
}

// prepare starts the tools that are not waiting.
func (c *Chain) prepare() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compiler == nil {
		c.compiler, _ = c.start("compile") // run tries again, and reports the error
	}
	if c.linker == nil {
		c.linker, _ = c.start("link")
	}
}

func (c *Chain) start(tool string) (*waiting, error) {
	w := &waiting{}
	if tool == "link" && !c.patch {
		return nil, nil // the stock linker takes its arguments like any program
	}
	w.cmd = exec.Command(filepath.Join(string(c.dir), "bin", tool), "-wait")
	w.cmd.Env = c.environment()
	w.cmd.Stdout, w.cmd.Stderr = &w.out, &w.out
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.cmd.WaitDelay = time.Second
	var err error
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return w, w.cmd.Start()
}

// environment returns the environment of the tools: from the user's only the variables to find ld.
func (c *Chain) environment() []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + c.work, "HOME=/nonexistent",
		"GOGC=off", "GOMEMLIMIT=256MiB", // most cells end before the collector would have to run
	}
	if c.patch {
		lib := filepath.Join(string(c.dir), "lib")
		env = append(env, "CELLS_SYMS="+lib+"/std.syms", "CELLS_TYPES="+lib+"/std.types",
			"CELLS_MORE="+c.moreFile())
	}
	return env
}

// run passes a tool its arguments, and waits for its end. Meanwhile the next one is started.
func (c *Chain) run(ctx context.Context, slot **waiting, args []string) ([]byte, error) {
	c.mu.Lock()
	w := *slot
	*slot = nil
	c.mu.Unlock()
	tool := "compile"
	if slot == &c.linker {
		tool = "link"
	}
	if tool == "link" && !c.patch {
		return c.stockLink(ctx, args)
	}
	if w != nil {
		if out, err := w.run(ctx, args); err == nil || !w.killed() || ctx.Err() != nil {
			return out, err
		}
		// It was killed while it waited. Another one gets the work.
	}
	w, err := c.start(tool)
	if err != nil {
		return nil, err
	}
	return w.run(ctx, args)
}

func (w *waiting) run(ctx context.Context, args []string) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL) })
	defer stop()
	_, err := io.WriteString(w.in, strings.Join(args, "\x00"))
	err = errors.Join(err, w.in.Close(), w.cmd.Wait())
	return w.out.Bytes(), err
}

// killed reports whether a signal ended the tool.
func (w *waiting) killed() bool {
	s, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && s.Signaled()
}

// stockLink runs Go's own linker, which calls gcc.
func (c *Chain) stockLink(ctx context.Context, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(string(c.dir), "bin/link"), args...)
	cmd.Env = c.environment()
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// Ready starts the tools for the next cell. It returns at once.
func (c *Chain) Ready() { go c.prepare() }

// Close ends the waiting tools.
func (c *Chain) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range []*waiting{c.compiler, c.linker} {
		if w != nil {
			w.in.Close()
			w.cmd.Wait()
		}
	}
	c.compiler, c.linker = nil, nil
}
