// Package folders names the folders of a node's data.
package folders

import (
	"crypto/rand"
	"path/filepath"
)

// Folders are the folders of a node's data, below a folder.
type Folders struct{ data string }

// In returns the folders below a folder.
func In(data string) Folders { return Folders{data} }

// Sessions returns the folder of hibernated sessions, and Session that of one.
func (f Folders) Sessions() string         { return filepath.Join(f.data, "sessions") }
func (f Folders) Session(id string) string { return filepath.Join(f.Sessions(), id) }

// Snapshot returns the folder of a hibernated session's sandbox.
func (f Folders) Snapshot(id string) string { return filepath.Join(f.Session(id), "snapshot") }

// Record returns the name of the file with the record of a hibernated session. It
// exists from the end of one process to the first resume in the next.
func (f Folders) Record(id string) string {
	return filepath.Join(f.Session(id), "session.json")
}

// Logs returns the folder of the logs of all sessions, and LogsOf that of one.
func (f Folders) Logs() string            { return filepath.Join(f.data, "logs") }
func (f Folders) LogsOf(id string) string { return filepath.Join(f.Logs(), id) }

// Kept returns the folder of users' snapshots.
func (f Folders) Kept() string { return filepath.Join(f.data, "kept") }

// Temporary returns the folder of copies that are used only once. Each start of
// the node empties it.
func (f Folders) Temporary() string { return filepath.Join(f.data, "forks") }

// NewTemporary returns the name of a new folder in Temporary.
func (f Folders) NewTemporary() string { return filepath.Join(f.Temporary(), rand.Text()) }
