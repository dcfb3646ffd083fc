// Command symbols writes the sorted hashes of the names that shared objects define as dynamic
// symbols. The linker of cells assumes that the process has these names.
//
//	symbols OUT OBJECT...
package main

import (
	"fmt"
	"os"

	"github.com/sandgate/sandgate/langs/golang/kernel/symbols"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: symbols OUT OBJECT...")
		os.Exit(2)
	}
	var t symbols.Table
	for _, file := range os.Args[2:] {
		if err := t.AddObject(file); err != nil {
			fmt.Fprintln(os.Stderr, "symbols:", err)
			os.Exit(1)
		}
	}
	if err := os.WriteFile(os.Args[1], t.Bytes(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "symbols:", err)
		os.Exit(1)
	}
}
