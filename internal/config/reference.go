package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Reference writes docs/configuration.md.
func Reference(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Configuration\n\n" +
		"This page is written by `go run ./cmd/sandgate config reference > docs/configuration.md`; a test fails when it is\n" +
		"out of date. To change it, change `config/config.go`.\n\n" +
		"Settings come from a YAML file, the environment and the command line of `sandgate serve` (and `node`, `gateway`,\n" +
		"`doctor`, `config show`). A flag wins over a variable, a variable over the file, the file over the default. The file is\n" +
		"`" + DefaultFile + "` if it exists, or the one that `--config` or `SANDGATE_CONFIG` names. An unknown key is an error\n" +
		"that names the key and its line. Nothing needs to be set to start.\n\n" +
		"`sandgate reload`, or SIGHUP, makes a running server read them again: it takes up those that say so below, and names\n" +
		"the others that have changed, which wait for a restart.\n\n" +
		"Sizes take the units B, KiB, MiB, GiB and TiB; durations are written as 90s or 1h30m; in a variable or a flag a\n" +
		"list's items are parted by commas.\n\n" +
		"There are no secrets here: the access token lives in `token_file`.\n\n")
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
		fmt.Fprintf(&b, "### %s\n\n%s\n\n%s, default %s. Flag `--%s`, variable `%s`.%s\n\n",
			f.Path, wrap(f.Doc, 120), strings.ToUpper(f.Type[:1])+f.Type[1:], def, f.Flag, f.Env, live)
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
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
	}
	return f.String()
}

// quote leaves plain words alone; a colon or anything else that YAML could
// take for syntax gets quotes.
func quote(s string) string {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/._-", r) {
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
