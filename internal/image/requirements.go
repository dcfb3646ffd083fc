package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/sandgate/sandgate/kernel"
)

// defaultPath is the PATH of an image that does not set it.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the environment of an image, with a PATH.
func environment(said []string) []string {
	var env []string
	have := false
	for _, e := range said {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" || name[0] >= '0' && name[0] <= '9' ||
			strings.Trim(name,
				"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" ||
			strings.ContainsRune(value, 0) {
			continue
		}
		have = have || name == "PATH"
		env = append(env, e)
	}
	if !have {
		env = append(env, "PATH="+defaultPath)
	}
	return env
}

// runs reports whether a tree has everything that the driver of a language needs: its programs, and
// one of the manifest's Needs. The driver itself is added later.
func runs(root *os.Root, l kernel.Manifest, env []string) bool {
	if len(l.Argv) == 0 || len(l.Program) == 0 {
		return false
	}
	if !strings.HasPrefix(l.Argv[0], "/opt/sandgate/") && !program(root, l.Argv[0]) {
		return false
	}
	if !strings.HasPrefix(l.Program[0], "/opt/sandgate/") && !found(root, l.Program[0], env) {
		return false
	}
	for _, p := range l.Needs {
		if m, err := fs.Glob(root.FS(), p); err == nil && len(m) > 0 {
			return true
		}
	}
	return len(l.Needs) == 0
}

// declared returns the languages that a tree declares and whose program it has. Like Jupyter, the
// driver takes another Python for the program python.
func declared(root *os.Root, known []kernel.Manifest, env []string) []kernel.Manifest {
	files := kernel.DeclarationFiles(root.FS())
	for name, text := range files {
		if path.Ext(name) != ".json" {
			continue
		}
		tool, ok := kernel.DeclarationTool(name, text)
		if !ok || !found(root, tool, env) && (tool != "python" || !found(root, "python3", env)) {
			delete(files, name)
		}
	}
	return kernel.Declared(files, known)
}

func found(root *os.Root, name string, env []string) bool {
	if path.IsAbs(name) {
		return program(root, name)
	}
	for _, e := range env {
		dirs, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(dirs, ":") {
			if path.IsAbs(dir) && program(root, path.Join(dir, name)) {
				return true
			}
		}
	}
	return false
}

// program reports whether there is a file at an absolute path. It follows links as the sandbox
// would.
func program(root *os.Root, name string) bool {
	for range 16 {
		name = strings.TrimPrefix(path.Clean(name), "/")
		if info, err := root.Stat(name); err == nil {
			return info.Mode().IsRegular() && info.Mode()&0o111 != 0
		}
		// os.Root follows no absolute link: resolve the first one.
		next, ok := relink(root, name)
		if !ok {
			return false
		}
		name = next
	}
	return false
}

// relink replaces the first absolute link in a path by its target.
func relink(root *os.Root, name string) (string, bool) {
	parts := strings.Split(name, "/")
	for i := range parts {
		head := path.Join(parts[:i+1]...)
		info, err := root.Lstat(head)
		if err != nil {
			return "", false
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		to, err := root.Readlink(head)
		if err != nil || !path.IsAbs(to) {
			continue
		}
		return path.Join(append([]string{to}, parts[i+1:]...)...), true
	}
	return "", false
}

// workFolder is the folder in which programs of several surfaces work, as the server's own image has
// it.
const workFolder = "mnt/data"

// addRequirements adds to a tree the files that a sandbox needs: the mount points, the user with a
// home, the agent and the drivers.
func (m Maker) addRequirements(root *os.Root, languages []string) error {
	home := strings.TrimPrefix(m.Home, "/")
	for _, dir := range []struct {
		name string
		mode fs.FileMode
	}{
		{".", 0o755},
		{"proc", 0o755},
		{"sys", 0o755},
		{"dev", 0o755},
		{"tmp", 0o777 | fs.ModeSticky},
		{"etc", 0o755},
		{"opt", 0o755},
		{home, 0o755},
		{"mnt", 0o755},
		{workFolder, 0o755},
	} {
		info, err := root.Lstat(dir.name)
		if err == nil && !info.IsDir() {
			if err := root.Remove(dir.name); err != nil {
				return err
			}
		}
		if err := root.MkdirAll(dir.name, 0o755); err != nil {
			return err
		}
		if err := root.Chmod(dir.name, dir.mode); err != nil {
			return err
		}
	}
	for _, dir := range []string{home, workFolder} {
		if err := root.Chown(dir, m.User, m.User); err != nil {
			return err
		}
	}
	// The user must not be able to exchange the agent's folder for another one.
	for _, dir := range []string{".", "opt", "mnt"} {
		if err := root.Chown(dir, 0, 0); err != nil {
			return err
		}
	}
	for _, x := range []struct{ file, line string }{
		{"etc/passwd", fmt.Sprintf("user:x:%d:%d:user:%s:/bin/sh\n", m.User, m.User, m.Home)},
		{"etc/group", fmt.Sprintf("user:x:%d:\n", m.User)},
	} {
		if err := name(root, x.file, fmt.Sprintf(":%d:", m.User), x.line); err != nil {
			return err
		}
	}
	if err := root.RemoveAll("opt/sandgate"); err != nil {
		return err
	}
	if err := root.MkdirAll("opt/sandgate/langs", 0o755); err != nil {
		return err
	}
	return m.Install(root, languages)
}

// name adds a line to a table of names unless it has a line with the mark.
func name(root *os.Root, file, mark, line string) error {
	text, err := root.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if file == "etc/passwd" {
			text = []byte("root:x:0:0:root:/root:/bin/sh\n")
		} else {
			text = []byte("root:x:0:\n")
		}
	} else if err != nil {
		return err
	}
	if strings.Contains(string(text), mark) {
		return nil
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	if err := root.RemoveAll(file); err != nil {
		return err
	}
	return root.WriteFile(file, append(text, line...), 0o644)
}
