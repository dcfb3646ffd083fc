// Package atomicfile writes files that appear whole or not at all.
package atomicfile

import (
	"errors"
	"os"
)

// Write writes data to a file that only this user can read, syncs it, and
// renames it to name. After a crash the file is the old one or the new one.
func Write(name string, data []byte) error {
	partial := name + ".partial"
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return os.Rename(partial, name)
}
