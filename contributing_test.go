package sandgate

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestContributingShowsTheExamples compares the files that docs/contributing.md
// shows with the files of the repository: the surface of 30 lines and every file
// of the one-folder language. A shown file is a code block below its path.
func TestContributingShowsTheExamples(t *testing.T) {
	page, err := os.ReadFile("docs/contributing.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	block := regexp.MustCompile("(?ms)`([^`\n]+)`:\n\n```\\w+\n(.*?)^```$")
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		file, err := os.ReadFile(m[1])
		if err != nil {
			continue // the line above the block ends with another name
		}
		shown = append(shown, m[1])
		if string(file) != m[2] {
			t.Errorf("docs/contributing.md shows another %s than the repository has", m[1])
		}
	}
	const surface = "gateway/surface/text/text.go"
	want := []string{surface}
	for _, file := range tracked(t, "internal/session/testdata/languages/demo") {
		if !strings.HasSuffix(file, ".md") {
			want = append(want, file)
		}
	}
	slices.Sort(want)
	slices.Sort(shown)
	if !slices.Equal(shown, want) {
		t.Errorf("docs/contributing.md shows %q, want %q", shown, want)
	}

	source, err := os.ReadFile(surface)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(source)) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	if lines > 30 {
		t.Errorf("%s has %d lines of code, want at most 30", surface, lines)
	}
	const line = "text.Surface{Node: surfaceNode{g}},"
	test, err := os.ReadFile("e2e/surface_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n"+line+"\n") || !strings.Contains(string(test), line) {
		t.Errorf("docs/contributing.md and e2e/surface_test.go do not register the surface with %s",
			line)
	}
}
