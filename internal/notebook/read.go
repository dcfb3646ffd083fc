package notebook

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol/fault"
	wire "github.com/sandgate/sandgate/protocol/notebook"
)

// List returns the notebooks of a tenant, or of one of its sessions.
func (s *Store) List(tenant string, q wire.Query) (wire.List, error) {
	out := wire.List{Notebooks: []wire.Notebook{}}
	for _, n := range s.list(func(n *notebook) bool {
		return n.Tenant == tenant && (q.Session == "" || n.Session == q.Session)
	}) {
		out.Notebooks = append(out.Notebooks, wire.Notebook{
			ID: n.ID, Session: n.Session, Path: n.Path, SavedMS: n.last().Saved.UnixMilli(),
			Bytes: n.last().Bytes, Versions: len(n.Versions), Title: n.Title,
		})
	}
	return out, nil
}

// Versions returns the versions of a notebook.
func (s *Store) Versions(tenant string, r wire.Ref) (wire.Versions, error) {
	n, err := s.find("notebook.versions", tenant, r.Notebook)
	if err != nil {
		return wire.Versions{}, err
	}
	out := wire.Versions{}
	for _, v := range slices.Backward(n.Versions) {
		out.Versions = append(out.Versions, v.shown())
	}
	return out, nil
}

func (v version) shown() wire.Version {
	return wire.Version{
		ID: v.ID, SavedMS: v.Saved.UnixMilli(), Bytes: v.Bytes, Name: v.Name, Subject: v.Subject,
	}
}

// Read returns a part of the text of a version. It ends between two characters.
func (s *Store) Read(tenant string, r wire.Read) (wire.Part, error) {
	const op = "notebook.read"
	n, err := s.find(op, tenant, r.Notebook)
	if err != nil {
		return wire.Part{}, err
	}
	i, err := n.version(op, r.Version)
	if err != nil {
		return wire.Part{}, err
	}
	v := n.Versions[i]
	if r.Offset < 0 || r.Offset > v.Bytes {
		return wire.Part{}, fault.Invalid(op, "offset", "the version has %d bytes", v.Bytes)
	}
	f, err := os.Open(filepath.Join(s.dir, n.ID, v.File))
	if errors.Is(err, fs.ErrNotExist) { // a save has replaced it meanwhile
		return wire.Part{}, fault.New(fault.Conflict, op, "the version has changed; read it again")
	}
	if err != nil {
		return wire.Part{}, fault.Wrap(fault.Host, op, err)
	}
	defer f.Close()
	text := make([]byte, min(wire.MaxPart, v.Bytes-r.Offset))
	if _, err := io.ReadFull(io.NewSectionReader(f, r.Offset, int64(len(text))), text); err != nil {
		return wire.Part{}, fault.Wrap(fault.Host, op, err)
	}
	if r.Offset+int64(len(text)) == v.Bytes {
		return wire.Part{Text: string(text)}, nil
	}
	// The next part begins with the character that this one would cut.
	end := len(text)
	for cut := 1; cut < utf8.UTFMax && cut < end; cut++ {
		if utf8.RuneStart(text[end-cut]) {
			if !utf8.FullRune(text[end-cut:]) {
				end -= cut
			}
			break
		}
	}
	return wire.Part{Text: string(text[:end]), Next: r.Offset + int64(end)}, nil
}

// Name gives a version a name, and closes it if that is wanted.
func (s *Store) Name(tenant string, p wire.Naming) (wire.Version, error) {
	const op = "notebook.name"
	if len(p.Name) > wire.MaxName || !utf8.ValidString(p.Name) {
		return wire.Version{}, fault.Invalid(op, "name", "a name has at most %d bytes", wire.MaxName)
	}
	s.change.Lock()
	defer s.change.Unlock()
	before, err := s.find(op, tenant, p.Notebook)
	if err != nil {
		return wire.Version{}, err
	}
	i, err := before.version(op, p.Version)
	if err != nil {
		return wire.Version{}, err
	}
	n := *before
	n.Versions = slices.Clone(before.Versions)
	n.Versions[i].Name = p.Name
	n.Versions[i].Closed = n.Versions[i].Closed || p.Closed
	named := 0
	for _, v := range n.Versions {
		if v.Name != "" {
			named++
		}
	}
	if named > wire.MaxNamed && before.Versions[i].Name == "" {
		return wire.Version{}, &fault.Error{
			Kind: fault.Exhausted, Op: op, Cause: fault.CauseLimit,
			Message: "the notebook has as many versions with a name as it may have",
		}
	}
	return n.Versions[i].shown(), fault.Wrap(fault.Host, op, s.put(&n))
}

// Delete removes a notebook.
func (s *Store) Delete(tenant string, r wire.Ref) error {
	const op = "notebook.delete"
	s.change.Lock()
	defer s.change.Unlock()
	n, err := s.find(op, tenant, r.Notebook)
	if err != nil {
		return err
	}
	return fault.Wrap(fault.Host, op, s.remove(n))
}
