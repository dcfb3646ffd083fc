package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/kernel"
)

// reseedCode returns code of a language that sets variables of the environment and seeds the
// generators of random numbers; "" for a language that the driver does not know.
func reseedCode(language string, env map[string]string, seed string) string {
	number, err := strconv.ParseUint(seed[:min(8, len(seed))], 16, 32)
	seeded := err == nil
	number &= 1<<31 - 1 // R and others take 31 bits
	var b strings.Builder
	names := slices.Sorted(maps.Keys(env))
	switch strings.ToLower(language) {
	case "python":
		for _, k := range names {
			fmt.Fprintf(&b, "__import__('os').environ[%s] = %s\n", quote(k), quote(env[k]))
		}
		if seeded {
			fmt.Fprintf(&b, "__import__('random').seed(%s)\n", quote(seed))
			fmt.Fprintf(&b, "('numpy' in __import__('sys').modules) and "+
				"__import__('sys').modules['numpy'].random.seed(%d)\n", number)
		}
	case "r":
		for _, k := range names {
			fmt.Fprintf(&b, "do.call(Sys.setenv, list(%s = %s))\n", tick(k), quote(env[k]))
		}
		if seeded {
			fmt.Fprintf(&b, "set.seed(%d)\n", number)
		}
	case "octave", "matlab":
		for _, k := range names {
			fmt.Fprintf(&b, "setenv(%s, %s);\n", quote(k), quote(env[k]))
		}
		if seeded {
			fmt.Fprintf(&b, "rand('twister', %d); randn('twister', %d);\n", number, number)
		}
	case "julia":
		for _, k := range names {
			fmt.Fprintf(&b, "ENV[%s] = %s\n", julia(k), julia(env[k]))
		}
		if seeded {
			fmt.Fprintf(&b, "import Random; Random.seed!(%d);\n", number)
		}
	case "ruby":
		for _, k := range names {
			fmt.Fprintf(&b, "ENV[%s] = %s\n", julia(k), julia(env[k]))
		}
		if seeded {
			fmt.Fprintf(&b, "srand(%d)\n", number)
		}
	}
	return b.String()
}

// quote returns a text as a literal in double quotes, which Python, R and Octave read in the same
// way: control characters and the backslash are escaped.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tick returns the name of an argument of R.
func tick(name string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}

// julia returns a literal of a language that would also expand $ or #.
func julia(text string) string {
	return strings.NewReplacer("$", `\$`, "#", `\#`).Replace(quote(text))
}

// variables lists the user's variables. Jupyter has no message for that, so the driver cannot list
// them without running code.
func (d *driver) variables(r kernel.Request) {
	d.sendRefusal(r.ID, "Unsupported", "Jupyter kernels do not list variables")
}
