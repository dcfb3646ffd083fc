package kernel

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// JupyterDriver is the driver of Jupyter kernels. Its arguments are the language and the folder of
// a kernelspec.
const JupyterDriver = "/opt/sandgate/langs/jupyter/jupyter-driver"

// Limits of kernelspecs. Files over their limit are ignored.
const (
	maxKernelspecs = 64
	maxLogo        = 48 << 10 // bytes
)

// kernelspecDirs are the folders with kernelspecs in an image, without a slash at the beginning. In
// the first ones Jupyter itself looks first.
func kernelspecDirs() []string {
	return []string{
		"home/user/.local/share/jupyter/kernels", "usr/local/share/jupyter/kernels",
		"usr/share/jupyter/kernels", "opt/conda/share/jupyter/kernels",
	}
}

// logos are the names of a kernelspec's logo, the best first, and their types.
func logos() [][2]string {
	return [][2]string{
		{"logo-svg.svg", "image/svg+xml"},
		{"logo-64x64.png", "image/png"},
		{"logo-32x32.png", "image/png"},
	}
}

// IsKernelspec reports whether a path without a slash at the beginning names a file of a kernelspec
// that KernelspecFiles would return.
func IsKernelspec(name string) bool {
	folder, file := path.Split(name)
	known := file == "kernel.json" || slices.ContainsFunc(logos(), func(l [2]string) bool {
		return l[0] == file
	})
	return known && slices.Contains(kernelspecDirs(), path.Dir(path.Clean(folder)))
}

// KernelspecFiles returns the files of the kernelspecs in a file system, by their path.
func KernelspecFiles(root fs.FS) map[string][]byte {
	files := map[string][]byte{}
	for _, dir := range kernelspecDirs() {
		entries, err := fs.ReadDir(root, dir)
		if err != nil {
			continue
		}
		for _, e := range entries[:min(len(entries), maxKernelspecs)] {
			names := []string{"kernel.json"}
			for _, l := range logos() {
				names = append(names, l[0])
			}
			for _, name := range names {
				name = path.Join(dir, e.Name(), name)
				info, err := fs.Stat(root, name)
				if err != nil || !info.Mode().IsRegular() || info.Size() > maxManifest {
					continue
				}
				if text, err := fs.ReadFile(root, name); err == nil {
					files[name] = text
				}
			}
		}
	}
	return files
}

// Kernelspecs returns a language for each kernelspec of files, sorted by name. known are the other
// languages, which keep their names. A kernelspec that is not valid is left out. If two have
// the same folder name, the one counts that Jupyter finds first.
func Kernelspecs(files map[string][]byte, known []Manifest) []Manifest {
	claims := map[string]bool{}
	for _, m := range known {
		for _, name := range slices.Concat([]string{m.Name}, m.Aliases, m.Extensions) {
			claims[name] = true
		}
	}
	seen := map[string]bool{}
	var list []Manifest
	for _, dir := range kernelspecDirs() {
		for _, file := range slices.Sorted(maps.Keys(files)) {
			folder := path.Dir(file)
			if path.Base(file) != "kernel.json" || path.Dir(folder) != dir || seen[path.Base(folder)] ||
				len(list) == maxKernelspecs {
				continue
			}
			seen[path.Base(folder)] = true
			if m, ok := kernelspec(folder, files, claims); ok {
				list = append(list, m)
			}
		}
	}
	slices.SortFunc(list, func(a, b Manifest) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// kernelspec returns the language of the kernelspec in a folder, and claims its names.
func kernelspec(folder string, files map[string][]byte, claims map[string]bool) (Manifest, bool) {
	var spec struct {
		Argv     []string `json:"argv"`
		Display  string   `json:"display_name"`
		Language string   `json:"language"`
	}
	if json.Unmarshal(files[path.Join(folder, "kernel.json")], &spec) != nil ||
		len(spec.Argv) == 0 || spec.Argv[0] == "" {
		return Manifest{}, false
	}
	base := strings.ToLower(path.Base(folder))
	language := strings.ToLower(spec.Language)
	m := Manifest{
		Display: spec.Display, Interrupt: "announced", Env: map[string]string{},
		Editor: &Editor{Jupyter: path.Base(folder), VSCode: language, Logo: logo(folder, files)},
	}
	for _, name := range []string{language, base, base + "-jupyter"} {
		if !validName(name) || claims[name] {
			continue
		}
		if m.Name == "" {
			m.Name = name
		} else if name == base {
			m.Aliases = append(m.Aliases, name)
		}
		claims[name] = name == m.Name || name == base || claims[name]
	}
	if m.Name == "" {
		return Manifest{}, false
	}
	if m.Display == "" {
		m.Display = path.Base(folder)
	}
	m.Argv = []string{JupyterDriver, m.Name, "/" + folder}
	if k := programs()[language]; k.ext != "" && !claims[k.ext] {
		claims[k.ext] = true
		m.Extensions, m.Program = []string{k.ext}, k.argv
		m.Editor.Comment = k.comment
	}
	return m, true
}

func validName(name string) bool {
	return name != "" && strings.Trim(name, nameLetters) == ""
}

// logo returns the logo of a kernelspec as a data URI, or "".
func logo(folder string, files map[string][]byte) string {
	for _, l := range logos() {
		if image := files[path.Join(folder, l[0])]; len(image) > 0 && len(image) <= maxLogo {
			return "data:" + l[1] + ";base64," + base64.StdEncoding.EncodeToString(image)
		}
	}
	return ""
}

// program is how files of a language are named and run.
type program struct {
	ext, comment string
	argv         []string
}

// programs are the languages whose files can be run. A kernelspec does not say that.
func programs() map[string]program {
	run := func(ext, comment string, argv ...string) program {
		return program{ext, comment, append(argv, fileMark)}
	}
	return map[string]program{
		"r":      run(".r", "#", "Rscript"),
		"octave": run(".m", "%", "octave-cli", "--quiet"),
		"julia":  run(".jl", "#", "julia"),
		"ruby":   run(".rb", "#", "ruby"),
		"perl":   run(".pl", "#", "perl"),
		"lua":    run(".lua", "--", "lua"),
		"scala":  run(".scala", "//", "scala"),
		"scheme": run(".scm", ";", "guile"),
	}
}
