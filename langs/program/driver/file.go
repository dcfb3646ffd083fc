package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// runFile compiles a source file, writes the compiler's messages to standard error, and becomes the
// program. It returns an exit status if the program cannot start: the compiler's, 126 or 127.
func runFile(languageFile, source string, args []string) int {
	fail := func(code int, err error) int {
		fmt.Fprintln(os.Stderr, "program driver:", err)
		return code
	}
	language, err := readLanguage(languageFile)
	if err != nil {
		return fail(126, err)
	}
	if _, err := os.Stat(source); err != nil {
		return fail(127, err)
	}
	program := ""
	if len(language.Compile) > 0 {
		dir, err := programFolder(source)
		if err != nil {
			return fail(126, err)
		}
		named := source
		if !slices.Contains(language.Extensions, strings.ToLower(filepath.Ext(source))) {
			// Compilers know a language by the file's ending.
			named = filepath.Join(dir, "main"+extension(language))
			text, err := os.ReadFile(source)
			if err == nil {
				err = os.WriteFile(named, text, 0o600)
			}
			if err != nil {
				return fail(126, err)
			}
		}
		next := filepath.Join(dir, fmt.Sprintf("program-%d", os.Getpid()))
		r, err := compile(language.CompileArgs(named, next), os.Environ(), dir, nil)
		if err != nil {
			return fail(127, err)
		}
		fmt.Fprint(os.Stderr, r.text)
		if r.status.failed() {
			_ = os.Remove(next)
			return r.status.code()
		}
		// A program that runs keeps its file when the name gets another one.
		program = filepath.Join(dir, "program")
		if err := os.Rename(next, program); err != nil {
			return fail(126, err)
		}
	}
	argv := language.RunArgs(source, program, args...)
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fail(127, err)
	}
	return fail(126, syscall.Exec(path, argv, os.Environ()))
}

// programFolder returns a private folder for the program of a source file. The same file has the
// same folder, so that repeated runs do not fill the disk.
func programFolder(source string) (string, error) {
	path, err := filepath.Abs(source)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(path))
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("programs-%d", os.Getuid()),
		hex.EncodeToString(sum[:8]))
	return dir, os.MkdirAll(dir, 0o700)
}
