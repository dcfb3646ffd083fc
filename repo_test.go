// Package sandgate holds the tests of the repository itself: its pages, its names, its sizes, and
// the imports that docs/architecture.md allows.
package sandgate

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/sandgate/sandgate"

// tracked lists the files that git knows or would add.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	args := append([]string{
		"-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard",
		"--",
	}, patterns...)
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

// testNames returns the names of all tests, benchmarks and fuzz targets.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
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
	return names
}

// TestThreatModelNamesItsTests fails when docs/threat-model.md names a test that does not exist, or
// has not each of the 50 kinds of abuse with a test or the reason why there is none.
func TestThreatModelNamesItsTests(t *testing.T) {
	page, err := os.ReadFile("docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	names := testNames(t)
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(page, -1) {
		if !names[string(m[1])] {
			t.Errorf("there is no test %s", m[1])
		}
	}
	for i := range 50 {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %d \| .+ \| (.+) \|$`, i+1)).FindSubmatch(page)
		reason := regexp.MustCompile("`(Test|Fuzz)|a non-goal|does not exist")
		if row == nil || !reason.Match(row[1]) {
			t.Errorf("abuse %d has neither a test nor a reason: %s", i+1, row)
		}
	}
}

// TestSpecificationNamesItsProof fails when SPECIFICATION.md marks a promise
// as tested whose test or benchmark does not exist.
func TestSpecificationNamesItsProof(t *testing.T) {
	page, err := os.ReadFile("SPECIFICATION.md")
	if err != nil {
		t.Fatal(err)
	}
	names := testNames(t)
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

// A layer is a folder that the import rules name: the longest name in the table
// that a package's path is or lies below.
func layerOf[T any](table map[string]T, pkg string) string {
	for p := pkg; p != "."; p = filepath.Dir(p) {
		if _, ok := table[p]; ok {
			return p
		}
	}
	return ""
}

// everywhere are the patterns that match all packages of the three modules.
func everywhere() []string {
	return []string{"./...", module + "/protocol/...", module + "/client/..."}
}

// imports lists the imports of each package of the three modules, without those of tests.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	args := []string{"list", "-f", `{{.ImportPath}} {{join .Imports " "}}`}
	out, err := exec.Command("go", append(args, everywhere()...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		all[strings.TrimPrefix(words[0], module+"/")] = words[1:]
	}
	return all
}

// TestImportsRunDownwards compares the direct and indirect imports of every package with the layers
// of docs/architecture.md.
func TestImportsRunDownwards(t *testing.T) {
	// Every layer outside of protocol may import these.
	basis := []string{
		"protocol/document", "protocol/fault", "protocol/frame", "protocol/message",
		"protocol/mime", "protocol/nodes", "protocol/notebook",
		"internal/tenantlimit", "internal/fairqueue",
	}
	// The other packages that each layer may import, directly or through others. "*" means
	// everything below the programs; "!NAME" removes a layer from it.
	allowed := map[string][]string{
		"protocol/fault":    {},
		"protocol/frame":    {"protocol/fault"},
		"protocol/message":  {},
		"protocol/golden":   {},
		"protocol/document": {},
		"protocol/mime":     {},
		"protocol/nodes":    {},
		"protocol/notebook": {},
		"protocol": {
			"protocol/fault", "protocol/message", "protocol/document", "protocol/nodes",
			"protocol/notebook",
		},
		"stream":       {},
		"kernel":       {},
		"client":       {"protocol"},
		"pty":          {},
		"kernel/queue": {"kernel", "protocol"},
		"docs":         {},
		"gateway": {
			"stream", "protocol", "internal/fileclient", "internal/kernelclient", "internal/nodecall",
			"internal/jsontext", "internal/strictjson",
			"internal/e2bname", "internal/idempotency", "internal/noderpc", "internal/processclient", "internal/cluster",
			"internal/cluster/local", "internal/egress", "internal/surfaces", "internal/tenant",
			"internal/trace", "docs",
		},
		"internal/admin": {"*", "!internal/cli"},
		"internal/agent": {
			"kernel", "stream", "pty", "internal/agent/egress", "internal/agent/files",
			"internal/agent/process", "internal/agent/wire",
		},
		"internal/agent/agenttest": {"pty", "internal/agent/wire"},
		"internal/agent/client":    {"kernel", "pty", "internal/agent/wire"},
		"internal/agent/egress":    {},
		"internal/agent/files":     {"pty", "internal/agent/wire"},
		"internal/agent/process":   {"pty", "internal/agent/wire"},
		"internal/agent/wire":      {"pty"},
		"internal/atomicfile":      {},
		"internal/audit":           {"protocol", "internal/journal"},
		"internal/confine":         {},
		"internal/ctxlock":         {},
		"internal/jsontext":        {},
		"internal/strictjson":      {"protocol"},
		"internal/tenantlimit":     {},
		"internal/fairqueue":       {},
		"internal/lockorder":       {},
		"internal/undo":            {},
		"internal/blob":            {},
		"internal/cli":             {"*"},
		"internal/config":          {"protocol", "internal/egress", "internal/surfaces"},
		"internal/surfaces":        {},
		"internal/console":         {},
		"internal/egress":          {},
		"internal/cluster/local":   {"internal/cluster"},
		"internal/certificate":     {},
		"internal/cluster/redis":   {"internal/cluster"},
		"internal/resources":       {"internal/cluster"},
		"internal/cluster/noderouter": {
			"stream", "protocol", "internal/nodecall", "internal/noderpc", "internal/cluster",
			"internal/trace", "internal/session/listing", "internal/report/join",
		},
		"internal/idempotency": {},
		"internal/image":       {"kernel", "protocol"},
		"internal/journal":     {},
		"internal/event":       {"protocol", "internal/cluster"},
		"internal/e2bname":     {"protocol"},
		"internal/report": {
			"protocol", "internal/journal", "internal/sandbox", "internal/session/listing",
			"internal/usage", "internal/atomicfile", "internal/report/archive",
			"internal/report/join",
		},
		"internal/report/archive": {"protocol", "internal/journal", "internal/atomicfile"},
		"internal/report/join":    {"protocol"},
		"internal/webhook": {
			"protocol", "internal/cluster", "internal/event", "internal/e2bname",
		},
		"internal/fileclient":    {"protocol", "internal/nodecall"},
		"internal/kernelclient":  {"protocol", "internal/nodecall"},
		"internal/nodecall":      {"protocol"},
		"internal/processclient": {"protocol", "internal/nodecall"},
		"internal/nodeapi": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/session", "internal/atomicfile", "internal/pool",
			"internal/sandbox", "internal/noderpc", "internal/idempotency", "internal/journal", "internal/cluster",
			"internal/tenant", "internal/ctxlock", "internal/lockorder", "internal/undo",
			"internal/session/channel", "internal/session/migrate", "internal/session/request",
			"internal/session/snapshot", "internal/session/stats", "internal/egress",
			"internal/session/replica", "internal/session/templates",
			"internal/trace", "internal/warm", "internal/volume", "internal/session/ownership",
			"internal/session/durable", "internal/session/activity", "internal/session/ports",
			"internal/session/series", "internal/session/carry", "internal/session/buildnetwork",
			"internal/session/service", "internal/session/totals", "internal/session/listing",
			"internal/session/names", "internal/audit", "internal/usage", "internal/admission",
			"internal/egress/proxy", "internal/event", "internal/webhook", "internal/e2bname",
			"internal/strictjson", "internal/document", "internal/notebook",
			"internal/nodeapi/retry",
		},
		"internal/nodeapi/retry": {},
		"internal/notebook":      {"internal/atomicfile"},
		"internal/document":      {"protocol"},
		"internal/noderpc":       {"stream", "protocol", "internal/trace"},
		"internal/pool":          {},
		"internal/cluster":       {},
		"internal/profile":       {},
		"internal/sandbox":       {},
		"internal/edition":       {"internal/atomicfile"},
		"internal/edition/share": {"internal/edition", "internal/atomicfile"},
		"internal/edition/survey": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/atomicfile", "internal/cluster", "internal/pool",
			"internal/sandbox", "internal/trace", "internal/warm", "internal/session/snapshot",
			"internal/admission", "internal/ctxlock", "internal/journal", "internal/lockorder",
			"internal/noderpc", "internal/tenant", "internal/session/durable",
			"internal/session/ownership", "internal/session/stats",
			"internal/session/listing",
			"internal/session/migrate", "internal/edition",
		},
		"internal/sandbox/gvisor": {
			"internal/pool", "internal/sandbox", "internal/sandbox/pagesfile",
			"internal/sandbox/shares",
			"internal/edition", "internal/atomicfile",
		},
		"internal/sandbox/gvisor/trial": {
			"kernel", "pty", "protocol", "internal/agent/client", "internal/agent/wire",
			"internal/sandbox/gvisor", "internal/sandbox", "internal/sandbox/pagesfile",
			"internal/sandbox/shares",
			"internal/edition", "internal/atomicfile", "internal/pool",
		},
		"internal/sandbox/pagesfile": {},
		"internal/sandbox/shares":    {},
		"internal/server":            {"*", "!internal/admin", "!internal/cli"},
		"internal/session/listing":   {"protocol"},
		"internal/session/names":     {"internal/cluster", "internal/ctxlock"},
		"internal/session/channel": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/admission", "internal/atomicfile",
			"internal/cluster", "internal/ctxlock", "internal/journal", "internal/lockorder",
			"internal/noderpc", "internal/pool", "internal/sandbox",
			"internal/session/snapshot", "internal/session/stats", "internal/tenant",
			"internal/trace", "internal/usage", "internal/warm",
		},
		"internal/session/migrate": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/atomicfile", "internal/cluster", "internal/pool",
			"internal/sandbox", "internal/trace", "internal/warm", "internal/session/snapshot",
			"internal/admission", "internal/ctxlock", "internal/journal", "internal/lockorder",
			"internal/noderpc", "internal/tenant", "internal/session/durable",
			"internal/session/ownership", "internal/session/stats",
			"internal/session/listing",
		},
		"internal/session/carry": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/atomicfile", "internal/cluster", "internal/pool",
			"internal/sandbox", "internal/trace", "internal/warm", "internal/session/snapshot",
			"internal/admission", "internal/ctxlock", "internal/journal", "internal/lockorder",
			"internal/noderpc", "internal/tenant", "internal/session/durable",
			"internal/session/ownership", "internal/session/stats", "internal/session/listing",
			"internal/session/migrate", "internal/session/templates", "internal/volume",
		},
		"internal/session/ports":  {"protocol", "pty", "internal/agent/wire"},
		"internal/session/series": {"protocol", "internal/sandbox", "internal/usage"},
		"internal/session/service": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/admission", "internal/atomicfile",
			"internal/cluster", "internal/ctxlock", "internal/journal", "internal/lockorder",
			"internal/noderpc", "internal/pool", "internal/sandbox", "internal/session/channel",
			"internal/session/snapshot", "internal/session/stats", "internal/tenant",
			"internal/trace", "internal/usage", "internal/warm",
		},
		"internal/session/activity": {},
		"internal/session/ownership": {
			"internal/cluster", "internal/lockorder", "internal/session/listing", "protocol",
		},
		"internal/session/totals": {
			"stream", "protocol", "pty", "internal/admission", "internal/cluster",
			"internal/lockorder", "internal/noderpc", "internal/sandbox", "internal/pool",
			"internal/tenant", "internal/trace", "internal/warm",
		},
		"internal/session/stats": {"stream", "internal/journal", "internal/pool"},
		"internal/session/templates": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/atomicfile", "internal/admission",
			"internal/cluster", "internal/lockorder", "internal/noderpc", "internal/tenant",
			"internal/pool", "internal/sandbox", "internal/trace", "internal/warm",
		},
		"internal/session/buildnetwork": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/atomicfile", "internal/admission",
			"internal/cluster", "internal/lockorder", "internal/noderpc", "internal/tenant",
			"internal/pool", "internal/sandbox", "internal/trace", "internal/warm",
			"internal/audit", "internal/journal", "internal/egress", "internal/egress/proxy",
		},
		"internal/session/replica": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/atomicfile", "internal/admission",
			"internal/cluster", "internal/lockorder", "internal/noderpc", "internal/tenant",
			"internal/pool", "internal/sandbox", "internal/trace", "internal/warm",
			"internal/session/snapshot", "internal/session/templates",
		},
		"internal/session/snapshot": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/atomicfile", "internal/admission",
			"internal/cluster", "internal/lockorder", "internal/noderpc", "internal/tenant",
			"internal/pool", "internal/sandbox", "internal/trace", "internal/warm",
		},
		"internal/session/request": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/admission",
			"internal/agent/client", "internal/agent/wire", "internal/atomicfile",
			"internal/cluster", "internal/lockorder", "internal/noderpc", "internal/pool",
			"internal/sandbox", "internal/session/snapshot", "internal/tenant",
			"internal/trace", "internal/volume", "internal/warm",
		},
		"internal/session/durable": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/atomicfile", "internal/cluster",
			"internal/lockorder", "internal/pool", "internal/sandbox", "internal/trace",
			"internal/warm", "internal/session/snapshot", "internal/admission",
			"internal/noderpc", "internal/tenant",
		},
		"internal/session": {
			"kernel", "stream", "protocol", "kernel/queue", "pty", "internal/agent/client",
			"internal/agent/wire", "internal/atomicfile", "internal/pool", "internal/sandbox",
			"internal/noderpc", "internal/ctxlock", "internal/lockorder", "internal/undo",
			"internal/journal", "internal/cluster", "internal/tenant",
			"internal/session/channel", "internal/session/migrate", "internal/session/request",
			"internal/session/snapshot", "internal/session/stats", "internal/egress",
			"internal/session/replica", "internal/session/templates",
			"internal/trace", "internal/warm", "internal/volume", "internal/session/ownership",
			"internal/session/durable", "internal/session/activity", "internal/session/ports",
			"internal/session/series", "internal/session/carry", "internal/session/buildnetwork",
			"internal/session/service", "internal/session/totals", "internal/session/listing",
			"internal/session/names", "internal/audit", "internal/usage", "internal/admission",
			"internal/egress/proxy", "internal/event", "internal/webhook", "internal/e2bname",
		},
		"internal/tenant":  {"protocol"},
		"internal/testenv": {}, "internal/archivetest": {}, "internal/sbom": {"protocol"},
		"internal/trace": {},
		"internal/usage": {"internal/sandbox"},
		"internal/egress/proxy": {
			"kernel", "protocol", "pty", "internal/agent/client", "internal/agent/wire",
			"internal/audit", "internal/egress", "internal/journal",
		},
		"internal/admission": {
			"stream", "protocol", "internal/cluster", "internal/lockorder", "internal/noderpc",
			"internal/tenant", "internal/trace",
		},
		"internal/volume": {
			"stream", "protocol", "pty", "internal/agent/wire", "internal/atomicfile",
			"internal/noderpc", "internal/sandbox", "internal/trace",
		},
		"internal/warm": {
			"kernel", "protocol", "pty", "internal/agent/client", "internal/agent/wire",
			"internal/atomicfile", "internal/pool", "internal/sandbox", "internal/trace",
		},
	}
	// The layers in which a library may be imported.
	outside := map[string][]string{
		"gvisor.dev/gvisor": {
			"internal/sandbox/gvisor", "internal/server",
			"cmd", "deploy",
		},
		"github.com/spf13/":                      {"internal/cli"},
		"github.com/gofiber/fiber":               {"gateway"},
		"github.com/google/go-containerregistry": {"internal/image"},
		"github.com/prometheus/": {
			"gateway", "internal/nodeapi",
			"internal/session",
		},
		"github.com/coreos/go-oidc":   {"gateway"},
		"golang.org/x/oauth2":         {"gateway"},
		"github.com/redis/go-redis":   {"internal/cluster/redis", "bench/scale"},
		"github.com/aws/":             {"internal/blob"},
		"go.opentelemetry.io/":        {"internal/trace"},
		"github.com/valyala/fasthttp": {"gateway"},
		"go.etcd.io/bbolt":            {"internal/cluster/local"},
		"github.com/coder/websocket":  {"gateway", "client", "bench", "e2e"},
		"connectrpc.com/connect":      {"gateway/e2b"},
		"github.com/bufbuild/":        {"gateway/e2b"},
		// The tests and the benchmarks use its client.
		"github.com/modelcontextprotocol/": {"gateway/mcp", "bench", "e2e"},
	}
	all := imports(t)
	for pkg, direct := range all {
		for _, path := range direct {
			for prefix, layers := range outside {
				if strings.HasPrefix(path, prefix) && !slices.ContainsFunc(layers,
					func(l string) bool { return pkg == l || strings.HasPrefix(pkg, l+"/") }) {
					t.Errorf("%s imports %s, which belongs to %v", pkg, path, layers)
				}
			}
		}
		layer := layerOf(allowed, pkg)
		if layer == "" {
			if strings.HasPrefix(pkg, "internal/") {
				t.Errorf("the import rules have no entry for %s", pkg)
			}
			continue
		}
		may := allowed[layer]
		if !strings.HasPrefix(layer, "protocol") {
			may = slices.Concat(basis, may)
		}
		seen := map[string]bool{}
		var visit func(p, via string)
		visit = func(p, via string) {
			for _, path := range all[p] {
				to, ours := strings.CutPrefix(path, module+"/")
				if !ours || seen[to] {
					continue
				}
				seen[to] = true
				l := layerOf(allowed, to)
				all := slices.Contains(may, "*") && !strings.HasPrefix(to, "cmd/") &&
					!slices.Contains(may, "!"+l)
				if l != layer && !all && !slices.Contains(may, l) {
					t.Errorf("%s imports %s%s: %s may import %v", pkg, to, via, layer, may)
				}
				visit(to, " through "+to)
			}
		}
		visit(pkg, "")
	}
}

