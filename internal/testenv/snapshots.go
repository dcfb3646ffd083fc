package testenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// SnapshotsVariable names the folder in which tests share the warm snapshots of languages. A server
// of a test then need not boot a sandbox and warm its kernel. Without it nothing is shared.
const SnapshotsVariable = "SANDGATE_TEST_SNAPSHOTS"

// languageSnapshot matches a language's snapshot and the file that describes it. The name has a hash
// of everything that the snapshot depends on.
var languageSnapshot = regexp.MustCompile(`^[a-z]+(-volumes)?-[0-9a-f]{20}(\.json)?$`)

// ShareSnapshots links the snapshots in dir, a server's folder, into the shared folder.
func ShareSnapshots(dir string) error {
	if shared := os.Getenv(SnapshotsVariable); shared != "" {
		return linkSnapshots(dir, shared)
	}
	return nil
}

// TakeSnapshots links the shared snapshots into dir, which belongs to a server that has not started.
// The server removes the snapshots that it has no use for.
func TakeSnapshots(dir string) error {
	if shared := os.Getenv(SnapshotsVariable); shared != "" {
		return linkSnapshots(shared, dir)
	}
	return nil
}

// linkSnapshots links the snapshots of one folder into another one. The description, whose presence
// makes a snapshot complete, comes last.
func linkSnapshots(from, to string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() || !languageSnapshot.MatchString(name) || exists(filepath.Join(to, name)) {
			continue
		}
		folder := name[:len(name)-len(".json")]
		files, err := os.ReadDir(filepath.Join(from, folder))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(to, folder), 0o700); err != nil {
			return err
		}
		for _, f := range files {
			if err := link(from, to, filepath.Join(folder, f.Name())); err != nil {
				return err
			}
		}
		if err := link(from, to, name); err != nil {
			return err
		}
	}
	return nil
}

// link links a file, unless it is there or has just been removed.
func link(from, to, name string) error {
	err := os.Link(filepath.Join(from, name), filepath.Join(to, name))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
