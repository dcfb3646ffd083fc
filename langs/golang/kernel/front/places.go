package front

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// place is an identifier of a cell.
type place struct {
	off     int
	name    string
	key     string // equal for all places of a variable; "" for a name that no cell declares
	defines bool
	object  types.Object
}

// Place is a place in a cell of the notebook. Columns count from 0, in code points, lines from 1.
type Place struct {
	Cell   int `json:"cell"`
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Definition is where a name is defined: in a cell, or in a file.
type Definition struct {
	Cell   *int   `json:"cell,omitempty"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line"`
	Column *int   `json:"column,omitempty"`
}

// find fills in the places of a cell's identifiers.
func (c *checked) find() {
	list, _ := scan(c.code, false)
	idents := map[int]bool{}
	for _, l := range list {
		idents[l.off] = l.tok == token.IDENT
	}
	seen := map[int]bool{}
	put := func(p place) {
		if idents[p.off] && !seen[p.off] && strings.HasPrefix(c.code[p.off:], p.name) {
			seen[p.off] = true
			c.places = append(c.places, p)
		}
	}
	for i := range c.draft.steps {
		t := &c.draft.steps[i]
		if t.asIs {
			continue
		}
		for j, l := range first(t.text, 2*len(t.names)) {
			if j%2 == 0 && l.tok == token.IDENT {
				put(place{off: t.off + l.off, name: l.lit, key: "." + l.lit, defines: true})
			}
		}
	}
	if p := c.draft.second; p != nil && p.file != nil {
		starts := lineStarts(c.code)
		members := map[*ast.Ident]bool{} // names that a type or a package may have
		ast.Inspect(p.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				members[n.Sel] = true
			case *ast.KeyValueExpr:
				if id, ok := n.Key.(*ast.Ident); ok {
					members[id] = true
				}
			case *ast.Ident:
				c.identifier(p, n, members[n], starts, put)
			}
			return true
		})
	}
	slices.SortFunc(c.places, func(a, b place) int { return a.off - b.off })
}

func first(text string, n int) []lexeme {
	list, _ := scan(text, false)
	return list[:min(n, len(list))]
}

