// Package container has the files of the container image.
package container

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rootfs runs the script of this name with programs that have the given content.
func rootfs(t *testing.T, programs map[string]string, args ...string) string {
	t.Helper()
	bin, dir := t.TempDir(), filepath.Join(t.TempDir(), "rootfs")
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("./rootfs", append(args, dir)...)
	cmd.Env = append(os.Environ(), "SANDGATE_BIN="+bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// files returns the paths below a folder with their modes and hashes of their content, which is all
// that a layer has of them if all times are equal.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content string
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
		case info.Mode().IsRegular():
			var b []byte
			b, err = os.ReadFile(path)
			content = fmt.Sprintf("%x", sha256.Sum256(b))
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = info.Mode().String() + " " + content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLayers creates the layers that the Containerfile copies. Together they are the tree that the
// server is tested in. A change of a program changes its layer and no layer before it.
func TestLayers(t *testing.T) {
	text, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^(?:COPY|ADD|RUN) (.*)$`).FindAllStringSubmatch(
		string(text), -1) {
		name, ok := strings.CutSuffix(m[1], " /")
		if !ok || strings.Contains(name, " ") {
			t.Errorf("the Containerfile has %q", m[0])
		}
		names = append(names, name)
	}
	programs := map[string]string{
		"image.erofs": "image", "image.erofs.json": "{}", "runsc": "runtime", "sandgate": "program",
	}
	layers := func() (all []map[string]string) {
		dir := rootfs(t, programs, "--layers")
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(names) {
			t.Fatalf("the Containerfile copies %q, and there are %v: %v", names, entries, err)
		}
		for _, name := range names {
			all = append(all, files(t, filepath.Join(dir, name)))
		}
		return all
	}
	before := layers()
	together := map[string]string{}
	for i, l := range before {
		for path, now := range l {
			if there, ok := together[path]; ok && (there != now || !strings.HasPrefix(now, "d")) {
				t.Errorf("%s is in layer %s and in an earlier one", path, names[i])
			}
			together[path] = now
		}
	}
	if tree := files(t, rootfs(t, programs)); !maps.Equal(together, tree) {
		t.Errorf("the layers have %v, the tree has %v", together, tree)
	}
	for _, c := range []struct {
		program string
		layer   int
	}{{"image.erofs", 0}, {"runsc", 1}, {"sandgate", 2}} {
		was := programs[c.program]
		programs[c.program] = "another"
		after := layers()
		programs[c.program] = was
		for i := range before {
			if same := maps.Equal(before[i], after[i]); same != (i != c.layer) {
				t.Errorf("%s changes: the layer %s is the same: %v", c.program, names[i], same)
			}
		}
	}
	if !slices.Equal(names, []string{"image", "runtime", "program"}) {
		t.Errorf("the layers are %q: the largest has to be the first", names)
	}
}
