package sandgate

import (
	"go/scanner"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A proseRule is a phrase that pages and comments do not use, with the reason or the replacement.
type proseRule struct {
	pattern *regexp.Regexp
	advice  string
}

// proseRules hold for pages and comments.
var proseRules = []proseRule{
	{
		regexp.MustCompile(`(?:^|[.:!] )(?:What|Who|Whoever|Whatever|Of)\s[^?]*?[.!:]`),
		"begin the sentence with its subject",
	},
	{
		regexp.MustCompile(`(?i)\b(?:that of|those of|the ones of) (?:that|those|who|before)\b`),
		"name the thing again",
	},
	{regexp.MustCompile(`(?i)\bwhom\b`), "name the person or the program"},
	{
		regexp.MustCompile(`(?i)\b(?:heed|heeds|heeded|lest|anew)\b`),
		"use the current word: obey, so that … not, again",
	},
	{regexp.MustCompile(`(?i)\b(?:lay|lays|laid) down\b`), "use define or write"},
	{
		regexp.MustCompile(
			`(?i)\b(?:of late|in vain|for want of|but for|has its way|have their way)\b`),
		"use the plain idiom",
	},
	{
		regexp.MustCompile(`(?i)\b(?:tell|tells|telling|told)\b`),
		"use report, say, emit, notify or show",
	},
	{regexp.MustCompile(`(?i)\b(?:hear|hears|heard) of\b`), "use learn or receive"},
	{regexp.MustCompile(`(?i)\bthat that\b`), "use that once"},
}

// commentRules hold for comments only.
var commentRules = []proseRule{
	{regexp.MustCompile(`^(?:what|who|whoever|whatever|of) `), "begin with a noun or a verb"},
	{
		regexp.MustCompile(`(?i)\b(?:whoever|whatever it|as of when|of before|from before)\b`),
		"name the thing",
	},
	{
		regexp.MustCompile(
			`\b(?:of|for|to|with|from|than|but|behind|after|before|by|in|at|on|over|into|beside) what\b`), "name the thing",
	},
	{
		regexp.MustCompile(
			`\b(?:is|are) what (?:it|they|is|are|was|were|has|have|had|a|an|the|stands?|comes?|runs?|goes|can|may|must|could)\b`), "name the thing",
	},
	{
		regexp.MustCompile(
			`\b(?:of|for|to|with|from|than|but|by|at|on|is|are) who (?:is|are|was|has|have|may|can|\w+s)\b`), "name the person or the program",
	},
	{
		regexp.MustCompile(`(?:^|[.;:] )[Oo]ne (?:that|whose|without|of which)\b`),
		"name the thing again",
	},
	{
		regexp.MustCompile(`\b(?:nothing of (?:it|them)|all that (?:it|is|are|was|were))\b`),
		"name the thing",
	},
	{regexp.MustCompile(`\b(?:go|goes|going|went|gone) on\b`), "use continue or resume"},
	{regexp.MustCompile(`\b(?:take|takes|took|taken) up\b`), "use apply or begin"},
	{regexp.MustCompile(`\b(?:give|gives|gave) way\b`), "use evict or end"},
	{
		regexp.MustCompile(
			`\bbehind (?:it|them|that|what|each|all|the (?:end|last|first|name|next|other|cell))\b`), "use after for an order",
	},
	{
		regexp.MustCompile(`\b(?:rests|rested|resting|at rest)\b`),
		"use idle, paused, remains or depends",
	},
	{
		regexp.MustCompile(`\b(?:is|are|was|were|be|been) let (?:in|out|go|through|do)\b`),
		"use admitted, rejected or released",
	},
	{
		regexp.MustCompile(`\b(?:nil|it|that|which|what|name|zero|empty|0|this|string) is none\b`),
		"use means none",
	},
	{regexp.MustCompile(`\b(?:is|are) (?:ours|theirs|but)\b`), "name the owner, use only"},
	{regexp.MustCompile(`\b(?:says? (?:so|of)|c[ao]mes? of)\b`), "use report or result"},
	{
		regexp.MustCompile(
			`\b(?:mends?|mended|shall|upon|whence|thereof|whereby|for ever|of no (?:more )?use|in (?:its|their) stead)\b`), "use the current word",
	},
	{regexp.MustCompile(`\bno more(?:[.,;:]|$)`), "use no longer"},
}

// proseExcluded are pages, source files, and folders of source files without their subfolders, that
// do not keep the rules or the width yet. Remove a line when its files do. Add none.
var proseExcluded = []string{}

// excludedProse reports whether a file or its folder is in proseExcluded.
func excludedProse(file string) bool {
	return slices.Contains(proseExcluded, file) || slices.Contains(proseExcluded, path.Dir(file))
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

// TestCommentsArePlainEnglish rejects the phrases of proseRules and commentRules in comments of Go,
// shell, Python, TypeScript, JavaScript, Java and PHP.
func TestCommentsArePlainEnglish(t *testing.T) {
	rules := append(slices.Clone(proseRules), commentRules...)
	eachSource(t, func(t *testing.T, file string, lines []commentLine) {
		if excludedProse(file) {
			return
		}
		for _, p := range commentParagraphs(lines) {
			for _, rule := range rules {
				if found := rule.pattern.FindString(p.text); found != "" {
					t.Errorf("%s:%d: %.60q: %s", file, p.line, found, rule.advice)
				}
			}
		}
	})
}

// maxProseColumns is the width of comment lines and of lines in pages. A tab counts as 4 columns.
const maxProseColumns = 100

// TestProseIsNarrow rejects comment lines, and lines of Markdown outside tables, code and addresses,
// that are wider than maxProseColumns. It does not check comments after code. The last word of a
// line may reach beyond the limit, as in markdownlint, because addresses cannot be wrapped.
func TestProseIsNarrow(t *testing.T) {
	narrow := func(t *testing.T, file string, line int, text string) {
		text = strings.TrimRight(strings.ReplaceAll(text, "\t", "    "), "\r")
		if n := utf8.RuneCountInString(text); n > maxProseColumns &&
			strings.Contains(string([]rune(text)[maxProseColumns:]), " ") {
			t.Errorf("%s:%d: %d columns, the limit is %d", file, line, n, maxProseColumns)
		}
	}
	eachSource(t, func(t *testing.T, file string, lines []commentLine) {
		for _, l := range lines {
			if !l.trailing && !excludedProse(file) {
				narrow(t, file, l.line, l.indent+l.raw)
			}
		}
	})
	for _, file := range tracked(t, "*.md") {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fence := false
		for i, line := range strings.Split(string(page), "\n") {
			text := strings.TrimSpace(line)
			if strings.HasPrefix(text, "```") {
				fence = !fence
			}
			if !fence && !strings.HasPrefix(text, "|") && !strings.Contains(text, "](") &&
				!slices.Contains(proseExcluded, file) {
				narrow(t, file, i+1, line)
			}
		}
	}
}

// eachSource calls check, for several files at once, with the comments of each source file.
func eachSource(t *testing.T, check func(t *testing.T, file string, lines []commentLine)) {
	files := tracked(t)
	const shards = 8
	for n := range shards {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for i := n; i < len(files); i += shards {
				if strings.Contains(files[i], "testdata/") || !mayHaveComments(files[i]) {
					continue
				}
				src, err := os.ReadFile(files[i])
				if err != nil {
					t.Error(err)
					continue
				}
				if lines := comments(files[i], src); lines != nil {
					check(t, files[i], lines)
				}
			}
		})
	}
}

