package main

import (
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// find returns the files below a folder whose names have one of the endings, in order.
func find(dir string, endings ...string) ([]string, error) {
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && slices.ContainsFunc(endings, func(e string) bool {
			return strings.HasSuffix(path, e)
		}) {
			list = append(list, path)
		}
		return err
	})
	slices.Sort(list)
	return list, err
}

// load reads a file, which may be compressed with gzip.
func load(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return "", err
		}
	}
	data, err := io.ReadAll(r)
	return string(data), err
}

// readAll returns the programs that read finds in the texts of the files below a folder whose names
// have one of the endings. read gets the path in the folder, and the path of the file.
func readAll(dir string, read func(name, path, text string) []*program, endings ...string,
) ([]*program, error) {
	files, err := find(dir, endings...)
	if err != nil {
		return nil, err
	}
	var list []*program
	for _, path := range files {
		text, err := load(path)
		if err != nil {
			return nil, err
		}
		list = append(list, read(relative(dir, path), path, text)...)
	}
	return list, nil
}

// relative returns the path of a file in a folder.
func relative(dir, path string) string {
	if r, err := filepath.Rel(dir, path); err == nil {
		return r
	}
	return path
}

// plain removes colours.
func plain(s string) string {
	return regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(s, "")
}