func lineStarts(code string) []int {
	starts := []int{0}
	for i, b := range []byte(code) {
		if b == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// identifier adds an identifier of the checked source, if the cell's text has it. An identifier that
// is not declared, and is no member, may be declared by another cell.
func (c *checked) identifier(p *pass, id *ast.Ident, member bool, starts []int,
	put func(place),
) {
	at := c.after.fset.Position(id.Pos())
	if at.Filename != c.file || at.Line < 1 || at.Line > len(starts) {
		return
	}
	off := starts[at.Line-1] + at.Column - 1
	if off > len(c.code) {
		return
	}
	x := place{off: off, name: id.Name, object: p.info.Uses[id]}
	if x.object == nil {
		x.object, x.defines = p.info.Defs[id]
	}
	switch {
	case x.object != nil || x.defines:
		x.key = c.key(p, id, x.object)
	case !member:
		x.key = "." + id.Name
	}
	put(x)
}

// key identifies a variable. Names of the session are one variable in all cells. Any other is
// known by the position of its declaration.
func (c *checked) key(p *pass, id *ast.Ident, o types.Object) string {
	pos := id.Pos() // a variable of a type switch has no object at its declaration
	if o != nil {
		switch o.(type) {
		case *types.PkgName, *types.Builtin, *types.Nil:
			return ""
		}
		if o.Pkg() == nil || !strings.HasPrefix(o.Pkg().Path(), "cells/") ||
			o.Pkg().Path() == Path(0) {
			return ""
		}
		if o.Parent() != nil && (o.Parent() == o.Pkg().Scope() || o.Parent() == p.local) {
			return "." + o.Name()
		}
		pos = o.Pos()
		switch o := o.(type) {
		case *types.Var:
			pos = o.Origin().Pos()
		case *types.Func:
			pos = o.Origin().Pos()
		}
	}
	return c.after.fset.Position(pos).String()
}

// at returns the place at an offset of a cell, or just before it.
func (c *checked) at(off int) (place, bool) {
	for _, p := range c.places {
		if p.off <= off && off <= p.off+len(p.name) {
			return p, true
		}
	}
	return place{}, false
}

// position returns a place of a cell for the editor.
func (c *checked) position(cell, off int) Place {
	start := strings.LastIndexByte(c.code[:off], '\n') + 1
	return Place{cell, lineOf(c.code, off), utf8.RuneCountInString(c.code[start:off])}
}

// Definition finds where the name at the cursor is defined. sources are folders that may have the
// files of packages.
func (n *Notebook) Definition(c Cells, cursor int, sources []string) (Definition, bool) {
	if !c.fits() {
		return Definition{}, false
	}
	cells := n.check(c)
	here, ok := cells[c.At].at(cursor)
	switch {
	case !ok:
		return Definition{}, false
	case here.key == "":
		return n.source(here, sources)
	}
	var before, any *Place
	for i, cell := range cells {
		for _, p := range cell.places {
			if p.key != here.key || !p.defines {
				continue
			}
			found := cell.position(i, p.off)
			if i < c.At || i == c.At && p.off < here.off {
				before = &found
			}
			if any == nil {
				any = &found
			}
		}
	}
	if before == nil {
		before = any
	}
	if before == nil {
		return Definition{}, false
	}
	return Definition{Cell: &before.Cell, Line: before.Line, Column: &before.Column}, true
}

// source finds the file that declares a name of a package.
func (n *Notebook) source(p place, sources []string) (Definition, bool) {
	o := p.object
	if o == nil {
		return Definition{}, false
	}
	if name, ok := o.(*types.PkgName); ok {
		return n.packageSource(name.Imported())
	}
	at := n.files.Position(o.Pos())
	if at.Filename == "" || o.Pkg() == nil || o.Pkg().Path() == Path(0) {
		return Definition{}, false
	}
	file := strings.TrimPrefix(at.Filename, "$GOROOT/src/")
	if _, after, ok := strings.Cut(file, "/goroot/src/"); ok {
		file = after
	}
	for _, dir := range sources {
		full := file
		if !filepath.IsAbs(file) {
			full = filepath.Join(dir, file)
		}
		if _, err := os.Stat(full); err == nil {
			return Definition{File: full, Line: max(at.Line, 1)}, true
		}
	}
	return Definition{}, false
}

// packageSource returns a file of a package, that of any of its names.
func (n *Notebook) packageSource(p *types.Package) (Definition, bool) {
	for _, name := range p.Scope().Names() {
		if token.IsExported(name) {
			d, ok := n.source(place{object: p.Scope().Lookup(name)}, []string{goSource})
			d.Line = 1
			return d, ok
		}
	}
	return Definition{}, false
}

// Names returns all places of the variable at the cursor. new is its new name, or "": then an
// error says why it cannot have it.
func (n *Notebook) Names(c Cells, cursor int, fresh string) (string, []Place, error) {
	if !c.fits() {
		return "", nil, nil
	}
	cells := n.check(c)
	here, ok := cells[c.At].at(cursor)
	if !ok || here.key == "" {
		return "", nil, nil
	}
	places, declared := []Place{}, false
	changed := slices.Clone(c.Codes)
	for i, cell := range cells {
		for _, p := range slices.Backward(cell.places) {
			if p.key != here.key || len(places) == maxPlaces {
				continue
			}
			declared = declared || p.defines
			places = append(places, cell.position(i, p.off))
			changed[i] = changed[i][:p.off] + fresh + changed[i][p.off+len(p.name):]
		}
	}
	if !declared {
		return "", nil, nil
	}
	slices.SortFunc(places, func(a, b Place) int {
		return cmp.Or(a.Cell-b.Cell, a.Line-b.Line, a.Column-b.Column)
	})
	if fresh == "" {
		return here.name, places, nil
	}
	return here.name, places, n.mayBecome(c, cells, here, fresh, changed)
}

// mayBecome returns an error if a variable cannot have a name. changed are the cells with it.
func (n *Notebook) mayBecome(c Cells, cells []*checked, here place, fresh string,
	changed []string,
) error {
	if !token.IsIdentifier(fresh) || fresh == "_" {
		return fmt.Errorf("%q is not a name", fresh)
	}
	failing := 0
	for _, cell := range cells {
		failing += len(cell.errs)
		for _, p := range cell.places {
			if here.key[0] == '.' && p.key == "."+fresh && p.defines {
				return fmt.Errorf("%s is already a name here", fresh)
			}
		}
	}
	c.Codes = changed
	var why error
	again := 0
	for _, cell := range n.check(c) {
		again += len(cell.errs)
		if len(cell.errs) > 0 {
			why = errors.New(cell.errs[0].Msg)
		}
	}
	if again > failing {
		return fmt.Errorf("with the name %s the code has an error: %w", fresh, why)
	}
	return nil
}
