package admin

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandgate/sandgate/protocol/fault"
)

// reachableRunsc returns a path of the program at path that every user can open: path itself, or a
// copy in dir if a folder on the way is closed, such as root's home. Sandboxes run as nobody, in a
// user namespace of their own. The runtime reports errors of path itself.
func reachableRunsc(path, dir string) (string, error) {
	const op = "node.runsc"
	for p := path; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return path, nil
		}
		if info.Mode()&0o001 == 0 {
			break
		}
		if p == "/" || p == "." {
			return path, nil
		}
	}
	to := filepath.Join(dir, filepath.Base(path))
	from, err := os.Open(path)
	if err != nil {
		return "", fault.Wrap(fault.Host, op, err)
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		return "", fault.Wrap(fault.Host, op, err)
	}
	if have, err := os.Stat(to); err == nil && have.Size() == info.Size() &&
		have.ModTime().Equal(info.ModTime()) {
		return to, nil
	}
	if err := copyProgram(from, to, info); err != nil {
		return "", fault.Wrap(fault.Host, op, err)
	}
	return to, nil
}

// copyProgram writes to a temporary name first: a running program cannot be written, and a partial
// one must not run.
func copyProgram(from io.Reader, to string, info fs.FileInfo) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o711); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(to), ".part-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part.Name())
		}
	}()
	if _, err = io.Copy(part, from); err != nil {
		_ = part.Close()
		return err
	}
	if err = part.Close(); err != nil {
		return err
	}
	if err = os.Chmod(part.Name(), 0o755); err != nil {
		return err
	}
	if err = os.Chtimes(part.Name(), info.ModTime(), info.ModTime()); err != nil {
		return err
	}
	return os.Rename(part.Name(), to)
}