// TestInSandboxBinariesLinkLittle fails when a binary that runs inside a sandbox
// links a package of this module that it has no use for: the client protocol,
// the host's end of the agent's wire, or anything of the gateway or the node.
func TestInSandboxBinariesLinkLittle(t *testing.T) {
	for binary, allowed := range map[string][]string{
		"cmd/agent": {
			"protocol/fault", "protocol/frame", "protocol/message", "stream", "kernel", "pty",
			"internal/agent", "internal/agent/egress",
			"internal/agent/files", "internal/agent/process", "internal/agent/wire",
		},
		"langs/bash/driver": {
			"protocol/fault", "protocol/frame", "protocol/message", "kernel",
		},
		"langs/jupyter/driver": {
			"protocol/fault", "protocol/frame", "protocol/message", "kernel",
		},
		"langs/program/driver": {
			"protocol/fault", "protocol/frame", "protocol/message", "kernel",
		},
	} {
		out, err := exec.Command("go", "list", "-deps", "./"+binary).Output()
		if err != nil {
			t.Fatalf("go list -deps ./%s: %v", binary, err)
		}
		for path := range strings.FieldsSeq(string(out)) {
			p, ours := strings.CutPrefix(path, module+"/")
			if ours && !slices.Contains(allowed, p) && !strings.HasPrefix(p, binary) {
				t.Errorf("%s links %s; it may link %v", binary, p, allowed)
			}
		}
	}
}

