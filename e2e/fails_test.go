package e2e

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// fails are the cells that failed.
var fails summary

// summary reports the failures of a run of many cells in a few lines. It is printed
// at the very end, because the output of go test for one failure may be thousands
// of lines above it.
type summary struct {
	mu    sync.Mutex // guards lines
	lines []string
}

// The limits of a summary, whose lines are for people.
const (
	maxSummary     = 20
	maxSummaryLine = 600 // bytes
)

// add stores the error of a test in one line: the wanted and the actual output,
// without the code and the rest of the output.
func (s *summary) add(test string, err error) {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		if line == "the whole output:" || line == "the output before it:" {
			break
		}
		if line != "" && !strings.HasPrefix(line, "|") {
			parts = append(parts, line)
		}
	}
	text := test + ": " + strings.Join(parts, "; ")
	if len(text) > maxSummaryLine {
		text = strings.ToValidUTF8(text[:maxSummaryLine], "") + " …"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, text)
}

func (s *summary) print(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, line := range s.lines {
		if i == maxSummary {
			fmt.Fprintf(w, "and %d more failed\n", len(s.lines)-i)
			break
		}
		fmt.Fprintf(w, "failed: %s\n", line)
	}
}
