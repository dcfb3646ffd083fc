// Package time makes the function of a timer run in the cell of an interactive session that set the
// timer.
package time

import _ "unsafe" // for linkname

//go:linkname cellNow runtime.cellNow
func cellNow() uint32

//go:linkname cellEnter runtime.cellEnter
func cellEnter(n uint32)

// cellFunc returns a function that runs f in the cell of the calling goroutine.
func cellFunc(f func()) func() {
	n := cellNow()
	if n == 0 {
		return f
	}
	return func() { cellEnter(n); f() }
}
