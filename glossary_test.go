package sandgate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// words splits an identifier or a file's name into lower-case words.
func words(name string) []string {
	var all []string
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || runes[i] == '_' || runes[i] == '-' || unicode.IsUpper(runes[i]) &&
			!unicode.IsUpper(runes[i-1]) {
			all = append(all, strings.Trim(strings.ToLower(string(runes[start:i])), "_-"))
			start = i
		}
	}
	return all
}

// banned reads the words that GLOSSARY.md bans from its last table.
func banned(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("GLOSSARY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| not | but |")
	all := map[string]string{}
	for _, row := range regexp.MustCompile(
		`(?m)^\| ([a-z, ]+) \| ([a-z, ]+) \|$`).FindAllStringSubmatch(table, -1) {
		for word := range strings.SplitSeq(row[1], ", ") {
			all[word] = row[2]
		}
	}
	if len(all) < 10 {
		t.Fatalf("GLOSSARY.md bans %d words that could be read, expected more", len(all))
	}
	return all
}

// sources parses the Go files that are neither tests nor code of other programs.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	all := map[string]*ast.File{}
	for _, f := range tracked(t, "*.go") {
		if strings.Contains(f, "testdata/") || strings.Contains(f, "/_") ||
			strings.HasPrefix(f, "langs/golang/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		all[f] = parsed
	}
	return all
}

// TestNoBannedWords fails when a file, type, function, method, field or constant
// has a name that GLOSSARY.md bans.
func TestNoBannedWords(t *testing.T) {
	ban := banned(t)
	check := func(where, name string) {
		for _, w := range words(name) {
			if instead, ok := ban[w]; ok {
				t.Errorf("%s: the name %s has the word %s: use %s", where, name, w, instead)
			}
		}
	}
	for f, parsed := range sources(t) {
		check(f, strings.TrimSuffix(filepath.Base(f), ".go"))
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch d := n.(type) {
			case *ast.FuncDecl:
				check(f, d.Name.Name)
			case *ast.TypeSpec:
				check(f, d.Name.Name)
			case *ast.Field:
				for _, name := range d.Names {
					check(f, name.Name)
				}
			case *ast.ValueSpec:
				for _, name := range d.Names {
					check(f, name.Name)
				}
			}
			return true
		})
	}
}

// commonMethods are names of methods that many types share with one meaning.
func commonMethods() []string {
	return []string{
		// Methods of the standard library's interfaces, and of flags.
		"Close", "close", "Error", "Unwrap", "String", "Read", "Write", "MarshalJSON",
		"UnmarshalJSON", "Len", "Less", "Swap", "Done",
		"Type", "Set", "set", "read", "write",
		// Resources.
		"Get", "Put", "List", "Create", "Delete", "Remove", "Find", "Watch", "Open", "Stats", "get",
		"list", "delete", "find", "open", "add", "put", "remove",
		// Things that run.
		"Run", "Start", "Stop", "Wait", "End", "Next", "Interrupt", "Restore", "run", "start",
		"stop", "wait", "serve", "finish", "fail",
		"interrupt", "attach", "pump",
		// Verbs of sessions, programs and terminals, which the layers share.
		"State", "Signal", "Resize", "Release",
		// Messages.
		"Call",
		"Send", "send", "request", "call", "ask", "answer",
		"ConsistencyCheck", "check", "Check", "key",
		// The interface lockorder.Rank.
		"Rank",
		// surface.Surface, which each surface of the gateway implements.
		"Routes",
	}
}

// TestNoHomonyms fails when more than six types have a method of one name that is
// not a common one: the name then means different things.
func TestNoHomonyms(t *testing.T) {
	const most = 6
	types := map[string][]string{}
	for f, parsed := range sources(t) {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, d := range parsed.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
				types[fn.Name.Name] = append(types[fn.Name.Name], filepath.Dir(f)+"."+receiver(fn))
			}
		}
	}
	for name, all := range types {
		slices.Sort(all)
		if all = slices.Compact(all); len(all) > most && !slices.Contains(commonMethods(), name) {
			t.Errorf("%d types have a method %s: %s", len(all), name, strings.Join(all, ", "))
		}
	}
}
