// Package image_test tests programs of the image's build.
package image_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository is a repository of apt with two packages, and a root folder whose apt uses it.
type repository struct{ root, config, cache string }

func newRepository(t *testing.T) repository {
	t.Helper()
	dir := t.TempDir()
	r := repository{
		root: filepath.Join(dir, "root"), config: filepath.Join(dir, "apt.conf"),
		cache: filepath.Join(dir, "cache"),
	}
	pool := filepath.Join(dir, "repository")
	for _, d := range []string{
		"root/etc/apt/apt.conf.d", "root/etc/apt/preferences.d", "root/etc/apt/sources.list.d",
		"root/etc/apt/trusted.gpg.d", "root/var/lib/apt/lists/partial", "root/var/lib/dpkg",
		"cache", "repository",
	} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	var index bytes.Buffer
	for _, name := range []string{"intact", "changed"} {
		tree := filepath.Join(dir, name)
		control := fmt.Sprintf("Package: %s\nVersion: 1:2.0\nArchitecture: all\nMaintainer: a <a@b.example>\n"+
			"Description: a test\n", name)
		must(t, os.MkdirAll(filepath.Join(tree, "DEBIAN"), 0o755))
		must(t, os.WriteFile(filepath.Join(tree, "DEBIAN/control"), []byte(control), 0o644))
		file := name + "_1%3a2.0_all.deb"
		run(t, nil, "dpkg-deb", "--root-owner-group", "-b", tree, filepath.Join(pool, file))
		content, err := os.ReadFile(filepath.Join(pool, file))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(r.cache, file), content, 0o644))
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, file, len(content),
			sha256.Sum256(content))
	}
	must(t, os.WriteFile(filepath.Join(pool, "Packages"), index.Bytes(), 0o644))
	must(t, os.WriteFile(filepath.Join(r.root, "etc/apt/sources.list"),
		[]byte("deb [trusted=yes] file:"+pool+" ./\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(r.root, "var/lib/dpkg/status"), nil, 0o644))
	must(t, os.WriteFile(r.config, []byte(fmt.Sprintf("Dir %q;\nDir::State::status %q;\n"+
		"APT::Sandbox::User \"root\";\n", r.root, filepath.Join(r.root, "var/lib/dpkg/status"))), 0o644))
	return r
}

// link runs the hook.
func (r repository) link(t *testing.T) string {
	t.Helper()
	return run(t, []string{"MMDEBSTRAP_APT_CONFIG=" + r.config, "DEBS=" + r.cache}, "./debs", r.root)
}

// linked returns the names of the packages in apt's cache.
func (r repository) linked(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.root, "var/cache/apt/archives/*.deb"))
	must(t, err)
	for i := range files {
		files[i], _, _ = strings.Cut(filepath.Base(files[i]), "_")
	}
	return strings.Join(files, " ")
}

// TestCachedPackages changes one file of the cache and keeps its size, which is the case that apt
// does not notice.
func TestCachedPackages(t *testing.T) {
	r := newRepository(t)
	file := filepath.Join(r.cache, "changed_1%3a2.0_all.deb")
	content, err := os.ReadFile(file)
	must(t, err)
	content[len(content)-1] ^= 1
	must(t, os.WriteFile(file, content, 0o644))
	must(t, os.WriteFile(filepath.Join(r.cache, "unknown_1_all.deb"), []byte("x"), 0o644))

	out := r.link(t)
	if got := r.linked(t); got != "intact" {
		t.Errorf("linked are %q", got)
	}
	if !strings.Contains(out, "changed_1%3a2.0_all.deb") || strings.Contains(out, "unknown") {
		t.Errorf("the hook says %q", out)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the changed file is still there: %v", err)
	}
	// A package that another release has may be needed again.
	if _, err := os.Stat(filepath.Join(r.cache, "unknown_1_all.deb")); err != nil {
		t.Error(err)
	}
}

// TestCacheWithoutPackages is the first build of a machine.
func TestCacheWithoutPackages(t *testing.T) {
	r := newRepository(t)
	must(t, os.RemoveAll(r.cache))
	must(t, os.Mkdir(r.cache, 0o755))
	r.link(t)
	if got := r.linked(t); got != "" {
		t.Errorf("linked are %q", got)
	}
}

func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