// TestNodeLinksNoBackend fails when a package that should work with every
// isolation backend links gVisor.
func TestNodeLinksNoBackend(t *testing.T) {
	for _, pkg := range []string{
		"./internal/sandbox", "./internal/pool", "./internal/warm",
		"./internal/session", "./internal/nodeapi",
	} {
		out, err := exec.Command("go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for dep := range strings.Lines(string(out)) {
			if strings.HasPrefix(dep, "gvisor.dev/") ||
				strings.HasPrefix(dep, module+"/internal/sandbox/") {
				t.Errorf("%s links %s", pkg, strings.TrimSpace(dep))
			}
		}
	}
}

// TestEveryFolderIsInTheReadme fails when README.md does not describe a top-level folder.
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

// TestEveryInternalFolderIsInItsReadme fails when internal/README.md lacks a folder.
func TestEveryInternalFolderIsInItsReadme(t *testing.T) {
	page, err := os.ReadFile("internal/README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range tracked(t, "internal/*/*") {
		folder := strings.Join(strings.Split(f, "/")[:2], "/")
		if !seen[folder] && !strings.Contains(string(page), "`"+folder+"/`") {
			t.Errorf("internal/README.md has no line about `%s/`", folder)
		}
		seen[folder] = true
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
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil,
			parser.PackageClauseOnly|parser.ParseComments)
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

// TestNothingBinaryIsTracked fails when git tracks a built file.
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
