// Package types knows the cells of an interactive session: packages cells/N.
// They see each other's unexported names, and a later declaration of a name
// hides an earlier one.
package types

func cellPath(path string) bool { return len(path) > 6 && path[:6] == "cells/" }

// cellImport reports whether a dot import of a cell declares name here, exported or not. It makes
// room for the name: the last imported cell is used.
func (check *Checker) cellImport(from *Package, file *Scope, name string) bool {
	if !cellPath(from.path) || !cellPath(check.pkg.path) || name == "_" || name == "init" ||
		name == "main" {
		return false
	}
	delete(file.elems, name)
	return true
}

// cellOwn returns the package's own object of that name, unless obj in the file scope is the
// dot-imported object of an earlier cell, which is dropped.
func (check *Checker) cellOwn(file *Scope, name string, obj Object) Object {
	own := check.pkg.scope.Lookup(name)
	if own == nil {
		return nil
	}
	obj = resolve(name, obj)
	if _, isPkg := obj.(*PkgName); isPkg {
		return own
	}
	if p := obj.Pkg(); p != nil && cellPath(p.path) && cellPath(check.pkg.path) {
		delete(file.elems, name)
		return nil
	}
	return own
}
