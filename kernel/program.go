package kernel

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// ProgramDriver is the driver of program languages. Its arguments are a program file for a kernel,
// or run, a program file, a source file and the program's arguments.
const ProgramDriver = "/opt/sandgate/langs/program/program-driver"

// programMark stands for the compiled program's path in a ProgramLanguage.
const programMark = "{program}"

// maxPrograms bounds the program languages of an image.
const maxPrograms = 64

// ProgramLanguage describes a language whose code runs as whole programs: a compiler or an
// interpreter. It is the content of a program file, NAME.json, in an image or a template's files.
type ProgramLanguage struct {
	Name       string   `json:"name"`
	Display    string   `json:"display_name"`
	Aliases    []string `json:"aliases"`
	Extensions []string `json:"extensions"`
	// Compile makes the program {program} of the source {file}. It is empty for an interpreter.
	Compile []string `json:"compile,omitempty"`
	// Run starts the program. It names {program}, or {file} if there is no Compile.
	Run []string `json:"run"`
	// Version prints the version of the compiler or interpreter.
	Version []string          `json:"version,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Warm    string            `json:"warm,omitempty"`
	MIME    string            `json:"mime,omitempty"`
	Editor  *Editor           `json:"editor,omitempty"`
}

// programDirs are the folders with program files, without a slash at the beginning.
func programDirs() []string {
	return []string{
		"home/user/.local/share/sandgate/programs", "usr/local/share/sandgate/programs",
		"usr/share/sandgate/programs",
	}
}

// ParseProgram reads and checks a program file. Errors: InvalidArgument, TooLarge.
func ParseProgram(data []byte) (ProgramLanguage, error) {
	const op = "kernel.program"
	var p ProgramLanguage
	if len(data) > maxManifest {
		return p, fault.New(fault.TooLarge, op,
			"a program file has at most %d bytes, this one has %d", maxManifest, len(data))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fault.Wrap(fault.InvalidArgument, op, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return p, fault.Invalid(op, "program", "there is data after the object")
	}
	mark := fileMark
	if len(p.Compile) > 0 {
		mark = programMark
		if !slices.Contains(p.Compile, fileMark) || !slices.Contains(p.Compile, programMark) ||
			strings.HasPrefix(p.Compile[0], "{") {
			return p, fault.Invalid(op, "compile",
				"%s needs a compiler, and %s and %s among its arguments", p.Name, fileMark,
				programMark)
		}
	}
	if !slices.Contains(p.Run, mark) || p.Run[0] == fileMark {
		return p, fault.Invalid(op, "run", "%s needs %s in its command", p.Name, mark)
	}
	return p, p.manifest("programs/x.json").check()
}

// Tool returns the program that an image must have: the compiler or the interpreter.
func (p ProgramLanguage) Tool() string {
	if len(p.Compile) > 0 {
		return p.Compile[0]
	}
	return p.Run[0]
}

// CompileArgs returns the command that compiles a file; nil for an interpreter.
func (p ProgramLanguage) CompileArgs(file, program string) []string {
	return fillMarks(p.Compile, file, program)
}

// RunArgs returns the command that runs a program.
func (p ProgramLanguage) RunArgs(file, program string, args ...string) []string {
	return append(fillMarks(p.Run, file, program), args...)
}

func fillMarks(command []string, file, program string) []string {
	filled := slices.Clone(command)
	for i, a := range filled {
		switch a {
		case fileMark:
			filled[i] = file
		case programMark:
			filled[i] = program
		}
	}
	return filled
}

// manifest returns the language as others see it. at is the path of its program file.
func (p ProgramLanguage) manifest(at string) Manifest {
	m := Manifest{
		Name: p.Name, Display: p.Display, Aliases: p.Aliases, Extensions: p.Extensions,
		Argv: []string{ProgramDriver, "/" + at}, Env: maps.Clone(p.Env), Interrupt: "announced",
		Program: []string{ProgramDriver, "run", "/" + at, fileMark}, Warm: p.Warm,
		Editor: &Editor{},
	}
	if m.Env == nil {
		m.Env = map[string]string{}
	}
	if p.Editor != nil {
		*m.Editor = *p.Editor
		m.Editor.Jupyter = ""
	}
	return m
}

// programFiles returns the program files in a file system, by their path.
func programFiles(root fs.FS) map[string][]byte {
	files := map[string][]byte{}
	for _, dir := range programDirs() {
		entries, err := fs.ReadDir(root, dir)
		if err != nil {
			continue
		}
		for _, e := range entries[:min(len(entries), maxPrograms)] {
			name := path.Join(dir, e.Name())
			info, err := fs.Stat(root, name)
			if !isProgramFile(name) || err != nil || !info.Mode().IsRegular() ||
				info.Size() > maxManifest {
				continue
			}
			if text, err := fs.ReadFile(root, name); err == nil {
				files[name] = text
			}
		}
	}
	return files
}

func isProgramFile(name string) bool {
	return path.Ext(name) == ".json" && slices.Contains(programDirs(), path.Dir(name))
}

// programLanguages returns the languages of the program files. Names, aliases and extensions in
// claims belong to other languages. A language without a name of its own is left out.
func programLanguages(files map[string][]byte, claims map[string]bool) []Manifest {
	var list []Manifest
	taken := func(name string) bool { return claims[name] }
	for _, dir := range programDirs() {
		for _, file := range slices.Sorted(maps.Keys(files)) {
			if path.Dir(file) != dir || !isProgramFile(file) || len(list) == maxPrograms {
				continue
			}
			p, err := ParseProgram(files[file])
			if err != nil || claims[p.Name] || p.Name+".json" != path.Base(file) {
				continue
			}
			p.Aliases = slices.DeleteFunc(p.Aliases, taken)
			p.Extensions = slices.DeleteFunc(p.Extensions, taken)
			for _, name := range slices.Concat([]string{p.Name}, p.Aliases, p.Extensions) {
				claims[name] = true
			}
			list = append(list, p.manifest(file))
		}
	}
	return list
}
