package openterminal

import (
	"archive/zip"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// The limits of an archive.
const (
	maxArchived     = 10_000  // files
	maxArchive      = 1 << 30 // bytes of their contents
	maxArchivePaths = 100
	maxDepth        = 64
)

func sizeText(n int64) string { return strconv.FormatInt(n, 10) }

// uploadFile writes a file of a form into a folder.
func uploadFile(w http.ResponseWriter, r *http.Request, c *call) error {
	const op = "openterminal.upload"
	folder, err := c.path("directory", query(r, "directory"))
	if err != nil {
		return err
	}
	form, err := r.MultipartReader()
	if err != nil {
		return fault.New(fault.Malformed, op, "the body is not a form with a file")
	}
	for {
		part, err := form.NextRawPart()
		if err == io.EOF {
			return fault.Invalid(op, "file", "the form has no file")
		}
		if err != nil {
			return surface.FormError(op, err)
		}
		if part.FormName() != "file" {
			continue
		}
		name, err := nameOf(part)
		if err != nil {
			return err
		}
		name = path.Join(folder, name)
		f, err := c.write(r, protocol.FileWrite{FileRef: c.refOf(name)},
			surface.FormPart{Reader: part, Op: op})
		if err != nil {
			return err
		}
		return surface.WriteJSON(w, http.StatusOK, map[string]any{"path": name, "size": f.Size})
	}
}

// nameOf returns the name of the file of a part, which may be below folders.
func nameOf(part *multipart.Part) (string, error) {
	const op = "openterminal.upload"
	// FileName would drop the folders.
	_, at, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	name := path.Clean("/" + at["filename"])[1:]
	if err != nil || name == "" || strings.HasSuffix(at["filename"], "/") {
		return "", fault.Invalid(op, "file", "the part has no file name")
	}
	return name, surface.CheckPath(op, at["filename"])
}

// archived is a file of an archive.
type archived struct {
	path, name string
	size       int64
}

// archive sends files and folders as a zip archive.
func archive(w http.ResponseWriter, r *http.Request, c *call) error {
	const op = "openterminal.archive"
	var p struct {
		Paths []string `json:"paths"`
	}
	if err := body(r, &p); err != nil {
		return err
	}
	if len(p.Paths) == 0 || len(p.Paths) > maxArchivePaths {
		return fault.Invalid(op, "paths", "an archive is made of 1 to %d paths", maxArchivePaths)
	}
	var all []archived
	title := "download"
	for _, text := range p.Paths {
		name, err := c.path("paths", text)
		if err != nil {
			return err
		}
		if all, err = c.collect(r, name, all); err != nil {
			return err
		}
		if len(p.Paths) == 1 && name != "/" {
			title = path.Base(name)
		}
	}
	var sum int64
	for _, f := range all {
		sum += f.size
	}
	if len(all) > maxArchived || sum > maxArchive {
		return fault.New(fault.TooLarge, op, "an archive has at most %d files with %d bytes",
			maxArchived, maxArchive)
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition",
		mime.FormatMediaType("attachment", map[string]string{"filename": title + ".zip"}))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	out := zip.NewWriter(w)
	for _, f := range all {
		if err := c.pack(r, out, f); err != nil {
			return err // the response is cut
		}
	}
	return out.Close()
}

// collect adds a file, or the files below a folder.
func (c *call) collect(r *http.Request, name string, all []archived) ([]archived, error) {
	f, err := c.stat(r, name)
	if err != nil {
		return nil, err
	}
	if !f.Dir {
		return append(all, archived{name, path.Base(name), f.Size}), nil
	}
	q := protocol.FileList{FileRef: c.refOf(name), Depth: maxDepth, Limit: maxEntries}
	for {
		var page protocol.FileListing
		if err := c.node(r.Context(), protocol.OpFileList, q, &page); err != nil {
			return nil, err
		}
		for _, f := range page.Entries {
			if f.Type == "file" && f.Raw == "" {
				inside := strings.TrimPrefix(strings.TrimPrefix(f.Path, name), "/")
				all = append(all, archived{f.Path, path.Join(path.Base(name), inside), f.Size})
			}
		}
		if q.After = page.Next; q.After == "" || len(all) > maxArchived {
			return all, nil
		}
	}
}

// pack adds one file to an archive. A file that has gone meanwhile is left out.
func (c *call) pack(r *http.Request, out *zip.Writer, f archived) error {
	in, err := c.open(r, f.path)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.done()
	to, err := out.CreateHeader(&zip.FileHeader{
		Name: strings.TrimPrefix(f.name, "/"), Method: zip.Deflate,
	})
	if err != nil {
		return fault.Wrap(fault.Internal, "openterminal.archive", err)
	}
	_, err = io.Copy(to, io.LimitReader(in, maxArchive))
	return err
}
