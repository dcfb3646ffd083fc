package notebook

import (
	"cmp"
	"encoding/json"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// titleWithin are the bytes at the beginning of a notebook in which its title is looked for.
	titleWithin = 256 << 10
	// titleCells are the cells at its beginning.
	titleCells = 10
	// maxTitle are the characters of a title.
	maxTitle = 80
)

// marks are those of emphasis and code in a heading.
var marks = strings.NewReplacer("**", "", "__", "", "`", "", "*", "")

// titleOf returns the first heading of a notebook. Without one, it returns the first line of code
// that does more than import something, else the first line of code. It is empty if the text is no
// notebook, or has neither.
func titleOf(text io.Reader) string {
	d := json.NewDecoder(io.LimitReader(text, titleWithin))
	if !enterCells(d) {
		return ""
	}
	line, imported := "", ""
	for range titleCells {
		var c struct {
			Type   string          `json:"cell_type"`
			Source json.RawMessage `json:"source"`
		}
		if !d.More() || d.Decode(&c) != nil {
			break
		}
		for s := range strings.Lines(sourceOf(c.Source)) {
			s = strings.TrimSpace(s)
			heading := strings.TrimLeft(s, "#")
			switch {
			case s == "":
			case c.Type == "markdown" && heading != s && strings.HasPrefix(heading, " "):
				return cut(strings.TrimSpace(marks.Replace(heading)))
			case c.Type != "code":
			case isImport(s):
				imported = cmp.Or(imported, s)
			case !isComment(s):
				line = cmp.Or(line, s)
			}
		}
	}
	return cut(cmp.Or(line, imported))
}

// enterCells reads a notebook up to its first cell.
func enterCells(d *json.Decoder) bool {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return false
		}
		if name == "cells" {
			t, err := d.Token()
			return err == nil && t == json.Delim('[')
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

// sourceOf returns the text of a cell, which is a string or a list of lines.
func sourceOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var lines []string
	if json.Unmarshal(raw, &lines) != nil {
		return ""
	}
	return strings.Join(lines, "")
}

func isImport(line string) bool {
	word, _, _ := strings.Cut(line, " ")
	switch word {
	case "import", "from", "package", "using", "use", "require", "library", "#include":
		return true
	}
	return false
}

func isComment(line string) bool {
	for _, mark := range []string{"#", "//", "--", "/*", "%", "<?php"} {
		if strings.HasPrefix(line, mark) {
			return true
		}
	}
	return false
}

// cut limits a title, without characters that are not shown.
func cut(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= maxTitle {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:maxTitle-1])) + "…"
}
