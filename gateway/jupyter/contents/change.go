package contents

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxTries is how many names are tried for a new file.
const maxTries = 1000

// Saved is the body of a save.
type Saved struct {
	Type    string          `json:"type"`
	Format  string          `json:"format"`
	Content json.RawMessage `json:"content"`
	// Chunk is the number of a part of the content, from 1; the last one has -1. 0 means the whole.
	Chunk int `json:"chunk"`
}

// bytes returns the content of a file.
func (p Saved) bytes() ([]byte, error) {
	const op = "contents.save"
	if p.Type == TypeNotebook {
		return encodeNotebook(p.Content)
	}
	var text string
	if json.Unmarshal(p.Content, &text) != nil {
		return nil, fault.Invalid(op, "content", "the content of a file is a string")
	}
	switch p.Format {
	case formatText:
		return []byte(text), nil
	case formatBase64:
		data, err := base64.StdEncoding.DecodeString(strings.Map(func(r rune) rune {
			if r == '\n' || r == '\r' {
				return -1
			}
			return r
		}, text))
		if err != nil {
			return nil, fault.Invalid(op, "content", "the content is not base64")
		}
		return data, nil
	}
	return nil, fault.Invalid(op, "format", "the format of a file is text or base64")
}

// SaveModel writes a file or creates a folder. It reports whether there was none before.
func (f *Files) SaveModel(ctx context.Context, name string, p Saved) (m Model, created bool,
	err error,
) {
	const op = "contents.save"
	if name == "" {
		return m, false, fault.Invalid(op, "path", "the home folder cannot be written")
	}
	st, exists, err := f.exists(ctx, name)
	if err != nil {
		return m, false, err
	}
	switch p.Type {
	case TypeDirectory:
		if exists && !st.Dir {
			return m, false, fault.Invalid(op, "path", "%q is a file", name)
		}
		if !exists {
			err = f.call(ctx, protocol.OpFileMkdir, f.ref(name), &st)
		}
		return f.model(name, st, TypeDirectory), !exists, err
	case TypeFile, TypeNotebook:
	default:
		return m, false, fault.Invalid(op, "type", "a type is file, notebook or directory")
	}
	if exists && st.Dir {
		return m, false, fault.Invalid(op, "path", "%q is a folder", name)
	}
	data, err := p.bytes()
	if err != nil {
		return m, false, err
	}
	if p.Chunk != 0 {
		m, err = f.savePart(ctx, name, p, data)
		return m, !exists, err
	}
	st, err = f.write(ctx, protocol.FileWrite{FileRef: f.ref(name)}, bytes.NewReader(data))
	if err != nil {
		return m, false, err
	}
	m = f.model(name, st, p.Type)
	m.setHash(data)
	return m, !exists, nil
}

// emptyNotebook is the content of a new notebook.
const emptyNotebook = "{\n \"cells\": [],\n \"metadata\": {},\n \"nbformat\": 4,\n" +
	" \"nbformat_minor\": 5\n}\n"

// Create makes a new file, notebook or folder with a new name in a folder.
func (f *Files) Create(ctx context.Context, folder, typ, ext string) (Model, error) {
	base, insert, content := "untitled", "", ""
	switch typ {
	case TypeDirectory:
		base, insert, ext = "Untitled Folder", " ", ""
	case TypeNotebook:
		base, ext, content = "Untitled", ".ipynb", emptyNotebook
	case TypeFile, "":
		if typ = TypeFile; ext == ".ipynb" {
			base, typ, content = "Untitled", TypeNotebook, emptyNotebook
		}
	default:
		return Model{}, fault.Invalid("contents.create", "type",
			"a type is file, notebook or directory")
	}
	if strings.ContainsAny(ext, "/\x00") {
		return Model{}, fault.Invalid("contents.create", "ext", "an extension has no slash")
	}
	if ext != "" && ext[0] != '.' {
		ext = "." + ext
	}
	return f.withNewName(ctx, folder, base, insert, ext, typ, func(name string) (protocol.File,
		error,
	) {
		if typ == TypeDirectory {
			var st protocol.File
			return st, f.call(ctx, protocol.OpFileMkdir, f.ref(name), &st)
		}
		return f.write(ctx, protocol.FileWrite{FileRef: f.ref(name), IfAbsent: true},
			strings.NewReader(content))
	})
}

// withNewName makes a file with the first name that is free: base, base1 and so on.
func (f *Files) withNewName(ctx context.Context, folder, base, insert, ext, typ string,
	create func(name string) (protocol.File, error),
) (Model, error) {
	st, err := f.Stat(ctx, folder)
	if err != nil {
		return Model{}, err
	}
	if !st.Dir {
		return Model{}, fault.Invalid("contents.create", "path", "%q is a file", folder)
	}
	for i := range maxTries {
		name := base + ext
		if i > 0 {
			name = base + insert + strconv.Itoa(i) + ext
		}
		name = path.Join(folder, name)
		if _, taken, err := f.exists(ctx, name); err != nil || taken {
			if err != nil {
				return Model{}, err
			}
			continue
		}
		st, err := create(name)
		if fault.Is(err, fault.Conflict) {
			continue // another request has taken the name
		}
		if err != nil {
			return Model{}, err
		}
		if typ == "" {
			typ = typeOf(st, name)
		}
		return f.model(name, st, typ), nil
	}
	return Model{}, fault.New(fault.Conflict, "contents.create", "too many files have such a name").
		For(fault.CauseExists)
}

