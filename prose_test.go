package sandgate

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// proseRules are the phrases that pages do not use, with the reason or the replacement.
var proseRules = []struct {
	pattern *regexp.Regexp
	advice  string
}{
	{regexp.MustCompile(`(?:^|[.:!] )(?:What|Who|Whoever|Whatever|Of)\s[^?]*?[.!:]`), "begin the sentence with its subject"},
	{regexp.MustCompile(`(?i)\b(?:that of|those of|the ones of) (?:that|those|who|before)\b`), "name the thing again"},
	{regexp.MustCompile(`(?i)\bwhom\b`), "name the person or the program"},
	{regexp.MustCompile(`(?i)\b(?:heed|heeds|heeded|lest|anew)\b`), "use the current word: obey, so that … not, again"},
	{regexp.MustCompile(`(?i)\b(?:lay|lays|laid) down\b`), "use define or write"},
	{regexp.MustCompile(`(?i)\b(?:of late|in vain|for want of|but for|has its way|have their way)\b`), "use the plain idiom"},
	{regexp.MustCompile(`(?i)\b(?:tell|tells|telling|told)\b`), "use report, say, emit, notify or show"},
	{regexp.MustCompile(`(?i)\b(?:hear|hears|heard) of\b`), "use learn or receive"},
	{regexp.MustCompile(`(?i)\bthat that\b`), "use that once"},
}

// proseExcluded are the pages that do not keep the rules yet. Remove a page when it does; add none.
var proseExcluded = []string{
	"docs/metrics.md",
}

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	linkURL  = regexp.MustCompile(`\]\([^)]*\)`)
	listItem = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.)\s+`)
)

// TestPagesArePlainEnglish rejects the phrases of proseRules in Markdown pages. It does not look
// into code.
func TestPagesArePlainEnglish(t *testing.T) {
	for _, file := range tracked(t, "*.md") {
		if slices.Contains(proseExcluded, file) {
			continue
		}
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paragraphs(string(page)) {
			for _, rule := range proseRules {
				if found := rule.pattern.FindString(p.text); found != "" {
					t.Errorf("%s:%d: %.60q: %s", file, p.line, found, rule.advice)
				}
			}
		}
	}
}

// A paragraph is a piece of prose in a page: a paragraph, a list item, a heading or a table cell.
type paragraph struct {
	line int
	text string
}

// paragraphs returns the prose of a Markdown page, without code, addresses and emphasis.
func paragraphs(page string) []paragraph {
	var all []paragraph
	var open *paragraph
	fence := false
	for i, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fence, open = !fence, nil
			continue
		}
		if fence || strings.TrimSpace(line) == "" || strings.HasPrefix(line, "\t") {
			open = nil
			continue
		}
		text := strings.ReplaceAll(linkURL.ReplaceAllString(codeSpan.ReplaceAllString(line, "x"), "]"), "*", "")
		switch {
		case strings.HasPrefix(text, "|"):
			for cell := range strings.SplitSeq(text, "|") {
				all = append(all, paragraph{i + 1, strings.TrimSpace(cell)})
			}
			open = nil
		case strings.HasPrefix(text, "#"):
			open = nil
		case open == nil || listItem.MatchString(text):
			all = append(all, paragraph{i + 1, strings.TrimSpace(listItem.ReplaceAllString(text, ""))})
			open = &all[len(all)-1]
		default:
			open.text += " " + strings.TrimSpace(text)
		}
	}
	return all
}
