package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestManPages: every visible command has a page with its text, its flags and its example.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	if _, errs, code := newCLI(t, nil).run(t, "", "man", dir); code != 0 {
		t.Fatalf("%d, %s", code, errs)
	}
	pages := 1 // the page of sandgate itself
	for _, c := range commandTree() {
		if !c.IsAvailableCommand() {
			continue
		}
		pages++
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+
			".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		text := strings.NewReplacer(`\-`, "-", `\&`, "", `\'`, "'").Replace(string(page))
		if !strings.Contains(text, c.Short) || !strings.Contains(text, ".SH EXAMPLE") {
			t.Errorf("the page of %s lacks its text or its example", c.CommandPath())
		}
		if c.Flags().Lookup("output") != nil && !strings.Contains(text, "--output") {
			t.Errorf("the page of %s lacks a flag", c.CommandPath())
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != pages {
		t.Errorf("%d pages for %d commands, %v", len(files), pages, err)
	}
}
