package notebook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/sandgate/sandgate/protocol/fault"
	wire "github.com/sandgate/sandgate/protocol/notebook"
)

// Owner is whose notebook is saved.
type Owner struct{ Tenant, Subject, Session string }

// OwnerOf returns the owner of notebooks that a subject of a tenant saves in a session.
func OwnerOf(tenant, subject, session string) Owner { return Owner{tenant, subject, session} }

// draft is a copy of a file while a client writes the file. It becomes a version when the file is
// complete.
type draft struct {
	owner Owner
	file  *os.File // nil once it has its place
	sum   hash.Hash
	bytes int64
	err   error // why it is not stored
}

// Tee calls write with a reader of body. If write succeeds and name is that of a notebook, the bytes
// become the newest version of the notebook at the path that write returns. A copy that cannot be
// stored is logged: the file is in the session. A nil Store stores none. Errors: that of write;
// Exhausted when the tenant saves too many notebooks at a time.
func (s *Store) Tee(op string, o Owner, name string, body io.Reader,
	write func(io.Reader) (path string, err error),
) error {
	if s == nil || path.Ext(name) != ".ipynb" {
		_, err := write(body)
		return err
	}
	release, err := s.saves.Reserve(op, o.Tenant)
	if err != nil {
		return err
	}
	defer release()
	d := &draft{owner: o, sum: sha256.New()}
	d.file, d.err = os.OpenFile(filepath.Join(s.dir, newName()),
		os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	written, err := write(io.TeeReader(body, d))
	if err == nil && d.err == nil {
		d.err = d.file.Sync()
	}
	if err == nil && d.err == nil {
		d.err = s.add(d, written)
	}
	if d.file != nil {
		d.err = errors.Join(d.err, d.file.Close(), os.Remove(d.file.Name()))
	}
	if d.err != nil {
		s.log.Warn("a notebook is only in its session", "session", o.Session, "tenant", o.Tenant,
			"error", d.err)
	}
	return err
}

// Write implements io.Writer. It never fails: a copy that cannot be stored does not end the write of
// the file.
func (d *draft) Write(p []byte) (int, error) {
	d.bytes += int64(len(p))
	if d.err == nil && d.bytes > wire.MaxBytes {
		d.err = fault.Invalid("notebook.save", "size",
			"the notebook has more than %d bytes", wire.MaxBytes)
	}
	if d.err == nil {
		d.sum.Write(p)
		_, d.err = d.file.Write(p)
	}
	return len(p), nil
}

// title returns the title of the notebook.
func (d *draft) title() (string, error) {
	_, err := d.file.Seek(0, io.SeekStart)
	return titleOf(d.file), err
}

// add makes the draft the newest version of a notebook.
func (s *Store) add(d *draft, path string) error {
	o := d.owner
	s.change.Lock()
	defer s.change.Unlock()
	s.expire()
	n := &notebook{
		ID: idOf(o.Tenant, o.Session, path), Tenant: o.Tenant, Session: o.Session, Path: path,
	}
	before, err := s.find("notebook.save", o.Tenant, n.ID)
	if err == nil {
		n.Versions = slices.Clone(before.Versions)
	}
	n.Subject = o.Subject
	if n.Title, err = d.title(); err != nil {
		return err
	}
	next := version{
		ID: "v_" + newName(), Begun: s.now(), Saved: s.now(), Bytes: d.bytes,
		Sum: hex.EncodeToString(d.sum.Sum(nil)), File: newName(), Subject: o.Subject,
	}
	switch {
	case before == nil || !replaces(n.last(), next):
		n.Versions = thin(append(n.Versions, next))
	default:
		last := n.last()
		next.ID, next.Begun, next.Name, next.Closed = last.ID, last.Begun, last.Name, last.Closed
		if next.Sum == last.Sum {
			next.File = last.File
		}
		*last = next
	}
	if err := s.makeRoom(n, before); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, n.ID)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if before == nil || before.last().File != n.last().File {
		if err := os.Rename(d.file.Name(), filepath.Join(dir, n.last().File)); err != nil {
			return err
		}
		err := d.file.Close()
		d.file = nil
		if err != nil {
			return err
		}
	}
	return s.put(n)
}

// replaces reports whether a save belongs to the newest version. It does for some time, unless that
// version has a name, or most of its text is gone.
func replaces(last *version, next version) bool {
	return last.Sum == next.Sum ||
		last.Name == "" && !last.Closed && next.Saved.Sub(last.Begun) < newVersion &&
			next.Bytes >= last.Bytes/2
}

func unnamed(v version) bool { return v.Name == "" }

// thin removes the oldest versions without a name.
func thin(all []version) []version {
	for len(all) > wire.MaxVersions {
		i := slices.IndexFunc(all, unnamed)
		all = slices.Delete(all, i, i+1) // there is one: MaxNamed is less
	}
	return all
}

// makeRoom removes the tenant's oldest versions without a name until a notebook fits. The newest
// version of each notebook stays. The caller holds change.
func (s *Store) makeRoom(n, before *notebook) error {
	const op = "notebook.save"
	mine := s.list(func(x *notebook) bool { return x.Tenant == n.Tenant && x.ID != n.ID })
	others := s.list(func(x *notebook) bool { return x.Tenant != n.Tenant })
	if before == nil {
		if err := s.count.Check(op, len(mine), len(mine)+len(others)); err != nil {
			return err
		}
	}
	sum := func(all []*notebook) (bytes int64) {
		for _, x := range all {
			bytes += x.bytes()
		}
		return bytes
	}
	theirs := sum(others)
	for {
		used := sum(mine) + n.bytes()
		err := s.space.Check(op, mebibytes(used)-1, mebibytes(used+theirs)-1)
		if err == nil {
			return nil
		}
		oldest, at := (*notebook)(nil), -1
		for _, x := range append(slices.Clone(mine), n) {
			i := slices.IndexFunc(x.Versions[:len(x.Versions)-1], unnamed)
			if i >= 0 && (oldest == nil || x.Versions[i].Saved.Before(oldest.Versions[at].Saved)) {
				oldest, at = x, i
			}
		}
		if oldest == nil {
			return err
		}
		shorter := *oldest
		shorter.Versions = slices.Delete(slices.Clone(oldest.Versions), at, at+1)
		if oldest == n {
			n.Versions = shorter.Versions
			continue
		}
		if err := s.put(&shorter); err != nil {
			return err
		}
		mine[slices.Index(mine, oldest)] = &shorter
	}
}

// mebibytes returns bytes in MiB, rounded up.
func mebibytes(bytes int64) int { return int((bytes + 1<<20 - 1) >> 20) }

// DropSession removes the stored notebooks of a session that a user has deleted.
func (s *Store) DropSession(tenant, session string) {
	if s == nil {
		return
	}
	s.change.Lock()
	defer s.change.Unlock()
	for _, n := range s.list(func(n *notebook) bool {
		return n.Tenant == tenant && n.Session == session
	}) {
		if err := s.remove(n); err != nil {
			s.log.Warn("a notebook of a deleted session was not removed", "notebook", n.ID, "error", err)
		}
	}
}
