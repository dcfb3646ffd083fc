package store

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The longest name of a file and of one of its folders, in bytes.
const (
	maxName    = 1024
	maxElement = 255
)

// CleanName returns the name of a file below the working folder. A name may have folders. Errors:
// InvalidArgument for a name that leaves the folder, has over 10 levels, or is too long.
func CleanName(folder, name string) (string, error) {
	const op, field = "librechat.name", "name"
	name = strings.TrimPrefix(name, folder+"/")
	switch {
	case name == "" || len(name) > maxName || !utf8.ValidString(name):
		return "", fault.Invalid(op, field, "a name has 1 to %d bytes of UTF-8", maxName)
	case path.IsAbs(name):
		return "", fault.Invalid(op, field, "a name is relative")
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", fault.Invalid(op, field, "a name has no control characters")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." || len(part) > maxElement {
			return "", fault.Invalid(op, field,
				"a name has no .., and each part has at most %d bytes", maxElement)
		}
	}
	name = path.Clean(name)
	if name == "." || strings.Count(name, "/") >= nameDepth {
		return "", fault.Invalid(op, field, "a name has at most %d levels", nameDepth)
	}
	return name, nil
}
