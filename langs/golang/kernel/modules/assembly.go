package modules

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// assembly is the part of a package that is written in assembly. Go's own tools assemble it.
type assembly struct {
	dir, symabis, header string
	objects              []string
	p                    listed
}

const (
	toolDir    = "/usr/local/go/pkg/tool/linux_amd64"
	includeDir = "/usr/local/go/pkg/include"
)

func (a *assembly) remove() { os.RemoveAll(a.dir) }

func (a *assembly) run(ctx context.Context, args ...string) error {
	all := append([]string{
		"-p", a.p.ImportPath, "-I", a.dir, "-I", includeDir, "-D", "GOOS_linux", "-D",
		"GOARCH_amd64", "-D", "GOAMD64_v1",
		"-D", "GOBUILDMODE_shared=1", "-dynlink", "-linkshared",
	}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(toolDir, "asm"), all...)
	cmd.Dir = a.p.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("asm: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// assemble finds the symbols that the assembly of a package defines.
func (c *Cache) assemble(p listed) (*assembly, error) {
	dir, err := os.MkdirTemp(c.work, "asm")
	if err != nil {
		return nil, err
	}
	a := &assembly{
		dir: dir, symabis: filepath.Join(dir, "symabis"),
		header: filepath.Join(dir, "go_asm.h"), p: p,
	}
	if err := os.WriteFile(a.header, nil, 0o600); err != nil {
		return nil, err
	}
	return a, a.run(c.ctx, append([]string{"-gensymabis", "-o", a.symabis}, p.SFiles...)...)
}

// add assembles the files and adds the objects to the archive.
func (a *assembly) add(ctx context.Context, archive string) error {
	for i, f := range a.p.SFiles {
		o := filepath.Join(a.dir, fmt.Sprintf("%d.o", i))
		if err := a.run(ctx, "-o", o, f); err != nil {
			return err
		}
		a.objects = append(a.objects, o)
	}
	cmd := exec.CommandContext(ctx, goBin, append([]string{"tool", "pack", "r", archive},
		a.objects...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pack: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
