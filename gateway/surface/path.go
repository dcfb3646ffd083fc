package surface

import (
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/fault"
)

// MaxPath is the limit of the path of a file in a session, in bytes.
const MaxPath = 4096

// CheckPath checks the path of a file in a session. Errors: InvalidArgument for a path that is
// longer than MaxPath, is not UTF-8, or contains NUL or an element "..".
func CheckPath(op, name string) error {
	switch {
	case len(name) > MaxPath:
		return fault.Invalid(op, "path", "a path has at most %d bytes", MaxPath)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fault.Invalid(op, "path", "a path is UTF-8 without NUL")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return fault.Invalid(op, "path", "a path must not contain ..")
		}
	}
	return nil
}
