package front

import (
	"fmt"
	"strings"
)

// mark returns a line directive: the text after it is at offset off of the cell.
func mark(file, src string, off int) string {
	return fmt.Sprintf("/*line %s:%d:%d*/", file, lineOf(src, off), columnOf(src, off))
}

func lineOf(src string, off int) int { return 1 + strings.Count(src[:min(off, len(src))], "\n") }

func columnOf(src string, off int) int {
	off = min(off, len(src))
	return off - strings.LastIndex(src[:off], "\n")
}