// Copy copies a file or a folder into a folder, with a new name.
func (f *Files) Copy(ctx context.Context, from, folder string) (Model, error) {
	st, err := f.Stat(ctx, from)
	if err != nil {
		return Model{}, err
	}
	if from == "" {
		return Model{}, fault.Invalid("contents.copy", "copy_from",
			"the home folder cannot be copied")
	}
	base, ext := path.Base(from), ""
	if !st.Dir {
		ext = path.Ext(base)
		base = strings.TrimSuffix(base, ext)
	}
	if path.Join(folder, base+ext) == from || path.Dir(from) == path.Join(folder, ".") {
		if at := strings.LastIndex(base, "-Copy"); at > 0 &&
			strings.Trim(base[at+len("-Copy"):], "0123456789") == "" {
			base = base[:at] // a copy of a copy
		}
	}
	return f.withNewName(ctx, folder, base, "-Copy", ext, "", func(name string) (protocol.File,
		error,
	) {
		var st protocol.File
		return st, f.call(ctx, protocol.OpFileCopy,
			protocol.FileMove{FileRef: f.ref(from), To: name}, &st)
	})
}

// Rename moves a file or a folder, with its checkpoint. Errors: Conflict.
func (f *Files) Rename(ctx context.Context, from, to string) (Model, error) {
	if from == "" || to == "" {
		return Model{}, fault.Invalid("contents.rename", "path", "the home folder cannot be moved")
	}
	var st protocol.File
	err := f.call(ctx, protocol.OpFileMove, protocol.FileMove{FileRef: f.ref(from), To: to}, &st)
	if err != nil {
		return Model{}, err
	}
	if from != to && !st.Dir {
		err = f.call(ctx, protocol.OpFileMove, protocol.FileMove{
			FileRef: f.ref(checkpointOf(from)), To: checkpointOf(to), Overwrite: true,
		}, nil)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return Model{}, err
		}
	}
	return f.Get(ctx, to, Want{})
}

// Delete removes a file with its checkpoint, or a folder with everything in it.
func (f *Files) Delete(ctx context.Context, name string) error {
	if name == "" {
		return fault.Invalid("contents.delete", "path", "the home folder cannot be removed")
	}
	err := f.call(ctx, protocol.OpFileRemove,
		protocol.FileRemove{FileRef: f.ref(name), Recursive: true}, nil)
	if err != nil {
		return err
	}
	if err := f.DeleteCheckpoint(ctx, name); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// CheckpointID is the id of the only checkpoint of a file.
const CheckpointID = "checkpoint"

// Checkpoint is a saved version of a file.
type Checkpoint struct {
	ID           string `json:"id"`
	LastModified string `json:"last_modified"`
}

// checkpointOf returns the path of the checkpoint of a file, as Jupyter Server has it.
func checkpointOf(name string) string {
	base := path.Base(name)
	ext := path.Ext(base)
	return path.Join(path.Dir(name), ".ipynb_checkpoints",
		strings.TrimSuffix(base, ext)+"-checkpoint"+ext)
}

// Checkpoints lists the checkpoints of a file.
func (f *Files) Checkpoints(ctx context.Context, name string) ([]Checkpoint, error) {
	all := []Checkpoint{}
	st, exists, err := f.exists(ctx, checkpointOf(name))
	if exists {
		all = append(all, Checkpoint{CheckpointID, Stamp(st.ModifiedMS)})
	}
	return all, err
}

// SaveCheckpoint keeps the present version of a file, instead of the one that was kept before.
func (f *Files) SaveCheckpoint(ctx context.Context, name string) (Checkpoint, error) {
	st, err := f.Stat(ctx, name)
	if err == nil && st.Dir {
		err = fault.Invalid("contents.checkpoint", "path", "a folder has no checkpoints")
	}
	if err == nil {
		err = f.call(ctx, protocol.OpFileCopy, protocol.FileMove{
			FileRef: f.ref(name), To: checkpointOf(name), Overwrite: true,
		}, &st)
	}
	return Checkpoint{CheckpointID, Stamp(max(st.ModifiedMS, time.Now().UnixMilli()))}, err
}

// RestoreCheckpoint replaces a file by the version that was kept.
func (f *Files) RestoreCheckpoint(ctx context.Context, name string) error {
	return f.call(ctx, protocol.OpFileCopy, protocol.FileMove{
		FileRef: f.ref(checkpointOf(name)), To: name, Overwrite: true,
	}, nil)
}

// DeleteCheckpoint removes the version that was kept.
func (f *Files) DeleteCheckpoint(ctx context.Context, name string) error {
	return f.call(ctx, protocol.OpFileRemove,
		protocol.FileRemove{FileRef: f.ref(checkpointOf(name))}, nil)
}
