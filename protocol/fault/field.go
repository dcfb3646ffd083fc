package fault

import (
	"slices"
	"strings"
	"unicode"
)

// JSONField returns the path of a field in a request from the one that encoding/json reports, which
// also has the names of embedded Go types.
func JSONField(path string) string {
	parts := slices.DeleteFunc(strings.Split(path, "."), func(part string) bool {
		return strings.IndexFunc(part, unicode.IsUpper) == 0
	})
	return strings.Join(parts, ".")
}