// A commentLine is one line of a comment. text has no markers.
type commentLine struct {
	line              int
	indent, raw, text string
	trailing          bool // after code
}

var (
	generated = regexp.MustCompile(`(?m)^(?://|#) Code generated .* DO NOT EDIT\.$`)
	shebang   = regexp.MustCompile(`^#!.*(?:bash|sh|python3?)\n`)
	directive = regexp.MustCompile(
		`^//(?:go:|line |export |nolint|lint:)|^#(?:!| shellcheck )|^// @ts-|eslint-`)
	quotedPhrase = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|“[^”]*”")
	commentMarks = regexp.MustCompile(`^(?://+|#+|/?\*+)\s?|\s*\*/$`)
)

// mayHaveComments decides by the name whether comments can read a file. Scripts have no ending.
func mayHaveComments(file string) bool {
	switch path.Ext(file) {
	case ".go", ".sh", ".py", ".ts", ".tsx", ".js", ".mjs", ".java", ".php", "":
		return true
	}
	return false
}

// comments returns the comment lines of a source file. Comments after code are found in Go only.
func comments(file string, src []byte) []commentLine {
	if generated.Match(src) {
		return nil
	}
	switch path.Ext(file) {
	case ".go":
		return goComments(src)
	case ".sh", ".py":
		return lineComments(src, "#")
	case ".ts", ".tsx", ".js", ".mjs", ".java", ".php":
		return lineComments(src, "//", "/*", "*")
	}
	if file == "Makefile" || shebang.Match(src) {
		return lineComments(src, "#")
	}
	return nil
}

