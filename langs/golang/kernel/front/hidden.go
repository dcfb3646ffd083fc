package front

import (
	"go/ast"
	"go/types"
)

// selections are the names of a source that are followed by a dot.
type selections struct {
	members map[string][]string // the names after the dots
	plain   map[string]bool     // names that also stand alone
}

// selected finds the selections of a source.
func selected(f *ast.File) selections {
	s := selections{members: map[string][]string{}, plain: map[string]bool{}}
	left := map[*ast.Ident]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok {
				left[id] = true
				s.members[id.Name] = append(s.members[id.Name], sel.Sel.Name)
			}
		}
		return true
	})
	for _, id := range f.Unresolved {
		if !left[id] {
			s.plain[id.Name] = true
		}
	}
	return s
}

// hidden reports whether a source means the package although an earlier cell has a variable of its
// name: path.Join after path := "a.txt". The variable then lacks a member that the package has.
func (d *draft) hidden(cell *Unit, name, path string, s selections) bool {
	v, ok := cell.pkg.Scope().Lookup(name).(*types.Var)
	if !ok || path == "" || s.plain[name] {
		return false
	}
	pkg, err := d.s.packages.Import(path)
	if err != nil {
		return false
	}
	lacks := false
	for _, m := range s.members[name] {
		if o := pkg.Scope().Lookup(m); o == nil || !o.Exported() {
			return false
		}
		if o, _, _ := types.LookupFieldOrMethod(v.Type(), true, cell.pkg, m); o == nil {
			lacks = true
		}
	}
	return lacks
}
