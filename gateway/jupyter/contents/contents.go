// Package contents presents the files of a session as Jupyter's contents: models of files, folders
// and notebooks, saves in parts, copies with new names, and checkpoints.
//
// It keeps no state: parts of a save and checkpoints are files of the session.
package contents

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/mime"
)

const (
	// MaxContent is the largest file whose content is in a model, in bytes.
	MaxContent = 32 << 20
	// LargeContent is the size from which a content counts as large, in bytes.
	LargeContent = 4 << 20
	// maxEntries is the largest number of entries of a folder that a model has.
	maxEntries = 10_000
)

// The types and formats of models.
const (
	TypeFile      = "file"
	TypeNotebook  = "notebook"
	TypeDirectory = "directory"

	formatText   = "text"
	formatBase64 = "base64"
	formatJSON   = "json"
)

// Model is a file as clients see it. Content and Format are null without the content.
type Model struct {
	Name          string  `json:"name"`
	Path          string  `json:"path"`
	Type          string  `json:"type"`
	Writable      bool    `json:"writable"`
	Created       string  `json:"created"`
	LastModified  string  `json:"last_modified"`
	Size          *int64  `json:"size"`
	MIMEType      *string `json:"mimetype"`
	Format        *string `json:"format"`
	Content       any     `json:"content"`
	Hash          *string `json:"hash"`
	HashAlgorithm *string `json:"hash_algorithm"`
}

// Node is the part of a node that the package needs.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Files are the files of one session. Every field but Prefix is required.
type Files struct {
	Node    Node
	Who     noderpc.Principal
	Session string
	// Prefix comes before the paths of models: it is empty or ends with a slash.
	Prefix string
	// Timeout is how long a request to the node may take. A transfer may take longer.
	Timeout time.Duration
	// Large is called before a large content is held in memory. It returns an error if there are too
	// many.
	Large func() error
}

