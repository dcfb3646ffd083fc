package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// packageFiles writes a folder with a package for each language, in the form that
// its package manager installs from files.
func packageFiles(t *testing.T, dir string) {
	t.Helper()
	for from, data := range registry(t, "") {
		to := ""
		switch {
		case strings.HasSuffix(from, ".whl"), strings.HasSuffix(from, ".tgz"),
			from == "/composer/sgphp.zip":
			to = filepath.Base(from)
		case strings.HasPrefix(from, "/go/"):
			to = strings.TrimPrefix(from, "/go/")
		default:
			continue
		}
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, to)), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, to), data, 0o644))
	}
	check(t, os.WriteFile(filepath.Join(dir, "sgjar-1.0.jar"),
		zipped(t, "acme/maven.txt", "from maven"), 0o644))
}

// usesOfPackages are cells that print the answers of the registry's packages.
func usesOfPackages() map[string][2]string {
	return map[string][2]string{
		"python":     {"import sgpip; print(sgpip.answer)", "from pip"},
		"javascript": {"console.log(require('sgnpm'))", "from npm"},
		"golang":     {"import \"example.test/sggo\"\nfmt.Println(sggo.Answer)", "from go"},
		"php":        {"echo Acme\\Answer::IT;", "from composer"},
		"java": {
			"System.out.println(new String(Thread.currentThread().getContextClassLoader().getResourceAsStream(\"acme/maven.txt\").readAllBytes()));", "from maven",
		},
	}
}

// TestPackagesOfATemplate installs a package of each language from files, and uses
// each in that language's kernel in a session, and after a fork of the session.
func TestPackagesOfATemplate(t *testing.T) {
	t.Parallel()
	s := open(t, server)
	dir := t.TempDir()
	packageFiles(t, filepath.Join(dir, "all"))
	write(t, filepath.Join(dir, "P.java"),
		`class P { public static void main(String[] a) { System.out.println(ClassLoader.getSystemResource("acme/maven.txt") != null); } }`)
	recipe := write(t, filepath.Join(dir, "all.yaml"), `
name: all-packages
languages: [python, javascript, go, php, java]
packages: {from: all, python: [sgpip], javascript: ["sgnpm@1.0.0"], go: ["example.test/sggo@v1.0.0"], php: ["acme/sgphp:^1.0"], java: [sgjar-1.0.jar]}
files: [{from: P.java, to: P.java}]
`)
	out, err := command(s.ctx, t, server, "template", "build", recipe)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(
		func() { check(t, s.client.DeleteTemplate(context.WithoutCancel(s.ctx), "all-packages")) })
	made := openWith(t, server, protocol.SessionCreate{Template: "all-packages"})
	findsPackages(t, made)
	// A program of Java has the jars too, and the files do not remain.
	if out := made.run(
		"ok", "import subprocess, os; print(subprocess.run(['/opt/sandgate/langs/java/run', 'P.java'], capture_output=True, text=True).stdout, os.path.exists('/tmp/.sandgate-packages'))"); out.stdout != "true\n False\n" {
		t.Errorf("a program prints %q", out.stdout)
	}
	// A later installation does not remove the packages of the template.
	if out := made.run(
		"ok", `import pathlib; pathlib.Path('more').mkdir(); pathlib.Path('more/package.json').write_text('{"name":"more","version":"1.0.0"}')
print(subprocess.run('npm install --offline --no-audit --no-fund ./more && node -p "require(\'sgnpm\')"', shell=True, capture_output=True, text=True))`); !strings.Contains(out.stdout, `from npm\n`) {
		t.Errorf("after another npm install: %s", out.stdout)
	}
	// A package that cannot be installed is reported with the tool's own message.
	for _, packages := range []string{
		"javascript: [nosuch]", "php: [acme/nosuch]",
		"java: ['acme:nosuch:1']",
	} {
		bad := write(t, filepath.Join(dir, "bad.yaml"),
			"name: bad-package\nlanguages: [bash]\npackages: {from: all, "+packages+"}\n")
		out, err := command(s.ctx, t, server, "template", "build", bad)
		if err == nil || !strings.Contains(out, "could not be installed: it ended with status") ||
			!strings.Contains(out, "; it said: ") || strings.Count(out, "nosuch") < 3 {
			t.Errorf("%s: %v\n%s", packages, err, out)
		}
	}
	check(t, s.client.DeleteTemplate(s.ctx, "bad-package"))
}

