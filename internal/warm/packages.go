package warm

import (
	"embed"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of the packages of a template, all languages together.
const (
	maxPackages    = 256
	maxPackageName = 200 // bytes, with its version
)

// packageDir is where the files that packages come from lie in the sandbox
// while they are installed.
const packageDir = "/tmp/.sandgate-packages"

// installers has a script for each language with packages, which installs them
// for the user: its $0 is packageDir, its arguments are the packages, and
// SANDGATE_INDEX is not empty where an index may be asked. What a package runs runs in the
// sandbox.
//
//go:embed install/*.sh
var installers embed.FS

// ecosystem is a language with packages.
type ecosystem struct {
	// name is the language's, and of the script.
	name string
	// form says in words what a package's name is.
	form  string
	valid *regexp.Regexp
}

// ecosystems are all there are. No name can be taken for an option, nor has it
// anything that a shell or a path would take for something else.
func ecosystems() map[string]ecosystem {
	const version = `[A-Za-z0-9.*_+~^<>=!,| -]`
	all := map[string]ecosystem{
		"python":     {"python", "NAME, NAME[EXTRA] or NAME==VERSION", regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?(\s*(===?|~=|!=|<=?|>=?)\s*` + version + `+)?$`)},
		"javascript": {"javascript", "NAME, @SCOPE/NAME or NAME@VERSION", regexp.MustCompile(`^(@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9.*_+~^<>=-]+)?$`)},
		"golang":     {"golang", "PATH or PATH@VERSION", regexp.MustCompile(`^[a-z0-9][a-z0-9-]*(\.[a-z0-9-]+)+(/[A-Za-z0-9_~][A-Za-z0-9._~-]*)*(/\.\.\.)?(@[A-Za-z0-9][A-Za-z0-9._+-]*)?$`)},
		"php":        {"php", "VENDOR/NAME or VENDOR/NAME:VERSION", regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*(:` + version + `+)?$`)},
		"java":       {"java", "GROUP:ARTIFACT:VERSION, GROUP:ARTIFACT:VERSION:CLASSIFIER or FILE.jar", regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9._-]*(:[A-Za-z0-9_][A-Za-z0-9._+-]*){2,3}|[A-Za-z0-9_][A-Za-z0-9._+-]*\.jar)$`)},
	}
	all["go"] = all["golang"]
	return all
}

// checkPackages holds packages against the rules, and returns them by the name
// of their language.
func checkPackages(op string, packages map[string][]string) (map[string][]string, error) {
	all, n := ecosystems(), 0
	out := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(packages)) {
		e, ok := all[key]
		switch {
		case !ok:
			return nil, fault.Invalid(op, "packages", "packages are of python, javascript, go, php or java, not of %.40q; run a command for others", key)
		case out[e.name] != nil:
			return nil, fault.Invalid(op, "packages", "go and golang are the same")
		case len(packages[key]) == 0:
			continue
		}
		for _, name := range packages[key] {
			if len(name) > maxPackageName || !e.valid.MatchString(name) {
				return nil, fault.Invalid(op, "packages", "%.80q is no package of %s: that is %s, of at most %d bytes", name, key, e.form, maxPackageName)
			}
		}
		if n += len(packages[key]); n > maxPackages {
			return nil, fault.Invalid(op, "packages", "there are at most %d packages", maxPackages)
		}
		out[e.name] = packages[key]
	}
	if n == 0 {
		return nil, nil
	}
	return out, nil
}

// install is the command that installs a language's packages, by name.
func install(s protocol.TemplateSpec, language string) ([]string, error) {
	script, err := installers.ReadFile("install/" + language + ".sh")
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "template.build", err)
	}
	return append([]string{"sh", "-c", string(script), packageDir}, s.Packages[language]...), nil
}

// Limits of what a failure tells of what a command has printed last.
const (
	tailBytes = 400
	tailLines = 6
	itSaid    = "; it said: "
)

// tail is the end of what a command has printed, in one line.
func tail(text string) string {
	var lines []string
	left := tailBytes
	for _, line := range slices.Backward(strings.Split(text, "\n")) {
		line = strings.TrimSpace(strings.Map(func(r rune) rune {
			if isControl(r) {
				return ' '
			}
			return r
		}, line))
		if line == "" {
			continue
		}
		if len(line) > left {
			line = strings.ToValidUTF8(line[:left], "")
		}
		if left -= len(line); line == "" || len(lines) == tailLines {
			break
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return ""
	}
	slices.Reverse(lines)
	return itSaid + strings.Join(lines, " | ")
}
