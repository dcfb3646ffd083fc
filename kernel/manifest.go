package kernel

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// ManifestFile is the name of a language's manifest in its folder of langs.
const ManifestFile = "manifest.json"

// maxManifest is the size of a manifest, in bytes.
const maxManifest = 64 << 10

// nameLetters are the characters of a language's name.
const nameLetters = "abcdefghijklmnopqrstuvwxyz0123456789+#-"

// fileMark stands for a file's path in Manifest.Program.
const fileMark = "{file}"

// Load reads the manifest of every folder in dir that has one, sorted by name.
// A key that is unknown or missing, a manifest whose name is not its folder's,
// and a name, alias or extension that two languages claim are errors.
func Load(dir string) ([]Manifest, error) {
	const op = "kernel.load"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, op, err)
	}
	var list []Manifest
	owner := map[string]string{} // the language that has a name, alias or extension
	for _, e := range entries {
		file := filepath.Join(dir, e.Name(), ManifestFile)
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) || !e.IsDir() {
			continue
		}
		if err != nil {
			return nil, fault.Wrap(fault.Internal, op, err)
		}
		m, err := ParseManifest(data)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, op+": "+file, err)
		}
		if m.Name != e.Name() {
			return nil, fault.Invalid(op, "name", "%s calls itself %q", file, m.Name)
		}
		for _, claim := range slices.Concat([]string{m.Name}, m.Aliases, m.Extensions) {
			if other := owner[claim]; other != "" {
				return nil, fault.Invalid(op, "aliases", "%q is claimed by %s and by %s", claim,
					other, m.Name)
			}
			owner[claim] = m.Name
		}
		if p := m.Packages; p != nil {
			// Without the script, the language runs and has no packages.
			script, err := os.ReadFile(filepath.Join(dir, e.Name(), p.Install))
			if err != nil && !os.IsNotExist(err) {
				return nil, fault.Wrap(fault.Internal, op, err)
			}
			p.Script = string(script)
		}
		list = append(list, m)
	}
	return list, nil
}

// ParseManifest reads and checks one manifest.
func ParseManifest(data []byte) (Manifest, error) {
	const op = "kernel.manifest"
	var m Manifest
	if len(data) > maxManifest {
		return m, fault.New(fault.TooLarge, op, "a manifest has at most %d bytes, this one has %d",
			maxManifest, len(data))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fault.Wrap(fault.InvalidArgument, op, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return m, fault.Invalid(op, "manifest", "there is data after the manifest's object")
	}
	return m, m.check()
}

// check reports the first field that is missing or wrong.
func (m Manifest) check() error {
	const op = "kernel.manifest"
	for _, name := range append([]string{m.Name}, m.Aliases...) {
		if !validName(name) {
			return fault.Invalid(op, "name",
				"%q is not a name: use lower-case letters, digits, +, # and -", name)
		}
	}
	if m.Display == "" {
		return fault.Invalid(op, "display_name", "%s has no display name", m.Name)
	}
	if len(m.Extensions) == 0 {
		return fault.Invalid(op, "extensions", "%s has no file extension", m.Name)
	}
	for _, ext := range m.Extensions {
		if len(ext) < 2 || ext[0] != '.' || strings.ContainsAny(ext[1:], "./ ") {
			return fault.Invalid(op, "extensions",
				"%q is not a file extension: use a dot and a word", ext)
		}
	}
	if len(m.Argv) == 0 || !path.IsAbs(m.Argv[0]) {
		return fault.Invalid(op, "argv", "%s needs a driver with an absolute path", m.Name)
	}
	if !slices.Contains(m.Program, fileMark) || m.Program[0] == fileMark {
		return fault.Invalid(op, "program", "%s needs a program and %s among its arguments", m.Name,
			fileMark)
	}
	for key := range m.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			return fault.Invalid(op, "env", "%q is not a name of a variable", key)
		}
	}
	if m.Interrupt != "signal" && m.Interrupt != "message" && m.Interrupt != "announced" {
		return fault.Invalid(op, "interrupt", "%q is not one of signal, message and announced",
			m.Interrupt)
	}
	return m.Packages.check()
}

var installName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// check reports the first field that is wrong. A nil Packages is valid.
func (p *Packages) check() error {
	const op = "kernel.manifest"
	if p == nil {
		return nil
	}
	if _, err := regexp.Compile(p.Pattern); err != nil || !strings.HasPrefix(p.Pattern, "^") ||
		!strings.HasSuffix(p.Pattern, "$") {
		return fault.Invalid(op, "packages.pattern", "%q is not a regular expression from ^ to $",
			p.Pattern)
	}
	if p.Form == "" {
		return fault.Invalid(op, "packages.form", "the form of package names is missing")
	}
	if !installName.MatchString(p.Install) {
		return fault.Invalid(op, "packages.install", "%q is not a file of the language's folder",
			p.Install)
	}
	return nil
}

// Find returns the language of the list that has the name or alias, in any
// case of letters.
func Find(list []Manifest, name string) (Manifest, error) {
	want := strings.ToLower(name)
	for _, m := range list {
		if m.Name == want || slices.Contains(m.Aliases, want) {
			return m, nil
		}
	}
	return Manifest{}, fault.Invalid("kernel.find", "language", "there is no language %q", name)
}

// FindFile returns the language of the list whose file extensions include that of file.
func FindFile(list []Manifest, file string) (Manifest, error) {
	ext := strings.ToLower(path.Ext(file))
	for _, m := range list {
		if slices.Contains(m.Extensions, ext) {
			return m, nil
		}
	}
	return Manifest{}, fault.Invalid("kernel.find", "file", "no language has files like %q",
		path.Base(file))
}

// Run returns the argument vector that runs a file of the language.
func (m Manifest) Run(file string, args ...string) []string {
	argv := slices.Clone(m.Program)
	for i := range argv {
		if argv[i] == fileMark {
			argv[i] = file
		}
	}
	return append(argv, args...)
}