// findsPackages opens a kernel of each language and uses its package.
func findsPackages(t *testing.T, s *session) {
	t.Helper()
	for language, use := range usesOfPackages() {
		ch, err := s.conn.OpenChannel(s.ctx, protocol.ChannelOpen{
			Session: s.id, Kind: "kernel",
			Language: language,
		})
		check(t, err)
		k, err := s.conn.Kernel(s.ctx, s.id, ch.ID)
		check(t, err)
		if got := (&session{s.t, s.ctx, s.client, s.conn, k, s.id}).says(use[0]); strings.TrimSpace(
			got) != use[1] {
			t.Errorf("%s: %q", language, got)
		}
	}
}

// TestNetworkOfTemplates builds templates with a network and without, and checks that
// this concerns only the build: sessions have the network that they or
// session_network ask for.
func TestNetworkOfTemplates(t *testing.T) {
	o := newOutside(t, "pool: {size: 1, languages: [bash]}")
	ctx := deadline(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "composer.json"), `{"repositories":[{"type":"composer","url":"`+
		o.base+`/composer"},{"packagist":false}],"config":{"secure-http":false}}`)
	build := func(text string) (string, error) {
		t.Helper()
		return command(ctx, t, o.Server, "template", "build",
			write(t, filepath.Join(dir, "t.yaml"), strings.ReplaceAll(text, "BASE", o.base)))
	}
	host := fmt.Sprintf("registry.test:%d", o.port)
	out, err := build(`
name: fetched
languages: [python, javascript, go, php, java]
env: {PIP_INDEX_URL: BASE/simple/, PIP_TRUSTED_HOST: registry.test, npm_config_registry: BASE/npm, GOPROXY: BASE/go, GONOSUMDB: "*", MAVEN_REPOSITORY: BASE/maven}
files: [{from: composer.json, to: composer.json}]
packages: {python: [sgpip], javascript: [sgnpm], go: [example.test/sggo], php: [acme/sgphp], java: ["acme:sgtop:1.0"]}
build_network: {allow: ["` + host + `"]}
run: ["curl -sSf BASE/hello; curl -sS http://other.test/ || true"]
`)
	if err != nil || !strings.Contains(out, "acme:sgmvn:1.1 (for sgtop)") ||
		!strings.Contains(out, "hello") || !strings.Contains(out, "network.allow") {
		t.Fatalf("%v\n%s", err, out)
	}
	hits := o.hits.Load()
	use := func(template string, network *protocol.Network) *session {
		t.Helper()
		return openWith(t, o.Server, protocol.SessionCreate{Template: template, Network: network})
	}
	const sealed = "import os, socket\nprint([k for k in os.environ if k.lower().endswith('_proxy') or 'SANDGATE' in k], socket.socket().connect_ex(('127.0.0.1', 3128)) != 0)"
	s := use("fetched", nil)
	findsPackages(t, s)
	if got := s.says(sealed); got != "[] True\n" {
		t.Errorf("in a session without a network: %q", got)
	}
	if n := o.hits.Load(); n != hits {
		t.Errorf("the sessions have asked the registry %d times", n-hits)
	}
	fetch := "import urllib.request; print(urllib.request.urlopen('" + o.base +
		"/hello').read().decode())"
	if got := use("fetched", &protocol.Network{}).says(fetch); got != "hello\n" {
		t.Errorf("in a session that asks for a network: %q", got)
	}

	// The other case: sessions have a network by default, and the build had none.
	out, err = build("name: out\nlanguages: [python]\nsession_network: {allow: ['" + host +
		"']}\nrun: ['! curl -sS -m 5 BASE/hello']\n")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s = use("out", nil)
	if got := s.says(fetch); got != "hello\n" {
		t.Errorf("in a session of a template with session_network: %q", got)
	}
	if info, err := s.client.Session(ctx, s.id); err != nil || info.Network == nil ||
		len(info.Network.Allow) != 1 || info.Network.Allow[0] != host {
		t.Errorf("the session shows %+v, %v", info.Network, err)
	}
	if got := use("out", &protocol.Network{Off: true}).says(sealed); got != "[] True\n" {
		t.Errorf("in a session that asks for no network: %q", got)
	}
	for _, field := range []string{"build_network", "session_network"} {
		out, err := build("name: beyond\n" + field + ": {allow: [example.com]}\n")
		if err == nil || !strings.Contains(out, field+".allow: example.com") ||
			!strings.Contains(out, "egress.allow") {
			t.Errorf("%s beyond the server's list: %v\n%s", field, err, out)
		}
	}
	log, err := os.ReadFile(o.Dir + "/data/audit/audit.jsonl")
	check(t, err)
	if !strings.Contains(string(log), `"event":"egress","tenant":"local"`) ||
		!strings.Contains(string(log), `"name":"fetched"`) {
		t.Error("the build's connections are not in the audit log")
	}
}
