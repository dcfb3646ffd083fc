package config

import (
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/internal/surfaces"
)

// writeSurfaces writes the part of the reference about the settings of surfaces.
func writeSurfaces(b *strings.Builder) {
	b.WriteString("```yaml\nsurfaces:\n  openterminal: {template: science, idle_delete: 72h, " +
		"network: [python]}\n```\n\n" +
		"A flag or a variable has the whole table in one line, `{mcp: {idle_delete: 72h}}`, and\n" +
		"replaces that of the file.\n\n| setting | type | meaning |\n|---|---|---|\n")
	sample := new(Surface)
	for _, f := range sample.fields(surfaces.MCP) {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", last(f.Path), f.Type, markdown(f.Doc))
	}
	b.WriteString("\n| surface | settings with their defaults |\n|---|---|\n")
	for _, name := range surfaces.Names() {
		row := Surfaces{}.row(name)
		var all []string
		for _, f := range row.fields(name) {
			text := "`" + last(f.Path) + "`"
			if v := f.String(); v != "" && v != "0" && v != "0s" {
				text += " " + v
			}
			all = append(all, text)
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", name, strings.Join(all, ", "))
	}
	b.WriteString("\nThe other settings of LibreChat are `librechat.*`. A surface without `user_header` or\n" +
		"`conversation_header` finds the user and the conversation in its own protocol, or has none.\n\n")
}

// last returns the last part of a setting's name.
func last(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
