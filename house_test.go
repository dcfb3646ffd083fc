// Package sandgate holds the tests of the repository itself: that its pages
// say what is there, and that its walls stand where docs/architecture.md draws
// them.
package sandgate

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const module = "github.com/sandgate/sandgate"

// tracked lists the files that git knows or would add.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	args := append([]string{"-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "--"}, patterns...)
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []string
	for _, f := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if _, err := os.Stat(f); err == nil {
			files = append(files, f)
		}
	}
	return files
}

// TestSpecificationNamesItsProof fails when SPECIFICATION.md marks a promise
// as tested whose test or benchmark does not exist.
func TestSpecificationNamesItsProof(t *testing.T) {
	page, err := os.ReadFile("SPECIFICATION.md")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	define := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	for _, f := range tracked(t, "*_test.go") {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range define.FindAllSubmatch(src, -1) {
			names[string(m[1])] = true
		}
	}
	var bench []byte
	for _, file := range tracked(t, "bench/*.go") {
		part, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bench = append(bench, part...)
	}
	rows := 0
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		state := strings.TrimSpace(cells[3])
		switch state {
		case "tested":
			rows++
			for proof := range strings.SplitSeq(cells[2], "`, `") {
				proof = strings.Trim(strings.TrimSpace(proof), "`")
				if figure, ok := strings.CutPrefix(proof, "bench: "); ok {
					if !strings.Contains(string(bench), `"`+figure+`"`) {
						t.Errorf("bench/ prints no figure %q, of: %s", figure, line)
					}
				} else if !names[proof] {
					t.Errorf("there is no test %q, of: %s", proof, line)
				}
			}
		case "pending":
			rows++
		}
	}
	if rows < 10 {
		t.Errorf("SPECIFICATION.md has %d promises that could be read, expected 10 or more", rows)
	}
}

// TestImportsRunDownwards holds the code against the walls of
// docs/architecture.md.
func TestImportsRunDownwards(t *testing.T) {
	allowed := map[string][]string{
		"fault":    {},
		"tenant":   {"fault"},
		"stream":   {"fault"},
		"protocol": {"fault"},
		"kernel":   {"fault", "stream", "protocol"},
		"pty":      {"fault"},
		"agent":    {"fault", "stream", "kernel", "pty"},
		"sandbox":  {"fault"},
		"journal":  {"fault"},
		"route":    {"fault", "tenant"},
		"blob":     {"fault"},
		"egress":   {"fault"},
		"trace":    {"fault"},
		"fleet":    {"fault", "stream", "protocol", "node", "route", "trace"},
		"node":     {"fault", "stream", "protocol", "trace"},
		"session":  {"fault", "stream", "protocol", "kernel", "pty", "agent", "sandbox", "node", "journal", "route", "tenant", "egress", "trace"},
		"gateway":  {"fault", "stream", "protocol", "kernel", "node", "tenant", "trace"},
		"client":   {"fault", "stream", "protocol", "kernel"},
		"config":   {"fault", "egress"},
		"image":    {"fault", "kernel"},
	}
	// Types of these must not leave the layer named.
	outside := map[string][]string{
		"gvisor.dev/gvisor":                      {"sandbox", "cmd", "deploy"},
		"github.com/gofiber/fiber":               {"gateway"},
		"github.com/google/go-containerregistry": {"image"},
		"github.com/prometheus/":                 {"gateway", "session"},
		"github.com/coreos/go-oidc":              {"gateway"},
		"golang.org/x/oauth2":                    {"gateway"},
		"github.com/redis/go-redis":              {"route"},
		"github.com/aws/":                        {"blob"},
		"go.opentelemetry.io/":                   {"trace"},
		"github.com/valyala/fasthttp":            {"gateway"},
		"go.etcd.io/bbolt":                       {"route"},
		"github.com/coder/websocket":             {"gateway", "client", "bench", "e2e"},
	}
	for _, f := range tracked(t, "*.go") {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		top := strings.Split(f, "/")[0]
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if rest, ok := strings.CutPrefix(path, module+"/"); ok {
				may, known := allowed[top]
				if to := strings.Split(rest, "/")[0]; known && to != top && !contains(may, to) {
					t.Errorf("%s imports %s: %s may import %v", f, to, top, may)
				}
			}
			for prefix, layers := range outside {
				if strings.HasPrefix(path, prefix) && !contains(layers, top) {
					t.Errorf("%s imports %s, which belongs to %v", f, path, layers)
				}
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// TestEveryFolderIsInTheReadme fails when a top-level folder has no sentence.
func TestEveryFolderIsInTheReadme(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range tracked(t) {
		if top, _, ok := strings.Cut(f, "/"); ok && !strings.HasPrefix(top, ".") && !seen[top] {
			seen[top] = true
			if !strings.Contains(string(page), "`"+top+"/`") {
				t.Errorf("README.md has no sentence about `%s/`", top)
			}
		}
	}
}

// TestLinksInPagesLead fails when a Markdown page links to a file that is not
// there.
func TestLinksInPagesLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	for _, f := range tracked(t, "*.md") {
		page, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(page, -1) {
			to := string(m[1])
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(f), to)); err != nil {
				t.Errorf("%s links to %s: %v", f, to, err)
			}
		}
	}
}

// TestEveryPackageSaysWhatItIs fails when a package has no package comment.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for _, f := range tracked(t, "*.go") {
		if strings.HasSuffix(f, "_test.go") || strings.Contains(f, "testdata/") {
			continue
		}
		dir := filepath.Dir(f)
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		said[dir] = said[dir] || parsed.Doc != nil
	}
	for dir, ok := range said {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// TestNothingBinaryIsTracked fails when a built file slips in.
func TestNothingBinaryIsTracked(t *testing.T) {
	for _, f := range tracked(t) {
		info, err := os.Stat(f)
		if err != nil || info.Mode()&fs.ModeType != 0 {
			continue
		}
		if info.Size() > 1<<20 {
			t.Errorf("%s has %d bytes: built or downloaded files are not kept here", f, info.Size())
		}
	}
}
