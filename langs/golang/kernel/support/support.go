// Package support holds the source of cell 0, which every other cell imports.
package support

import _ "embed" // the source

// Source is a file of package cells/0.
//
//go:embed _cell0/cell.go
var Source string
