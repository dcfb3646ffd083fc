// Package noder compiles the cells of an interactive session, packages cells/N.
package noder

import (
	"cmd/compile/internal/base"
	"cmd/compile/internal/types2"
	"strings"
)

// cellNames is the package of every unexported field and method name of a session: a single owner,
// so that interface satisfaction, itabs and reflection agree across cells.
var cellNames = types2.NewPackage("cells/session", "main")

func cellBuild() bool { return strings.HasPrefix(base.Ctxt.Pkgpath, "cells/") }

func cellOwner(obj types2.Object) *types2.Package {
	pkg := obj.Pkg()
	if pkg != nil && !obj.Exported() && strings.HasPrefix(pkg.Path(), "cells/") {
		return cellNames
	}
	return pkg
}
