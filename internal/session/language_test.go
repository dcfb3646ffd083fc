package session

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestOneFolderLanguage adds a language whose only source is a folder: its
// manifest, driver, build hook and installer. The node lists it, runs its
// cells, and installs its packages in templates.
func TestOneFolderLanguage(t *testing.T) {
	const source = "testdata/languages"
	langs := t.TempDir() // like the folder in the image
	tree := filepath.Join(langs, "demo")
	if err := os.Mkdir(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	hook, err := filepath.Abs(filepath.Join(source, "demo", "image"))
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command(hook)
	build.Env = append(os.Environ(), "TREE="+tree)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the build hook: %v\n%s", err, out)
	}
	list, err := kernel.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	h := &native{t: t, canRestore: true, langs: langs}
	r := newNode(t, h, func(c *Config) {
		c.Languages, c.Pools = list, map[string]int{}
	})
	r.host = h
	if all := r.m.Status().Languages; len(all) != 1 || all[0].Name != "demo" ||
		all[0].Display != "Demo" {
		t.Errorf("the languages are %+v", all)
	}
	s := must[protocol.Session](r, protocol.OpSessionCreate, protocol.SessionCreate{Language: "d"})
	p := r.open()
	p.attach(1, s.ID, "k1")
	if text, reply := p.run(1, "hello"); text != "HELLO" || reply.Count != 1 {
		t.Errorf("a cell printed %q: %+v", text, reply)
	}

	store := func(name, spec string) error {
		tar := templateTar(t, entry("template.json", spec), entry("packages/word", ""))
		_, err := r.m.warm.Store(r.t.Context(), alice.Tenant, alice.Subject, name,
			bytes.NewReader(tar))
		return err
	}
	if err := store("bad", `{"packages":{"demo":["--option"]}}`); !fault.Is(err,
		fault.InvalidArgument) || !strings.Contains(err.Error(), "a lower-case word") {
		t.Errorf("an invalid package name: %v", err)
	}
	if err := store("words", `{"packages":{"demo":["one","two"]}}`); err != nil {
		t.Fatal(err)
	}
	var v protocol.Template
	eventually(t, "the template is built", func() bool {
		v = must[protocol.Template](r, protocol.OpTemplateGet, protocol.TemplateRef{Name: "words"})
		if v.State == "failed" {
			t.Fatalf("the build failed: %s\n%s", v.Error, v.Log)
		}
		return v.State == "ready"
	})
	if !strings.Contains(v.Log, "installed one two") {
		t.Errorf("the build printed %q", v.Log)
	}
	words := must[protocol.Session](r, protocol.OpSessionCreate,
		protocol.SessionCreate{Template: "words"})
	p.attach(2, words.ID, "k1")
	if text, _ := p.run(2, "packages"); text != "one\ntwo\n" {
		t.Errorf("the packages are %q", text)
	}
	for _, id := range []string{s.ID, words.ID} { // their sandboxes cannot be restored
		must[struct{}](r, protocol.OpSessionDelete, protocol.SessionRef{Session: id})
	}
}

// install copies languages to a native machine in the layout of the image.
func (h *native) install(to string) error {
	if err := os.CopyFS(to, os.DirFS(h.langs)); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(to, "*", kernel.ManifestFile))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("/opt/sandgate/langs"), []byte(to))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
