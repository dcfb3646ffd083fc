package openterminal

import (
	"maps"
	"net/http"
	"path"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxEntries is the most entries of a list of a folder.
const maxEntries = 5000

// listedFile is an entry of a folder, or a file that was found.
type listedFile struct {
	Name string `json:"name,omitempty"`
	Path string `json:"path,omitempty"`
	Type string `json:"type"`
	Size int64  `json:"size"`
	// Modified is in seconds since 1970.
	Modified float64 `json:"modified"`
}

func entryOf(f protocol.File) listedFile {
	e := listedFile{Type: "file", Size: f.Size, Modified: float64(f.ModifiedMS) / 1000}
	if f.Dir {
		e.Type = "directory"
	}
	return e
}

// folderNow answers with the working folder.
func folderNow(w http.ResponseWriter, _ *http.Request, c *call) error {
	return surface.WriteJSON(w, http.StatusOK, map[string]any{
		"cwd": c.folder(), "home": home, "root": map[string]string{"path": home, "label": "Home"},
	})
}

// changeFolder changes the working folder of the conversation.
func changeFolder(w http.ResponseWriter, r *http.Request, c *call) error {
	name, err := c.pathInBody(r)
	if err != nil {
		return err
	}
	f, err := c.stat(r, name)
	if err != nil {
		return err
	}
	if !f.Dir {
		return fault.Invalid("openterminal.cwd", "path", "%q is not a folder", name)
	}
	labels := maps.Clone(c.session.Labels)
	labels[labelFolder] = name
	if err := c.node(r.Context(), protocol.OpSessionUpdate, protocol.SessionUpdate{
		Session: c.session.ID, Labels: &labels,
	}, new(protocol.Session)); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]string{"cwd": name})
}

// pathInBody returns the absolute path of a body.
func (c *call) pathInBody(r *http.Request) (string, error) {
	var p struct {
		Path string `json:"path"`
	}
	if err := body(r, &p); err != nil {
		return "", err
	}
	return c.path("path", p.Path)
}

// stat describes a file or a folder. Errors: NotFound.
func (c *call) stat(r *http.Request, name string) (protocol.File, error) {
	var f protocol.File
	err := c.node(r.Context(), protocol.OpFileStat, protocol.FileStat{FileRef: c.refOf(name)}, &f)
	return f, err
}

// listFiles lists a folder.
func listFiles(w http.ResponseWriter, r *http.Request, c *call) error {
	directory := query(r, "directory")
	if directory == "" {
		directory = "."
	}
	name, err := c.path("directory", directory)
	if err != nil {
		return err
	}
	var list protocol.FileListing
	if err := c.node(r.Context(), protocol.OpFileList, protocol.FileList{
		FileRef: c.refOf(name), Limit: maxEntries,
	}, &list); err != nil {
		return err
	}
	entries := []listedFile{}
	for _, f := range list.Entries {
		e := entryOf(f)
		e.Name = path.Base(f.Path)
		entries = append(entries, e)
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{
		"dir": name, "entries": entries, "truncated": list.Next != "",
	})
}

// makeFolder creates a folder and its parents.
func makeFolder(w http.ResponseWriter, r *http.Request, c *call) error {
	name, err := c.pathInBody(r)
	if err != nil {
		return err
	}
	var f protocol.File
	if err := c.node(r.Context(), protocol.OpFileMkdir, c.refOf(name), &f); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]string{"path": name})
}

// deleteFile removes a file or a folder with its content.
func deleteFile(w http.ResponseWriter, r *http.Request, c *call) error {
	name, err := c.path("path", query(r, "path"))
	if err != nil {
		return err
	}
	var f protocol.File
	if err := c.node(r.Context(), protocol.OpFileStat, protocol.FileStat{
		FileRef: c.refOf(name), NoFollow: true,
	}, &f); err != nil {
		return err
	}
	if err := c.node(r.Context(), protocol.OpFileRemove, protocol.FileRemove{
		FileRef: c.refOf(name), Recursive: true,
	}, nil); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK,
		map[string]string{"path": name, "type": entryOf(f).Type})
}

// moveFile moves a file or a folder to a path where nothing is.
func moveFile(w http.ResponseWriter, r *http.Request, c *call) error {
	var p struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	if err := body(r, &p); err != nil {
		return err
	}
	source, err := c.path("source", p.Source)
	if err != nil {
		return err
	}
	destination, err := c.path("destination", p.Destination)
	if err != nil {
		return err
	}
	var f protocol.File
	if err := c.node(r.Context(), protocol.OpFileMove, protocol.FileMove{
		FileRef: c.refOf(source), To: destination,
	}, &f); err != nil {
		return err
	}
	return surface.WriteJSON(w, http.StatusOK,
		map[string]string{"source": source, "destination": destination})
}
