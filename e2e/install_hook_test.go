package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
)

// installHook is the script of a hostile package: it writes down its rights, and tries to leave traces
// for other builds.
const installHook = `
out=$HOME/hook
echo "user $(id -u)" >$out
curl -sS -m 3 -o /dev/null SERVER/healthz && echo "reaches the server" >>$out
for f in /usr/bin/evil /opt/sandgate/langs/evil /etc/evil /volumes/evil; do
	(echo evil >$f) 2>/dev/null && echo "writes $f" >>$out
done
env | grep -i -e token -e secret -e sgk_ >>$out
mkdir -p $HOME/.npm/_cacache /tmp/npm-cache
echo 'registry=http://evil.test/' >$HOME/.npmrc
echo evil >$HOME/.npm/_cacache/evil
echo evil >/tmp/evil
echo end >>$out
`

// TestAbuse45_InstallHooks installs a package whose hook is hostile. The hook runs as the user in the
// sandbox of its build: without a network, credentials and rights. Another tenant's build of a package
// of the same name, and other sessions, find none of its files.
func TestAbuse45_InstallHooks(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	root, err := wire.New(server.URL, server.Token, wire.Options{})
	check(t, err)
	hook := strings.ReplaceAll(installHook, "SERVER", server.URL)
	find := "cat hook .npm/_cacache/evil /tmp/evil 2>/dev/null; grep evil .npmrc; node -p \"require('sghook')\" 2>/dev/null"
	for i, c := range []struct{ tenant, content, hook, want string }{
		{"hooks-a", "of a", hook, "user 1000\nend\n"},
		{"hooks-b", "of b", "true", ""},
	} {
		k, err := root.CreateKey(ctx, protocol.KeyCreate{Tenant: c.tenant, Role: "owner"})
		check(t, err)
		client, err := wire.New(server.URL, k.Secret, wire.Options{})
		check(t, err)
		dir := t.TempDir()
		check(t, os.Mkdir(filepath.Join(dir, "all"), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "all", "sghook-1.0.0.tgz"), packed(t,
			"package/package.json", `{"name":"sghook","version":"1.0.0","main":"index.js",
"scripts":{"preinstall":"sh hook.sh","postinstall":"sh hook.sh"}}`, "package/hook.sh", c.hook,
			"package/index.js", "module.exports = '"+c.content+"'\n"), 0o644))
		recipe := write(t, filepath.Join(dir, "t.yaml"),
			"name: hooks\nlanguages: [bash]\npackages: {from: all, javascript: [sghook]}\n")
		out, err := command(ctx, t, &Server{URL: server.URL, Token: k.Secret}, "template", "build",
			recipe)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		ran := runBash(t, client, protocol.RunRequest{Template: "hooks", Code: find})
		if i == 0 && !strings.HasPrefix(ran, c.want) || !strings.HasSuffix(ran, c.content+"\n") ||
			i > 0 && ran != c.content+"\n" {
			t.Errorf("a session of %s prints %q", c.tenant, ran)
		}
		if got := runBash(t, client, protocol.RunRequest{Code: find}); got != "" {
			t.Errorf("a session of %s without the template prints %q", c.tenant, got)
		}
		check(t, client.DeleteTemplate(ctx, "hooks"))
		check(t, root.RevokeKey(ctx, k.Key.ID))
	}
}

// runBash runs code and returns what it prints.
func runBash(t *testing.T, c *wire.Client, r protocol.RunRequest) string {
	t.Helper()
	var out strings.Builder
	r.Language = "bash"
	check(t, c.Run(deadline(t), r, func(e protocol.RunEvent) error {
		out.WriteString(e.Text)
		return nil
	}))
	return out.String()
}
