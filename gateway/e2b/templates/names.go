package templates

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// tagDefault ends a name without another tag.
const tagDefault = ":default"

// tagMark separates a name and a tag in the name of a native template, which has one build only.
const tagMark = "--"

var (
	validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	validTag  = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,30}$`)
)

// Native returns the name of the native template for a name with a tag: the name itself for the
// default tag. A dot in a tag becomes -dot-, because native names have none.
func Native(name string) string {
	base, tag, tagged := strings.Cut(name, ":")
	if !tagged || ":"+tag == tagDefault {
		return base
	}
	return base + tagMark + strings.ReplaceAll(tag, ".", "-dot-")
}

// Name returns the name and the tag of a native template.
func Name(native string) (name, tag string) {
	name, tag, tagged := strings.Cut(native, tagMark)
	if !tagged {
		return native, tagDefault[1:]
	}
	return name, strings.ReplaceAll(tag, "-dot-", ".")
}

// Param returns a parameter of the path of a request. Clients encode the colon of a tag.
func Param(r *http.Request, name string) string {
	text := r.PathValue(name)
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

// parseName returns the name and the tags of a request, each once. The first is that of the name.
// Errors: InvalidArgument.
func parseName(name string, tags []string) (string, []string, error) {
	base, tag, tagged := strings.Cut(name, ":")
	if !validName.MatchString(base) || strings.Contains(base, tagMark) {
		return "", nil, invalid("name",
			"%.80q is not a name: up to 63 lower-case letters, digits and single hyphens", base)
	}
	if !tagged {
		tag = tagDefault[1:]
	}
	all := []string{tag}
	for _, t := range tags {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	tags = all
	const most = 8
	if len(tags) > most {
		return "", nil, invalid("tags", "a build has at most %d tags", most)
	}
	for _, t := range tags {
		if !validTag.MatchString(t) {
			return "", nil, invalid("tags",
				"%.40q is not a tag: up to 31 lower-case letters, digits, dots and hyphens", t)
		}
		if n := Native(base + ":" + t); len(n) > 63 {
			return "", nil, invalid("tags", "the name with the tag %s is too long", t)
		}
	}
	return base, tags, nil
}
