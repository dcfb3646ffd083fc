package toolcalls

import (
	"slices"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The languages of programs with tools.
const (
	Python = "python"
	Bash   = "bash"
)

// keywords returns the names that a function of a language cannot have. For Bash these are also its
// own commands, which programs expect under these names.
func keywords(language string) []string {
	if language == Bash {
		return strings.Fields("alias bg break builtin case cd command continue coproc declare do " +
			"done echo elif else esac eval exec exit export fg fi for function getopts hash if in " +
			"jobs kill let local printf pwd read readonly return select set shift source test " +
			"then time times trap true false type typeset ulimit umask unalias unset until wait " +
			"while")
	}
	return strings.Fields("False None True and as assert async await break class continue def del " +
		"elif else except finally for from global if import in is lambda nonlocal not or pass " +
		"raise return try while with yield")
}

// Functions returns the names of tools by the names of their functions. Errors: InvalidArgument if
// two tools have the same function.
func Functions(language string, tools []string) (map[string]string, error) {
	all := map[string]string{}
	for _, tool := range tools {
		name := Function(language, tool)
		if was, there := all[name]; there && was != tool {
			return nil, fault.Invalid("toolcalls.functions", "tools",
				"%.80q and %.80q are both the function %s", was, tool, name)
		}
		all[name] = tool
	}
	return all, nil
}

// Function returns the name of the function of a tool.
func Function(language, tool string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r == '-' || r == ' ' || r == '\t' || r == '.':
			return '_'
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_':
			return r
		}
		return -1
	}, tool)
	if name == "" {
		return "tool"
	}
	if name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	if slices.Contains(keywords(language), name) {
		return name + "_tool"
	}
	return name
}

// functions returns the functions of tools for Bash. Their names are safe in code.
func functions(tools map[string]string) string {
	var b strings.Builder
	for name := range tools {
		b.WriteString(name + "() { python3 -IS \"$SANDGATE_TOOLS/call.py\" " + name + " \"$@\"; }\n")
	}
	return b.String()
}
