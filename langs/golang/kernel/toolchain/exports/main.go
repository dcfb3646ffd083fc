// Command exports copies the archives of a tree, each with only its first member: the export data,
// which suffices for compiling against it.
//
//	exports FROM TO
package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	magic  = "!<arch>\n"
	header = 60 // bytes of a member's header; its size is in columns 48 to 57
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: exports FROM TO")
		os.Exit(2)
	}
	if err := copyTree(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "exports:", err)
		os.Exit(1)
	}
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".a") {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if b, err = first(b); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		rel, err := filepath.Rel(from, file)
		if err != nil {
			return err
		}
		name := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return os.WriteFile(name, b, 0o644)
	})
}

// first cuts an archive off after its first member.
func first(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte(magic+"__.PKGDEF")) || len(b) < len(magic)+header {
		return nil, fmt.Errorf("not an archive that begins with __.PKGDEF")
	}
	size, err := strconv.Atoi(strings.TrimSpace(string(b[len(magic)+48 : len(magic)+58])))
	if err != nil {
		return nil, err
	}
	end := len(magic) + header + size
	if end > len(b) {
		return nil, fmt.Errorf("the archive is cut off")
	}
	return b[:end], nil
}
