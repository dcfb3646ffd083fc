// Command patch writes a build overlay (go build -overlay) that changes Go's compiler, type
// checker, linker and a little of its runtime, so that the cells of one session can be compiled and
// linked one by one.
//
//	patch -goroot DIR -src DIR -out DIR
//
// goroot is a toolchain with its source, which is not changed. src has the files to add. out gets
// the changed files and overlay.json. If a place is missing, or occurs more often than expected,
// the program ends with its name: after an upgrade of Go, check every edit of edits.go again.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	goroot := flag.String("goroot", "", "the toolchain")
	src := flag.String("src", "", "the files to add")
	out := flag.String("out", "", "the folder to write to")
	flag.Parse()
	n, err := write(*goroot, *src, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "patch:", err)
		os.Exit(1)
	}
	fmt.Printf("patch: %d places in %d files\n", n, len(edits))
}

// write writes the overlay and returns how many places were changed.
func write(goroot, src, out string) (places int, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return 0, err
	}
	replace := map[string]string{}
	put := func(rel string, text []byte) error {
		to := filepath.Join(out, strings.ReplaceAll(rel, "/", "__"))
		replace[filepath.Join(goroot, "src", rel)] = to
		return os.WriteFile(to, text, 0o644)
	}
	for rel, list := range edits {
		text, err := os.ReadFile(filepath.Join(goroot, "src", rel))
		if err != nil {
			return 0, err
		}
		text, n, err := apply(rel, text, list)
		if err != nil {
			return 0, err
		}
		places += n
		if err := put(rel, text); err != nil {
			return 0, err
		}
	}
	for rel, from := range added {
		text, err := os.ReadFile(filepath.Join(src, from))
		if err != nil {
			return 0, err
		}
		// One file serves both type checkers, which differ in their package clause.
		clause := "package " + filepath.Base(filepath.Dir(rel))
		if err := put(rel, []byte(strings.Replace(string(text), "\npackage types\n", "\n"+clause+
			"\n", 1))); err != nil {
			return 0, err
		}
	}
	b, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return 0, err
	}
	return places, os.WriteFile(filepath.Join(out, "overlay.json"), b, 0o644)
}
