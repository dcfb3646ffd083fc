package e2e

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// guides is the folder of the programs that the pages below docs/guides show.
const guides = "../examples/guides"

// TestGuides runs the programs of the guides against a server. All languages print
// the text of expect.txt, in which {{…}} is a regular expression. Each program has a
// tenant of its own, and a folder with the other files of its guide.
func TestGuides(t *testing.T) {
	g := newGuides(t)
	topics, err := os.ReadDir(guides)
	check(t, err)
	for _, topic := range topics {
		expect, err := os.ReadFile(filepath.Join(guides, topic.Name(), "expect.txt"))
		if err != nil {
			continue
		}
		for _, language := range guideLanguages() {
			if language.name != "python" && strings.HasPrefix(topic.Name(), "quickstart-") {
				continue
			}
			if language.name != "typescript" && topic.Name() == "e2b" {
				continue
			}
			t.Run(topic.Name()+"/"+language.name, func(t *testing.T) {
				t.Parallel()
				p := g.program(t, topic.Name(), language)
				out := ""
				for _, name := range guidePrograms(topic.Name()) {
					out += p.run(name, strings.Fields(out)...)
				}
				if !expected(string(expect)).MatchString(out) {
					t.Errorf("it prints\n%s\nand not\n%s", out, expect)
				}
				p.afterwards(topic.Name(), out)
			})
		}
	}
}

// guidePrograms returns the names of a guide's programs in their order. The arguments of
// the second one are the output of the first one.
func guidePrograms(topic string) []string {
	switch topic {
	case "background":
		return []string{"background", "follow"}
	case "quickstart-agent":
		return []string{"tool"}
	case "quickstart-notebook":
		return []string{"analysis"}
	}
	return []string{topic}
}

// expected returns the pattern of a text with regular expressions in double braces.
func expected(text string) *regexp.Regexp {
	var pattern strings.Builder
	pattern.WriteString("^")
	for text != "" {
		literal, rest, found := strings.Cut(text, "{{")
		pattern.WriteString(regexp.QuoteMeta(literal))
		text = ""
		if found {
			var inner string
			inner, text, _ = strings.Cut(rest, "}}")
			pattern.WriteString("(?:" + inner + ")")
		}
	}
	return regexp.MustCompile(pattern.String() + "$")
}

// A guideLanguage is a language of the programs.
type guideLanguage struct {
	name, extension string
	// command returns the command for a source file, which it builds if necessary.
	command func(t *testing.T, source string) []string
}

func guideLanguages() []guideLanguage {
	return []guideLanguage{
		{"python", ".py", func(_ *testing.T, source string) []string {
			return []string{python, source}
		}},
		{"bash", ".sh", func(_ *testing.T, source string) []string {
			return []string{"bash", source}
		}},
		{"typescript", ".ts", func(t *testing.T, source string) []string {
			// Node 24 runs the file itself. Earlier versions need a build.
			folder := t.TempDir()
			modules, err := filepath.Abs("../node_modules")
			check(t, err)
			check(t, os.Symlink(modules, filepath.Join(folder, "node_modules")))
			program := filepath.Join(folder, "program.mjs")
			bundle(t, source, program, "--platform=node", "--target=node20", "--packages=external")
			return []string{"node", program}
		}},
		{"go", ".go", func(t *testing.T, source string) []string {
			program := filepath.Join(t.TempDir(), "program")
			out, err := exec.CommandContext(deadline(t), "go", "build", "-o", program,
				filepath.Dir(source)).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			return []string{program}
		}},
	}
}

// bundle builds a program in TypeScript.
func bundle(t *testing.T, source, program string, options ...string) {
	t.Helper()
	args := append([]string{
		source, "--bundle", "--format=esm", "--log-level=warning", "--outfile=" + program,
	}, options...)
	out, err := exec.CommandContext(deadline(t), "../node_modules/.bin/esbuild", args...).
		CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
}

// guideServer is the server of the guides. Its sessions may reach example.com, which
// is a web server of the test.
type guideServer struct {
	*Server
	wheel string // a folder with the package of the guide to templates
}

