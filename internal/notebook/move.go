package notebook

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Moved moves the versions of the notebook at a path, or of those in a folder, with the file or the
// folder that has moved to another path. If there was a notebook, its versions stay and are older.
// An error is logged: the file is in the session.
func (s *Store) Moved(o Owner, from, to string) {
	if s == nil || from == "" || from == to {
		return
	}
	s.change.Lock()
	defer s.change.Unlock()
	for _, n := range s.list(func(n *notebook) bool {
		return n.Tenant == o.Tenant && n.Session == o.Session &&
			(n.Path == from || strings.HasPrefix(n.Path, from+"/"))
	}) {
		if err := s.move(n, to+strings.TrimPrefix(n.Path, from)); err != nil {
			s.log.Warn("the versions of a notebook were not moved with it", "notebook", n.ID,
				"error", err)
		}
	}
}

// move moves a notebook. The new record is written before the old one is removed, so that a crash
// loses no version. The caller holds change.
func (s *Store) move(n *notebook, path string) error {
	moved := *n
	moved.ID, moved.Path = idOf(n.Tenant, n.Session, path), path
	if there, err := s.find("notebook.move", n.Tenant, moved.ID); err == nil {
		moved.Versions = thin(slices.Concat(there.Versions, n.Versions))
	}
	dir := filepath.Join(s.dir, moved.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, v := range n.Versions {
		err := os.Link(filepath.Join(s.dir, n.ID, v.File), filepath.Join(dir, v.File))
		if err != nil && !os.IsExist(err) {
			return err
		}
	}
	if err := s.put(&moved); err != nil {
		return err
	}
	return s.remove(n)
}
