package azure

import (
	"context"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/fileclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// fileBefore is a file in versions before newShape.
type fileBefore struct {
	Properties struct {
		Name     string    `json:"filename"`
		Size     int64     `json:"size"`
		Modified time.Time `json:"lastModifiedTime"`
	} `json:"properties"`
}

// file is a file in later versions.
type file struct {
	Name     string    `json:"name"`
	Size     int64     `json:"sizeInBytes"`
	Modified time.Time `json:"lastModifiedAt"`
	MIME     string    `json:"contentType"`
	Type     string    `json:"type"`
}

// describe returns a file as the version of a target has it.
func (t target) describe(f protocol.File) any {
	name, at := strings.TrimPrefix(f.Path, folder+"/"), time.UnixMilli(f.ModifiedMS).UTC()
	if t.before {
		var b fileBefore
		b.Properties.Name, b.Properties.Size, b.Properties.Modified = name, f.Size, at
		return b
	}
	return file{name, f.Size, at, typeOf(name), "File"}
}

func typeOf(name string) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}

// clean returns the path of a file in the folder. Clients send a name, or the whole path. Errors:
// InvalidArgument for a path outside the folder.
func clean(name string) (string, error) {
	const op = "azure.file"
	if err := surface.CheckPath(op, name); err != nil {
		return "", err
	}
	name = path.Join(folder, strings.TrimPrefix(name, folder))
	if name == folder {
		return "", fault.Invalid(op, "file", "a file has a name")
	}
	return name, nil
}

// fileOf returns the file that the path of a request names, in a session that exists.
func (s *Surface) fileOf(r *http.Request) (t target, ref protocol.FileRef, err error) {
	if t, err = s.targetOf(r); err != nil {
		return t, ref, err
	}
	name := r.PathValue("name")
	if name == "" {
		name = r.PathValue("*")
	}
	plain, err := url.PathUnescape(name)
	if err != nil {
		return t, ref, fault.Invalid("azure.file", "file", "the name is not a part of a URL")
	}
	if ref.Path, err = clean(plain); err != nil {
		return t, ref, err
	}
	ref.Session, err = s.find(r.Context(), t)
	return t, ref, err
}

// listFiles lists the files in the folder. A session that does not exist has none.
func (s *Surface) listFiles(w http.ResponseWriter, r *http.Request) error {
	t, err := s.targetOf(r)
	if err != nil {
		return err
	}
	list := []any{}
	session, err := s.find(r.Context(), t)
	if err == nil {
		var page protocol.FileListing
		err = s.call(r.Context(), t, protocol.OpFileList, protocol.FileList{
			FileRef: protocol.FileRef{Session: session, Path: folder}, Depth: 1, Limit: maxListed,
		}, &page)
		for _, f := range page.Entries {
			if f.Type == "file" {
				list = append(list, t.describe(f))
			}
		}
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{"value": list})
}

// getFile describes a file.
func (s *Surface) getFile(w http.ResponseWriter, r *http.Request) error {
	t, ref, err := s.fileOf(r)
	if err != nil {
		return err
	}
	var f protocol.File
	err = s.call(r.Context(), t, protocol.OpFileStat, protocol.FileStat{FileRef: ref}, &f)
	if err != nil {
		return err
	}
	if t.before {
		return surface.WriteJSON(w, http.StatusOK, map[string]any{"value": []any{t.describe(f)}})
	}
	return surface.WriteJSON(w, http.StatusOK, t.describe(f))
}

// deleteFile removes a file.
func (s *Surface) deleteFile(w http.ResponseWriter, r *http.Request) error {
	t, ref, err := s.fileOf(r)
	if err != nil {
		return err
	}
	err = s.call(r.Context(), t, protocol.OpFileRemove, protocol.FileRemove{FileRef: ref}, nil)
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// download sends a file.
func (s *Surface) download(w http.ResponseWriter, r *http.Request) error {
	t, ref, err := s.fileOf(r)
	if err != nil {
		return err
	}
	l, err := s.cfg.Node.Open(r.Context(), t.who)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	defer context.AfterFunc(r.Context(), func() { _ = l.Close() })()
	var part protocol.FilePart
	content, err := fileclient.Open(r.Context(), l, protocol.OpFileRead,
		protocol.FileRead{FileRef: ref}, &part)
	if err != nil {
		return err
	}
	surface.Download{Name: ref.Path, Type: typeOf(ref.Path), Size: part.Length}.Send(w, r, content)
	return nil
}

// upload writes the part file of a form into the folder, and creates the session if there is none.
func (s *Surface) upload(w http.ResponseWriter, r *http.Request) error {
	t, err := s.targetOf(r)
	if err != nil {
		return err
	}
	part, name, err := filePart(r)
	if err != nil {
		return err
	}
	session, err := s.ensure(r.Context(), t)
	if err != nil {
		return err
	}
	l, err := s.cfg.Node.Open(r.Context(), t.who)
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	defer context.AfterFunc(r.Context(), func() { _ = l.Close() })()
	f := protocol.File{Path: name}
	err = fileclient.Write(l, protocol.OpFileWrite, protocol.FileWrite{
		FileRef: protocol.FileRef{Session: session, Path: name},
	}, part, s.cfg.Call, &f)
	if err != nil {
		return surface.FormError("azure.upload", err)
	}
	f.Path = name
	if t.before {
		return surface.WriteJSON(w, http.StatusOK, map[string]any{"value": []any{t.describe(f)}})
	}
	return surface.WriteJSON(w, http.StatusOK, t.describe(f))
}

// filePart returns the first file of a form, and its path in the folder.
func filePart(r *http.Request) (*multipart.Part, string, error) {
	const op = "azure.upload"
	form, err := r.MultipartReader()
	if err != nil {
		return nil, "", &fault.Error{
			Kind: fault.Malformed, Op: op, Message: "the body is not a form", Err: err,
		}
	}
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			return nil, "", fault.Invalid(op, "file", "the form has no part with a file")
		}
		if err != nil {
			return nil, "", surface.FormError(op, err)
		}
		// FileName would drop the folders of the path.
		_, at, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err == nil && at["filename"] != "" {
			name, err := clean(at["filename"])
			return part, name, err
		}
	}
}
