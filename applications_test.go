package sandgate

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTableOfApplications fails when the table in e2e/README.md has a cell without a test that exists.
func TestTableOfApplications(t *testing.T) {
	page, err := os.ReadFile("e2e/README.md")
	if err != nil {
		t.Fatal(err)
	}
	names, name := testNames(t), regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	rows := 0
	for line := range strings.SplitSeq(string(page), "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 9 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| surface") {
			continue
		}
		rows++
		for _, cell := range cells[1:] {
			found := name.FindAllStringSubmatch(cell, -1)
			if len(found) == 0 && strings.TrimSpace(cell) != "–" {
				t.Errorf("a cell without a test: %q of %s", cell, line)
			}
			for _, f := range found {
				if !names[f[1]] {
					t.Errorf("there is no test %s, of %s", f[1], line)
				}
			}
		}
	}
	if rows < 11 {
		t.Errorf("the table has %d rows, expected 11 or more", rows)
	}
}
