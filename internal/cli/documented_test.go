package cli

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/cli/alias"
	"github.com/sandgate/sandgate/internal/console"
)

// commandLines finds calls of sandgate in a text: in code of Markdown, in shell scripts, in units
// of systemd and in lists of YAML.
func commandLines(name, text string) []string {
	var found []string
	call := regexp.MustCompile(
		`(?:^|[\s"'=(])(?:/usr/bin/|/usr/lib/sandgate/|bin/)?sandgate((?: [^|;&)>#<\n` + "`" +
			`]*)?)`)
	value := regexp.MustCompile(`--?[a-z-]+ sandgate\b`) // the name of a user or a group
	list := regexp.MustCompile(`"/usr/bin/sandgate", (.*?)\]`)
	inline := regexp.MustCompile("`((?:sudo )?(?:bin/)?sandgate [^`]+)`")
	fenced, program := false, false
	for line := range strings.SplitSeq(text, "\n") {
		markdown := strings.HasSuffix(name, ".md")
		if kind, ok := strings.CutPrefix(strings.TrimSpace(line), "```"); ok {
			fenced = !fenced
			program = fenced && slices.Contains([]string{"python", "typescript", "go"}, kind)
			continue
		}
		if program {
			continue // it may import a package named sandgate
		}
		if m := list.FindStringSubmatch(line); m != nil {
			found = append(found, strings.NewReplacer(`"`, "", ",", "").Replace(m[1]))
			continue
		}
		code := []string{line}
		switch {
		case markdown && !fenced:
			code = nil
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				code = append(code, m[1])
			}
		case strings.HasPrefix(strings.TrimSpace(line), "#") &&
			!strings.Contains(line, " exec sandgate "):
			continue // a comment
		case !markdown && !strings.HasPrefix(line, "Exec") &&
			!strings.Contains(line, "sandgate cluster"):
			continue
		}
		for _, c := range code {
			c = value.ReplaceAllString(c, "")
			for _, m := range call.FindAllStringSubmatch(c, -1) {
				// The program's name may mean a user, or be one of several files.
				words := strings.Fields(m[1])
				if len(words) > 0 && !strings.ContainsAny(words[0], "/(") {
					found = append(found, strings.TrimSpace(m[1]))
				}
			}
		}
	}
	return found
}

// shellWords splits a command line at spaces outside of quotes.
func shellWords(line string) []string {
	var all []string
	for _, w := range regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s'"])+`).FindAllString(line, -1) {
		all = append(all, strings.NewReplacer("'", "", `"`, "").Replace(w))
	}
	return all
}

// understood parses a command line without running it.
func understood(args []string, whole bool) error {
	root := newRoot(newApp(&console.Invocation{}))
	cmd, rest, err := root.Find(alias.Canonical(root, args))
	if err != nil {
		return err
	}
	if cmd == root {
		return errors.New("there is no such command")
	}
	if cmd.HasSubCommands() {
		if len(rest) > 0 {
			return errors.New("there is no such command below " + cmd.CommandPath())
		}
		return nil
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil &&
		(whole || !strings.Contains(err.Error(), "needs an argument")) {
		return err
	}
	// A command that is mentioned in a sentence may have no arguments.
	if !whole || len(cmd.Flags().Args()) == 0 || cmd.Args == nil {
		return nil
	}
	return cmd.Args(cmd, cmd.Flags().Args())
}

// TestDocumentedCommands: the command line understands every call of sandgate in the documentation
// and in the files of a deployment.
func TestDocumentedCommands(t *testing.T) {
	const top = "../.."
	inKernel := regexp.MustCompile(`^\s*(?:put|get|names)\b`)
	checked := 0
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(top, path)
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "node_modules" ||
				name == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".md") && !strings.HasPrefix(name, "deploy/") ||
			!d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) > 1<<20 {
			return err
		}
		for _, line := range commandLines(name, string(text)) {
			// The command sandgate of a Bash kernel is another program.
			if inKernel.MatchString(line) && strings.HasPrefix(name, "langs/") {
				continue
			}
			checked++
			if err := understood(shellWords(line), true); err != nil {
				t.Errorf("%s: sandgate %s: %v", name, line, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 50 {
		t.Errorf("only %d command lines were found", checked)
	}
}

// TestCommandsOfTheEndToEndTests checks the calls in e2e whose arguments are literals.
func TestCommandsOfTheEndToEndTests(t *testing.T) {
	files, err := filepath.Glob("../../e2e/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	checked := 0
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if name, ok := call.Fun.(*ast.Ident); !ok || name.Name != "sandgate" {
				return true
			}
			var args []string
			for _, a := range call.Args {
				lit, ok := a.(*ast.BasicLit)
				switch {
				case ok && lit.Kind == token.STRING:
					s, _ := strconv.Unquote(lit.Value)
					args = append(args, s)
				case len(args) > 0:
					args = append(args, "x")
				}
			}
			if len(args) > 0 {
				checked++
				if err := understood(args, false); err != nil {
					t.Errorf("%s: sandgate %q: %v", file, args, err)
				}
			}
			return true
		})
	}
	if checked < 10 {
		t.Errorf("only %d calls were found", checked)
	}
}