// lineComments returns the lines that begin with one of marks.
func lineComments(src []byte, marks ...string) []commentLine {
	var all []commentLine
	for i, line := range strings.Split(string(src), "\n") {
		raw := strings.TrimSpace(line)
		for _, mark := range marks {
			if strings.HasPrefix(raw, mark) {
				indent, _, _ := strings.Cut(line, mark)
				all = append(all, commentLine{
					line: i + 1, indent: indent, raw: raw,
					text: commentMarks.ReplaceAllString(raw, ""),
				})
				break
			}
		}
	}
	return all
}

// goComments returns the lines of all comments in Go source.
func goComments(src []byte) []commentLine {
	var all []commentLine
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return all
		}
		if tok != token.COMMENT {
			continue
		}
		at := file.Position(pos)
		indent := string(src[at.Offset-at.Column+1 : at.Offset])
		trailing := strings.TrimSpace(indent) != ""
		for i, raw := range strings.Split(lit, "\n") {
			text := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(raw, "*/"), "/*"),
				"//")
			all = append(all, commentLine{
				at.Line + i, indent, raw, strings.TrimPrefix(text, " "),
				trailing,
			})
			if strings.HasPrefix(lit, "/*") {
				indent = ""
			}
		}
	}
}

// commentParagraphs joins the lines of comments to paragraphs, without code and quotations.
func commentParagraphs(lines []commentLine) []paragraph {
	var all []paragraph
	last := -1 // the line before, if a paragraph can continue from it
	for _, l := range lines {
		text := strings.TrimRight(l.text, " \r")
		if text == "" || directive.MatchString(l.raw) || strings.HasPrefix(text, "\t") ||
			strings.HasPrefix(text, "   ") {
			last = -1
			continue
		}
		if item := listItem.ReplaceAllString(text, ""); l.trailing || l.line != last+1 ||
			item != text {
			all = append(all, paragraph{l.line, strings.TrimSpace(item)})
		} else {
			all[len(all)-1].text += " " + strings.TrimSpace(text)
		}
		last = l.line
		if l.trailing {
			last = -1
		}
	}
	for i := range all {
		all[i].text = quotedPhrase.ReplaceAllString(all[i].text, "x")
	}
	return all
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
		text := strings.ReplaceAll(linkURL.ReplaceAllString(codeSpan.ReplaceAllString(line, "x"),
			"]"), "*", "")
		switch {
		case strings.HasPrefix(text, "|"):
			for cell := range strings.SplitSeq(text, "|") {
				all = append(all, paragraph{i + 1, strings.TrimSpace(cell)})
			}
			open = nil
		case strings.HasPrefix(text, "#"):
			open = nil
		case open == nil || listItem.MatchString(text):
			all = append(all, paragraph{
				i + 1,
				strings.TrimSpace(listItem.ReplaceAllString(text, "")),
			})
			open = &all[len(all)-1]
		default:
			open.text += " " + strings.TrimSpace(text)
		}
	}
	return all
}
