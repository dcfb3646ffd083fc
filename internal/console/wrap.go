package console

import "strings"

// Wrap breaks text at spaces into lines of at most width bytes. A longer word gets its own line.
func Wrap(text string, width int) []string {
	var all []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			all = append(all, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(all, line)
}
