package warm

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Shared keeps users' templates where all nodes of a cluster find them. Errors of all methods:
// Unavailable if it cannot be reached.
type Shared interface {
	// Admit checks that a tenant may have a template with a name beside its others. Errors:
	// Exhausted if it has limit others.
	Admit(ctx context.Context, tenant, name string, limit int) error
	// Put stores a definition from its folder, in the place of an earlier one with its name. It
	// returns its key. Errors: Conflict if another node stored one with this name at this moment.
	Put(ctx context.Context, def *TemplateDef) (key string, err error)
	// FetchBuild writes a warm snapshot that another node has made. Errors: NotFound.
	FetchBuild(ctx context.Context, def *TemplateDef, b Build) error
}

// Build names the files of a warm snapshot: a folder, and the description of the kernel in it. Name
// depends on everything that the snapshot depends on.
type Build struct{ Name, Dir, Meta string }

// markFile is the file in the folder of a definition that has its Mark.
const markFile = "stored.json"

// Mark records that Shared has a definition. The zero value means that only this node has it.
type Mark struct {
	Key string `json:"key"`
	// Copy reports that another node stored it.
	Copy bool `json:"copy,omitempty"`
}

// WriteDefinition writes a definition and its files to a folder.
func WriteDefinition(dir string, def *TemplateDef, files []byte) error {
	data, err := json.Marshal(def)
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(dir, filesFile), files, 0o600),
			atomicfile.Write(filepath.Join(dir, defFile), data))
	}
	def.dir = dir
	return err
}

func (k Mark) write(dir string) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, markFile), data)
}

func readMark(dir string) (k Mark, err error) {
	data, err := os.ReadFile(filepath.Join(dir, markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	return k, err
}

// Mark returns what is recorded of the definition in Shared.
func (s *TemplateDef) Mark() Mark {
	if k := s.mark.Load(); k != nil {
		return *k
	}
	return Mark{}
}

// SetMark records that Shared has the definition.
func (s *TemplateDef) SetMark(k Mark) error {
	s.mark.Store(&k)
	return fault.Wrap(fault.Host, "template.store", k.write(s.dir))
}

// Dir returns the folder of the definition.
func (s *TemplateDef) Dir() string { return s.dir }

// share stores a new definition in Shared.
func (m *Manager) share(ctx context.Context, def *TemplateDef) error {
	if m.cfg.Stored == nil {
		return nil
	}
	key, err := m.cfg.Stored.Put(ctx, def)
	if err != nil {
		return err
	}
	return def.SetMark(Mark{Key: key})
}

// Share stores the definition of a template in Shared that an earlier version of the node has made.
func (m *Manager) Share(ctx context.Context, t *Template) error { return m.share(ctx, t.def) }

// Import lists a template whose definition Shared has under a key. fill writes the definition to a
// folder. It replaces the template with the same name.
func (m *Manager) Import(tenant, name, key string, fill func(dir string) error) error {
	const op = "template.fetch"
	if err := m.work.begin(op); err != nil {
		return err
	}
	defer m.work.Done()
	dir, err := m.definitions.newDir(tenant, name)
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	def, err := receiveCopy(tenant, name, key, dir, fill)
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	_, err = m.place(op, def)
	return err
}

func receiveCopy(tenant, name, key, dir string, fill func(dir string) error) (*TemplateDef, error) {
	const op = "template.fetch"
	if err := fill(dir); err != nil {
		return nil, err
	}
	def, err := readDef(dir)
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	if def.Tenant != tenant || def.Name != name {
		return nil, fault.New(fault.Host, op, "the blob store has another template in the place of %s",
			name)
	}
	return def, def.SetMark(Mark{Key: key, Copy: true})
}

// Users returns the templates of all users, in no order.
func (m *Manager) Users() []*Template {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*Template, 0, len(m.users))
	for _, t := range m.users {
		all = append(all, t)
	}
	return all
}

// Builds returns the warm snapshots of a template that are on this node's disk.
func (t *Template) Builds() (all []Build) {
	for _, v := range []*Template{t, t.volumes} {
		if _, err := v.load(); err == nil {
			all = append(all, v.files())
		}
	}
	return all
}

func (t *Template) files() Build { return Build{Name: t.name, Dir: t.dir(), Meta: t.metaFile()} }

// fetch brings the snapshot of another node. It fails if there is none.
func (t *Template) fetch(ctx context.Context) (warmKernel, error) {
	shared := t.maker.cfg.Stored
	t.mu.Lock()
	ownOnly := t.ownOnly
	t.mu.Unlock()
	if shared == nil || t.def == nil || t.def.Mark().Key == "" || ownOnly {
		return warmKernel{}, fs.ErrNotExist
	}
	if err := shared.FetchBuild(ctx, t.def, t.files()); err != nil {
		if !fault.Is(err, fault.NotFound) {
			t.maker.log.Warn("the snapshot of a template was not fetched", "template", t.key,
				"error", err)
		}
		return warmKernel{}, err
	}
	warm, err := t.load()
	if err == nil {
		t.mu.Lock()
		t.fetched = true
		t.mu.Unlock()
		t.maker.log.Info("fetched a warm snapshot", "template", t.key, "snapshot", t.name)
	}
	return warm, err
}