func newGuides(t *testing.T) *guideServer {
	t.Helper()
	// Sessions reach hosts at port 80, which other servers of this machine may have at
	// its usual addresses.
	l, err := net.Listen("tcp", "127.0.0.80:80")
	check(t, err)
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("hello"))
	})}
	go web.Serve(l)
	t.Cleanup(func() { web.Close() })
	dns := newResolver(t, map[string][]string{
		"example.com": {"127.0.0.80"}, "example.org": {"127.0.0.80"},
	})
	s, err := Start(deadline(t), fmt.Sprintf("pool: {size: 2}\nlimits: {memory: 1GiB}\n"+
		"egress: {allow: [example.com, example.org], resolver: %q}\n"+
		"insecure_egress_to_private_networks: [127.0.0.80/32]", dns.conn.LocalAddr()))
	check(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Complaints())
		}
		check(t, s.Stop())
	})
	g := &guideServer{s, t.TempDir()}
	wheel := exec.CommandContext(deadline(t), python, "-m", "pip", "wheel", "-q", "--no-deps",
		"--no-build-isolation", "--wheel-dir", g.wheel, "./geo")
	wheel.Dir = t.TempDir()
	check(t, os.CopyFS(wheel.Dir, os.DirFS(filepath.Join(guides, "template"))))
	if out, err := wheel.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return g
}

// A guideProgram is the programs of one guide in one language.
type guideProgram struct {
	t        *testing.T
	ctx      context.Context
	language guideLanguage
	topic    string
	folder   string // where they run
	env      []string
}

// program creates the tenant and the folder of a guide's programs.
func (g *guideServer) program(t *testing.T, topic string, language guideLanguage) *guideProgram {
	t.Helper()
	p := &guideProgram{t, deadline(t), language, topic, t.TempDir(), nil}
	var made struct{ Secret string }
	code, err := g.JSON(p.ctx, "POST", "/v1/keys", map[string]any{
		"role": "owner", "tenant": topic + "-" + language.name,
	}, &made)
	if err != nil || made.Secret == "" {
		t.Fatalf("a key: %d, %v", code, err)
	}
	source, err := filepath.Abs("../client/python/src")
	check(t, err)
	p.env = append(os.Environ(), "SANDGATE_URL="+g.URL, "SANDGATE_TOKEN="+made.Secret,
		"PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1",
		"E2B_API_URL="+g.URL, "E2B_SANDBOX_URL="+g.URL,
		"E2B_API_KEY=e2b_"+hex.EncodeToString([]byte(made.Secret)))
	check(t, os.CopyFS(p.folder, os.DirFS(filepath.Join(guides, topic))))
	if topic == "template" {
		check(t, os.CopyFS(p.folder, os.DirFS(g.wheel)))
	}
	return p
}

// run runs a program of the guide and returns its output.
func (p *guideProgram) run(name string, args ...string) string {
	p.t.Helper()
	source, err := filepath.Abs(filepath.Join(guides, p.topic, name+p.language.extension))
	check(p.t, err)
	if _, err := os.Stat(source); err != nil { // Go has one program in a folder
		source = filepath.Join(filepath.Dir(source), name, name+p.language.extension)
	}
	argv := append(p.language.command(p.t, source), args...)
	cmd := exec.CommandContext(p.ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.folder, p.env
	input, err := os.ReadFile(filepath.Join(p.folder, "input.txt"))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	var out, complaints bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &complaints
	if err := cmd.Run(); err != nil || complaints.Len() > 0 {
		p.t.Fatalf("%s: %v\n%s%s", source, err, out.String(), complaints.String())
	}
	return out.String()
}

// afterwards checks the effects of a guide's programs besides their output.
func (p *guideProgram) afterwards(topic, out string) {
	p.t.Helper()
	switch topic {
	case "picture", "quickstart-notebook":
		picture, err := fs.ReadFile(os.DirFS(p.folder), "sales.png")
		if err != nil || !bytes.HasPrefix(picture, []byte("\x89PNG")) {
			p.t.Errorf("no picture: %v", err)
		}
	case "server":
		// The development server still answers.
		if status := p.open(strings.TrimSpace(out)); status != http.StatusOK {
			p.t.Errorf("%s answers %d", out, status)
		}
	}
}

// open requests an address whose host is below localhost, and returns the status.
func (p *guideProgram) open(url string) int {
	p.t.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		_, port, _ := net.SplitHostPort(address)
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
	}
	req, err := http.NewRequestWithContext(p.ctx, http.MethodGet, url, nil)
	check(p.t, err)
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	check(p.t, err)
	res.Body.Close()
	return res.StatusCode
}
