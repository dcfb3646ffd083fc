package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// traceback returns the places of the failure, the innermost first.
func (d *driver) traceback() []string {
	var lines []string
	for i, frame := range d.cell.failure.stack {
		part := strings.SplitN(frame, ":", 3)
		if len(part) != 3 {
			continue
		}
		part[0] = strings.TrimPrefix(part[0], ".") // the copy of a cell in the shell's folder
		at := part[0] + ", line " + part[1]
		if number, ok := strings.CutPrefix(part[0], "cell-"); ok {
			at = "cell " + number + ", line " + part[1]
		}
		if part[2] != "source" {
			at += ", in " + part[2]
		}
		text := d.sourceLine(part[0], part[1])
		if i == 0 && text == "" {
			text = firstLine(d.cell.failure.command)
		}
		lines = append(lines, "  "+at+": "+text)
	}
	return lines
}

// sourceLine returns a line of a cell, if its text is still kept.
func (d *driver) sourceLine(file, line string) string {
	n, err := strconv.Atoi(line)
	text, rerr := os.ReadFile(d.room.path(filepath.Base(file)))
	if err != nil || rerr != nil || n < 1 {
		return ""
	}
	all := strings.Split(string(text), "\n")
	if n > len(all) {
		return ""
	}
	if n == 1 {
		// The driver's addition before the code is not the user's.
		if _, after, found := strings.Cut(all[0], endsBefore); found {
			all[0] = after
		}
		all[0] = regexp.MustCompile(`^set \$__sg_none-[eux]+;`).ReplaceAllString(all[0], "")
	}
	return strings.TrimSpace(all[n-1])
}

// syntaxLine matches a line of Bash's error message about a script.
var syntaxLine = regexp.MustCompile(`(?m)^(?:/bin/)?bash: line (\d+): (.*)$`)

var hereDocument = regexp.MustCompile(
	`here-document at line (\d+) delimited by end-of-file \(wanted .(.*)'\)`)

// syntaxError returns the error in code that the shell could not parse.
func syntaxError(code string) string {
	ctx, cancel := context.WithTimeout(context.Background(), helpLimit)
	defer cancel()
	said, _ := parse(ctx, code)
	for _, m := range syntaxLine.FindAllStringSubmatch(said, -1) {
		if !strings.HasPrefix(m[2], "warning:") {
			return fmt.Sprintf("line %s: %s", m[1], m[2])
		}
	}
	// Bash itself only warns, because the end of the file ends such a text.
	if m := hereDocument.FindStringSubmatch(said); m != nil {
		return fmt.Sprintf("line %s: the here-document has no end, which is a line %s", m[1], m[2])
	}
	return "line 1: syntax error"
}

// place shows the line that a syntax error names.
func (d *driver) place(said string) []string {
	m := regexp.MustCompile(`^line (\d+)`).FindStringSubmatch(said)
	if m == nil {
		return nil
	}
	if text := d.sourceLine(d.cell.name, m[1]); text != "" {
		return []string{fmt.Sprintf("  cell %d, line %s: %s", d.cell.Cell, m[1], text)}
	}
	return nil
}
