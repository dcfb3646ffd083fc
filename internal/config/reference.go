package config

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Reference writes docs/configuration.md.
func Reference(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" +
		"`go run ./cmd/sandgate config reference > docs/configuration.md` writes this page. A test fails when\n" +
		"it is out of date. To change it, change `internal/config/config.go`.\n\n" +
		"Settings come from a YAML file, the environment and the command line of `sandgate serve` (and\n" +
		"`node`, `gateway`, `doctor`, `config show`). A flag overrides a variable, a variable overrides the\n" +
		"file, and the file overrides the default. The file is `" + DefaultFile +
		"` if it exists, or\n" +
		"the one that `--config` or `SANDGATE_CONFIG` names. An unknown key is an error that names the key\n" +
		"and its line. The server starts without any settings.\n\n" +
		"`sandgate reload`, or SIGHUP, makes a running server read the settings again. It applies the\n" +
		"settings that are marked below, and names the changed ones that need a restart.\n\n" +
		"Sizes take the units B, KiB, MiB, GiB and TiB. Durations are written as 90s or 1h30m. In a variable\n" +
		"or a flag, commas separate the items of a list.\n\n" +
		"No setting is a secret: the access token is in `token_file`.\n\n")
	c := Default()
	b.WriteString("## All settings with their defaults\n\n```yaml\n")
	writeYAML(&b, c)
	b.WriteString("```\n\n## What they mean\n\n")
	for _, f := range Fields(c) {
		def := f.Default
		if def == "" {
			def = "empty"
		} else {
			def = "`" + def + "`"
		}
		live := ""
		if Reloadable(f.Path) {
			live = " A reload changes it."
		}
		sources := fmt.Sprintf("%s, default %s. Flag `--%s`, variable `%s`.%s",
			strings.ToUpper(f.Type[:1])+f.Type[1:], def, f.Flag, f.Env, live)
		fmt.Fprintf(&b, "### %s\n\n%s\n\n%s\n\n", f.Path, wrap(markdown(f.Doc), 100),
			wrap(sources, 100))
		if f.Type == "table" {
			writeSurfaces(&b)
		}
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}

// literal matches words of a setting's description that Markdown would treat as syntax or a link.
var literal = regexp.MustCompile(`https?://[^\s,;)]*[^\s,;).]|(^| )\*[^\s,]*`)

// markdown returns a setting's description with its literal words as code.
func markdown(doc string) string {
	return literal.ReplaceAllStringFunc(doc, func(word string) string {
		bare := strings.TrimPrefix(word, " ")
		return word[:len(word)-len(bare)] + "`" + bare + "`"
	})
}

// Show writes c as a file that Load reads, without comments.
func Show(w io.Writer, c *Config) error {
	var b strings.Builder
	writeYAML(&b, c)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeYAML(b *strings.Builder, c *Config) {
	group := ""
	for _, f := range Fields(c) {
		name := f.Path
		if g, rest, ok := strings.Cut(f.Path, "."); ok {
			if g != group {
				b.WriteString(g + ":\n")
				group = g
			}
			name = "  " + rest
		}
		fmt.Fprintf(b, "%s: %s\n", name, yamlValue(f))
	}
}

func yamlValue(f Field) string {
	switch v := f.value.Interface().(type) {
	case string:
		return quote(v)
	case []string:
		items := make([]string, len(v))
		for i, s := range v {
			items[i] = quote(s)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case Surfaces:
		if len(v) == 0 {
			return "{}"
		}
	}
	return f.String()
}

// quote returns plain words unchanged, and quotes text that contains a colon or anything else that
// YAML could treat as syntax.
func quote(s string) string {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("/._-", r) {
			return strconv.Quote(s)
		}
	}
	if s == "" {
		return `""`
	}
	return s
}

// wrap breaks text at spaces into lines of at most width bytes.
func wrap(text string, width int) string {
	var b strings.Builder
	line := 0
	for i, word := range strings.Fields(text) {
		if i > 0 {
			if line+1+len(word) > width {
				b.WriteByte('\n')
				line = 0
			} else {
				b.WriteByte(' ')
				line++
			}
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}