// call performs an operation.
func (f *Files) call(ctx context.Context, op string, params, result any) error {
	limit := f.Timeout
	switch op {
	case protocol.OpFileMove, protocol.OpFileCopy, protocol.OpFileRemove:
		limit = max(limit, slowLimit)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f.Node.Call(ctx, f.Who, op, params, result)
}

// slowLimit is how long a folder may take to be copied, moved or removed. The node has the same
// limit.
const slowLimit = 5 * time.Minute

// ref names a file. The empty path is the home folder.
func (f *Files) ref(name string) protocol.FileRef {
	if name == "" {
		name = "."
	}
	return protocol.FileRef{Session: f.Session, Path: name}
}

// Stat describes a file. Links are followed.
func (f *Files) Stat(ctx context.Context, name string) (protocol.File, error) {
	var out protocol.File
	err := f.call(ctx, protocol.OpFileStat, protocol.FileStat{FileRef: f.ref(name)}, &out)
	return out, err
}

// exists reports whether something is at a path.
func (f *Files) exists(ctx context.Context, name string) (protocol.File, bool, error) {
	st, err := f.Stat(ctx, name)
	if fault.Is(err, fault.NotFound) && fault.PublicOf(err).Field != "" {
		return st, false, nil
	}
	return st, err == nil, err
}

// typeOf returns the type of a file that a request without a type gets.
func typeOf(st protocol.File, name string) string {
	switch {
	case st.Dir:
		return TypeDirectory
	case strings.HasSuffix(name, ".ipynb"):
		return TypeNotebook
	}
	return TypeFile
}

// Stamp returns a time in the form that Jupyter's clients parse.
func Stamp(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000000Z")
}

// model describes a file without its content.
func (f *Files) model(name string, st protocol.File, typ string) Model {
	m := Model{
		Path: f.Prefix + name, Name: path.Base(f.Prefix + name), Type: typ,
		Writable: st.Mode&0o222 != 0, Created: Stamp(st.ModifiedMS),
		LastModified: Stamp(st.ModifiedMS),
	}
	if name == "" {
		m.Path = strings.TrimSuffix(f.Prefix, "/")
		if m.Name = m.Path; m.Path == "" {
			m.Name = ""
		}
	}
	if typ != TypeDirectory {
		size := st.Size
		m.Size = &size
	}
	if typ == TypeFile {
		m.setMIME(name, "")
	}
	return m
}

// setMIME sets the type of the content, by the name of the file.
func (m *Model) setMIME(name, otherwise string) {
	kind := mime.TypeOf(name)
	if kind == "application/octet-stream" {
		if kind = otherwise; kind == "" {
			return
		}
	}
	m.MIMEType = &kind
}

// Want says what a model has.
type Want struct {
	// Type is file, notebook or directory; empty means the type of the file.
	Type string
	// Format is text or base64; empty means text if the file is UTF-8.
	Format        string
	Content, Hash bool
}

// check rejects values that do not exist.
func (w Want) check() error {
	switch w.Type {
	case "", TypeFile, TypeNotebook, TypeDirectory:
	default:
		return fault.Invalid("contents.get", "type", "a type is file, notebook or directory")
	}
	switch w.Format {
	case "", formatText, formatBase64, formatJSON:
	default:
		return fault.Invalid("contents.get", "format", "a format is text, base64 or json")
	}
	return nil
}

// Get returns the model of a file. Errors: NotFound, TooLarge, and InvalidArgument if the file does
// not have the wanted type or format.
func (f *Files) Get(ctx context.Context, name string, w Want) (Model, error) {
	const op = "contents.get"
	if err := w.check(); err != nil {
		return Model{}, err
	}
	st, err := f.Stat(ctx, name)
	if err != nil {
		return Model{}, err
	}
	if st.Type != "folder" && st.Type != "file" {
		return Model{}, fault.Invalid(op, "path", "this is neither a file nor a folder")
	}
	typ := w.Type
	if typ == "" {
		typ = typeOf(st, name)
	}
	if (typ == TypeDirectory) != st.Dir {
		return Model{}, fault.Invalid(op, "type", "%q is not a %s", name, typ)
	}
	m := f.model(name, st, typ)
	if typ == TypeDirectory {
		if w.Content {
			err = f.list(ctx, name, &m)
		}
		return m, err
	}
	if !w.Content && !w.Hash {
		return m, nil
	}
	data, err := f.read(ctx, name, st.Size)
	if err != nil {
		return m, err
	}
	if w.Hash {
		m.setHash(data)
	}
	if !w.Content {
		return m, nil
	}
	if typ == TypeNotebook {
		m.Content, err = decodeNotebook(data)
		m.setFormat(formatJSON)
		return m, err
	}
	return m, m.setText(name, data, w.Format)
}

func (m *Model) setFormat(name string) { m.Format = &name }

// setHash sets the hash of the content.
func (m *Model) setHash(data []byte) {
	sum := sha256.Sum256(data)
	text, algorithm := hex.EncodeToString(sum[:]), "sha256"
	m.Hash, m.HashAlgorithm = &text, &algorithm
}

// setText sets the content of a file.
func (m *Model) setText(name string, data []byte, format string) error {
	isText := utf8.Valid(data)
	switch {
	case format == formatText && !isText:
		return fault.Invalid("contents.get", "format", "the file is not UTF-8 text")
	case format == formatBase64 || !isText:
		m.Content = base64.StdEncoding.EncodeToString(data)
		m.setFormat(formatBase64)
		m.setMIME(name, "application/octet-stream")
	default:
		m.Content = string(data)
		m.setFormat(formatText)
		m.setMIME(name, "text/plain")
	}
	return nil
}

// list sets the entries of a folder. Hidden entries and those that are no files are left out.
func (f *Files) list(ctx context.Context, name string, m *Model) error {
	entries := []Model{}
	after := ""
	for seen := 0; ; {
		var page protocol.FileListing
		err := f.call(ctx, protocol.OpFileList,
			protocol.FileList{FileRef: f.ref(name), Limit: 5000, After: after}, &page)
		if err != nil {
			return err
		}
		if seen += len(page.Entries); seen > maxEntries {
			return fault.New(fault.TooLarge, "contents.list",
				"the folder has over %d entries", maxEntries)
		}
		for _, e := range page.Entries {
			base := path.Base(e.Path)
			isFile := e.Type == "file" || e.Type == "link" && e.LeadsType == "file"
			if e.Raw != "" || base[0] == '.' || !isFile && !e.Dir {
				continue
			}
			entries = append(entries, f.model(path.Join(name, base), e, typeOf(e, base)))
		}
		if after = page.Next; after == "" {
			break
		}
	}
	m.Content = entries
	m.setFormat(formatJSON)
	return nil
}

// Open opens a file or a part of it. The end of ctx, or Close, ends the transfer.
func (f *Files) Open(ctx context.Context, p protocol.FileRead, part *protocol.FilePart,
) (*Reader, error) {
	opening, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	l, err := f.Node.Open(opening, f.Who)
	if err != nil {
		return nil, err
	}
	p.Session = f.Session
	body, err := fileclient.Open(opening, l, protocol.OpFileRead, p, part)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	return &Reader{body, func() { stop(); _ = l.Close() }}, nil
}

// Reader reads the content of a file.
type Reader struct {
	*fileclient.Reader
	drop func()
}

// Close ends the transfer.
func (r *Reader) Close() { r.drop() }

// read returns the content of a file that was size bytes long. Errors: TooLarge.
func (f *Files) read(ctx context.Context, name string, size int64) ([]byte, error) {
	tooLarge := func(size int64) error {
		return fault.New(fault.TooLarge, "contents.read",
			"the file has %d bytes, and a content at most %d: read it below /files/", size,
			MaxContent)
	}
	if size > MaxContent {
		return nil, tooLarge(size)
	}
	if size > LargeContent {
		if err := f.Large(); err != nil {
			return nil, err
		}
	}
	var part protocol.FilePart
	r, err := f.Open(ctx, protocol.FileRead{FileRef: f.ref(name)}, &part)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	most := int64(MaxContent)
	if size <= LargeContent {
		most = LargeContent // a file that grows now is not counted as large
	}
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = tooLarge(max(part.Size, most+1))
	}
	return data, err
}

// write writes a file, completely or not at all.
func (f *Files) write(ctx context.Context, p protocol.FileWrite, body io.Reader,
) (protocol.File, error) {
	var out protocol.File
	opening, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	l, err := f.Node.Open(opening, f.Who)
	if err != nil {
		return out, err
	}
	defer func() { _ = l.Close() }()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	p.Session = f.Session
	err = fileclient.Write(l, protocol.OpFileWrite, p, body, f.Timeout, &out)
	return out, err
}

// Valid reports whether a path is one of contents: hidden files and .. are not. The empty path is the
// home folder.
func Valid(name string) bool {
	if name == "" {
		return true
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.ContainsRune(part, 0) {
			return false
		}
	}
	return len(name) <= surface.MaxPath && utf8.ValidString(name)
}
